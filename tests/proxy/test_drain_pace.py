"""How fast long-running answers are ended."""

from __future__ import annotations

import pytest

from apfproxy.proxy.drain_pace import ended_at_once


@pytest.mark.parametrize(
    ("watches", "rounds", "expected"),
    [
        pytest.param(1, 100, 10, id="at-least-as-kubernetes"),
        pytest.param(100_000, 100, 1000, id="all-within-the-rounds"),
        pytest.param(1001, 100, 11, id="rounded-up"),
        pytest.param(50, 0, 50, id="no-time"),
    ],
)
def test_pace(watches: int, rounds: float, expected: int) -> None:
    """All are ended in time, without a storm."""
    assert expected == ended_at_once(watches, rounds)
