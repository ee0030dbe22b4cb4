"""The parent of workers; those of end_to_end/test_workers are real."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from apfproxy.app import parent as module
from apfproxy.app.parent import Parent
from apfproxy.app.reloading import SettingsFile
from apfproxy.app.worker_process import SILENT_LOOKS, WorkerState
from apfproxy.base.errors import OperatorError
from apfproxy.base.health_checks import READYZ
from apfproxy.base.signals import Hangup, Signals
from apfproxy.settings import (
    AccessLogSettings,
    Address,
    DownstreamSettings,
    DrainSettings,
    Settings,
)
from tests.app.worker_scripts import ENDS, HANGS, IGNORES_DRAINS, NEVER_SERVES, SERVES, command
from tests.end_to_end.scene import until

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = Settings(
    downstream=DownstreamSettings(listen=Address(host="127.0.0.1", port=0)), admin=None
)
HEARS_SIGNALS = """
def hear(number, _):
    with open({path!r}, "a") as file:
        file.write(signal.Signals(number).name + "\\n")
    serve()
signal.signal(signal.SIGHUP, hear)
signal.signal(signal.SIGUSR1, hear)
"""


@pytest.fixture(autouse=True)
def directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the parents' own directories are, which is empty at the end."""
    with tempfile.TemporaryDirectory(dir="/tmp") as path:
        monkeypatch.setenv("RUNTIME_DIRECTORY", path)
        yield Path(path)
        assert [] == list(Path(path).iterdir())


def parent_of(script: str, count: int = 2, settings: Settings = SETTINGS) -> Parent:
    """A parent whose workers are of a script."""
    return Parent(settings, count, command=command(script))


def problems(parent: Parent) -> str:
    """What the parent's own checks say."""
    return parent.health.page(READYZ, verbose=True).text


async def test_life() -> None:
    """All workers serve, and end at the end."""
    with Signals() as signals:
        parent = parent_of(SERVES, count=3)
        await parent.start()
        parent.attend(signals)
        processes = parent.processes
        port, well = parent.port, problems(parent)
        await parent.drain()

    assert 3 == len(processes)
    assert port > 0
    assert "[+]workers ok" in well
    assert "[-]shutdown failed" in problems(parent)
    assert [WorkerState.ENDED] * 3 == [each.state for each in processes]
    assert "no worker serves" in str(parent._problem_of_workers())  # noqa: SLF001 - no page says why


async def test_first_worker_goes_ahead(tmp_path: Path) -> None:
    """If it cannot start, the others are not even tried."""
    parent = parent_of(f"open('{tmp_path}/' + place['member'], 'w');" + ENDS)
    with pytest.raises(OperatorError, match="worker 1 ended with exit code 3; its log says why"):
        await parent.start()

    assert ["worker-1"] == [each.name for each in tmp_path.iterdir()]  # noqa: ASYNC240 - a test may block
    assert [] == parent.processes
    assert 0 == parent.port


async def test_another_worker_cannot_start() -> None:
    """Then none is left."""
    parent = parent_of("sys.exit(3) if place['index'] == 2 else None;" + SERVES)
    with pytest.raises(OperatorError, match="worker 2 ended with exit code 3"):
        await parent.start()

    assert [] == parent.processes


async def test_hurry() -> None:
    """A signal at the start ends it."""
    parent = parent_of(NEVER_SERVES)
    module_s, module.CUT_WITHIN_S = module.CUT_WITHIN_S, 0.1
    starting = asyncio.ensure_future(parent.start())
    await until(lambda: parent.processes)
    parent.hurry(starting.cancel)
    await asyncio.wait([starting])
    module.CUT_WITHIN_S = module_s

    assert starting.cancelled()
    assert [] == parent.processes


