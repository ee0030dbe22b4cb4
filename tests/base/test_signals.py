"""Signals of a process that serves."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from apfproxy.base.held_signals import held, held_in_child, release
from apfproxy.base.signals import Hangup, Signals
from tests.end_to_end.scene import on_uvloop
from tests.support.clocks import until

if TYPE_CHECKING:
    import pytest


@on_uvloop
async def test_first_and_second_signal_are_told_apart() -> None:
    numbers = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]

    async def forever() -> None:
        await asyncio.Event().wait()

    with Signals() as signals:
        rotated = asyncio.Event()
        signals.on_rotation(rotated.set)
        signal.raise_signal(signal.SIGUSR1)
        await rotated.wait()
        signal.raise_signal(signal.SIGTERM)
        await signals.first.wait()
        signal.raise_signal(signal.SIGINT)
        is_done = await signals.before_second(forever(), name="ending")

    assert not is_done
    assert before == [signal.getsignal(number) for number in numbers]


@on_uvloop
async def test_one_signal_that_arrives_while_another_is_handled() -> None:
    other = signal.signal(signal.SIGUSR1, lambda *_: signal.raise_signal(signal.SIGTERM))
    for _ in range(10):  # that it comes as the loop reads of the other one is likely, not sure
        with Signals() as signals:
            # From a thread, so that the loop waits, and reads of it.
            await asyncio.to_thread(os.kill, os.getpid(), signal.SIGUSR1)
            await signals.first.wait()
            later = asyncio.Event()
            signals.on_replacement(later.set)
            await asyncio.to_thread(os.kill, os.getpid(), signal.SIGUSR2)
            await later.wait()

            assert not signals.second.is_set()
    signal.signal(signal.SIGUSR1, other)


async def test_hangup_asks_for_a_reload_until_the_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    ignored = "means nothing here, and is ignored"
    for hangup in (Hangup.RELOAD, Hangup.NOTHING):
        with Signals(hangup) as signals:
            signal.raise_signal(signal.SIGHUP)
            signal.raise_signal(signal.SIGRTMIN + 1)
            signal.raise_signal(signal.SIGUSR2)
            await until(lambda: caplog.messages[-1:] == [f"SIGUSR2 {ignored}"])
            assert (hangup is Hangup.RELOAD) == signals.hangup.is_set()
            signal.raise_signal(signal.SIGTERM)
            await signals.first.wait()
            signal.raise_signal(signal.SIGHUP)
            await until(lambda: caplog.messages[-1].startswith("SIGHUP"))

    assert [
        f"SIGRTMIN+1 {ignored}",
        f"SIGUSR2 {ignored}",
        "SIGHUP: nothing is read again, since the process is about to end",
        f"SIGHUP {ignored}",
        f"SIGRTMIN+1 {ignored}",
        f"SIGUSR2 {ignored}",
        f"SIGHUP {ignored}",
    ] == caplog.messages


def test_signal_is_delivered_once_it_is_released() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _: seen.append(number))
    try:
        with held():
            signal.raise_signal(signal.SIGHUP)
            assert [] == seen
            release()
            assert [signal.SIGHUP] == seen
        with held():
            signal.raise_signal(signal.SIGHUP)
            assert 1 == len(seen)
        assert 2 == len(seen)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_child_gets_signals_once_it_asks() -> None:
    script = (
        "import signal, sys\n"
        "sys.stdin.read(1)\n"
        "signal.signal(signal.SIGHUP, lambda *_: print('heard'))\n"
        "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})\n"
    )
    with held_in_child():
        child = subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    child.send_signal(signal.SIGHUP)
    child.send_signal(signal.SIGUSR1)
    heard, _ = child.communicate(b"x")

    assert (0, b"heard\n") == (child.returncode, heard)
    assert signal.SIGHUP not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
