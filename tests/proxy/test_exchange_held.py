"""Requests that wait are counted and bounded; seats are kept while an upstream works on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.proxy.abandoned import MAX_DISCARDED_BYTES
from apfproxy.proxy.counters import Bound
from apfproxy.settings import (
    Address,
    DownstreamSettings,
    LimitSettings,
    UpstreamSettings,
    WatchSettings,
)
from tests.proxy.fakes import (
    CHUNKED_OK,
    CHUNKED_POST,
    GET,
    OK,
    POST,
    WATCH,
    Bench,
    broken,
    connection_of,
    status,
)
from tests.proxy.test_tunnel import EXEC

if TYPE_CHECKING:
    from collections.abc import Callable

LARGE_FIELDS = b"".join(b"X-%d: %b\r\n" % (each, b"y" * 1000) for each in range(5))
LARGE_GET = GET[:-2] + LARGE_FIELDS + b"\r\n"
LARGER_GET = LARGE_GET[:-2] + LARGE_FIELDS.replace(b"X-", b"Y-") + b"\r\n"
WAITING_POST = POST + b"\r\nb"


def holding(
    *, most: int | None = None, gathered_body_bytes: int = 8, idle_upstreams: int = 1
) -> Bench:
    limits = LimitSettings(max_held_bytes=most)
    return Bench(
        gathered_body_bytes=gathered_body_bytes,
        idle_upstreams=idle_upstreams,
        downstream=DownstreamSettings(limits=limits),
    )


def held(bench: Bench) -> int:
    return bench.counters.listener.held_bytes


def test_gathered_body() -> None:
    with holding() as bench:
        client = bench.ask(WAITING_POST)
        before = held(bench)
        assert len(WAITING_POST) <= before < 3 * len(WAITING_POST)
        bench.send(client, b"od")
        assert before + 2 == held(bench)
        bench.send(client, b"y")
        assert 0 == held(bench)
        bench.send(bench.upstreams[0], OK)
        bench.assert_at_rest(client)


def test_queued_request() -> None:
    with holding(idle_upstreams=0) as bench:
        first, second = bench.ask(GET), bench.ask(GET)
        assert 2 * len(GET) <= held(bench) < 8 * len(GET)
        bench.connect()
        assert len(GET) <= held(bench) < 4 * len(GET)
        bench.send(bench.upstreams[0], OK)
        assert 0 == held(bench)
        bench.send(bench.upstreams[0], OK)
        assert b"200" == status(second.take())
        bench.assert_at_rest(first, second)


@pytest.mark.parametrize("count", [1, 3, 4999])
def test_large_head(count: int) -> None:
    with holding() as bench:
        client = bench.ask(LARGE_GET[:-count])
        assert (len(LARGE_GET) - count if count < 4999 else 0) == held(bench)
        bench.send(client, LARGE_GET[-count:])
        bench.send(bench.upstreams[0], OK)
        assert 0 == held(bench)
        bench.upstreams[0].take()
        bench.send(client, LARGER_GET)
        assert len(LARGER_GET) <= held(bench) < len(LARGER_GET) + 500
        assert LARGE_FIELDS in bench.upstreams[0].take()
        bench.send(bench.upstreams[0], OK)
        assert 0 == held(bench)
        bench.send(client, LARGE_GET[:-1])
        bench.assert_at_rest(client)


def test_requests_behind_one_another() -> None:
    with holding() as bench:
        client = bench.ask(GET)
        bench.send(client, GET * 100)
        assert 100 * len(GET) == held(bench)
        for _ in range(100):
            bench.send(bench.upstreams[0], OK)
            bench.loop.run_ready()
        assert 0 == held(bench)
        bench.assert_at_rest(client)


@pytest.mark.parametrize("request_", [*(WAITING_POST, GET, LARGE_GET, LARGE_GET[:-2])])
def test_no_room_for_a_request(request_: bytes) -> None:
    with holding(most=20) as bench:
        first = bench.ask(GET)
        second = bench.ask(request_)
        answer = second.take()

        assert b"503" == status(answer)
        assert b"Retry-After: 1\r\n" in answer
        assert b"downstream.limits.maxHeldBytes" in answer
        assert 1 == bench.counters.listener.held_refusals[Bound.PROCESS]
        bench.send(bench.upstreams[0], OK)
        assert b"200" == status(first.take())
        bench.assert_at_rest(first, second)


def test_an_upgrade_while_memory_is_short() -> None:
    with holding() as bench:
        bench.listener.holdings.set_short(is_short=True)
        client = bench.ask(EXEC)
        response = client.take()
        bench.send(client, GET)

        assert b"503" == status(response)
        assert b"\r\nConnection: close\r\n" in response
        assert b"" == client.take()


@pytest.mark.parametrize(
    ("parts", "expected"),
    [((0,), b"408"), ((1,), b"408"), ((1500, 1500), b""), ((30000, 0), b"408")],
)
def test_body_that_comes_slowly(parts: tuple[int, ...], expected: bytes) -> None:
    with holding(gathered_body_bytes=32768) as bench:
        client = bench.ask(POST.replace(b"4", b"32000") + b"\r\nb")
        for size in parts:
            bench.send(client, b"c" * size)
            bench.wait(5)

        assert expected == status(client.take())
        if expected:
            assert 0 == held(bench)
        bench.assert_at_rest(client)


WAIT_S = 30.0


def bench_with() -> Bench:
    url = Address(host="upstream", port=80)
    return Bench(upstream=UpstreamSettings(url=url, abandoned_wait_s=WAIT_S))


def assert_abandoned(bench: Bench, *, given_up: int = 0) -> None:
    assert "abort" == bench.upstreams[0].ended_by
    assert (1, given_up) == (bench.counters.abandoned_requests, bench.counters.abandoned_given_up)
    assert {} == bench.context.abandoned
    bench.assert_at_rest()


def leave_at_work(bench: Bench) -> None:
    bench.end(bench.ask(GET))


def leave_half_way(bench: Bench) -> None:
    client = bench.ask(GET)
    bench.send(bench.upstreams[0], CHUNKED_OK)
    bench.end(client)


def leave_unread(bench: Bench) -> None:
    client = bench.ask(GET)
    bench.send(bench.upstreams[0], CHUNKED_OK)
    connection_of(client).pause_writing()
    bench.send(bench.upstreams[0], b"4\r\nmore\r\n")
    assert not bench.upstreams[0].reads
    bench.end(client)


def break_the_body(bench: Bench) -> None:
    client = bench.ask(CHUNKED_POST + b"\r\n4\r\nbo")
    bench.send(client, b"dyXX")
    assert b"400" == status(client.take())


def answer_too_late(bench: Bench) -> None:
    client = bench.ask(GET)
    bench.wait(60)
    assert b"504" == status(client.take())


WAYS_OUT = (leave_at_work, leave_half_way, leave_unread, break_the_body, answer_too_late)


@pytest.mark.parametrize("abandon", WAYS_OUT)
def test_seats_are_kept_until_the_answer(abandon: Callable[[Bench], None]) -> None:
    with bench_with() as bench:
        abandon(bench)
        second = bench.ask(GET)

        assert (1, 1, 0) == bench.use()
        upstream = bench.upstreams[0]
        assert (False, True, "") == (upstream.has_eof, upstream.reads, upstream.ended_by)
        has_begun = abandon in (leave_half_way, leave_unread)
        bench.send(upstream, b"4\r\nmore\r\n0\r\n\r\n" if has_begun else OK)
        assert (1, 0, 1) == bench.use()
        bench.end(second)
        assert_abandoned(bench)


@pytest.mark.parametrize("abandon", WAYS_OUT)
def test_not_for_ever(abandon: Callable[[Bench], None]) -> None:
    with bench_with() as bench:
        abandon(bench)
        bench.clock.run_until(bench.clock.now_ns() + round(WAIT_S * 1e9) - 1)
        assert (1, 0, 0) == bench.use()
        bench.clock.run_until(bench.clock.now_ns() + 1)

        assert_abandoned(bench, given_up=1)


def test_a_long_answer_is_cut() -> None:
    with bench_with() as bench:
        leave_half_way(bench)
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        for _ in range(MAX_DISCARDED_BYTES // 0x10000):
            bench.send(bench.upstreams[0], chunk)
        assert (1, 0, 0) == bench.use()
        bench.send(bench.upstreams[0], chunk)

        assert_abandoned(bench)


def test_a_watch_is_held_no_longer_than_one_that_stays() -> None:
    with bench_with() as bench:
        bench.end(bench.ask(WATCH))
        bench.wait(WatchSettings().limit_s - 0.001)
        assert (1, 0, 0) == bench.use()
        bench.wait(0.001)

        assert_abandoned(bench, given_up=1)


@pytest.mark.parametrize("event", ["answer", "limit"])
def test_an_error_gives_the_seats_back(monkeypatch: pytest.MonkeyPatch, event: str) -> None:
    with bench_with() as own:
        errors = own.loop.errors = []
        leave_at_work(own)
        monkeypatch.setattr(own.upstreams[0], "abort", broken)
        if event == "answer":
            own.send(own.upstreams[0], OK)
        else:
            own.wait(WAIT_S + 1)

        assert errors
        assert ({}, (0, 0, 0)) == (own.context.abandoned, own.use())
