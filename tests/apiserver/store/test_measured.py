"""Backends that are measured."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.counters import ApiServerCounters
from apfproxy.apiserver.store.entries import Change, ChangeType, Entry, StoreError
from apfproxy.apiserver.store.measured import MeasuredBackend
from tests.apiserver.store.backends import GatedBackend, ListBackend

CHANGE = Change(2, ChangeType.ADDED, Entry("pods", "a", "b", 2, "uid", {}, {}, b"{}"), None)


def test_counts_and_tells() -> None:
    """Commits are timed and counted; a failure is told once, and so is its end."""
    counters = ApiServerCounters()
    times = iter(range(0, 100_000_000, 3_000_000))
    told: list[str | None] = []
    gated = GatedBackend(ListBackend())
    gated.gate.set()
    gated.outcomes.extend([True, False, False, True])
    backend = MeasuredBackend(gated, counters, lambda: next(times), told.append)
    backend.write([CHANGE], {})
    for _ in range(2):
        with pytest.raises(StoreError):
            backend.write([CHANGE], {})
    backend.write([CHANGE], {})
    backend.close()

    assert (2, 2) == (counters.committed_changes, counters.commit_failures)
    assert 6_000_000 == counters.commit_ns.sum
    assert 2 == len(told)
    assert told[0] is not None
    assert told[1] is None
    assert 2 == backend.load().resource_version
