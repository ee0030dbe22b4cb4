"""Answers that hold seats while only their clients are waited for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from apfproxy.proxy.counters import ProxyCounters
from apfproxy.proxy.slow_readers import SlowReaders

if TYPE_CHECKING:
    from apfproxy.flowcontrol.priority_level import PriorityLevel

LEVEL = cast("PriorityLevel", SimpleNamespace(name="a", nominal_limit=2))


class Exchange:
    """Stands for an exchange: what it was told."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.told: list[object] = []

    def on_sweep(self, period_ns: int) -> None:
        """Hear of a sweep."""
        self.told.append(period_ns)
        if self.error is not None:
            raise self.error

    def fail(self, error: Exception) -> None:
        """End after an error."""
        self.told.append(error)


@pytest.mark.parametrize(
    ("per_level", "admitted"),
    [
        pytest.param(None, [True, True, False], id="as-many-as-seats"),
        pytest.param(1, [True, False, False], id="settings"),
        pytest.param(0, [False] * 3, id="none"),
    ],
)
def test_limit(per_level: int | None, admitted: list[bool]) -> None:
    """So many of a level go on without seats; one that is through makes room for another."""
    counters = ProxyCounters()
    subject = SlowReaders(counters, per_level)

    assert admitted == [subject.admit(LEVEL) for _ in admitted]
    assert sum(admitted) == counters.slow_readers_open == counters.slow_reader_releases
    for _ in range(sum(admitted)):
        subject.release("a")
    assert ({}, 0) == (subject.by_level, counters.slow_readers_open)


def test_an_error_in_one_ends_that_one() -> None:
    """The sweep looks at the others all the same."""
    error = ValueError()
    broken, good = Exchange(error), Exchange()
    subject = SlowReaders(ProxyCounters(), None)
    subject.watched.update({broken: None, good: None})
    subject.on_sweep(5)

    assert ([5, error], [5]) == (broken.told, good.told)
