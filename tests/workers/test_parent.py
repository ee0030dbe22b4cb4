"""The parent of workers; those of end_to_end/test_workers are real."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from apfproxy.app import parent as program
from apfproxy.app.parent import Parent
from apfproxy.base.errors import OperatorError
from apfproxy.base.listeners import LISTEN, Listeners
from apfproxy.base.signals import Hangup, Signals
from apfproxy.settings import (
    AccessLogSettings,
    Address,
    DownstreamSettings,
    DrainSettings,
    FlowControlSettings,
    Settings,
)
from apfproxy.workers import parent as module
from apfproxy.workers.parent import WorkerSockets
from apfproxy.workers.process import WorkerState
from tests.support.clocks import until
from tests.workers.scripts import HANGS, IGNORES_DRAINS, SERVES, command

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SETTINGS = Settings(
    downstream=DownstreamSettings(listen=Address(host="127.0.0.1", port=0)), admin=None
)
HEARS_SIGNALS = """
def hear(number, _):
    with open({path!r}, "a") as file:
        file.write(signal.Signals(number).name + "\\n")
    serve()
signal.signal(signal.SIGUSR1, hear)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
def renew(message):
    hear(signal.SIGHUP, None)
    send("Serving", number=message["number"])
"""
REFUSES = """
def renew(message):
    refused = "f:1: a\\nf:2: b" if place["index"] == 2 else ""
    if not refused:
        open({path!r}, "wb").write(message["settings"])
    send("Serving", number=message["number"], refused=refused)
