"""What all commands that serve do."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from apfproxy.app.running import (
    GC_THRESHOLDS,
    SWITCH_S,
    Signals,
    descriptor_limit,
    meaningless_signals,
    raise_descriptor_limit,
    share_processor,
    spare_collector,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def test_descriptor_limit() -> None:
    """A process may open as many files as the system lets it."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
    try:
        raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    ("soft", "expected"), [(1024, 1024), (resource.RLIM_INFINITY, sys.maxsize)]
)
def test_descriptors(monkeypatch: pytest.MonkeyPatch, soft: int, expected: int) -> None:
    """The soft limit counts; without one there is no number that is too large."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, resource.RLIM_INFINITY))

    assert expected == descriptor_limit()


def test_spare_collector() -> None:
    """What exists is looked at no more."""
    before = gc.get_threshold()
    try:
        spare_collector()
        assert GC_THRESHOLDS == gc.get_threshold()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def test_share_processor() -> None:
    """Threads give the processor up sooner than Python has it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(10 * SWITCH_S)
    try:
        share_processor()
        assert SWITCH_S == pytest.approx(sys.getswitchinterval())
    finally:
        sys.setswitchinterval(before)


async def test_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first and the second signal are told apart, and the handlers taken back."""
    loop = asyncio.get_running_loop()
    handlers: dict[int, Callable[[], None]] = {}
    monkeypatch.setattr(loop, "add_signal_handler", handlers.__setitem__)
    monkeypatch.setattr(
        loop, "remove_signal_handler", lambda number: handlers.pop(number, None) is not None
    )

    async def forever() -> None:
        await asyncio.Event().wait()

    signals = Signals(loop)
    seen = []
    signals.on_rotation(lambda: seen.append("rotated"))
    handlers[signal.SIGUSR2]()
    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
        handlers[number]()
        seen.append(repr(signals))
    is_done = await signals.before_second(forever(), name="ending")
    signals.forget()

    assert seen == ["rotated", *(f"<Signals: {number} so far>" for number in (0, 1, 2))]
    assert not is_done
    assert handlers == {}


async def test_hangup(caplog: pytest.LogCaptureFixture) -> None:
    """SIGHUP asks for a reload until the end begins, where there is anything to reload."""
    caplog.set_level(logging.INFO)
    loop = asyncio.get_running_loop()
    for reloads in (True, False):
        signals = Signals(loop, reloads=reloads)
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGRTMIN + 1)
        signal.raise_signal(signal.SIGUSR2)
        await asyncio.wait_for(asyncio.sleep(0.01), 1)
        assert reloads == signals.hangup.is_set()
        signals.on_signal()
        signal.raise_signal(signal.SIGHUP)
        await asyncio.wait_for(asyncio.sleep(0.01), 1)
        signals.forget()

    ignored = "means nothing here, and is ignored"
    assert [
        f"SIGRTMIN+1 {ignored}",
        f"SIGUSR2 {ignored}",
        "SIGHUP: nothing is read again, since the process is about to end",
        f"SIGHUP {ignored}",
        f"SIGRTMIN+1 {ignored}",
        f"SIGUSR2 {ignored}",
        f"SIGHUP {ignored}",
    ] == caplog.messages


def test_signals_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has a handler already keeps it; a system may not have them all."""
    monkeypatch.delattr(signal, "SIGPWR")
    before = signal.signal(signal.SIGUSR2, lambda *_: None)
    try:
        found = meaningless_signals()
    finally:
        signal.signal(signal.SIGUSR2, before)

    assert signal.SIGUSR1 in found
    assert signal.SIGUSR2 not in found


async def test_end_before_second() -> None:
    """What ends by itself is waited for, and what it raises is raised."""

    async def fail() -> None:
        raise OSError("the disk is full")

    signals = Signals(asyncio.get_running_loop())
    try:
        assert await signals.before_second(asyncio.sleep(0), name="ending")
        with pytest.raises(OSError, match="disk"):
            await signals.before_second(fail(), name="ending")
    finally:
        signals.forget()
