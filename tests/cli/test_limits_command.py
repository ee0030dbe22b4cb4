from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

import click
import msgspec
import pytest

from apfproxy.admin.verdict import limit_text
from apfproxy.cli.limits_command import fleet_table, own_line, table
from apfproxy.cli.main import main
from apfproxy.cli.offline import offline_controller
from apfproxy.cli.parameters import fitted
from apfproxy.fleet.view import FleetView
from apfproxy.flowcontrol.level_summary import LevelsSummary, summarize_levels
from apfproxy.flowcontrol.limit_view import LimitView
from tests.cli.fake_admin import listening
from tests.fleet.views import fleet, member
from tests.support.objects import SCHEMA_YAML, level_yaml

if TYPE_CHECKING:
    from pathlib import Path


ORDERS = """  rules:
  - subjects: [{kind: Group, group: {name: system:authenticated}}]
    nonResourceRules: [{verbs: ['*'], nonResourceURLs: ['/orders/*']}]
"""


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Each level has a line, and the last line has the sums."""
    assert main(["limits", "--server-concurrency-limit", "300"]) == 0
    first, empty, header, *lines, last = capsys.readouterr().out.splitlines()

    assert ("300 seats in all (an idle proxy)", "") == (first, empty)
    assert header.split()[:3] == ["LEVEL", "SHARES", "LEND"]
    assert len(lines) == 8
    assert len({len(line) for line in [header, *lines, last]}) == 1
    rows = {line.split()[0]: line.split()[1:] for line in lines}
    assert ["100", "90", "any", "123", "111", "300", "12", "423"] == rows["workload-low"][:8]
    assert ["0", "0", "-", "0", "0", "any", "0", "any", "0", "0"] == rows["exempt"]
    assert last.split()[:5] == ["sum", "of", "all", "245", "303"]


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text(level_yaml("a"))
    assert main(["limits", "--objects", str(tmp_path), "--no-suggested-objects", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert ["a", "catch-all", "exempt"] == [each["name"] for each in found["levels"]]
    assert (600, 12) == (found["serverConcurrencyLimit"], found["sums"]["shares"])


def test_notices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Objects that are not used, or are for another API, are named on stderr."""
    path = tmp_path / "a.yaml"
    path.write_text(SCHEMA_YAML.replace("NAME", "lost").replace("LEVEL", "nowhere") + ORDERS)

    assert main(["limits", "--objects", str(path)]) == 0
    unused, hint = capsys.readouterr().err.splitlines()
    assert unused == 'APF101: FlowSchema lost is not used: there is no priority level "nowhere"'
    assert hint.startswith("APF004: FlowSchema lost: ")
    assert "Give --preset http" in hint


