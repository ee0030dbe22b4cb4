"""Signals that wait for their handlers."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from apfproxy.app.held_signals import held, release, unused_signals

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
