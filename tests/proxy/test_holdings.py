"""Bytes of clients that wait, and their bounds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from apfproxy.proxy import holdings as holdings_module
from apfproxy.proxy.client_limits import UNIX_PEER
from apfproxy.proxy.counters import Bound, ListenerCounters
from apfproxy.proxy.holdings import LARGE_BYTES, Holdings, available_bytes, default_bytes
from apfproxy.settings import DownstreamSettings, LimitSettings, OverloadSettings

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
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
    assert LARGE_BYTES == holdings.free_bytes
    holdings.set_short(is_short=True)
    assert 0 > holdings.free_bytes
    assert Bound.OVERLOAD is holdings.holding("a").change(1)

    holdings.set_short(is_short=False)
    assert LARGE_BYTES == holdings.free_bytes
    assert None is holdings.holding("a").change(1)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param(("max",), 64 * MIB, id="of-the-machine"),
        pytest.param((f"{64 * MIB}\n",), 64 * MIB, id="of-a-container"),
        pytest.param((None, str(100 * MIB)), 64 * MIB, id="more-than-there-is"),
        pytest.param((None, str(32 * MIB)), 32 * MIB, id="of-an-older-container"),
        pytest.param((None,), 64 * MIB, id="of-no-container"),
    ],
)
def test_available_memory(
    limits: tuple[str | None, ...],
    expected: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is what the kernel lets the process have."""
    paths = []
    for number, limit in enumerate(limits):
        paths.append(tmp_path / str(number))
        if limit is not None:
            paths[-1].write_text(limit)
    monkeypatch.setattr(holdings_module, "CGROUP_LIMITS", tuple(paths))
    pages = {"SC_PHYS_PAGES": 64, "SC_PAGE_SIZE": MIB}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)

    assert expected == available_bytes()


@pytest.mark.parametrize(
    ("available", "memory_bytes", "expected"),
    [
        pytest.param(1 << 40, None, 128 * MIB, id="of-much-memory"),
        pytest.param(256 * MIB, None, 64 * MIB, id="of-a-small-container"),
        pytest.param(1 << 40, 150 * MIB, 50 * MIB, id="of-an-overload-by-memory"),
        pytest.param(16 * MIB, None, 8 * MIB, id="of-hardly-any"),
    ],
)
def test_default(
    available: int, memory_bytes: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves most of the memory to all else."""
    monkeypatch.setattr(holdings_module, "available_bytes", lambda: available)

    assert expected == default_bytes(memory_bytes)
    assert OverloadSettings().memory_bytes is None
