"""Frames that bring nothing: how many a client may send."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest

from apfproxy.proxy.counters import Flood
from apfproxy.proxy.http2.frame_budget import FrameBudget

if TYPE_CHECKING:
    from apfproxy.proxy.http2.nghttp2 import Session

S = 1_000_000_000


@dataclass
class Frames:
    """Frames so far, and the budget that judges them."""

    requests: int = 0
    resets: int = 0
    own_resets: int = 0
    window_updates: int = 0
    empty_data: int = 0
    continuations: int = 0
    data_sent: int = 0
    others: int = 0
    nuisances: int = 0
    budget: FrameBudget = field(default_factory=lambda: FrameBudget(0))

    def add(self, kind: str, number: int = 1) -> None:
        setattr(self, kind, getattr(self, kind) + number)
        self.nuisances += number

    def judged(self, now_ns: int = 0) -> Flood | None:
        return self.budget.take(cast("Session", self), now_ns)


@pytest.mark.parametrize(
    ("kind", "flood"),
    [
        ("resets", Flood.RESETS),
        ("own_resets", Flood.RESETS),
        ("others", Flood.CONTROL),
        ("window_updates", Flood.WINDOW_UPDATES),
        ("empty_data", Flood.EMPTY_FRAMES),
        ("continuations", Flood.EMPTY_FRAMES),
    ],
)
def test_each_kind_has_an_end(kind: str, flood: Flood) -> None:
    """Many at once are a flood, which names its kind; a few each second never are."""
    for per_s, most in ((1_000_000, 2100), (20, 5000)):
        frames, found = Frames(), None
        while found is None and frames.nuisances < most:
            frames.add(kind)
            frames.requests += kind.endswith("resets")
            found = frames.judged((frames.nuisances - 1) * S // per_s)

        assert found is (flood if per_s > 20 else None)
        assert frames.nuisances > 100


def test_window_updates_for_what_was_sent() -> None:
    """A download takes two for each of its parts."""
    frames = Frames()
    for _ in range(10_000):
        frames.data_sent += 1
        frames.add("window_updates", 2)
        assert frames.judged() is None


def test_window_updates_that_come_late() -> None:
    """A client that was busy reads what came meanwhile, and says so at once."""
    frames = Frames()
    for _ in range(30):  # answers of 4 MiB each
        frames.requests += 1
        frames.data_sent += 256
        frames.add("others")
        assert frames.judged() is None
    frames.add("window_updates", 30 * 256 * 8)
    assert frames.judged() is None
    frames.add("window_updates", 2 * 30 + 2001)

    assert Flood.WINDOW_UPDATES is frames.judged()


def test_window_updates_that_are_kept_are_bounded() -> None:
    """As many as a client needs that has read nothing for as long as its window lets it."""
    frames = Frames(data_sent=1_000_000_000)
    assert frames.judged() is None
    frames.add("window_updates", (1 << 20) + 2000)
    assert frames.judged() is None
    frames.add("window_updates")

    assert Flood.WINDOW_UPDATES is frames.judged()


@pytest.mark.parametrize(("waited_ns", "flood"), [(S, None), (S - 1, Flood.RESETS)])
def test_resets_by_clients_that_have_waited(waited_ns: int, flood: Flood | None) -> None:
    """A server hangs, and clients give up after a second: no flood, however long it takes."""
    frames = Frames()
    for second in range(3):
        for _ in range(501):
            frames.add("resets")
            frames.budget.reset_after(waited_ns)
        assert flood is frames.judged(second * S)


def test_resets_beside_answers() -> None:
    frames = Frames()
    for _ in range(10_000):
        frames.requests += 2
        frames.add("resets")
        assert frames.judged() is None


def test_what_was_saved_is_bounded() -> None:
    frames = Frames(requests=1_000_000)
    assert frames.judged(86_400 * S) is None
    frames.add("others", 1001)

    assert Flood.CONTROL is frames.judged(86_400 * S)
