from __future__ import annotations

import asyncio
import io
import multiprocessing
import re
import signal
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from apfproxy.app import running
from apfproxy.app.apiserver_process import ApiServerProcess
from apfproxy.base.held_signals import INTERRUPTED
from apfproxy.cli.demo import (
    API_SERVER,
    GREEDY,
    MODEST,
    Arm,
    Ports,
    run_demo,
    server_process,
    summary,
)
from apfproxy.cli.errors import CommandError
from apfproxy.cli.main import main

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SUMMARY = re.compile(
    "Half of a modest client's requests took at most"
    "|Nothing to compare: no modest client got an answer in both"
)
"""The second is printed where the machine is too busy for a modest client."""


@pytest.fixture
async def ports() -> AsyncIterator[Ports]:
    server = ApiServerProcess(API_SERVER)
    await server.start()
    yield Ports(server.port, server.port, 1234)
    await server.stop()


def test_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(running, "raise_descriptor_limit", lambda: None)

    assert main(["demo", "--seconds", "1"]) == 0
    printed = capsys.readouterr().out
    assert SUMMARY.search(printed)
    assert re.search(r"^The proxy's page, .*: +http://127\.0\.0\.1:\d+/$", printed, re.MULTILINE)
    assert "flow control: " not in printed
    assert multiprocessing.active_children() == []


async def test_terminal(ports: Ports) -> None:
    """In a terminal the table is there while it fills, with what goes on."""
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=100, height=24)

    assert await run_demo(ports, 0.8, console) == 0
    assert "without flow control: warming up (Ctrl-C ends)" in output.getvalue()
    assert "with flow control: 0 s left" in output.getvalue()


async def test_interrupted(ports: Ports, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the terminal ends it at once, with a code that says so."""

    async def run(_arm: Arm, _seconds: float, interrupted: asyncio.Event, _show: object) -> None:
        signal.raise_signal(signal.SIGUSR2)  # does nothing
        signal.raise_signal(signal.SIGHUP)
        await interrupted.wait()

    monkeypatch.setattr(Arm, "run", run)
    output = io.StringIO()

    assert await run_demo(ports, 600, Console(file=output)) == INTERRUPTED
    assert "Nothing to compare: interrupted." in output.getvalue()


async def test_client() -> None:
    """Each response brings the next request, after a pause if it was a rejection."""
    responses = [200, 200, 429, 502]
    users: list[bool] = []

    async def serve_some(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for status in responses:
            users.append(b"X-Remote-User: me\r\n" in await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\nok" % status)
        writer.close()

    server = await asyncio.start_server(serve_some, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        arm = Arm("with", port)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await arm.ask(MODEST, "me", reader, writer)
        writer.close()
    tally = arm.tallies[MODEST]

    assert [True] * 4 == users
    assert (2, 1, 2) == (tally.served, tally.rejected, tally.failed)  # the end is a failure


def measured(name: str, *, served: int = 100, rejected: int = 0) -> Arm:
    arm = Arm(name, 0)
    arm.duration_s = 2.0
    for kind, status, count in ((MODEST, 200, 100), (GREEDY, 200, served), (GREEDY, 429, rejected)):
        for _ in range(count):
            arm.tallies[kind].add(status, 0.1)
    return arm


@pytest.mark.parametrize(
    ("limited", "is_whole", "text"),
    [
        (measured("with", served=200), True, "nothing, as a server that is not overloaded does"),
        (measured("with", served=99), True, "it pays nothing."),
        (measured("with", served=98), True, "it pays with 2% of its throughput."),
        (measured("with", served=75, rejected=3), True, "throughput and 3 rejected requests."),
        (measured("with", rejected=1), True, "it pays with 1 rejected request."),
        (Arm("with", 0), False, "Nothing to compare: interrupted."),
        (Arm("with", 0), True, "Nothing to compare: no modest client got an answer in both."),
    ],
)
def test_summary(limited: Arm, is_whole: bool, text: str) -> None:
    assert text in summary(measured("without"), limited, is_whole=is_whole)


async def fail() -> tuple[int, ...]:
    raise SystemExit(1)


def test_servers_that_do_not_start() -> None:
    with pytest.raises(CommandError, match="did not start"), server_process(fail):
        pass

    assert multiprocessing.active_children() == []
