"""A process that takes over from another one; whole proxies do so in end_to_end/test_restart."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import pytest

from apfproxy.app import succession as module
from apfproxy.app.given_sockets import Heritage
from apfproxy.app.service_manager import ServiceManager
from apfproxy.app.succession import Succession
from apfproxy.base.errors import OperatorError
from tests.app.test_service_manager import told
from tests.end_to_end.scene import until

if TYPE_CHECKING:
    from pathlib import Path

NOTHING = Heritage(descriptors={}, addresses={}, is_of_systemd=False)
SERVES = """
import json, os
if "WATCHDOG_PID" in os.environ:
    raise SystemExit(9)
os.write(json.loads(os.environ["APFPROXY_SUCCESSION"])["ready"], b"1")
"""
ENDS = "raise SystemExit(3)"
ENDS_IN_ORDER = """
import pathlib, signal, sys
def end(*_):
    pathlib.Path({ended!r}).touch()
    sys.exit()
signal.signal(signal.SIGTERM, end)
pathlib.Path({begun!r}).touch()
signal.pause()
"""
WAITS = "import time; time.sleep(600)"


def task_of(succession: Succession) -> asyncio.Task[None]:
    """What starts the successor."""
    task = succession._task  # noqa: SLF001 - nothing else tells
    assert task is not None
    return task


class Scene:
    """A succession by a script."""

    def __init__(self, script: str, manager: ServiceManager | None = None) -> None:
        self.ends = 0
        self.heritage = NOTHING
        self.succession = Succession(
            lambda: self.heritage,
            manager or ServiceManager({}),
            self._end,
            [sys.executable, "-c", script],
        )

    def _end(self) -> None:
        self.ends += 1

    async def asked(self) -> None:
        """Ask for a successor, and wait for what comes of it."""
        self.succession.ask()
        await task_of(self.succession)


async def test_successor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it serves, the service manager knows it, and this process ends."""
    monkeypatch.setenv("WATCHDOG_PID", "1")
    name = f"{tmp_path}/notify"
    with told(name) as manager:
        scene = Scene(SERVES, ServiceManager({"NOTIFY_SOCKET": name}))
        await scene.asked()
        line = manager.recv(100).decode()
        scene.succession.ask()
        await scene.succession.stop()

    successor = scene.succession.successor
    assert successor is not None
    successor.wait()
    assert 1 == scene.ends
    assert f"MAINPID={successor.pid}\nREADY=1" == line


@pytest.mark.parametrize(
    ("script", "reason"),
    [(ENDS, "it ended with exit code 3; its log says why"), (WAITS, "it did not accept")],
)
async def test_successor_that_does_not_serve(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, script: str, reason: str
) -> None:
    """This process goes on, and may try again."""
    if script == WAITS:
        monkeypatch.setattr(module, "START_WITHIN_S", 0.01)
        monkeypatch.setattr(module, "END_WITHIN_S", 0.01)
    scene = Scene(script)
    await scene.asked()
    await scene.asked()

    assert 2 == caplog.text.count(f"there is no successor, and this process goes on: {reason}")
    assert scene.succession.successor is None
    assert 0 == scene.ends


async def test_no_such_command(caplog: pytest.LogCaptureFixture) -> None:
    """A program that is gone by then is named."""
    succession = Succession(lambda: NOTHING, ServiceManager({}), lambda: None, ["/nowhere/python"])
    succession.ask()
    await task_of(succession)

    assert "goes on: /nowhere/python: No such file or directory" in caplog.text


@pytest.mark.parametrize("error", [OperatorError("one store"), RuntimeError("a bug")])
async def test_nothing_to_give(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """What keeps a process from being succeeded is said, whatever it is."""

    def fail() -> Heritage:
        raise error

    succession = Succession(fail, ServiceManager({}), lambda: None, ["true"])
    succession.ask()
    await task_of(succession)

    assert "there is no successor, and this process goes on" in caplog.text
    assert str(error) in caplog.text


async def test_one_that_starts_ends_in_order(tmp_path: Path) -> None:
    """It may have accepted connections just now."""
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    scene = Scene(ENDS_IN_ORDER.format(begun=str(begun), ended=str(ended)))
    scene.succession.ask()
    await until(begun.exists)
    await scene.succession.stop()

    assert ended.exists()


async def test_end_while_one_starts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One that does not serve yet is ended, too; meanwhile there is only one."""
    caplog.set_level("INFO")
    monkeypatch.setattr(module, "END_WITHIN_S", 0.01)
    scene = Scene(WAITS)
    scene.succession.ask()
    scene.succession.ask()
    await asyncio.sleep(0)
    await scene.succession.stop()
    nobody = Scene(WAITS)
    await nobody.succession.stop()

    assert "a successor is starting already" in caplog.text
    assert 0 == scene.ends
