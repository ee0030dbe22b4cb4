"""Frames that bring nothing: how many a client may send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pytest

from apfproxy.proxy.counters import Flood
from apfproxy.proxy.http2.frame_budget import FrameBudget

if TYPE_CHECKING:
    from apfproxy.proxy.http2.nghttp2 import Session

S = 1_000_000_000


@dataclass
class Counts:
    """Frames so far."""

    requests: int = 0
    resets: int = 0
    own_resets: int = 0
    window_updates: int = 0
    empty_data: int = 0
    continuations: int = 0
    data_sent: int = 0
    others: int = 0
    nuisances: int = 0

    def add(self, kind: str, number: int = 1) -> None:
        setattr(self, kind, getattr(self, kind) + number)
        self.nuisances += number


KINDS = [
    ("resets", Flood.RESETS),
    ("own_resets", Flood.RESETS),
    ("others", Flood.CONTROL),
    ("window_updates", Flood.WINDOW_UPDATES),
    ("empty_data", Flood.EMPTY_FRAMES),
    ("continuations", Flood.EMPTY_FRAMES),
]


def frames_until_flood(kind: str, per_s: int, most: int = 100_000) -> tuple[int, Flood | None]:
    budget, counts = FrameBudget(0), Counts()
    for number in range(most):
        counts.add(kind)
        if kind.endswith("resets"):
            counts.requests = number + 1
        flood = budget.take(cast("Session", counts), number * S // per_s)
        if flood is not None:
            return number, flood
    return most, None


@pytest.mark.parametrize(("kind", "flood"), KINDS)
def test_each_kind_has_an_end(kind: str, flood: Flood) -> None:
    """At once, or many more than any client sends: it is a flood, and says of what."""
    taken, found = frames_until_flood(kind, 1_000_000)

    assert found is flood
    assert 100 <= taken <= 2100


@pytest.mark.parametrize(("kind", "flood"), KINDS)
def test_a_few_each_second_are_none(kind: str, flood: Flood) -> None:  # noqa: ARG001  of the kind
    assert (5000, None) == frames_until_flood(kind, 20, 5000)


def test_window_updates_for_what_was_sent() -> None:
    """A download takes two for each of its parts."""
    budget, counts = FrameBudget(0), Counts()
    for _ in range(100_000):
        counts.data_sent += 1
        counts.add("window_updates", 2)

        assert budget.take(cast("Session", counts), 0) is None


def test_window_updates_that_come_late() -> None:
    """A client that was busy reads what came meanwhile, and says so at once."""
    budget, counts = FrameBudget(0), Counts()
    for _ in range(30):  # answers of 4 MiB each
        counts.requests += 1
        counts.data_sent += 256
        counts.add("others")
        assert budget.take(cast("Session", counts), 0) is None
    counts.add("window_updates", 30 * 256 * 8)

    assert budget.take(cast("Session", counts), 0) is None
    counts.add("window_updates", 2 * 30 + 2001)
    assert Flood.WINDOW_UPDATES is budget.take(cast("Session", counts), 0)


def test_window_updates_that_are_kept_are_bounded() -> None:
    """As many as a client needs that has read nothing for as long as its window lets it."""
    budget, counts = FrameBudget(0), Counts(data_sent=1_000_000_000)
    assert budget.take(cast("Session", counts), 0) is None
    counts.add("window_updates", (1 << 20) + 2000)

    assert budget.take(cast("Session", counts), 0) is None
    counts.add("window_updates")
    assert Flood.WINDOW_UPDATES is budget.take(cast("Session", counts), 0)


def test_resets_by_clients_that_have_waited() -> None:
    """A server hangs, and clients give up after a second: no flood, however long it takes."""
    budget, counts = FrameBudget(0), Counts()
    for second in range(60):
        for _ in range(1000):
            counts.add("resets")
            budget.reset_after(S)
        assert budget.take(cast("Session", counts), second * S) is None


def test_resets_by_clients_that_have_hardly_waited() -> None:
    """They are a flood; who waits later does not make up for it."""
    budget, counts = FrameBudget(0), Counts()
    for _ in range(501):
        counts.add("resets")
        budget.reset_after(S - 1)

    assert Flood.RESETS is budget.take(cast("Session", counts), 0)


def test_resets_beside_answers() -> None:
    budget, counts = FrameBudget(0), Counts()
    for _ in range(100_000):
        counts.requests += 2
        counts.add("resets")

        assert budget.take(cast("Session", counts), 0) is None


def test_what_was_saved_is_bounded() -> None:
    budget, counts = FrameBudget(0), Counts(requests=1_000_000)
    assert budget.take(cast("Session", counts), 86_400 * S) is None
    counts.add("others", 1001)

    assert Flood.CONTROL is budget.take(cast("Session", counts), 86_400 * S)
