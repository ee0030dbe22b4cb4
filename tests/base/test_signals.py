"""Signals of a process that serves."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

from apfproxy.base.held_signals import held, held_in_child, release, unused_signals
from apfproxy.base.signals import Hangup, Signals
from tests.end_to_end.scene import until

if TYPE_CHECKING:
    from collections.abc import Callable


async def test_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first and the second signal are told apart, and the handlers taken back."""
    loop = asyncio.get_running_loop()
    handlers: dict[int, Callable[[], None]] = {}

    def add(number: int, callback: Callable[..., None], *arguments: object) -> None:
        handlers[number] = partial(callback, *arguments)

    monkeypatch.setattr(loop, "add_signal_handler", add)
    monkeypatch.setattr(
        loop, "remove_signal_handler", lambda number: handlers.pop(number, None) is not None
    )

    async def forever() -> None:
        await asyncio.Event().wait()

    with Signals() as signals:
        seen = []
        signals.on_rotation(lambda: seen.append("rotated"))
        handlers[signal.SIGUSR2]()
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
            handlers[number]()
            seen.append(repr(signals))
        is_done = await signals.before_second(forever(), name="ending")

    assert seen == ["rotated", *(f"<Signals: {number} so far>" for number in (0, 1, 2))]
    assert not is_done
    assert handlers == {}


async def test_hangup(caplog: pytest.LogCaptureFixture) -> None:
    """SIGHUP asks for a reload until the end begins, where there is anything to reload."""
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


async def test_end_before_second() -> None:
    """What ends by itself is waited for, and what it raises is raised."""

    async def fail() -> None:
        raise OSError("the disk is full")

    with Signals() as signals:
        assert await signals.before_second(asyncio.sleep(0), name="ending")
        with pytest.raises(OSError, match="disk"):
            await signals.before_second(fail(), name="ending")


async def test_hangup_that_ends() -> None:
    """SIGHUP ends a program that has no use for it but the end of its terminal."""
    with Signals(Hangup.END) as signals:
        signal.raise_signal(signal.SIGHUP)
        await signals.first.wait()
        assert not signals.hangup.is_set()


async def test_held_until_there_are_handlers() -> None:
    """A signal that came before the handlers is handled by them."""
    with held():
        signal.raise_signal(signal.SIGHUP)
        with Signals(Hangup.RELOAD) as signals:
            await signals.hangup.wait()


def test_signals_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has a handler already keeps it; a system may not have them all."""
    monkeypatch.delattr(signal, "SIGPWR")
    before = signal.signal(signal.SIGUSR2, lambda *_: None)
    try:
        found = unused_signals()
    finally:
        signal.signal(signal.SIGUSR2, before)

    assert signal.SIGUSR1 in found
    assert signal.SIGUSR2 not in found


def test_held() -> None:
    """A signal is delivered when it is released, or at the end of the context."""
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


def test_held_in_child() -> None:
    """A process that has just been started is not ended by them; it gets them once it asks."""
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
