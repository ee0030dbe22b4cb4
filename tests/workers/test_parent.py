"""The parent of workers; those of end_to_end/test_workers are real."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from apfproxy.app import parent as program
from apfproxy.app.parent import Parent
from apfproxy.base.errors import OperatorError
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
from apfproxy.workers.process import WorkerState
from tests.support.clocks import until
from tests.workers.scripts import HANGS, IGNORES_DRAINS, SERVES, command

if TYPE_CHECKING:
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
