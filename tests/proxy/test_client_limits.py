"""Limits on clients, and when the proxy has too much to do itself."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.base.sockets import UNIX_PEER, address_of
from apfproxy.proxy.client_limits import (
    LARGE_HEAD_BYTES,
    MIN_CONNECTIONS,
    SPARE_DESCRIPTORS,
    ClientLimits,
    Holding,
    Holdings,
)
from apfproxy.proxy.counters import Bound, ListenerCounters, Refusal
from apfproxy.proxy.overload import SWEEPS_PER_TRIM, Overload
from apfproxy.settings import DownstreamSettings, LimitSettings, OverloadSettings
from tests.proxy.fakes import Bench, FakeTransport, body, status

if TYPE_CHECKING:
    from collections.abc import Sequence


def limits(**settings: Any) -> tuple[ClientLimits, ListenerCounters]:  # noqa: ANN401  by their names
    counters = ListenerCounters()
    return ClientLimits(LimitSettings(**settings), counters), counters


@pytest.mark.parametrize(
    ("settings", "arrivals", "refusals"),
    [
        pytest.param({"max_connections": 2}, "abc", [None, None, Refusal.CONNECTIONS], id="all"),
        pytest.param({"max_connections": None}, "aaa", [None] * 3, id="none"),
        ({"max_connections_per_address": 1}, "aba", [None, None, Refusal.CONNECTIONS_OF_ADDRESS]),
        pytest.param({"max_connections_per_address": 1}, [UNIX_PEER] * 3, [None] * 3, id="unix"),
    ],
)
def test_admits_up_to_the_limit(
    settings: dict[str, int | None], arrivals: Sequence[str], refusals: list[Refusal | None]
) -> None:
    subject, counters = limits(**settings)

    assert refusals == [subject.admit(address) for address in arrivals]
    refused = [refusal for refusal in refusals if refusal is not None]
    assert len(refused) == sum(counters.connections_refused.values())
    assert len(arrivals) - len(refused) == counters.connections_accepted
    assert counters.connections_accepted == counters.connections_open


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        (("192.0.2.1", 5), "192.0.2.1"),
        (("::ffff:192.0.2.1", 5, 0, 0), "192.0.2.1"),
        (("fe80::1%eth0", 5, 0, 3), "fe80::1"),
        ("", UNIX_PEER),
        (None, "unknown"),
    ],
)
def test_an_address_has_one_form(bench: Bench, peer: object, address: str) -> None:
    assert address == address_of(FakeTransport(bench.loop, peer))


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("maxConnections", LimitSettings(max_connections=1)),
        ("maxConnectionsPerAddress", LimitSettings(max_connections_per_address=1)),
    ],
)
def test_one_too_many_is_told(name: str, limits: LimitSettings) -> None:
    with Bench(downstream=DownstreamSettings(limits=limits)) as bench:
        first, second = bench.client(), bench.client()
        answer = second.take()
        assert b"503" == status(answer)
        assert f"downstream.limits.{name})" in json.loads(body(answer))["message"]
        assert b"\r\nConnection: close\r\n" in answer
        assert "close" == second.ended_by
        assert {503: 1} == bench.counters.listener.own_responses
        bench.loop.run_ready()
        assert 1 == bench.counters.listener.connections_open

        bench.end(first)
        third = bench.client()
        assert (b"", "") == (third.take(), third.ended_by)


@pytest.mark.parametrize(
    ("descriptors", "upstream", "questions", "most"),
    [
        pytest.param(10_000 + SPARE_DESCRIPTORS, 5000, 0, None, id="enough"),
        pytest.param(9_000 + SPARE_DESCRIPTORS, 5000, 32, 4500, id="one-each"),
        pytest.param(4_500 + SPARE_DESCRIPTORS, 1000, 0, 3500, id="few-of-the-upstream"),
        pytest.param(9_000 + SPARE_DESCRIPTORS, 5000, 1032, 4000, id="many-questions"),
        pytest.param(100, 5000, 0, MIN_CONNECTIONS, id="hardly-any"),
    ],
)
def test_fits_descriptors(
    descriptors: int, upstream: int, questions: int, most: int | None
) -> None:
    subject, _ = limits(max_connections=5000)

    assert most == subject.fit(descriptors, upstream, questions)
    assert (most or 5000) == subject.max_connections


# Bytes that wait.

MOST, MOST_OF_CONNECTION = 100, 40


def holdings_of(of_address: int | None = None, most: int | None = MOST) -> Holdings:
    limits = LimitSettings(
        max_held_bytes=most,
        max_held_bytes_per_address=of_address,
        max_held_bytes_per_connection=MOST_OF_CONNECTION,
    )
    return Holdings(DownstreamSettings(limits=limits), ListenerCounters())


@pytest.mark.parametrize(
    ("of_address", "held", "address", "more", "expected"),
    [
        (None, (), "a", 40, None),
        (None, (), "a", 41, Bound.CONNECTION),
        (None, ("a",), "a", 10, None),
        (None, ("a",), "a", 11, Bound.ADDRESS),
        (None, ("a", "b"), "c", 10, None),
        (None, ("a", "b"), "c", 11, Bound.ADDRESS),
        (None, ("a", "b"), "c", 21, Bound.PROCESS),
        (45, ("a",), "a", 5, None),
        (45, ("a",), "a", 6, Bound.ADDRESS),
        (None, (UNIX_PEER,), UNIX_PEER, 40, None),
        (None, ("a", "b", UNIX_PEER), UNIX_PEER, 1, Bound.PROCESS),
    ],
)
def test_bounds(
    of_address: int | None, held: tuple[str, ...], address: str, more: int, expected: Bound | None
) -> None:
    holdings = holdings_of(of_address)
    for each in held:
        size = min(MOST_OF_CONNECTION, MOST - holdings.counters.held_bytes)
        holdings.by_address[each] = holdings.by_address.get(each, 0) + size
        holdings.counters.held_bytes += size
    before, by_address = holdings.counters.held_bytes, dict(holdings.by_address)

    assert expected == Holding(holdings, address).change(more)
    refusals = {bound: count for bound, count in holdings.counters.held_refusals.items() if count}
    if expected is None:
        assert (before + more, {}) == (holdings.counters.held_bytes, refusals)
    else:
        assert (before, by_address) == (holdings.counters.held_bytes, holdings.by_address)
        assert {expected: 1} == refusals


def test_less() -> None:
    holdings = holdings_of()
    holding = Holding(holdings, "a")
    assert None is holding.change(30)
    holdings.set_short(is_short=True)
    holdings.configure(DownstreamSettings(limits=LimitSettings(max_held_bytes=1)))

    assert Bound.OVERLOAD is holding.change(1)
    assert None is holding.change(-10)
    assert (20, 20, {"a": 20}) == (holding.held, holdings.counters.held_bytes, holdings.by_address)
    assert None is holding.change(-20)
    assert (0, {}) == (holdings.counters.held_bytes, holdings.by_address)
    assert 0 > holdings.free_bytes  # so every request asks, however small it is
    holdings.set_short(is_short=False)
    assert LARGE_HEAD_BYTES == holdings.free_bytes


MS = 1_000_000
MIB = 1 << 20


class Watched:
    def __init__(self, **settings: float | None) -> None:
        self.counters = ListenerCounters()
        self.limits = ClientLimits(LimitSettings(), self.counters)
        self.used_mib = 10
        self.looks = self.trims = 0
        self.free_mib = 0
        self.overload = Overload(
            OverloadSettings(**settings),  # type: ignore[arg-type]  # by name
            self.limits,
            self.counters,
            self._memory,
            self._give_back,
        )

    def _memory(self) -> int:
        self.looks += 1
        return self.used_mib * MIB

    def _give_back(self) -> None:
        self.trims += 1
        self.used_mib -= self.free_mib
        self.free_mib = 0

    def after(self, *late_ms: int) -> Refusal | None:
        for each in late_ms:
            self.overload.on_sweep(each * MS)
        return self.limits.shed

    def with_memory(self, used_mib: int) -> Refusal | None:
        self.used_mib = used_mib
        return self.after(*[0] * SWEEPS_PER_TRIM)


@pytest.mark.parametrize(
    ("late_ms", "sheds"),
    [
        *(((0, 499), False), ((0, 5000, 499), False), ((500, 0, 500), False)),
        *(((0, 500, 500), True), ((500, 500, 0), True), ((500, 500, 0, 0), False)),
        ((500, 500, 0, 300), True),  # late again before it has recovered
        ((300, 300, 300), False),
        ((500, 500, 300, 300), True),  # still a bit late
    ],
)
def test_loop_that_stays_late(late_ms: tuple[int, ...], *, sheds: bool) -> None:
    watched, told = Watched(loop_delay_s=0.5), Watched(loop_delay_s=None)

    assert sheds is (Refusal.LOOP_DELAY is watched.after(*late_ms))
    assert sheds is watched.counters.overloads[Refusal.LOOP_DELAY]
    assert None is told.after(*late_ms, 0, 0, 0, 0, 800, 0)
    assert 400 * MS == told.counters.loop_delay_ns > 0 == told.looks


def test_sheds_from_the_limit_of_memory_on_until_there_is_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log has a line when it begins, and one when it ends."""
    caplog.set_level(logging.INFO)
    watched = Watched(memory_bytes=160 * MIB, loop_delay_s=0.5)
    found = [watched.with_memory(used) for used in (159, 200, 160, 150, 149, 159)]
    watched.after(700, 800, 900, 0, 0, 0, 0)

    assert [None, *[Refusal.MEMORY] * 3, None, None] == found
    assert not watched.overload.is_memory_short
    assert [
        (
            "200 MiB of memory are in use, of at most 160: new connections and requests are"
            " refused, idle connections closed"
        ),
        "149 MiB of memory are in use: connections and requests are taken again",
        "the event loop is 0.7 s late: new connections are shed",
        "the event loop is in time again: connections are taken",
    ] == caplog.messages


