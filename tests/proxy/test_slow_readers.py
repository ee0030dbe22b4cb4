"""Answers that hold seats while only their clients are waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from apfproxy.proxy.counters import ProxyCounters
from apfproxy.proxy.slow_readers import SlowReaders

if TYPE_CHECKING:
    from tests.proxy.fakes import Bench


class Exchange:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.told: list[object] = []

    def on_sweep(self, period_ns: int) -> None:
        self.told.append(period_ns)
        if self.error is not None:
            raise self.error

    def fail(self, error: Exception) -> None:
        self.told.append(error)


@pytest.mark.parametrize("per_level", [None, 2, 0])
def test_limit(bench: Bench, per_level: int | None) -> None:
    """So many of a level go on without seats, by default as many as it has seats."""
    level = bench.controller.levels["queued"]
    most = level.nominal_limit if per_level is None else per_level
    counters = ProxyCounters()
    subject = SlowReaders(counters, per_level)

    assert [True] * most + [False] == [subject.admit(level) for _ in range(most + 1)]
    assert most == counters.slow_readers_open == counters.slow_reader_releases
    for _ in range(most):
        subject.release("queued")
    assert ({}, 0) == (subject.by_level, counters.slow_readers_open)


def test_an_error_in_one_ends_that_one() -> None:
    error = ValueError()
    broken, good = Exchange(error), Exchange()
    subject = SlowReaders(ProxyCounters(), None)
    subject.watched.update(cast("Any", {broken: None, good: None}))
    subject.on_sweep(5)

    assert ([5, error], [5]) == (broken.told, good.told)
