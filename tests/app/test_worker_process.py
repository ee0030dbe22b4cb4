"""One process of a worker, as its parent sees it."""

from __future__ import annotations

import dataclasses
import os
import signal
from typing import TYPE_CHECKING

import pytest

from apfproxy.app.given_sockets import Heritage
from apfproxy.app.worker_process import SILENT_LOOKS, TRANSITIONS, WorkerProcess, WorkerState
from apfproxy.base.errors import OperatorError
from tests.app.test_worker_place import PLACE
from tests.app.worker_scripts import DRAINS_AT_ONCE, ENDS, HANGS, IGNORES_DRAINS, SERVES, command
from tests.end_to_end.scene import until

if TYPE_CHECKING:
    from pathlib import Path

    from apfproxy.app.worker_place import WorkerPlace

NOTHING = Heritage(descriptors={}, addresses={}, is_of_systemd=False, is_of_parent=True)
STARTING, SERVING, SILENT, DRAINING, ENDED = WorkerState


class Scene:
    """A process of a script."""

    def __init__(self, script: str, admin: Path | None = None) -> None:
        self.states: list[WorkerState] = []
        self._admin = admin
        self.process = WorkerProcess(self._place, NOTHING, command(script), self._note)

    def _place(self, link: int) -> WorkerPlace:
        return dataclasses.replace(PLACE, link=link, admin=str(self._admin or "/nowhere/admin"))

    def _note(self, process: WorkerProcess) -> None:
        self.states.append(process.state)


@pytest.mark.parametrize("word", ["drain", "leave", "cut"])
async def test_life(tmp_path: Path, word: str) -> None:
    """It serves, drains when it is told to, and ends; what it leaves is removed."""
    admin = tmp_path / "admin"
    admin.touch()
    scene = Scene(SERVES, admin)
    process = scene.process
    await process.has_settled.wait()
    settled = process.state
    getattr(process, word)()
    await process.has_ended.wait()
    getattr(process, word)()
    process.kill()
    process.read_again()

    assert SERVING == settled
    assert [SERVING, DRAINING, ENDED] == scene.states
    assert (0, "ended with exit code 0") == (process.status, process.ended_how)
    assert process.has_read.is_set()
    assert not admin.exists()


async def test_end_before_it_serves() -> None:
    """That is how it settles."""
    scene = Scene(ENDS)
    await scene.process.has_settled.wait()

    assert [ENDED] == scene.states
    assert "ended with exit code 3" == scene.process.ended_how


async def test_drain_before_it_serves() -> None:
    """That it serves then is of no meaning."""
    scene = Scene(SERVES)
    scene.process.drain()
    await scene.process.has_ended.wait()

    assert [DRAINING, ENDED] == scene.states


async def test_somebody_else_has_it_drain() -> None:
    """It says so itself."""
    scene = Scene(DRAINS_AT_ONCE)
    while scene.process.state is not DRAINING:
        scene.process.has_settled.clear()
        await scene.process.has_settled.wait()
    scene.process.drain()
    await scene.process.has_ended.wait()

    assert [SERVING, DRAINING, ENDED] == scene.states


@pytest.mark.parametrize(
    ("number", "how"),
    [(signal.SIGKILL, "was ended by SIGKILL"), (signal.SIGRTMIN + 3, "was ended by signal ")],
)
async def test_killed(number: int, how: str) -> None:
    """The signal is named where it has a name."""
    scene = Scene(HANGS)
    await scene.process.has_settled.wait()
    os.kill(scene.process.pid, number)
    await scene.process.has_ended.wait()

    assert scene.process.ended_how.startswith(how)


async def test_words_that_it_does_not_hear() -> None:
    """One that hangs is told as often as anybody likes, and is killed."""
    scene = Scene(HANGS)
    await scene.process.has_settled.wait()
    for _ in range(10_000):
        scene.process.drain()
    scene.process.kill()
    await scene.process.has_ended.wait()

    assert [SERVING, DRAINING, ENDED] == scene.states


async def test_read_again() -> None:
    """It says when it has."""
    scene = Scene(
        "signal.signal(signal.SIGHUP, lambda *_: (link.send(b'r'), serve()));" + IGNORES_DRAINS
    )
    process = scene.process
    await process.has_settled.wait()
    process.read_again()
    before = process.has_read.is_set()
    await process.has_read.wait()
    process.cut()
    await process.has_ended.wait()

    assert not before


async def test_signs_of_life() -> None:
    """One is enough."""
    scene = Scene("serve(); link.send(b'a'); link.send(b'e'); until_told()")
    scene.process.missed = 3
    while scene.process.state is not DRAINING:
        scene.process.has_settled.clear()
        await scene.process.has_settled.wait()
    scene.process.cut()
    await scene.process.has_ended.wait()

    assert 0 == scene.process.missed


async def test_silence() -> None:
    """Some looks without a sign of life make it silent; with the next sign it serves again."""
    scene = Scene("serve(); until_told(b'd'); link.send(b'a'); until_told(b'c')")
    process = scene.process
    process.look()
    before = process.missed
    await process.has_settled.wait()
    for _ in range(SILENT_LOOKS + 2):
        process.look()
    missed = process.missed
    process._link.say(b"d")  # noqa: SLF001 - has the script show life; `drain` would be more
    await until(lambda: process.state is SERVING)
    after = process.missed
    process.cut()
    await process.has_ended.wait()

    assert (0, SILENT_LOOKS + 2, 0) == (before, missed, after)
    assert [SERVING, SILENT, SERVING, DRAINING, ENDED] == scene.states


@pytest.mark.parametrize("word", ["drain", "kill"])
async def test_end_of_a_silent_one(word: str) -> None:
    """It may still be told to end, or be killed."""
    scene = Scene(SERVES)
    process = scene.process
    await process.has_settled.wait()
    for _ in range(SILENT_LOOKS + 1):
        process.look()
    getattr(process, word)()
    await process.has_ended.wait()

    assert [SERVING, SILENT] == scene.states[:2]
    assert ENDED is scene.states[-1]


async def test_silence_of_one_that_drains() -> None:
    """It goes on to drain, and is known to show no life."""
    process = Scene(IGNORES_DRAINS).process
    await process.has_settled.wait()
    process.drain()
    before = process.shows_life
    for _ in range(SILENT_LOOKS + 1):
        process.look()
    after, state = process.shows_life, process.state
    process.cut()
    await process.has_ended.wait()

    assert (True, False, DRAINING) == (before, after, state)


async def test_no_such_program() -> None:
    """That is the operator's to know."""
    with pytest.raises(OperatorError, match="no worker can be started: /nowhere: No such file"):
        WorkerProcess(
            lambda link: dataclasses.replace(PLACE, link=link), NOTHING, ["/nowhere"], print
        )


async def test_nothing_of_the_service_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent is the service, and a group of its own keeps the terminal's signals away."""
    for name in ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"):
        monkeypatch.setenv(name, "1")
    found = tmp_path / "found"
    scene = Scene(
        "names = [each for each in os.environ if each.startswith(('NOTIFY', 'WATCHDOG'))]\n"
        f"open({str(found)!r}, 'w').write(f'{{names}} {{os.getpgrp() == os.getpid()}}')"
    )
    await scene.process.has_ended.wait()

    assert "[] True" == found.read_text()


def test_table() -> None:
    """Every state has its row, and the end has no way out."""
    assert {*WorkerState} == {*TRANSITIONS}
    assert {} == TRANSITIONS[ENDED]