def test_free_memory_goes_back_to_the_system_before_it_counts() -> None:
    watched = Watched(memory_bytes=160 * MIB)
    watched.free_mib = 20

    assert None is watched.with_memory(170)
    assert (150, 1) == (watched.used_mib, watched.trims)
    watched.used_mib = watched.free_mib = 170
    assert None is watched.after(0)
    assert 2 == watched.trims
    watched.used_mib, watched.free_mib = 170, 30
    assert Refusal.MEMORY is watched.after(0)
    assert None is watched.after(*[0] * SWEEPS_PER_TRIM)
    assert 3 == watched.trims


def test_sheds_while_either_lasts_and_the_settings_say_so() -> None:
    watched = Watched(memory_bytes=160 * MIB, loop_delay_s=0.5)
    assert Refusal.MEMORY is watched.with_memory(200)
    assert Refusal.LOOP_DELAY is watched.after(600, 600)
    assert Refusal.MEMORY is watched.after(0, 0)
    watched.after(600, 600)
    watched.overload.configure(OverloadSettings(loop_delay_s=None, memory_bytes=210 * MIB))
    assert Refusal.MEMORY is watched.limits.shed
    assert None is watched.with_memory(190)

    watched.with_memory(220)
    watched.overload.configure(OverloadSettings(loop_delay_s=None, memory_bytes=None))
    assert None is watched.limits.shed
