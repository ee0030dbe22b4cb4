"""Bodies of requests: gathered, passed on, and those that come too slowly; slow readers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apfproxy.settings import DownstreamSettings, LimitSettings
from tests.proxy.fakes import (
    CHUNKED_OK,
    CHUNKED_POST,
    GET,
    OK,
    POST,
    Bench,
    FakeTransport,
    body,
    connection_of,
    status,
)

LARGE_POST = POST.replace(b"Length: 4", b"Length: 100000") + b"\r\n"
SWEEP_S = 0.25


def bench_of(**limits: Any) -> Bench:  # noqa: ANN401  settings by their names
    return Bench(
        gathered_body_bytes=8, downstream=DownstreamSettings(limits=LimitSettings(**limits))
    )


def post(length: int) -> bytes:
    return POST.replace(b"4", b"%d" % length) + b"\r\n"


def test_small_body_is_waited_for() -> None:
    with bench_of() as bench:
        slow = bench.ask(post(4) + b"b")
        quick = bench.ask(GET)
        assert b"GET" in bench.upstreams[0].take()
        bench.send(bench.upstreams[0], OK)
        assert b"200" == status(quick.take())

        bench.send(slow, b"od")
        assert b"" == bench.upstreams[0].take()
        bench.send(slow, b"y")
        assert bench.upstreams[0].take().endswith(b"\r\n\r\nbody")
        bench.send(bench.upstreams[0], OK)
        assert b"200" == status(slow.take())
        bench.assert_at_rest(slow, quick)


def test_start_of_a_large_body_is_waited_for() -> None:
    with bench_of() as bench:
        client = bench.ask(post(20) + b"1234567")
        assert b"" == bench.upstreams[0].take()
        bench.send(client, b"89")
        assert bench.upstreams[0].take().endswith(b"\r\n\r\n123456789")
        bench.send(client, b"01234567890")
        assert b"01234567890" == bench.upstreams[0].take()
        bench.send(bench.upstreams[0], OK)
        bench.assert_at_rest(client)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(CHUNKED_POST + b"\r\n1\r\nb\r\n", id="of-no-known-length"),
        pytest.param(POST + b"Expect: 100-continue\r\n\r\n", id="that-is-asked-for"),
        pytest.param(
            POST.replace(b"a/pods", b"a/pods/b/exec") + b"\r\nb", id="of-a-request-without-seats"
        ),
    ],
)
def test_other_bodies_are_not_waited_for(request_: bytes) -> None:
    with bench_of() as bench:
        client = bench.ask(request_)
        assert b"POST" in bench.upstreams[0].take()
        bench.assert_at_rest(client)


def test_body_whose_start_stopped_the_reading() -> None:
    with Bench(gathered_body_bytes=32768) as bench:
        head = post(32768)
        client = bench.ask(GET + head + b"x" * 32700)
        assert not client.reads
        bench.upstreams[0].take()
        bench.send(bench.upstreams[0], OK)
        bench.send(client, b"x" * 68)

        assert bench.upstreams[0].take().endswith(b"x" * 32768)
        bench.send(bench.upstreams[0], OK)
        bench.assert_at_rest(client)


def test_gathered_body_that_does_not_come() -> None:
    with bench_of(min_body_rate_bytes=0) as bench:
        client = bench.ask(post(4) + b"b")
        bench.wait(60)

        assert b"408" == status(client.take())
        bench.assert_at_rest()


def test_chunked_body_with_trailers(bench: Bench) -> None:
    client = bench.ask(CHUNKED_POST + b"\r\n1;x=y\r\na\r\n2\r\nb")
    bench.send(client, b"c\r\n0\r\nA: b\r\nHost: i\r\n\r\n")
    _, _, sent = bench.upstreams[0].take().partition(b"\r\n\r\n")
    assert b"2\r\nab\r\n1\r\nc\r\n0\r\nA: b\r\n\r\n" == sent
    bench.send(bench.upstreams[0], OK)

    assert b"200" == status(client.take())
    bench.assert_at_rest()


@pytest.mark.parametrize("waits", [False, True], ids=["at-once", "from-the-queue"])
def test_continue(bench: Bench, waits: bool) -> None:
    first = bench.ask(GET) if waits else None
    client = bench.ask(POST + b"Expect: 100-continue\r\n\r\n")
    if first is not None:
        assert b"" == client.take()
        bench.send(bench.upstreams[0], OK)
        bench.end(first)
    assert b"HTTP/1.1 100 Continue\r\n\r\n" == client.take()
    bench.send(bench.upstreams[0], b"HTTP/1.1 100 Continue\r\n\r\n")
    assert b"" == client.take()
    bench.send(client, b"body")
    bench.send(bench.upstreams[0], OK)

    assert b"200" == status(client.take())
    assert "" == client.ended_by
    bench.assert_at_rest()


def limited(**limits: Any) -> Bench:  # noqa: ANN401  settings by their names
    """A data plane with one seat, where bodies come with 100 bytes a second, after 2 s."""
    settings = {"min_body_rate_bytes": 100, "body_rate_grace_s": 2.0, "slow_reader_grace_s": 1.0}
    return Bench(downstream=DownstreamSettings(limits=LimitSettings(**(settings | limits))))


def sweep(bench: Bench, seconds: float) -> None:
    for _ in range(round(seconds / SWEEP_S)):
        bench.wait(SWEEP_S)


@pytest.mark.parametrize(
    ("rate", "seconds", "is_refused"),
    [
        pytest.param(100, 20, False, id="as-fast-as-it-must"),
        pytest.param(99, 1, False, id="slow-but-at-its-start"),
        pytest.param(99, 2, True, id="too-slow"),
        pytest.param(0, 2, True, id="nothing"),
    ],
)
def test_rate_of_a_body(rate: int, seconds: int, *, is_refused: bool) -> None:
    with limited() as bench:
        client = bench.ask(LARGE_POST)
        for _ in range(seconds):
            bench.send(client, b"x" * rate)
            sweep(bench, 1)
        answer = client.take()

        assert is_refused is (b"408" == status(answer))
        if is_refused:
            assert "slower than 100 bytes a second" in json.loads(body(answer))["message"]
            assert b"\r\nConnection: close\r\n" in answer
            assert "abort" == bench.upstreams[0].ended_by
            bench.assert_at_rest()
        else:
            assert b"" == answer
            bench.end(client)


def test_rate_counts_while_the_upstream_takes_the_body() -> None:
    with limited() as bench:
        first, second = bench.ask(GET), bench.ask(LARGE_POST)
        sweep(bench, 10)
        bench.send(bench.upstreams[0], OK)
        assert b"200" == status(first.take())
        bench.upstreams[0].protocol.pause_writing()
        bench.send(second, b"x")
        assert not second.reads
        sweep(bench, 10)
        bench.upstreams[0].protocol.resume_writing()
        bench.loop.run_ready()
        assert second.reads
        sweep(bench, 1.75)
        assert b"" == second.take()
        sweep(bench, SWEEP_S)

        assert b"408" == status(second.take())
        bench.assert_at_rest()


def pause(bench: Bench, client: FakeTransport) -> None:
    """Have the client take nothing more, and the upstream answer on."""
    connection_of(client).pause_writing()
    bench.send(bench.upstreams[0], b"4\r\nmore\r\n")


def test_slow_reader_gives_its_seats_back() -> None:
    with limited() as bench:
        client, second = bench.ask(GET), bench.ask(GET)
        bench.send(bench.upstreams[0], CHUNKED_OK)
        pause(bench, client)
        sweep(bench, 0.75)
        assert (1, 1, 0) == bench.use()
        sweep(bench, SWEEP_S)

        assert (1, 0, 1) == bench.use()
        assert 1 == bench.counters.slow_reader_releases
        assert {} == bench.context.slow_readers.watched
        connection_of(client).resume_writing()
        bench.loop.run_ready()
        bench.send(bench.upstreams[0], b"0\r\n\r\n")
        assert client.take().endswith(b"4\r\nmore\r\n0\r\n\r\n")
        bench.assert_at_rest(second)


@pytest.mark.parametrize("per_level", [1, None])
def test_slow_readers_have_a_limit(per_level: int | None) -> None:
    with limited(slow_readers_per_level=per_level) as bench:
        first, second, third = bench.ask(GET), bench.ask(GET), bench.ask(GET)
        bench.send(bench.upstreams[0], CHUNKED_OK)
        pause(bench, first)
        sweep(bench, 1)
        bench.connect()
        bench.send(bench.upstreams[1], CHUNKED_OK)
        connection_of(second).pause_writing()
        bench.send(bench.upstreams[1], b"4\r\nmore\r\n")
        sweep(bench, 5)

        assert (1, 1, 0) == bench.use()
        assert (1, 1) == (bench.counters.slow_reader_releases, bench.counters.slow_readers_open)
        bench.end(first)
        assert {} == bench.context.slow_readers.by_level
        sweep(bench, SWEEP_S)
        assert (1, 0, 1) == bench.use()
        assert (2, 1) == (bench.counters.slow_reader_releases, bench.counters.slow_readers_open)
        for client in (second, third):
            bench.end(client)
        assert {} == bench.context.slow_readers.by_level
        assert 0 == bench.counters.slow_readers_open
        bench.assert_at_rest()


@pytest.mark.parametrize(
    ("times", "takes_s", "releases"),
    [pytest.param(10, 0.75, 0, id="now-and-then"), pytest.param(3, SWEEP_S, 1, id="mostly")],
)
def test_reader_that_is_slow(times: int, takes_s: float, releases: int) -> None:
    with limited() as bench:
        client = bench.ask(GET)
        bench.send(bench.upstreams[0], CHUNKED_OK)
        for _ in range(times):
            pause(bench, client)
            sweep(bench, 0.75)
            connection_of(client).resume_writing()
            bench.loop.run_ready()
            sweep(bench, takes_s)

        assert releases == bench.counters.slow_reader_releases
        assert {} == bench.context.slow_readers.watched
        bench.end(client)
