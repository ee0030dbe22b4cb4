"""Requests that wait are counted, refused where there is no room, and never counted longer."""

from __future__ import annotations

import pytest

from apfproxy.proxy.counters import Bound
from apfproxy.settings import DownstreamSettings, LimitSettings
from tests.proxy.fakes import GET, OK, POST, Bench, status
from tests.proxy.test_tunnel import EXEC

LARGE_FIELDS = b"".join(b"X-%d: %b\r\n" % (each, b"y" * 1000) for each in range(5))
LARGE_GET = GET[:-2] + LARGE_FIELDS + b"\r\n"
LARGER_GET = LARGE_GET[:-2] + LARGE_FIELDS.replace(b"X-", b"Y-") + b"\r\n"
WAITING_POST = POST + b"\r\nb"


def bench_of(
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
    with bench_of() as bench:
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
    with bench_of() as bench:
        first, second = bench.ask(GET), bench.ask(GET)
        assert len(GET) <= held(bench) < 4 * len(GET)
        bench.send(bench.upstreams[0], OK)
        assert 0 == held(bench)
        bench.send(bench.upstreams[0], OK)
        assert b"200" == status(second.take())
        bench.assert_at_rest(first, second)


def test_request_that_waits_for_a_connection() -> None:
    with bench_of(idle_upstreams=0) as bench:
        client = bench.ask(GET)
        assert len(GET) <= held(bench)
        bench.connect()
        assert 0 == held(bench)
        bench.assert_at_rest(client)


def test_large_head() -> None:
    with bench_of() as bench:
        client = bench.ask(LARGER_GET)
        assert len(LARGER_GET) <= held(bench) < len(LARGER_GET) + 500
        assert LARGE_FIELDS in bench.upstreams[0].take()
        bench.send(bench.upstreams[0], OK)
        assert 0 == held(bench)
        bench.assert_at_rest(client)


@pytest.mark.parametrize("count", [1, 3, 4999])
def test_start_of_a_large_head(count: int) -> None:
    with bench_of() as bench:
        client = bench.ask(LARGE_GET[:-count])
        assert (len(LARGE_GET) - count if count < 4999 else 0) == held(bench)
        bench.send(client, LARGE_GET[-count:])
        bench.send(bench.upstreams[0], OK)
        assert 0 == held(bench)
        bench.send(client, LARGE_GET[:-1])
        bench.assert_at_rest(client)


def test_requests_behind_one_another() -> None:
    with bench_of() as bench:
        client = bench.ask(GET)
        bench.send(client, GET * 100)
        assert 100 * len(GET) == held(bench)
        for _ in range(100):
            bench.send(bench.upstreams[0], OK)
            bench.loop.run_ready()
        assert 0 == held(bench)
        bench.assert_at_rest(client)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(WAITING_POST, id="whose-body-is-gathered"),
        pytest.param(GET, id="that-is-queued"),
        pytest.param(LARGE_GET, id="with-a-large-head"),
        pytest.param(LARGE_GET[:-2], id="with-the-start-of-a-large-head"),
    ],
)
def test_no_room_for_a_request(request_: bytes) -> None:
    with bench_of(most=20) as bench:
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
    """Bytes behind it may be of the protocol that its client hopes for, and are no request."""
    with bench_of() as bench:
        bench.listener.holdings.set_short(is_short=True)
        client = bench.ask(EXEC)
        response = client.take()
        bench.send(client, GET)

        assert b"503" == status(response)
        assert b"\r\nConnection: close\r\n" in response
        assert b"" == client.take()


def test_no_room_for_the_rest_of_a_body() -> None:
    with bench_of(most=600, gathered_body_bytes=32768) as bench:
        client = bench.ask(POST.replace(b"4", b"9999") + b"\r\nb")
        assert b"" == client.take()
        bench.send(client, b"c" * 500)

        assert b"503" == status(client.take())
        bench.assert_at_rest(client)


def test_requests_while_memory_is_short() -> None:
    with bench_of() as bench:
        bench.listener.holdings.set_short(is_short=True)
        client = bench.ask(GET)
        answer = client.take()
        assert b"503" == status(answer)
        assert b"downstream.overload.memoryBytes" in answer
        bench.listener.holdings.set_short(is_short=False)
        bench.send(client, GET)
        bench.send(bench.upstreams[0], OK)

        assert b"200" == status(client.take())
        assert 1 == bench.counters.listener.held_refusals[Bound.OVERLOAD]
        bench.assert_at_rest(client)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param((), b"408", id="that-stops"),
        pytest.param((1,), b"408", id="of-a-byte-now-and-then"),
        pytest.param((1500, 1500), b"", id="that-comes-fast-enough"),
        pytest.param((30000, 0), b"408", id="that-stops-after-most-of-it"),
    ],
)
def test_body_that_comes_slowly(parts: tuple[int, ...], expected: bytes) -> None:
    with bench_of(gathered_body_bytes=32768) as bench:
        client = bench.ask(POST.replace(b"4", b"32000") + b"\r\nb")
        for size in parts:
            bench.send(client, b"c" * size)
            bench.wait(5)
        if not parts:
            bench.wait(5)

        assert expected == status(client.take())
        if expected:
            assert 0 == held(bench)
        bench.assert_at_rest(client)
