"""`apfproxy demo`."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import signal
import socket
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from apfproxy.app import running
from apfproxy.app.apiserver_process import ApiServerProcess, ApiServerSettings
from apfproxy.cli import demo as demo_module
from apfproxy.cli.demo import run_arm, run_demo
from apfproxy.cli.demo_clients import KINDS, Tally
from apfproxy.cli.demo_report import Arm
from apfproxy.cli.demo_servers import ANY_PORT, SEEDS, Ports
from apfproxy.cli.errors import CommandError
from apfproxy.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator

SUMMARY = re.compile(
    "Half of a modest client's requests took at most"
    "|Nothing to compare: no modest client got an answer in both"
)
"""The second is said where the machine is too busy for a modest client."""


async def api_server() -> ApiServerProcess:
    """A server that has what the clients ask for, and is fast."""
    server = ApiServerProcess(ApiServerSettings(listen=ANY_PORT, seeds=SEEDS))
    await server.start()
    return server


async def run_with_server(
    seconds: float, *, is_terminal: bool, height: int = 24
) -> tuple[int, str]:
    """Run the demo with the server in the place of both proxies: its exit code and output."""
    server = await api_server()
    output = io.StringIO()
    console = Console(file=output, force_terminal=is_terminal, width=100, height=height)
    code = await run_demo(Ports(server.port, server.port, 1234), seconds, console)
    await server.stop()
    return code, output.getvalue()


async def test_run() -> None:
    """Both halves are measured and summed up."""
    code, output = await run_with_server(0.8, is_terminal=False)

    assert code == 0
    assert "flow control: " not in output
    assert ":     http://127.0.0.1:1234/\n" in output
    assert "kubectl --server http://127.0.0.1:1234 get flowschemas\n" in output
    assert SUMMARY.search(output)


@pytest.mark.parametrize(("height", "has_bars"), [(24, False), (40, True)], ids=["low", "high"])
async def test_run_in_a_terminal(*, height: int, has_bars: bool) -> None:
    """In a terminal it also shows what goes on, with bars where there is room."""
    code, output = await run_with_server(0.8, is_terminal=True, height=height)

    assert code == 0
    assert (output.count("half of the answers took at most") > 1) is has_bars
    assert "without flow control: warming up (Ctrl-C ends)" in output
    assert "with flow control: 0 s left" in output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_interrupted(monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    """Ctrl-C, or the end of the terminal, ends it at once, with what was measured so far."""
    names = []

    async def interrupt(arm: Arm, *_: object) -> None:
        names.append(arm.name)
        interrupted = _[2]
        assert isinstance(interrupted, asyncio.Event)
        signal.raise_signal(signal.SIGUSR2)  # does nothing
        signal.raise_signal(number)
        await interrupted.wait()

    monkeypatch.setattr(demo_module, "run_arm", interrupt)
    code, output = await run_with_server(600, is_terminal=False)

    assert code == 1
    assert names == ["without"]
    assert "Nothing to compare: interrupted." in output


async def test_interrupted_half() -> None:
    """An interrupted half ends without its time being over."""
    server = await api_server()
    interrupted = asyncio.Event()
    half = Arm("without", {kind.name: Tally() for kind in KINDS})

    def show(status: str) -> None:
        del status
        interrupted.set()

    await run_arm(half, server.port, 600, interrupted, show)
    await server.stop()

    assert half.duration_s == 0.0


async def test_no_proxy() -> None:
    """Without a proxy the demo ends with an error."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    nothing = Arm("without", {kind.name: Tally() for kind in KINDS})
    with pytest.raises(CommandError, match="no connection to the proxy of the demo"):
        await run_arm(nothing, port, 1, asyncio.Event(), lambda _status: None)


def test_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The command starts the servers, and prints only the summary where there is no terminal."""
    monkeypatch.setattr(running, "raise_descriptor_limit", lambda: None)

    assert main(["demo", "--seconds", "1"]) == 0
    assert SUMMARY.search(capsys.readouterr().out)


def test_command_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Servers that do not start end the command with a line that says so."""

    @contextlib.contextmanager
    def broken() -> Iterator[Ports]:
        raise CommandError("no servers")
        yield  # a generator, to be a context manager

    monkeypatch.setattr(running, "raise_descriptor_limit", lambda: None)
    monkeypatch.setattr(demo_module, "demo_servers", broken)

    assert main(["demo"]) == 1
    assert capsys.readouterr().err == "apfproxy: no servers\n"


def test_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its flag the command shows the demo of a gateway."""
    seen = []

    def gateway_demo(seconds: float, console: Console) -> int:
        seen.append((seconds, console.width))
        return 1

    monkeypatch.setattr(demo_module, "gateway_demo", gateway_demo)

    assert main(["demo", "--gateway", "--seconds", "3"]) == 1
    assert seen == [(3, 100)]


def test_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its flag the command shows the demo of a fleet."""
    found = []

    def fleet_demo(seconds: float, console: Console) -> int:
        found.append((seconds, console.width))
        return 1

    monkeypatch.setattr(demo_module, "fleet_demo", fleet_demo)

    assert main(["demo", "--fleet", "--seconds", "3"]) == 1
    assert [(3, 100)] == found
    assert main(["demo", "--fleet", "--gateway"]) == 2
