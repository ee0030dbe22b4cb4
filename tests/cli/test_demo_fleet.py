"""The demo of a fleet."""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, cast

import aiohttp
import pytest
from aiohttp import web
from rich.console import Console

from apfproxy.app import running
from apfproxy.cli.demo_clients import Tally
from apfproxy.cli.demo_fleet import (
    APART,
    AT_1,
    AT_3,
    AT_ALL,
    PARTS,
    SEATS,
    Fleet,
    Part,
    Replica,
    Seen,
    api_server,
    fleet_demo,
    look,
    replica_settings,
    run_demo,
    summary,
    table_of,
)
from apfproxy.cli.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

VIEW = {"members": [{"isSelf": False, "claim": 1}, {"isSelf": True, "claim": 4}]}


class Pretended:
    """One server that stands for all of the fleet.

    Args:
        at_once: Requests that it says it has.
        is_ending: Whether a look at it interrupts the demo.
    """

    def __init__(self, at_once: int = SEATS, *, is_ending: bool = False) -> None:
        self.replicas: list[Replica] = []
        self.server = 0
        self.at_once = at_once
        self.is_ending = is_ending

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """The pages, or what a client gets."""
        if request.path == "/metrics":
            if self.is_ending:
                signal.raise_signal(signal.SIGINT)
            return web.Response(
                text=f'apiserver_current_inflight_requests{{request_kind="mutating"}} 1.0\n'
                f'apiserver_current_inflight_requests{{request_kind="readOnly"}} {self.at_once - 1}'
            )
        return web.Response(text=json.dumps(VIEW), content_type="application/json")

    @contextlib.asynccontextmanager
    async def served(self) -> AsyncIterator[Fleet]:
        """It, while it listens."""
        runner = web.ServerRunner(web.Server(self.answer))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.server = runner.addresses[0][1]
        self.replicas = [Replica(self.server, self.server)] * 4
        yield cast("Fleet", self)
        await runner.cleanup()


async def run(pretended: Pretended, seconds: float = 0.8) -> tuple[int, str]:
    """The exit code and the output of the demo with it."""
    output = io.StringIO()
    async with pretended.served() as fleet:
        code = await run_demo(fleet, seconds, Console(file=output, width=100))
    return code, output.getvalue()


def part(name: str, answered: int) -> Part:
    """A part with so many answers in two seconds."""
    tally = Tally()
    for _ in range(answered):
        tally.add(200, 0.1)
    return Part(name, tally, 2.0, [12, 0, 0], 11)


@pytest.mark.timeout(60)
def test_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three replicas and a server start, and end."""
    monkeypatch.setattr(running, "raise_descriptor_limit", lambda: None)
    output = io.StringIO()

    fleet_demo(2, Console(file=output, width=100))

    assert "The server never had more than" in output.getvalue()
    assert multiprocessing.active_children() == []


async def test_parts() -> None:
    """Each part has a row."""
    code, output = await run(Pretended())

    assert code == 0
    assert all(f" {name} " in output for name in PARTS)
    assert "4/4/4" in output


async def test_too_many() -> None:
    """More requests at once than the server has seats make the command fail."""
    code, output = await run(Pretended(SEATS + 1))

    assert code == 1
    assert f"{SEATS + 1} of {SEATS}" in output


async def test_interrupted() -> None:
    """Ctrl-C ends it at once, with what was measured so far."""
    code, output = await run(Pretended(is_ending=True), 600)

    assert code == 0
    assert output.endswith("(Interrupted.)\n")


async def test_no_replica() -> None:
    """Without replicas the demo ends with an error."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    pretended = Pretended()
    pretended.replicas = [Replica(port, port)] * 4
    with pytest.raises(CommandError, match="no answer from a replica of the demo"):
        await run_demo(cast("Fleet", pretended), 600, Console(file=io.StringIO()))


async def test_look() -> None:
    """Each replica says what it has, and the server how many requests."""
    async with Pretended(7).served() as fleet, aiohttp.ClientSession() as session:
        assert Seen([4, 4, 4], 7) == await look(session, fleet)


def test_settings() -> None:
    """One has a third of the seats, the others share them all by a ledger."""
    objects, ledger = Path("objects.yaml"), Path("/run/ledger.sock")
    alone = replica_settings(11, objects, None, 0)
    sharing = replica_settings(11, objects, ledger, 1)

    assert (4, None) == (alone.flow_control.server_concurrency_limit, alone.fleet.store)
    assert (SEATS, "parent:/run/ledger.sock", "replica-1", 3) == (
        sharing.flow_control.server_concurrency_limit,
        sharing.fleet.store,
        sharing.fleet.member,
        sharing.fleet.replicas,
    )
    assert SEATS == api_server().load.capacity


def test_table() -> None:
    """Rates are by second."""
    console = Console(file=io.StringIO(), width=80)
    with console.capture() as capture:
        console.print(table_of([part(AT_ALL, 20)]))

    assert ["at", "all", "three", "12/0/0", "11", "of", "12", "10", "100.3", "100.3", "0"] in [
        line.split() for line in capture.get().splitlines()
    ]


def test_summary() -> None:
    """The last lines say what one limit brings."""
    parts = [part(APART, 10), part(AT_1, 30), part(AT_ALL, 30), part(AT_3, 25)]

    whole = summary(parts, is_whole=True)

    assert "2.5 times as many answers" in whole
    assert "never had more than 11 requests at once" in whole
    assert "(Interrupted.)" == summary(parts[:1], is_whole=False)