async def test_worker_that_hangs_at_the_drain(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is cut after the drain's time, and killed if it hangs then, too."""
    monkeypatch.setattr(module, "SPARE_S", 0.1)
    monkeypatch.setattr(module, "CUT_WITHIN_S", 0.1)
    settings = structs.replace(SETTINGS, drain=DrainSettings(timeout_s=0))
    parent = parent_of(HANGS, 2, settings)
    await parent.start()
    await parent.drain()

    assert "not all workers have ended within 0.1 s" in caplog.text
    assert 2 == caplog.text.count("does not end, and is killed")


async def test_second_signal() -> None:
    """A drain that is cancelled cuts the workers."""
    parent = parent_of(IGNORES_DRAINS)
    await parent.start()
    processes = parent.processes
    draining = asyncio.ensure_future(parent.drain())
    await until(lambda: all(each.state is WorkerState.DRAINING for each in processes))
    draining.cancel()
    await asyncio.wait([draining])

    assert [0, 0] == [each.status for each in processes]


async def test_second_signal_while_they_are_cut(caplog: pytest.LogCaptureFixture) -> None:
    """It leaves no worker behind: those that have not ended by then are killed."""
    parent = parent_of(HANGS)
    await parent.start()
    processes = parent.processes
    stopping = asyncio.ensure_future(parent.stop())
    await until(lambda: all(each.state is WorkerState.DRAINING for each in processes))
    stopping.cancel()
    await asyncio.wait([stopping])

    assert stopping.cancelled()
    assert [-signal.SIGKILL] * 2 == [each.status for each in processes]
    assert 2 == caplog.text.count("does not end, and is killed")


async def test_admin_address_in_use() -> None:
    """That is known before any worker starts."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        settings = structs.replace(SETTINGS, admin=Address(host="127.0.0.1", port=port))
        parent = parent_of(NEVER_SERVES, 2, settings)
        with pytest.raises(OperatorError, match=r"address already in use.*--admin"):
            await parent.start()


async def test_signals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGHUP and SIGUSR1 reach each worker."""
    monkeypatch.setattr(module, "READ_WITHIN_S", 20.0)
    heard = tmp_path / "heard"
    settings = structs.replace(SETTINGS, access_log=AccessLogSettings(path="log"))
    with Signals(Hangup.RELOAD) as signals:
        parent = parent_of(HEARS_SIGNALS.format(path=str(heard)) + SERVES, 2, settings)
        await parent.start()
        parent.attend(signals)
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: heard.exists() and heard.read_text().count("SIGHUP") == 2)
        os.kill(os.getpid(), signal.SIGUSR1)
        await until(lambda: heard.read_text().count("SIGUSR1") == 2)
        await parent.drain()


async def test_rotation_without_a_log(caplog: pytest.LogCaptureFixture) -> None:
    """It means nothing, as for a single process."""
    with Signals() as signals:
        parent = parent_of(SERVES)
        await parent.start()
        parent.attend(signals)
        os.kill(os.getpid(), signal.SIGUSR1)
        await until(lambda: "SIGUSR1 means nothing here" in caplog.text)
        await parent.drain()


async def test_worker_that_does_not_read_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody waits for it for ever."""
    monkeypatch.setattr(module, "READ_WITHIN_S", 0.01)
    parent = parent_of("signal.signal(signal.SIGHUP, signal.SIG_IGN);" + SERVES)
    await parent.start()
    await parent.read_again()
    await parent.drain()

    assert "not all workers have read their settings" in caplog.text


async def test_silent_worker_reads_later(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody waits for one that shows no life, and the log says so."""
    parent = parent_of("signal.signal(signal.SIGHUP, signal.SIG_IGN);" + SERVES)
    await parent.start()
    reading = asyncio.ensure_future(parent.read_again())
    await asyncio.sleep(0)
    for each in parent.processes:
        each.missed = SILENT_LOOKS
        each.look()
    await reading
    await parent.read_again()
    await parent.drain()

    assert 2 * 2 == caplog.text.count("shows no life; it reads its settings when it goes on")
    assert "not all workers have read their settings" not in caplog.text


async def test_settings_of_the_parent() -> None:
    """It takes those that it has read again for its own."""
    parent = parent_of(SERVES)
    await parent.renew(structs.replace(SETTINGS, log_level="error"))
    await parent.stop()

    assert "error" == parent.settings.log_level


async def test_replacement(caplog: pytest.LogCaptureFixture) -> None:
    """SIGUSR2 has other processes take all places, once."""
    caplog.set_level("INFO")
    with Signals() as signals:
        parent = parent_of(SERVES)
        await parent.start()
        parent.attend(signals)
        before = parent.processes
        os.kill(os.getpid(), signal.SIGUSR2)
        await until(lambda: len(parent.processes) > 2)
        os.kill(os.getpid(), signal.SIGUSR2)
        await until(lambda: "all workers are replaced" in caplog.text)
        for each in before:
            await each.has_ended.wait()
        after = parent.processes
        await parent.drain()

    assert 2 == len(after)
    assert set(before).isdisjoint(after)
    assert "are being replaced already" in caplog.text
    assert ["worker-1.2", "worker-2.2"] == [each.place.member for each in after]


async def test_replacement_by_none(caplog: pytest.LogCaptureFixture) -> None:
    """A worker that cannot start keeps the others from being replaced."""
    script = "sys.exit(3) if place['member'].endswith('.2') else None;" + SERVES
    with Signals() as signals:
        parent = parent_of(script)
        await parent.start()
        parent.attend(signals)
        before = parent.processes
        os.kill(os.getpid(), signal.SIGUSR2)
        await until(lambda: "not replaced any further" in caplog.text)
        after = parent.processes
        await parent.drain()

    assert before == after


