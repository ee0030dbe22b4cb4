"""The clock of a running process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

import pytest

from apfproxy.base.clock import LoopClock

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class RecordingLoop:
    """Records the timers that it is asked for."""

    def __init__(self) -> None:
        self.delays_s: list[float] = []

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        """Record a timer."""
        callback()
        self.delays_s.append(delay_s)


def clock_of(loop: RecordingLoop) -> LoopClock:
    """A clock over that loop which stands at a second."""
    clock = LoopClock(cast("asyncio.AbstractEventLoop", loop))
    clock.now_ns = lambda: 1_000_000_000
    return clock


@pytest.mark.parametrize(
    ("deadline_ns", "delay_s"),
    [
        pytest.param(3_500_000_000, 2.5, id="ahead"),
        pytest.param(1_000_000_000, 0.0, id="now"),
        pytest.param(5, 0.0, id="in-the-past"),
    ],
)
def test_arms_a_timer_of_the_loop(deadline_ns: int, delay_s: float) -> None:
    """A deadline becomes a delay from now; one that is over is due at once."""
    loop = RecordingLoop()
    called: list[int] = []
    clock_of(loop).call_at(deadline_ns, lambda: called.append(1))

    assert [delay_s] == loop.delays_s
    assert [1] == called


def test_reads_the_monotonic_clock() -> None:
    """The system's function itself, so that a reading costs no call more."""
    clock = LoopClock(cast("asyncio.AbstractEventLoop", RecordingLoop()))

    assert time.monotonic_ns is clock.now_ns
