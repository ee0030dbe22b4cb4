"""What clients may take: connections in all and of one address, and what is said to more."""

from __future__ import annotations

import json
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
from apfproxy.settings import DownstreamSettings, LimitSettings
from tests.proxy.fakes import GET, Bench, FakeTransport, body, status

if TYPE_CHECKING:
    from collections.abc import Sequence


def limits(**settings: Any) -> tuple[ClientLimits, ListenerCounters]:  # noqa: ANN401  by their names
    counters = ListenerCounters()
    return ClientLimits(LimitSettings(**settings), counters), counters


def bench_with(**settings: Any) -> Bench:  # noqa: ANN401  by their names
    return Bench(downstream=DownstreamSettings(limits=LimitSettings(**settings)))


@pytest.mark.parametrize(
    ("settings", "arrivals", "refusals"),
    [
        pytest.param({"max_connections": 2}, "abc", [None, None, Refusal.CONNECTIONS], id="all"),
        pytest.param({"max_connections": None}, "aaa", [None] * 3, id="none"),
        pytest.param(
            {"max_connections_per_address": 1},
            "aba",
            [None, None, Refusal.CONNECTIONS_OF_ADDRESS],
            id="of-address",
        ),
        pytest.param({"max_connections_per_address": 1}, [UNIX_PEER] * 3, [None] * 3, id="unix"),
    ],
)
def test_admits_up_to_the_limit(
    settings: dict[str, int | None], arrivals: Sequence[str], refusals: list[Refusal | None]
) -> None:
    """One more is refused with the limit that it is over, and counted so."""
    subject, counters = limits(**settings)

    assert refusals == [subject.admit(address) for address in arrivals]
    refused = [refusal for refusal in refusals if refusal is not None]
    assert len(refused) == sum(counters.connections_refused.values())
    assert len(arrivals) - len(refused) == counters.connections_accepted
    assert counters.connections_accepted == counters.connections_open


@pytest.mark.parametrize("settings", [{"max_connections": 1}, {"max_connections_per_address": 1}])
def test_release_makes_room(settings: dict[str, int | None]) -> None:
    """What a connection counted for is given back; nothing is kept of its address."""
    subject, counters = limits(**settings)
    for _ in range(3):
        assert None is subject.admit("a")
        assert None is not subject.admit("a")
        subject.release("a")

    assert {} == subject._by_address  # noqa: SLF001  nothing else tells
    assert 0 == counters.connections_open
    assert 3 == counters.connections_accepted


def test_other_limits() -> None:
    """They count what was taken before, and let it go."""
    subject, _ = limits()
    for address in "aab":
        subject.admit(address)
    subject.configure(LimitSettings(max_connections=4, max_connections_per_address=2))

    assert [Refusal.CONNECTIONS_OF_ADDRESS, None, Refusal.CONNECTIONS] == [
        subject.admit(address) for address in "abc"
    ]
    subject.release("a")
    assert None is subject.admit("a")


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        pytest.param(("192.0.2.1", 5), "192.0.2.1", id="ipv4"),
        pytest.param(("::ffff:192.0.2.1", 5, 0, 0), "192.0.2.1", id="mapped"),
        pytest.param(("2001:db8::1", 5, 0, 0), "2001:db8::1", id="ipv6"),
        pytest.param(("fe80::1%eth0", 5, 0, 3), "fe80::1", id="zone"),
        pytest.param("", UNIX_PEER, id="unix"),
        pytest.param(None, "unknown", id="gone"),
    ],
)
def test_address_of(bench: Bench, peer: object, address: str) -> None:
    """An address has one form only."""
    assert address == address_of(FakeTransport(bench.loop, peer))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        pytest.param({"max_connections": 1}, "downstream.limits.maxConnections)", id="all"),
        pytest.param(
            {"max_connections_per_address": 1},
            "downstream.limits.maxConnectionsPerAddress)",
            id="of-address",
        ),
    ],
)
def test_one_too_many_is_told(settings: dict[str, int | None], said: str) -> None:
    """It gets a 503 that names the limit, and is closed; the others go on."""
    with bench_with(**settings) as bench:
        first, second = bench.client(), bench.client()
        answer = second.take()
        assert b"503" == status(answer)
        assert said in json.loads(body(answer))["message"]
        assert b"\r\nConnection: close\r\n" in answer
        assert "close" == second.ended_by
        assert {503: 1} == bench.counters.listener.own_responses
        bench.loop.run_ready()
        assert 1 == bench.counters.listener.connections_open

        bench.send(first, GET)
        assert b"GET" == bench.upstreams[0].take()[:3]
        bench.end(first)
        third = bench.client()
        assert (b"", "") == (third.take(), third.ended_by)


def test_shed_connection_is_cut() -> None:
    """Without a word, which would be more work."""
    with bench_with(max_connections=0) as bench:
        bench.context.listener.limits.shed = Refusal.LOOP_DELAY
        client = bench.client()
        assert 1 == bench.counters.listener.connections_refused[Refusal.LOOP_DELAY]
        bench.loop.run_ready()

        assert (b"", "abort") == (client.take(), client.ended_by)
        assert 0 == len(bench.context.listener.connections)


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
    """Each connection may need one of the upstream too, of which there is a limit."""
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
    """It goes back, also while memory is short and bounds are lower by now."""
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
