"""`apfproxy top`."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import pty
import signal
import sys
import termios
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from rich.console import Console

from apfproxy.cli import top as top_module
from apfproxy.cli.errors import CommandError
from apfproxy.cli.main import main
from apfproxy.cli.top import print_json, print_once, run
from apfproxy.settings import Address
from tests.cli.live_states import flow, level, state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

SHORT_S = 0.01
LONG_S = 3600.0
FIRST_S = 1_792_481_236.0


class Proxy:
    """Answers as a proxy does, or not at all; a second goes by and 50 requests between looks."""

    def __init__(self) -> None:
        self.is_away = False
        self.looks = 0
        self.server = TestServer(self._application())

    def _application(self) -> web.Application:
        application = web.Application()
        application.router.add_get("/debug/live", self._live)
        return application

    async def _live(self, request: web.Request) -> web.Response:
        if self.is_away:
            assert request.transport is not None
            request.transport.abort()
        self.looks += 1
        return web.json_response(
            state(
                level(servedPerSecond=25.0 * self.looks),
                time=FIRST_S + self.looks,
                topFlows=[flow("patient", waitSeconds=9.0), flow("greedy", seatSeconds=9.0)],
            )
        )

    @property
    def address(self) -> Address:
        """Of its admin listener."""
        return Address(host="127.0.0.1", port=self.server.port or 0)


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """A proxy that answers."""
    proxy = Proxy()
    async with proxy.server:
        yield proxy


class Screens(io.StringIO):
    """What is written to a terminal; tells of each piece."""

    def __init__(self) -> None:
        super().__init__()
        self._written = asyncio.Event()

    def write(self, text: str) -> int:
        """Keep it."""
        self._written.set()
        return super().write(text)

    async def until(self, predicate: Callable[[str], bool]) -> None:
        """Wait until what was written is such."""
        while not predicate(self.getvalue()):
            self._written.clear()
            await self._written.wait()


@dataclass(slots=True)
class Terminal:
    """A terminal in which top runs.

    Attributes:
        screens: What it showed.
        keyboard: Where keys go.
        top: The command.
    """

    screens: Screens
    keyboard: int
    top: asyncio.Task[int]

    def press(self, keys: bytes) -> None:
        """Press some keys."""
        os.write(self.keyboard, keys)


@contextlib.asynccontextmanager
async def terminal(proxy: Proxy, interval_s: float) -> AsyncIterator[Terminal]:
    """Run top in a terminal, that has to be as it was when it has ended."""
    keyboard, descriptor = pty.openpty()
    before = termios.tcgetattr(descriptor)
    screens = Screens()
    console = Console(
        file=screens, width=80, height=24, force_terminal=True, color_system=None, _environ={}
    )
    task = asyncio.create_task(run(proxy.address, interval_s, console, descriptor))
    try:
        yield Terminal(screens, keyboard, task)
        code = await task
        after = termios.tcgetattr(descriptor)
    finally:
        task.cancel()
        os.close(keyboard)
        os.close(descriptor)

    assert code == 0
    assert after == before
    text = screens.getvalue()
    assert text.startswith("\x1b[?1049h")
    assert text.endswith("\x1b[?1049l")
    assert "\x1b[?25h" in text  # the cursor is back


async def test_keys(proxy: Proxy) -> None:
    """Keys sort the flows, and q ends."""
    async with terminal(proxy, LONG_S) as shown:
        await shown.screens.until(lambda text: "TOP FLOWS by seats" in text)
        shown.press(b"xw")
        await shown.screens.until(lambda text: "TOP FLOWS by waits" in text)
        shown.press(b"Q")

    assert proxy.looks == 1


async def test_servers(proxy: Proxy) -> None:
    """The key e shows the servers behind, and hides them again."""
    async with terminal(proxy, LONG_S) as shown:
        await shown.screens.until(lambda text: "TOP FLOWS" in text)
        shown.press(b"e")
        await shown.screens.until(lambda text: "SERVERS BEHIND" in text)
        shown.press(b"E")
        await shown.screens.until(lambda text: "TOP FLOWS" in text.rpartition("SERVERS BEHIND")[2])
        shown.press(b"q")


async def test_help_and_part(proxy: Proxy) -> None:
    """The keys h and ? show and hide the help; / takes a part of a name, where q is a letter."""
    async with terminal(proxy, LONG_S) as shown:
        await shown.screens.until(lambda text: "q quit  h help" in text)
        shown.press(b"h")
        await shown.screens.until(lambda text: "end\n" in text or "KEYS" in text)
        shown.press(b"/")
        await shown.screens.until(lambda text: "only names with: _" in text)
        shown.press(b"worxq\x7f\x7f")
        await shown.screens.until(lambda text: "only names with: wor_" in text)
        shown.press(b"\n")
        await shown.screens.until(lambda text: "/ find  only wor  sort" in text)
        shown.press(b"/\x01")
        shown.press(b"\x1b")
        await shown.screens.until(lambda text: text.rpartition("only wor")[2].count("q quit") > 0)
        shown.press(b"q")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_signals(proxy: Proxy, number: signal.Signals) -> None:
    """A signal ends it as a key does; another size of the terminal shows it anew."""
    async with terminal(proxy, LONG_S) as shown:
        await shown.screens.until(lambda text: text.count("LEVEL SEATS") == 1)
        signal.raise_signal(signal.SIGWINCH)
        await shown.screens.until(lambda text: text.count("LEVEL SEATS") == 2)
        signal.raise_signal(number)


async def test_goes_on_while_the_proxy_is_away(proxy: Proxy) -> None:
    """A proxy that goes away is said to be, and is seen again when it is back."""
    async with terminal(proxy, SHORT_S) as shown:
        await shown.screens.until(lambda text: "50/s served" in text)
        proxy.is_away = True
        await shown.screens.until(lambda text: "still trying: cannot ask it: " in text)
        looks = proxy.looks
        proxy.is_away = False
        await shown.screens.until(lambda _: proxy.looks > looks + 1)
        shown.press(b"q")

    assert "/s served" in shown.screens.getvalue().rpartition("still trying")[2]


async def test_nothing_to_show(proxy: Proxy) -> None:
    """Where there is no proxy at first, the terminal is left alone."""
    proxy.is_away = True
    screens = Screens()
    with pytest.raises(CommandError, match="cannot ask http://"):
        await run(proxy.address, LONG_S, Console(file=screens, force_terminal=True), 0)

    assert screens.getvalue() == ""


async def test_once(proxy: Proxy) -> None:
    """Once means the tables of one look, with rates."""
    output = io.StringIO()
    code = await print_once(proxy.address, Console(file=output, width=100))

    assert code == 0
    assert "0 waiting  25/s served  0/s rejected  0 executing\n" in output.getvalue()
    assert "q quit" not in output.getvalue()
    assert [] == [line for line in output.getvalue().split("\n") if line != line.rstrip()]


async def test_once_in_a_terminal(proxy: Proxy) -> None:
    """In a terminal the tables have their colours."""
    output = io.StringIO()
    console = Console(file=output, width=100, force_terminal=True, color_system="standard")

    assert await print_once(proxy.address, console) == 0
    assert "\x1b[" in output.getvalue()


async def test_json(proxy: Proxy, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON is the state as the proxy has it."""
    code = await print_json(proxy.address)
    printed = json.loads(capsys.readouterr().out)

    assert code == 0
    assert printed["levels"] == [level(servedPerSecond=25.0)]


