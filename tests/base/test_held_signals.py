"""Signals that wait for their handlers."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from apfproxy.base.held_signals import held, held_in_child, release, unused_signals

if TYPE_CHECKING:
    import pytest


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
