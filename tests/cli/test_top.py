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
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from apfproxy.cli import top as top_module
from apfproxy.cli.errors import CommandError
from apfproxy.cli.main import main
from apfproxy.cli.top import renew, run
from apfproxy.cli.top_tables import PATH, View, readable
from tests.cli.fake_admin import listening
from tests.cli.top_states import flow, level, state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

SHORT_S = 0.01
LONG_S = 3600.0
URL = "http://127.0.0.1:8081"


def view() -> View:
    flows = [flow("patient", waitSeconds=9.0), flow("greedy", seatSeconds=9.0)]
    return View(URL, readable(URL, state(topFlows=flows)))


class Screens(io.StringIO):
    """Everything that is written to a terminal; tells of each piece."""

    def __init__(self) -> None:
        super().__init__()
        self._written = asyncio.Event()

    def write(self, text: str) -> int:
        self._written.set()
        return super().write(text)

    async def until(self, predicate: Callable[[str], bool]) -> None:
        while not predicate(self.getvalue()):
            self._written.clear()
            await self._written.wait()


@dataclass(slots=True)
class Terminal:
    screens: Screens
    keyboard: int

    def press(self, keys: bytes) -> None:
        os.write(self.keyboard, keys)


@contextlib.asynccontextmanager
async def terminal(
    seen: View, look: Callable[[], None] = lambda: None, interval_s: float = LONG_S
) -> AsyncIterator[Terminal]:
    """Run top in a terminal, that has to be as it was when it has ended."""
    keyboard, descriptor = pty.openpty()
    before = termios.tcgetattr(descriptor)
    screens = Screens()
    console = Console(
        file=screens, width=80, height=24, force_terminal=True, color_system=None, _environ={}
    )
    task = asyncio.create_task(run(seen, look, interval_s, console, descriptor))
    try:
        yield Terminal(screens, keyboard)
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


async def test_keys() -> None:
    """Keys sort, show the servers behind and the help, and take a part of a name; q ends."""
    async with terminal(view()) as shown:
        until, press = shown.screens.until, shown.press
        await until(lambda text: "TOP FLOWS by seats" in text)
        press(b"xw")
        await until(lambda text: "TOP FLOWS by waits" in text)
        press(b"e")
        await until(lambda text: "SERVERS BEHIND" in text)
        press(b"E")
        await until(lambda text: "TOP FLOWS" in text.rpartition("SERVERS BEHIND")[2])
        press(b"h")
        await until(lambda text: "KEYS" in text)
        press(b"/")
        await until(lambda text: "only names with: _" in text)
        press(b"worxq\x7f\x7f")
        await until(lambda text: "only names with: wor_" in text)
        press(b"\n")
        await until(lambda text: "/ find  only wor  sort" in text)
        press(b"/\x01")
        press(b"\x1b")
        await until(lambda text: text.rpartition("only wor")[2].count("q quit") > 0)
        press(b"Q")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_signals(number: signal.Signals) -> None:
    """A signal ends it as a key does; another size of the terminal draws it again."""
    async with terminal(view()) as shown:
        await shown.screens.until(lambda text: text.count("LEVEL SEATS") == 1)
        signal.raise_signal(signal.SIGWINCH)
        await shown.screens.until(lambda text: text.count("LEVEL SEATS") == 2)
        signal.raise_signal(number)


async def test_looks_again() -> None:
    """A new state is drawn; a look that hangs does not keep it from its end."""
    seen, hanging, released = view(), threading.Event(), threading.Event()

    def look() -> None:
        seen.problem = "gone"
        if hanging.is_set():
            released.wait()

    async with terminal(seen, look, SHORT_S) as shown:
        await shown.screens.until(lambda text: "still trying: gone" in text)
        hanging.set()
        shown.press(b"q")
    released.set()


async def test_renewed() -> None:
    """A proxy that is away is said to be, and is seen again when it is back."""
    seen = view()
    async with listening(200, json.dumps(state(level("other"))).encode(), PATH) as address:
        seen.url = address.url
        await asyncio.to_thread(renew, seen, address, PATH)
        assert (["other"], None) == ([each["name"] for each in seen.state["levels"]], seen.problem)
    await asyncio.to_thread(renew, seen, address, PATH)

    assert "no proxy answers: Connection refused" == seen.problem


async def top_of(answer: object, *arguments: str) -> int:
    async with listening(200, json.dumps(answer).encode(), PATH) as address:
        return await asyncio.to_thread(main, ["top", "--admin", address.url, *arguments])


async def test_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the output is no terminal, the tables of one look are printed, with nothing cut."""
    sentence = " ".join(["word"] * 60)
    verdict = [{"severity": "error", "text": sentence}]
    answer = state(level(servedPerSecond=25.0), verdict=verdict, topFlows=[flow("f" * 90)])

    assert await top_of(answer) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{sentence}\napfproxy http://127")
    assert "0 waiting  25/s served  0/s rejected  0 executing\n" in printed
    assert "f" * 90 in printed
    assert "q quit" not in printed
    assert [] == [line for line in printed.split("\n") if line != line.rstrip()]


@pytest.mark.parametrize(
    ("arguments", "is_terminal", "printed"),
    [
        ("", False, "seats in use"),
        ("--once", True, "seats in use"),
        ("-o json", True, '"levels": ['),
    ],
)
async def test_printed_once(
    arguments: str,
    *,
    is_terminal: bool,
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr(top_module, "run", pytest.fail)

    assert await top_of(state(), *arguments.split()) == 0
    out = capsys.readouterr().out
    assert printed in out
    assert ("\x1b[" in out) is (arguments == "--once")


@pytest.mark.parametrize(
    "answer",
    [
        [],
        {"levels": []},
        state(time=float("nan")),
        state(time=1e30),
        state(topFlows=[flow("a", seatSeconds=float("inf"))]),
        state(level(nominal=None)),
        state(level(queues=[10**400])),
    ],
    ids=["list", "other", "no-number", "no-date", "infinite", "missing", "too-large"],
)
def test_what_cannot_be_shown(answer: Any) -> None:  # noqa: ANN401 - any JSON
    with pytest.raises(CommandError, match="answers /debug/live in another way than this version"):
        readable(URL, answer)
