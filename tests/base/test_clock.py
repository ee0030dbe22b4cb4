"""The clock of a running process."""

from __future__ import annotations

import time
from unittest.mock import Mock

import pytest

from apfproxy.base.clock import LoopClock


@pytest.mark.parametrize(
    ("deadline_ns", "delay_s"),
    [
        pytest.param(3_500_000_000, 2.5, id="ahead"),
        pytest.param(1_000_000_000, 0.0, id="now"),
        pytest.param(5, 0.0, id="in-the-past"),
    ],
)
def test_loop_clock(deadline_ns: int, delay_s: float) -> None:
    loop, callback = Mock(), Mock()
    clock = LoopClock(loop)
    assert time.monotonic_ns is clock.now_ns  # itself, so that a reading costs no call more
    clock.now_ns = lambda: 1_000_000_000
    clock.call_at(deadline_ns, callback)

    loop.call_later.assert_called_once_with(delay_s, callback)
