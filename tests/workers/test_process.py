"""One process of a worker, as its parent sees it."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest

from apfproxy.settings import Settings
from apfproxy.workers.link import Cut, Drain, Leave, LinkError, Message, Urgent
from apfproxy.workers.process import SILENT_LOOKS, WorkerProcess, WorkerState
from tests.support.clocks import until
from tests.workers.scripts import DRAINS_AT_ONCE, HANGS, PLACE, SERVES, command

if TYPE_CHECKING:
    from pathlib import Path

STARTING, SERVING, DRAINING, ENDED = WorkerState


class Scene:
    def __init__(self, script: str) -> None:
        self.states: list[WorkerState] = []
        self.process = WorkerProcess(PLACE, command(script), Settings(), self._note, {})

    def _note(self, process: WorkerProcess) -> None:
        self.states.append(process.state)


@pytest.mark.parametrize("word", [Drain(), Leave(), Cut()])
async def test_life(word: Message) -> None:
    """It serves, drains when it is told to, and ends; then nothing does harm."""
    scene = Scene(SERVES)
    process = scene.process
    await process.has_settled.wait()
    settled = process.state
    process.tell(word)
    await process.has_ended.wait()
    process.tell(word)
    process.kill()
    process.renew(b"")

    assert SERVING == settled
    assert [SERVING, DRAINING, ENDED] == scene.states
    assert (0, "ended with exit code 0") == (process.status, process.ended_how)
    assert process.has_read.is_set()


@pytest.mark.parametrize(
    ("script", "is_told", "states"),
    [(SERVES, True, [DRAINING, ENDED]), (DRAINS_AT_ONCE, False, [SERVING, DRAINING, ENDED])],
)
async def test_drain(script: str, is_told: bool, states: list[WorkerState]) -> None:
    """Told before it serves, it never does; told by somebody else, it says so itself."""
    scene = Scene(script)
    if is_told:
        scene.process.tell(Drain())
    await until(lambda: scene.process.state is DRAINING)
    scene.process.tell(Drain())
    await scene.process.has_ended.wait()

    assert states == scene.states


@pytest.mark.parametrize(
    ("number", "how"),
    [(signal.SIGKILL, "was ended by SIGKILL"), (signal.SIGRTMIN + 3, "was ended by signal ")],
)
async def test_killed(number: int, how: str) -> None:
    """The signal is named where it has a name; who asked something is told."""
    scene = Scene(HANGS)
    await scene.process.has_settled.wait()
    asking = asyncio.ensure_future(scene.process.ask("what", b"", 60))
    await asyncio.sleep(0)
    os.kill(scene.process.pid, number)
    await scene.process.has_ended.wait()
    with pytest.raises(LinkError, match="the other process is gone"):
        await asking

    assert scene.process.ended_how.startswith(how)


async def test_renewal() -> None:
    """It says when it has other settings, or refuses them; what it says of others is no answer."""
    scene = Scene(
        "serve(); until_told(['Urgent'])\n"
        "def renew(message):\n"
        "    send('Serving', refused='others', number=message['number'] - 1)\n"
        "    send('Serving', refused=message['settings'].decode(), number=message['number'])\n"
        "until_told()"
    )
    process = scene.process
    await process.has_settled.wait()
    refused = []
    process.renew(b"")
    process.tell(Urgent("a"))
    before = process.has_read.is_set()
    await process.has_read.wait()
    for word in ("a", ""):
        process.renew(word.encode())
        await process.has_read.wait()
        refused.append(process.refused)
    process.tell(Cut())
    await process.has_ended.wait()

    assert not before
    assert ["a", ""] == refused


async def test_signs_of_life() -> None:
    scene = Scene(
        "serve(); until_told(['Urgent']); send('Alive'); send('State', data=b'it'); until_told();"
        "time.sleep(600)"
    )
    process = scene.process
    process.look()
    shown, missed = [process.shown_state], [process.missed]
    await process.has_settled.wait()
    for _ in range(SILENT_LOOKS + 1):
        process.look()
    shown.append(process.shown_state)
    missed.append(process.missed)
    process.tell(Urgent("a"))
    await until(lambda: process.last is not None)
    shown.append(process.shown_state)
    process.tell(Drain())
    for _ in range(SILENT_LOOKS + 1):
        process.look()
    shown.append(process.shown_state)
    lives = process.shows_life
    process.kill()
    await process.has_ended.wait()

    assert ["starting", "silent", "serving", "draining"] == shown
    assert [0, SILENT_LOOKS + 1] == missed
    assert (b"it", False) == (process.last, lives)


async def test_nothing_of_the_service_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"):
        monkeypatch.setenv(name, "1")
    found = tmp_path / "found"
    scene = Scene(
        "names = [each for each in os.environ if each.startswith(('NOTIFY', 'WATCHDOG'))]\n"
        f"open({str(found)!r}, 'w').write(f'{{names}} {{os.getpgrp() == os.getpid()}}')"
    )
    await scene.process.has_ended.wait()

    assert "[] True" == found.read_text()
