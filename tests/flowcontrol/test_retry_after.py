"""Retry-After stays within its bounds, whatever is dropped when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from apfproxy.flowcontrol.priority_level import MAX_RETRY_AFTER_S, RetryAfter

steps = st.tuples(st.integers(-2, 40), st.integers(1, 60))


@given(st.lists(steps, max_size=30))
def test_stays_within_bounds_though_time_may_run_backwards(seconds: list[tuple[int, int]]) -> None:
    retry_after = RetryAfter()
    now_s = 1_700_000_000
    for passed_s, drops in seconds:
        now_s += passed_s
        for _ in range(drops):
            retry_after.record_drop(now_s)

        assert 1 <= retry_after.get() <= MAX_RETRY_AFTER_S
