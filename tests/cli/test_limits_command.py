"""`apfproxy limits`."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from apfproxy.cli.limits_command import table
from apfproxy.cli.main import main
from apfproxy.cli.offline import offline_controller
from apfproxy.flowcontrol.level_summary import LevelsSummary, summarize_levels
from tests.sources.test_object_files import level

if TYPE_CHECKING:
    from pathlib import Path


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
    """As JSON the same is there for programs."""
    (tmp_path / "a.yaml").write_text(level("a"))
    assert main(["limits", "--objects", str(tmp_path), "--no-suggested-objects", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert ["a", "catch-all", "exempt"] == [each["name"] for each in found["levels"]]
    assert (600, 12) == (found["serverConcurrencyLimit"], found["sums"]["shares"])
    assert (350, 7) == (found["levels"][0]["nominal"], found["levels"][0]["shares"])


def test_some_levels(capsys: pytest.CaptureFixture[str]) -> None:
    """Only named levels have lines; the sums are those of all."""
    assert main(["limits", "--offline", "system", "exempt"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()[3:]

    assert ["exempt", "system"] == [line.split()[0] for line in lines]
    assert last.split()[:4] == ["sum", "of", "all", "245"]


def test_misspelt_level(capsys: pytest.CaptureFixture[str]) -> None:
    """A level that is not there comes with the one that may be meant."""
    assert main(["limits", "--offline", "sistem", "zzz", "exempt"]) == 1
    first, second = capsys.readouterr().err.splitlines()

    assert first == 'apfproxy: there is no priority level "sistem"; did you mean "system"?'
    assert 'there is no priority level "zzz"; known here are catch-all, exempt,' in second


def test_draining_level() -> None:
    """A level that goes is marked; one that may borrow so many percent has them."""
    summary = summarize_levels(
        offline_controller([], suggested_objects=False, server_concurrency_limit=10)
    )
    changed = msgspec.structs.replace(
        summary.levels[0], is_quiescing=True, borrowing_limit_percent=30
    )
    lines = list(table(msgspec.structs.replace(summary, levels=(changed,)), "here"))

    assert "catch-all (draining)" in lines[3]
    assert lines[3].split()[4] == "30"


async def ask(answer: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Run the command with the admin listener of a proxy that answers so."""

    async def handle(request: web.Request) -> web.Response:
        del request
        return web.json_response(answer)

    application = web.Application()
    application.router.add_get("/debug/limits", handle)
    async with TestServer(application) as server:
        code = await asyncio.to_thread(
            main, ["limits", "--admin", f"http://127.0.0.1:{server.port}", "-o", "json"]
        )
    captured = capsys.readouterr()
    return code, captured.out, captured.err


async def test_online(capsys: pytest.CaptureFixture[str]) -> None:
    """A running proxy is asked for its own."""
    controller = offline_controller([], suggested_objects=None, server_concurrency_limit=7)
    expected = summarize_levels(controller)
    code, out, _ = await ask(msgspec.to_builtins(expected), capsys)

    assert (0, expected) == (code, msgspec.json.decode(out, type=LevelsSummary))


async def test_other_version(capsys: pytest.CaptureFixture[str]) -> None:
    """An answer of another shape is told in one line."""
    code, _, err = await ask({"levels": 1}, capsys)

    assert (1, 1) == (code, len(err.splitlines()))
    assert "is no admin listener of this version" in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        pytest.param("--objects /nowhere", 1, "/nowhere: cannot be read", id="objects"),
        pytest.param(
            "--server-concurrency-limit 0", 2, "from 1 to 2147483647, not '0'", id="seats"
        ),
        pytest.param("--offline --cluster x", 2, "leave out --cluster or --offline", id="cluster"),
        pytest.param("--admin x", 2, "HOST:PORT, :PORT or unix:/PATH", id="admin"),
        pytest.param(
            "--admin a:1 --server-concurrency-limit 5", 2, "no proxy is asked: leave", id="both"
        ),
    ],
)
def test_wrong_input(
    arguments: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong input is answered in one line."""
    assert main(["limits", *arguments.split()]) == code
    (line,) = capsys.readouterr().err.splitlines()

    assert message in line


def test_shared_limit() -> None:
    """A limit that others share is shown with the part of now, which is not called too small."""
    summary = summarize_levels(
        offline_controller([], suggested_objects=None, server_concurrency_limit=7)
    )
    part = msgspec.structs.replace(summary, shared_limit=600, members=86)
    first, *others = table(part, "here")

    assert first == "7 seats now, of 600 that 86 members share (here)"
    assert not any("too few" in line or "of the server" in line for line in others)
    assert others[-3].startswith("All seats here are those of this proxy")
    assert others[-1] == "--server-concurrency-limit 600."

    first, *_ = table(msgspec.structs.replace(part, members=None), "here")
    assert first == "7 seats now, of 600 that several members share (here)"


def test_too_few_seats(capsys: pytest.CaptureFixture[str]) -> None:
    """Below the table stands which levels have too few, and how many are enough."""
    assert main(["limits", "--server-concurrency-limit", "12"]) == 0
    *_, empty, lent, rounded, alike, _ = capsys.readouterr().out.splitlines()

    assert empty == ""
    assert lent.startswith("12 seats are too few for global-default, workload-low: ")
    assert lent.endswith("; 13 are enough")
    assert rounded.startswith("12 seats are too few for global-default, leader-election")
    assert alike.startswith("12 seats are too few to tell global-default, leader-election apart")


def test_priorities(capsys: pytest.CaptureFixture[str]) -> None:
    """Where levels have one it has a column."""
    assert main(["limits", "--preset", "http", "--server-concurrency-limit", "20"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]

    assert ["LEVEL", "PRIORITY", "SHARES"] == lines[0][:3]
    assert {"background": "50", "batch": "100", "catch-all": "-", "default": "200"}.items() <= {
        line[0]: line[1] for line in lines
    }.items()
    assert ["sum", "of", "all", "10000"] == lines[-1][:4]