"""


def parent_of(script: str, count: int = 2, settings: Settings = SETTINGS) -> Parent:
    return Parent(settings, count, command=command(script))


@pytest.mark.parametrize(("index", "begun"), [(1, 1), (2, 2)])
async def test_worker_that_cannot_start(index: int, begun: int, tmp_path: Path) -> None:
    begin = f"open('{tmp_path}/' + place['member'], 'w');"
    parent = parent_of(begin + f"sys.exit(3) if place['index'] == {index} else None;" + SERVES)
    reason = f"worker {index} ended with exit code 3; its log says why"
    with pytest.raises(OperatorError, match=reason):
        await parent.start()

    assert begun == len(list(tmp_path.iterdir()))  # noqa: ASYNC240 - a test may block
    assert [] == parent.workers.processes
    assert 0 == parent.port


async def test_worker_that_hangs_at_the_drain(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(program, "SPARE_S", 0.1)
    monkeypatch.setattr(module, "CUT_WITHIN_S", 0.1)
    settings = structs.replace(
        SETTINGS,
        drain=DrainSettings(timeout_s=0),
        flow_control=FlowControlSettings(hash_seed=7),
    )
    parent = parent_of(HANGS, 2, settings)
    await parent.start()
    seeds = {each.place.hash_seed for each in parent.workers.processes}
    await parent.drain()

    assert "not all workers have ended within 0.1 s" in caplog.text
    assert 2 == caplog.text.count("does not end, and is killed")
    assert {7} == seeds


@pytest.mark.parametrize(
    ("script", "ending", "status"), [(IGNORES_DRAINS, "drain", 0), (HANGS, "stop", -signal.SIGKILL)]
)
async def test_second_signal(script: str, ending: str, status: int) -> None:
    """It cuts workers that drain, and kills those that do not end then: it leaves none behind."""
    parent = parent_of(script)
    await parent.start()
    processes = parent.workers.processes
    task = asyncio.ensure_future(getattr(parent, ending)())
    await until(lambda: all(each.state is WorkerState.DRAINING for each in processes))
    task.cancel()
    await asyncio.wait([task])

    assert [status] * 2 == [each.status for each in processes]


async def test_signals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "READ_WITHIN_S", 20.0)
    caplog.set_level("INFO")
    heard = tmp_path / "heard"
    settings = structs.replace(SETTINGS, access_log=AccessLogSettings(path="log"))
    with Signals(Hangup.RELOAD) as signals:
        parent = parent_of(HEARS_SIGNALS.format(path=str(heard)) + SERVES, 2, settings)
        await parent.start()
        parent.attend(signals)
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: "read again; changed: no setting" in caplog.text)
        os.kill(os.getpid(), signal.SIGUSR1)
        await until(lambda: heard.read_text().count("SIGUSR1") == 2)
        await parent.renew(SETTINGS)
        os.kill(os.getpid(), signal.SIGUSR1)
        await until(lambda: "SIGUSR1 means nothing here" in caplog.text)
        await parent.drain()

    assert 2 == heard.read_text().count("SIGUSR1")
    assert heard.read_text().count("SIGHUP") == 4, "and once more for the renewal"


async def test_settings_that_workers_refuse(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("a" * 40)
    had = tmp_path / "had"
    parent = parent_of(REFUSES.format(path=str(had)) + SERVES)
    await parent.start()
    with pytest.raises(OperatorError, match=r"^f:1: a\nf:2: b$"):
        await parent.renew(structs.replace(SETTINGS, admin_read_token_file=str(tokens)))
    await parent.drain()

    assert parent.settings is SETTINGS
    assert pickle.dumps(SETTINGS) == had.read_bytes(), "the one that took them has those of before"
    assert not parent.access.asks_for_tokens


async def test_replacement(caplog: pytest.LogCaptureFixture) -> None:
    """SIGUSR2 has other processes take all places, once."""
    caplog.set_level("INFO")
    with Signals() as signals:
        parent = parent_of(SERVES)
        workers = parent.workers
        await parent.start()
        parent.attend(signals)
        before = workers.processes
        os.kill(os.getpid(), signal.SIGUSR2)
        await until(lambda: len(workers.processes) > 2)
        os.kill(os.getpid(), signal.SIGUSR2)
        await until(lambda: "all workers are replaced" in caplog.text)
        for each in before:
            await each.has_ended.wait()
        after = workers.processes
        await parent.drain()

    assert 2 == len(after)
    assert set(before).isdisjoint(after)
    assert "are being replaced already" in caplog.text
    assert ["worker-1.2", "worker-2.2"] == [each.place.member for each in after]
    assert 1 == len({each.place.hash_seed for each in [*before, *after]}), "flows have one hand"


# ------------------------------------------------------------------ listening sockets


def names(descriptors: Sequence[int]) -> list[tuple[object, bool]]:
    found = []
    for each in descriptors:
        listener = socket.socket(fileno=each)
        listens = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        found.append((listener.getsockname(), bool(listens)))
        listener.detach()
    return found


async def test_each_has_its_own() -> None:
    sockets = WorkerSockets(Listeners())
    await sockets.open(SETTINGS.downstream.listen, 0o600, 3)
    first, second, third, again = [sockets.of(index) for index in (1, 2, 3, 1)]
    listened = [names(each) for each in (first, second, third)]
    port = sockets.port
    sockets.close()
    sockets.close()

    assert first == again
    assert 3 == len({*map(tuple, [first, second, third])})
    assert [[(("127.0.0.1", port), True)]] * 3 == listened
    assert f"127.0.0.1:{port}" == sockets.written
    assert sockets.port is None


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", ""])
async def test_rest(host: str) -> None:
    """A worker that rests has connections only once its next process listens; the last stays."""
    sockets = WorkerSockets(Listeners())
    await sockets.open(Address(host=host, port=0), 0o600, 2)
    port = sockets.port
    sockets.rest(1)
    sockets.rest(2)
    clients = [socket.create_connection((host or "localhost", port or 0)) for _ in range(8)]
    accepted = [socket.socket(fileno=each) for each in sockets.of(2)]
    number = sum(len(taken(each)) for each in accepted)
    for client in clients:
        client.close()
    for listener in accepted:
        listener.detach()
    joined = names(sockets.of(1))
    sockets.close()

    assert 8 == number
    assert {(port, False)} == {(address[1], listens) for address, listens in joined}  # type: ignore[index]  # of IP


def taken(listener: socket.socket) -> list[socket.socket]:
    found = []
    while True:
        try:
            found.append(listener.accept()[0])
        except BlockingIOError:
            return found
        found[-1].close()


async def test_unix(tmp_path: Path) -> None:
    """All share one socket, whose file is the listeners' to remove."""
    path = tmp_path / "listen"
    sockets = WorkerSockets(listeners := Listeners())
    await sockets.open(Address.unix(str(path)), 0o600, 2)
    one, other = sockets.of(1), sockets.of(2)
    sockets.rest(1)
    sockets.close()
    is_left = path.exists()
    listeners.give_up()

    assert one == other
    assert is_left
    assert not path.exists()


async def test_of_systemd() -> None:
    """All share what systemd has opened."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sockets = WorkerSockets(Listeners({LISTEN: [listener]}))
        await sockets.open(Address(host="", port=1), 0o600, 2)
        expected = [listener.fileno()]
        found = [sockets.of(index) for index in (1, 2)]
        sockets.rest(2)
        sockets.close()

    assert [expected, expected] == found
