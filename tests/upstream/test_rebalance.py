"""Watches that are ended so that others of the servers get them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest
from msgspec.structs import replace

from apfproxy.http.websocket_frames import GOING_AWAY
from apfproxy.settings import Address, EndpointAddress, RebalanceSettings, UpstreamSettings
from apfproxy.upstream.counters import PoolCounters
from apfproxy.upstream.rebalance import OLD_S, PERIOD_S, Rebalancing, watches_of
from tests.proxy.fakes import CHUNKED_OK, GET, LOG, WATCH, Bench, S
from tests.proxy.test_tunnel import AGREED, EXEC
from tests.proxy.test_tunnel import WATCH as WATCH_BY_TUNNEL

if TYPE_CHECKING:
    from apfproxy.upstream.pool import Pool
    from apfproxy.upstream.response_sink import ResponseSink


class Response:
    """A response that lasts: a watch, or something else that is no watch."""

    def __init__(self, server: Server, *, is_watch: bool = True, since_s: float = 0.0) -> None:
        self.watching_ns = round((1 + since_s) * S) if is_watch else 0
        self.can_end_watch = is_watch
        self.error: Exception | None = None
        self.failed: Exception | None = None
        self._server = server
        self.sink = self if is_watch else None
        self.tunnelled = None if is_watch else self

    def end_watch(self) -> None:
        if self.error is not None:
            raise self.error
        self._server.open.remove(self)

    def fail(self, error: Exception) -> None:
        self.failed = error


class Server:
    """An endpoint with connections to watches and tunnels, which are taken for the connections."""

    def __init__(self, watches: int, weight: int = 1, tunnels: int = 0) -> None:
        self.address = EndpointAddress(address=Address(host="h", port=1), weight=weight)
        self.is_well = True
        self.open = [Response(self) for _ in range(watches)]
        self.open += [Response(self, is_watch=False) for _ in range(tunnels)]


class Servers:
    """A pool, its rebalancing, and the time."""

    def __init__(self, *servers: Server, percent: int = 100) -> None:
        self.endpoints = servers
        self.counters = PoolCounters()
        self.now_ns = S
        self.is_steady = True
        self.settings = UpstreamSettings(rebalance=RebalanceSettings(percent_per_minute=percent))
        self.rebalancing = Rebalancing(
            self.settings,
            cast("Pool", self),
            self.counters,
            asyncio.get_running_loop(),
            lambda: self.now_ns,
            lambda: self.is_steady,
        )

    def minutes(self, count: float = 1.0) -> list[int]:
        for _ in range(round(count * 60 / PERIOD_S)):
            self.now_ns += round(PERIOD_S * S)
            self.rebalancing.look()
        return [len(each.open) for each in self.endpoints]


async def test_share_of_what_is_over_is_ended_in_a_minute() -> None:
    servers = Servers(Server(1500), Server(1500), Server(0), percent=5)
    assert [1500, 1500, 0] == servers.minutes(0.9)  # nothing is old yet
    servers.minutes(0.1)
    first = sum(servers.minutes(0.1))
    assert 2990 <= first < 3000
    found = servers.minutes(0.9)

    # 500 each are over; 5 % of that, and less as they become fewer.
    assert 2945 <= sum(found) <= 2955
    assert 3000 - sum(found) == servers.counters.rebalanced


async def test_until_it_is_in_balance() -> None:
    servers = Servers(Server(15), Server(15), Server(0))
    servers.minutes(1)
    counts = servers.minutes(10)
    # No client asks again here, so that the fair share shrinks with each end.
    part = sum(counts) / 3
    assert max(counts) <= part + max(1.0, 0.1 * part)

    assert counts == servers.minutes(60)
    few = Servers(Server(4), Server(0), percent=5)
    few.minutes(1)
    assert [3, 0] == few.minutes(1)  # one is ended at least


@pytest.mark.parametrize(
    "servers",
    [
        *([(count,) for count in counts] for counts in ((1, 0), (2, 0), (2, 1, 1), (2, 2, 1))),
        *([(11,), (10,), (9,)], [(110,), (100,), (90,)], [(300, 3), (100,)], [(5, 1, 95), (3,)]),
    ],
    ids=str,
)
async def test_little_more_than_the_part_by_weight_ends_nothing(
    servers: list[tuple[int, ...]],
) -> None:
    """Tunnels do not count."""
    counts = [sum((each[0], *each[2:])) for each in servers]

    assert counts == Servers(*(Server(*each) for each in servers)).minutes(10)


async def test_fair_share_is_by_weight() -> None:
    few, many = Servers(Server(200, weight=1), Server(200, weight=3)).minutes(3)

    assert (200, True) == (many, few < 110)


@pytest.mark.parametrize("case", ["off", "alone", "starting", "failing"])
async def test_when_nothing_is_ended(case: str) -> None:
    one, other = Server(100), Server(0)
    servers = Servers(one) if case == "alone" else Servers(one, other)
    servers.is_steady = case != "starting"
    if case == "off":
        off = RebalanceSettings(percent_per_minute=0)
        servers.rebalancing.configure(replace(servers.settings, rebalance=off))
    if case == "failing":
        other.is_well = False
    servers.minutes(5)

    assert 100 == len(one.open)


async def test_watches_that_stay() -> None:
    """Watches within an event, young ones, and tunnels."""
    one = Server(50, tunnels=3)
    one.open += [Response(one, since_s=OLD_S) for _ in range(50)]
    for each in one.open[:10]:
        each.can_end_watch = False
    staying = {*one.open[:10], *one.open[50:]}
    servers = Servers(one, Server(0))
    servers.minutes(1.9)

    assert staying <= set(one.open)
    assert len(one.open) < 103


async def test_error_of_the_program_is_of_one_watch_alone() -> None:
    one = Server(100)
    for answer in one.open[:50]:
        answer.error = KeyError("a bug")
    servers = Servers(one, Server(0))
    servers.minutes(3)

    assert any(each.failed is each.error is not None for each in one.open)
    assert len(one.open) < 100


def watches(bench: Bench) -> list[ResponseSink]:
    [endpoint] = bench.pool.endpoints
    return watches_of(endpoint)


@pytest.mark.parametrize(("part", "is_within"), [(b"5\r\neve", True), (b"5\r\nevent\r\n", False)])
def test_watch_is_ended_between_events_only(bench: Bench, part: bytes, *, is_within: bool) -> None:
    client = bench.ask(WATCH)
    assert [] == watches(bench)
    bench.send(bench.upstreams[0], CHUNKED_OK + part)
    [response] = watches(bench)
    assert (not is_within, S) == (response.can_end_watch, response.watching_ns)
    if is_within:
        return
    client.take()
    response.end_watch()

    assert (b"0\r\n\r\n", True) == (client.take(), client.has_eof)
    assert (0, []) == (response.watching_ns, watches(bench))
    bench.assert_at_rest()


def test_tunnel_is_none_but_of_a_watch(bench: Bench) -> None:
    bench.ask(EXEC)
    bench.connect()
    bench.send(bench.upstreams[-1], AGREED)
    assert [] == watches(bench)
    client = bench.ask(WATCH_BY_TUNNEL)
    bench.connect()
    bench.send(bench.upstreams[-1], AGREED)
    client.take()
    [response] = watches(bench)
    assert response.can_end_watch
    response.end_watch()

    assert (GOING_AWAY, False) == (client.take(), response.can_end_watch)


@pytest.mark.parametrize("request_", [GET, LOG])
def test_other_responses_are_no_watches(bench: Bench, request_: bytes) -> None:
    bench.ask(request_)
    bench.send(bench.upstreams[0], CHUNKED_OK + b"5\r\nevent\r\n")
    assert [] == watches(bench)