async def test_seats_of_a_worker_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others have them at once."""
    dropped: list[str] = []
    parent = parent_of(SERVES)
    monkeypatch.setattr(parent.ledger, "drop", dropped.append)
    await parent.start()
    first, _ = parent.processes
    first.kill()
    await until(lambda: dropped)
    only = list(dropped)
    await parent.stop()

    assert ["worker-1"] == only


def test_seed_is_the_settings_own() -> None:
    """Flows have the same hands in all workers."""

    async def seed(given: int | None) -> int:
        flow_control = structs.replace(SETTINGS.flow_control, hash_seed=given)
        parent = Parent(structs.replace(SETTINGS, flow_control=flow_control), 2)
        return parent._hash_seed  # noqa: SLF001 - workers learn it

    assert 7 == asyncio.run(seed(7))
    assert asyncio.run(seed(None)) != asyncio.run(seed(None))


async def test_no_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a place for its sockets there is no parent."""

    def refuse(**_: object) -> str:
        raise OSError(28, "No space left on device")

    parent = Parent(SETTINGS, 2, SettingsFile(None, lambda: SETTINGS))
    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    with pytest.raises(OperatorError, match="No space left"):
        await parent.start()


async def test_silent_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """New connections pass by those that are silent, unless all are."""
    steered: list[list[int]] = []
    parent = parent_of(HANGS)
    monkeypatch.setattr(parent.sockets, "steer", lambda serving: steered.append(list(serving)))
    await parent.start()
    first, second = parent.processes
    steered.clear()
    first.missed = second.missed = SILENT_LOOKS
    first.look()
    well = problems(parent)
    second.look()
    ill = problems(parent)
    for each in (first, second):
        each.kill()
    await parent.stop()

    assert [[2], [1, 2]] == steered[:2]
    assert "[+]workers ok" in well
    assert "[-]workers failed: no worker serves" in ill


async def test_deleted_directory(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is made again as soon as that can be, once, and other processes take all places."""
    caplog.set_level("INFO")
    monkeypatch.setattr(module, "DIRECTORY_PERIOD_S", 0.01)
    with Signals() as signals:
        parent = parent_of(SERVES)
        await parent.start()
        parent.attend(signals)
        before = parent.processes
        (own,) = directory.iterdir()  # noqa: ASYNC240 - a test may block
        shutil.rmtree(own)
        own.touch()  # so it cannot be made
        await until(lambda: "was deleted, and cannot be made again" in caplog.text)
        own.unlink()
        await until(lambda: "all workers are replaced" in caplog.text)
        after = [each for each in parent.processes if each not in before]
        is_there = (own / "ledger").is_socket()
        await parent.drain()

    assert 2 == len(after)
    assert is_there
    assert 1 == caplog.text.count("cannot be made again, so no worker can start: File exists")
    assert 1 == caplog.text.count("it is made again, and the workers are replaced")


async def test_deleted_sockets(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Only the worker whose socket it was is replaced; a file in its place is none."""
    caplog.set_level("INFO")
    monkeypatch.setattr(module, "DIRECTORY_PERIOD_S", 0.01)
    monkeypatch.setattr(module, "REPLACE_PERIOD_S", 0.01)
    with Signals() as signals:
        parent = parent_of(SERVES)
        await parent.start()
        first, second = parent.processes
        parent.attend(signals)
        Path(second.place.admin).unlink()  # noqa: ASYNC240 - a test may block
        await until(lambda: "worker 2 is process" in caplog.text)
        Path(first.place.admin).unlink()  # noqa: ASYNC240 - as above
        Path(first.place.admin).touch()  # noqa: ASYNC240 - as above
        await until(lambda: "worker 1 is process" in caplog.text)
        await parent.drain()

    assert [2, 1] == [int(each) for each in re.findall(r"the socket of worker (\d)", caplog.text)]


async def test_socket_of_a_worker_that_cannot_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried again."""
    monkeypatch.setattr(module, "DIRECTORY_PERIOD_S", 0.01)
    monkeypatch.setattr(module, "REPLACE_PERIOD_S", 0.01)
    (lock := tmp_path / "lock").touch()
    with Signals() as signals:
        parent = parent_of(f"os.path.exists({str(lock)!r}) or sys.exit(3);" + SERVES)
        await parent.start()
        first, _ = parent.processes
        parent.attend(signals)
        lock.unlink()
        Path(first.place.admin).unlink()  # noqa: ASYNC240 - as above
        await until(lambda: 2 == caplog.text.count("exit code 3; its log says why; process"))
        lock.touch()
        await until(lambda: parent.slots[0].current is not first)
        await parent.drain()

    assert caplog.text.count("the socket of worker 1 was deleted") > 2