@pytest.mark.parametrize(
    ("arguments", "is_terminal", "expected"),
    [
        pytest.param([], False, "once", id="no-terminal"),
        pytest.param(["--once"], True, "once", id="once"),
        pytest.param([], True, "run", id="terminal"),
        pytest.param(["-o", "json"], True, "json", id="json"),
    ],
)
def test_command(
    arguments: list[str], *, is_terminal: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is shown depends on the flags, and on whether there is a terminal."""
    done = []

    def does(name: str) -> Callable[..., object]:
        async def act(*arguments: object) -> int:
            done.append((name, str(arguments[0])))
            return 0

        return act

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal, raising=False)
    for name, function in (("once", "print_once"), ("run", "run"), ("json", "print_json")):
        monkeypatch.setattr(top_module, function, does(name))

    assert main(["top", *arguments]) == 0
    assert done == [(expected, "127.0.0.1:8081")]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--interval", "1ms"], "expected a duration from 100ms to 1h, not '1ms'"),
        (["--interval", "2h"], "expected a duration from 100ms to 1h, not '2h'"),
        (["--interval", "soon"], "expected a duration such as 32s, 500ms or 1m30s, not 'soon'"),
        (
            ["--admin", "here"],
            "expected http://127.0.0.1:8081, HOST:PORT, :PORT or unix:/PATH, not 'here'",
        ),
    ],
)
def test_wrong_usage(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong flags are told in a line."""
    assert main(["top", *arguments]) == 2
    assert text in capsys.readouterr().err
