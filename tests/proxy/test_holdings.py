"""Bytes of clients that wait, and their bounds."""

from __future__ import annotations

import pytest

from apfproxy.base.sockets import UNIX_PEER
from apfproxy.proxy.counters import Bound, ListenerCounters
from apfproxy.proxy.holdings import LARGE_HEAD_BYTES, Holdings
from apfproxy.settings import DownstreamSettings, LimitSettings

MOST, MOST_OF_CONNECTION = 100, 40


def holdings_of(of_address: int | None = None, most: int | None = MOST) -> Holdings:
    """Small bounds."""
    limits = LimitSettings(
        max_held_bytes=most,
        max_held_bytes_per_address=of_address,
        max_held_bytes_per_connection=MOST_OF_CONNECTION,
    )
    return Holdings(DownstreamSettings(limits=limits), ListenerCounters())


@pytest.mark.parametrize(
    ("of_address", "held", "address", "more", "expected"),
    [
        pytest.param(None, (), "a", 40, None, id="as-much-as-a-connection-may"),
        pytest.param(None, (), "a", 41, Bound.CONNECTION, id="more-than-a-connection-may"),
        pytest.param(None, ("a",), "a", 10, None, id="half-of-it-all-for-one-address"),
        pytest.param(None, ("a",), "a", 11, Bound.ADDRESS, id="more-than-half-for-one-address"),
        pytest.param(None, ("a", "b"), "c", 10, None, id="what-is-left-for-one-that-comes-later"),
        pytest.param(None, ("a", "b"), "c", 11, Bound.ADDRESS, id="but-half-of-that"),
        pytest.param(None, ("a", "b"), "c", 21, Bound.PROCESS, id="more-than-is-left"),
        pytest.param(None, ("a", "b"), "a", 1, Bound.ADDRESS, id="no-more-for-one-that-has-much"),
        pytest.param(45, ("a",), "a", 5, None, id="a-bound-of-its-own"),
        pytest.param(45, ("a",), "a", 6, Bound.ADDRESS, id="over-it"),
        pytest.param(None, (UNIX_PEER,), UNIX_PEER, 40, None, id="a-socket-is-no-address"),
        pytest.param(None, ("a", "b", UNIX_PEER), UNIX_PEER, 1, Bound.PROCESS, id="but-bounded"),
    ],
)
def test_bounds(
    of_address: int | None, held: tuple[str, ...], address: str, more: int, expected: Bound | None
) -> None:
    """What is over one is refused and counted, and changes nothing else."""
    holdings = holdings_of(of_address)
    for each in held:
        holdings.change(each, min(MOST_OF_CONNECTION, MOST - holdings.counters.held_bytes))
    before, by_address = holdings.counters.held_bytes, dict(holdings.by_address)

    assert expected == holdings.holding(address).change(more)
    refusals = {bound: count for bound, count in holdings.counters.held_refusals.items() if count}
    if expected is None:
        assert (before + more, {}) == (holdings.counters.held_bytes, refusals)
    else:
        assert (before, by_address) == (holdings.counters.held_bytes, holdings.by_address)
        assert {expected: 1} == refusals


def test_less() -> None:
    """It goes back, also while memory is short and bounds are lower by now."""
    holdings = holdings_of()
    holding = holdings.holding("a")
    assert None is holding.change(30)
    holdings.set_short(is_short=True)
    holdings.configure(DownstreamSettings(limits=LimitSettings(max_held_bytes=1)))

    assert Bound.OVERLOAD is holding.change(1)
    assert None is holding.change(-10)
    assert (20, 20, {"a": 20}) == (holding.held, holdings.counters.held_bytes, holdings.by_address)
    assert None is holding.change(-20)
    assert (0, {}) == (holdings.counters.held_bytes, holdings.by_address)


def test_short_memory() -> None:
    """Every request asks then, however small it is."""
    holdings = holdings_of()
    assert LARGE_HEAD_BYTES == holdings.free_bytes
    holdings.set_short(is_short=True)
    assert 0 > holdings.free_bytes
    assert Bound.OVERLOAD is holdings.holding("a").change(1)

    holdings.set_short(is_short=False)
    assert LARGE_HEAD_BYTES == holdings.free_bytes
    assert None is holdings.holding("a").change(1)
