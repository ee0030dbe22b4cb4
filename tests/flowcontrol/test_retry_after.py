"""Tests of the Retry-After of a level."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from apfproxy.flowcontrol.priority_level import MAX_RETRY_AFTER_S, RetryAfter

NOW_S = 1_700_000_000


def drop(retry_after: RetryAfter, unix_s: int, drops: int) -> None:
    for _ in range(drops):
        retry_after.record_drop(unix_s)


def test_time_may_run_backwards() -> None:
    retry_after = RetryAfter()
    for second in (5, 4, 5, 3):
        drop(retry_after, NOW_S + second, 50)

    assert 1 <= retry_after.get() <= MAX_RETRY_AFTER_S


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 60)), max_size=30))
def test_stays_within_bounds(seconds: list[tuple[int, int]]) -> None:
    """Whatever is dropped when, it is 1 s to 32 s."""
    retry_after = RetryAfter()
    now_s = NOW_S
    for passed_s, drops in seconds:
        now_s += passed_s
        drop(retry_after, now_s, drops)

        assert 1 <= retry_after.get() <= MAX_RETRY_AFTER_S
