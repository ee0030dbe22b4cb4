"""`apfproxy limits --fleet`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click
import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from apfproxy.cli.fleet_table import fleet_table, own_line
from apfproxy.cli.main import main
from apfproxy.fleet.view import FleetView
from tests.fleet.views import fleet, member

if TYPE_CHECKING:
    from apfproxy.fleet.view import FleetView as View


def test_table() -> None:
    """Each member has a line, and the last ones have the sums and what is wrong."""
    view = fleet(
        member("a", is_self=True),
        member("b\x1b", demand={"batch": 250}),
        member("c", 100, 40),
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


def test_problems() -> None:
    """What is wrong stands below, as the live page has it."""
    view = fleet(
        member("a", is_self=True),
        member("b", age_s=4.0, is_alike=False, limit=500),
        store="the parent process",
    )
    first, *others, silent = fleet_table(view, "here")

    assert "this one" not in "".join(others)
    assert "600 seats for 2 workers (here)" == first
    assert "nothing is heard of b for 4 s: 200 seats may be idle until its lease ends" == silent


@pytest.mark.parametrize(
    ("changes", "is_silent"),
    [
        pytest.param({}, True, id="known"),
        pytest.param({"problem": "refused"}, False, id="away"),
        pytest.param({"state": "partitioned"}, False, id="partitioned"),
    ],
)
def test_silence_while_the_record_is_away(changes: dict[str, str], *, is_silent: bool) -> None:
    """Whoever reads nothing cannot say that others are silent."""
    view = fleet(member("a", is_self=True), member("b", age_s=40.0), **changes)
    (b,) = [line for line in fleet_table(view, "here") if line.startswith("b ")]

    assert b.endswith("40 s ago, silent" if is_silent else "40 s ago")


@pytest.mark.parametrize("count", [1, 3, 20])
def test_width(count: int) -> None:
    """With names as pods have them it fits into 80 columns."""
    members = [
        member(f"apfproxy-7d9f8b6c5d-x{number:04}", 30, 30, is_self=not number)
        for number in range(count)
    ]
    lines = [click.unstyle(line) for line in fleet_table(fleet(*members), "http://127.0.0.1:8081")]

    assert len(lines) == count + 7
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        pytest.param(fleet(), "holds 200 and uses at most 200 seats, written 400 ms", id="well"),
        pytest.param(fleet(age_s=None), "this one holds 200 and uses at most 200 seats", id="new"),
        pytest.param(
            fleet(state="partitioned", in_force=1),
            "this one is without the record, and uses at most 1 seat",
            id="away",
        ),
        pytest.param(
            fleet(state="expired", in_force=200),
            "the lease of this one is over; without the record it uses at most 200 seats",
            id="expired",
        ),
        pytest.param(fleet(state="of later"), "this one uses at most 200 seats", id="unknown"),
    ],
)
def test_own_line(view: View, expected: str) -> None:
    """It says how many seats the proxy that was asked uses now."""
    assert expected in own_line(view)


async def ask(view: View | None, *arguments: str) -> int:
    """Run the command with the admin listener of a proxy of that fleet: its exit code."""
    application = web.Application()

    async def show(_request: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(view), content_type="application/json")

    application.router.add_get("/debug/fleet", show)
    async with TestServer(application) as server:
        address = f"http://127.0.0.1:{server.port}"
        return await asyncio.to_thread(main, ["limits", "--fleet", "--admin", address, *arguments])


async def test_online(capsys: pytest.CaptureFixture[str]) -> None:
    """A running proxy is asked for what it sees."""
    assert 0 == await ask(fleet())
    assert "3 members of the fleet apfproxy" in capsys.readouterr().out

    assert 0 == await ask(fleet(), "-o", "json")
    assert fleet() == msgspec.json.decode(capsys.readouterr().out, type=FleetView)


async def test_no_fleet(capsys: pytest.CaptureFixture[str]) -> None:
    """A proxy that shares with nobody is told in one line."""
    assert 1 == await ask(None)
    assert "shares its seats with no other; serve --workers or --fleet" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", ["--offline", "workload-low", "--objects x"])
def test_wrong_usage(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A fleet has no levels, and is not there without a proxy."""
    assert 2 == main(["limits", "--fleet", *arguments.split()])
    assert (
        "--fleet shows the members of a running proxy's fleet: leave out LEVEL"
        in capsys.readouterr().err
    )