def test_some_levels(capsys: pytest.CaptureFixture[str]) -> None:
    """Only named levels have lines, with the sums of all; a misspelt one names what is meant."""
    assert main(["limits", "--offline", "system", "exempt"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()[3:]
    assert main(["limits", "--offline", "sistem", "zzz", "exempt"]) == 1
    first, second = capsys.readouterr().err.splitlines()

    assert ["exempt", "system"] == [line.split()[0] for line in lines]
    assert last.split()[:4] == ["sum", "of", "all", "245"]
    assert first == 'apfproxy: there is no priority level "sistem"; did you mean "system"?'
    assert 'there is no priority level "zzz"; known here are catch-all, exempt,' in second


async def ask(answer: object, *arguments: str) -> int:
    target = "/debug/fleet" if "--fleet" in arguments else "/debug/limits"
    async with listening(200, msgspec.json.encode(answer), target) as address:
        return await asyncio.to_thread(main, ["limits", "--admin", address.url, *arguments])


async def test_online(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A running proxy is asked, whatever variables say; other JSON is told in one line."""
    monkeypatch.setenv("APFPROXY_LIMITS_SERVER_CONCURRENCY_LIMIT", "3")
    expected = summarize_levels(offline_controller([], server_concurrency_limit=7))

    assert 0 == await ask(expected, "-o", "json")
    assert expected == msgspec.json.decode(capsys.readouterr().out, type=LevelsSummary)
    assert 1 == await ask({"levels": 1})
    assert "is no admin listener of this version" in capsys.readouterr().err


def test_shared_limit() -> None:
    """A limit that others share is shown with the part of now, which is not called too small."""
    summary = summarize_levels(offline_controller([], server_concurrency_limit=7))
    part = msgspec.structs.replace(summary, shared_limit=600, members=86)
    first, *others = table(part, "here")

    assert first == "7 seats now, of 600 that 86 members share (here)"
    assert not any("too few" in line or "of the server" in line for line in others)
    assert others[-3].startswith("All seats here are those of this proxy")
    assert others[-1] == "--server-concurrency-limit 600."

    first, *_ = table(msgspec.structs.replace(part, members=None), "here")
    assert first == "7 seats now, of 600 that several members share (here)"


def test_limit_that_is_found() -> None:
    summary = summarize_levels(offline_controller([], server_concurrency_limit=84))
    found = LimitView(84, "searching", initial=84)
    first, second, *_ = table(msgspec.structs.replace(summary, found_limit=found), "here")

    assert first == "84 seats in all (here)"
    assert second == limit_text(found, 0.0)


def test_priorities_and_notes(capsys: pytest.CaptureFixture[str]) -> None:
    """Where levels have a priority it has a column; notes about the seats stand at the end."""
    assert main(["limits", "--preset", "http", "--server-concurrency-limit", "20"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert main(["limits", "--server-concurrency-limit", "12"]) == 0
    *_, empty, lent, _, _, _ = capsys.readouterr().out.splitlines()

    assert ["LEVEL", "PRIORITY", "SHARES"] == lines[0][:3]
    assert {"background": "50", "catch-all": "-"}.items() <= {
        line[0]: line[1] for line in lines
    }.items()
    assert ["sum", "of", "all", "10000"] == lines[-1][:4]
    assert empty == ""
    assert lent.startswith("12 seats are too few for global-default, workload-low: ")


def test_fleet() -> None:
    """Each member has a line, and the last ones have the sums and what is wrong."""
    view = fleet(
        member("a", is_self=True), member("b\x1b", demand={"batch": 250}), member("c", 100, 40)
    )
    lines = map(click.unstyle, fleet_table(view, "http://127.0.0.1:8081"))
    first, record, empty, header, a, b, c, sums, _, own = lines

    assert "" == empty
    assert "600 seats for 3 members of the fleet apfproxy (http://127.0.0.1:8081)" == first
    assert "record in redis://10.0.0.5:6379" == record
    assert ["MEMBER", "CLAIM", "SHARE", "%", "USED", "DEMAND", "LIMIT", "SEEN"] == header.split()
    assert ["a", "200", "33.3", "150", "150", "600", "this", "one"] == a.split()
    assert ["b\\x1b", "200", "33.3", "150", "250", "600", "400", "ms", "ago"] == b.split()
    assert ["c", "100", "16.7", "40", "40", "600", "400", "ms", "ago"] == c.split()
    assert ["sum", "of", "all", "500", "83.3", "340", "440"] == sums.split()
    assert "this one holds 200 and uses at most 200 seats, written 400 ms ago" == own


def test_workers() -> None:
    view = fleet(
        member("a", is_self=True),
        member("b", age_s=4.0, is_alike=False, limit=500),
        store="the parent process",
    )
    first, *others, silent = fleet_table(view, "here")

    assert "this one" not in "".join(others)
    assert "600 seats for 2 workers (here)" == first
    assert "nothing is heard of b for 4 s: 200 seats may be idle until its lease ends" == silent


async def test_fleet_online(capsys: pytest.CaptureFixture[str]) -> None:
    """A running proxy is asked for what it sees; one that shares with no one says so."""
    assert 0 == await ask(fleet(), "--fleet")
    assert "3 members of the fleet apfproxy" in capsys.readouterr().out
    assert 0 == await ask(fleet(), "--fleet", "-o", "json")
    assert fleet() == msgspec.json.decode(capsys.readouterr().out, type=FleetView)
    assert 1 == await ask(None, "--fleet")
    assert "shares its seats with no other; serve --workers or --fleet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (fleet(), "holds 200 and uses at most 200 seats, written 400 ms"),
        (fleet(age_s=None), "this one holds 200 and uses at most 200 seats"),
        (fleet(state="partitioned", in_force=1), "without the record, and uses at most 1 seat"),
        (fleet(state="expired", in_force=200), "the lease of this one is over; without the record"),
        (fleet(state="of later"), "this one uses at most 200 seats"),
    ],
    ids=["well", "new", "partitioned", "expired", "unknown"],
)
def test_own_line(view: FleetView, expected: str) -> None:
    assert expected in own_line(view)


def test_sentences_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines end between words in a terminal; elsewhere a sentence is one line."""
    text = "the limit finds itself: 84 seats (flowControl.autoLimit)"
    monkeypatch.setenv("COLUMNS", "20")

    assert fitted(text) == text
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert fitted(text).splitlines() == [
        "the limit finds",
        "itself: 84 seats",
        "(flowControl.autoLimit)",
    ]
