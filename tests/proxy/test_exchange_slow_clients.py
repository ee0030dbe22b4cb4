"""Clients that keep seats from others: slow to send a body, or to take an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apfproxy.settings import DownstreamSettings, LimitSettings
from tests.proxy.fakes import (
    CHUNKED_OK,
    CHUNKED_POST,
    GET,
    LOG,
    OK,
    POST,
    WATCH,
    Bench,
    FakeTransport,
    body,
    connection_of,
    status,
)

LARGE_POST = POST.replace(b"Length: 4", b"Length: 100000") + b"\r\n"
SWEEP_S = 0.25


def limited(**limits: Any) -> Bench:  # noqa: ANN401  settings by their names
    """A data plane with one seat, where bodies come with 100 bytes a second, after 2 s."""
    settings = {"min_body_rate_bytes": 100, "body_rate_grace_s": 2.0, "slow_reader_grace_s": 1.0}
    return Bench(downstream=DownstreamSettings(limits=LimitSettings(**(settings | limits))))


def sweep(bench: Bench, seconds: float) -> None:
    """Let time pass, with several looks at who is slow."""
    for _ in range(round(seconds / SWEEP_S)):
        bench.wait(SWEEP_S)


def send_slowly(bench: Bench, client: FakeTransport, rate: int, seconds: int) -> None:
    """Send a part of a body each second."""
    for _ in range(seconds):
        bench.send(client, b"x" * rate)
        sweep(bench, 1)


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
    """Who sends a body too slowly gets a 408 that says so, and the seat is another's."""
    with limited() as bench:
        client = bench.ask(LARGE_POST)
        send_slowly(bench, client, rate, seconds)
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


def test_rate_counts_from_the_dispatch() -> None:
    """While a request waits for its seat its body may wait, too."""
    with limited() as bench:
        first, second = bench.ask(GET), bench.ask(LARGE_POST)
        sweep(bench, 10)
        bench.send(bench.upstreams[0], OK)
        assert b"200" == status(first.take())
        sweep(bench, 1.75)
        assert b"" == second.take()
        sweep(bench, SWEEP_S)

        assert b"408" == status(second.take())
        bench.assert_at_rest()


def test_rate_while_the_upstream_takes_nothing() -> None:
    """The client is not at fault."""
    with limited() as bench:
        client = bench.ask(LARGE_POST)
        bench.upstreams[0].protocol.pause_writing()
        sweep(bench, 10)
        assert b"" == client.take()
        bench.upstreams[0].protocol.resume_writing()
        sweep(bench, 2)

        assert b"408" == status(client.take())
        bench.assert_at_rest()


def test_rate_of_a_body_that_is_through() -> None:
    """The time that the upstream then takes does not count."""
    with limited() as bench:
        client = bench.ask(POST + b"\r\nbo")
        bench.send(client, b"dy")
        sweep(bench, 10)

        assert {} == bench.context.slow_readers.watched
        bench.send(bench.upstreams[0], OK)
        assert b"200" == status(client.take())


def test_no_rate() -> None:
    """Zero asks for none."""
    with limited(min_body_rate_bytes=0) as bench:
        client = bench.ask(CHUNKED_POST + b"\r\n4\r\nbo")
        sweep(bench, 20)

        assert b"" == client.take()
        bench.end(client)


def pause(bench: Bench, client: FakeTransport) -> None:
    """Have the client take nothing more, and the upstream answer on."""
    connection_of(client).pause_writing()
    bench.send(bench.upstreams[0], b"4\r\nmore\r\n")


def test_slow_reader_gives_its_seats_back() -> None:
    """The next request has them, and the answer goes on."""
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
        bench.end(second)
        bench.assert_at_rest()


def test_slow_reader_keeps_its_seats_by_default() -> None:
    """As in kube-apiserver: until its answer is through, or its time over."""
    with Bench() as bench:
        client, _ = bench.ask(GET), bench.ask(GET)
        bench.send(bench.upstreams[0], CHUNKED_OK)
        pause(bench, client)
        sweep(bench, 10)

        assert (1, 1, 0) == bench.use()
        assert 0 == bench.counters.slow_reader_releases
        assert {} == bench.context.slow_readers.watched
        sweep(bench, 50)
        assert "abort" == client.ended_by
        bench.assert_at_rest()


@pytest.mark.parametrize("per_level", [1, None])
def test_slow_readers_have_a_limit(per_level: int | None) -> None:
    """A second one keeps its seat until the first is through, and gives it back then."""
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


def test_several_slow_readers_of_a_level() -> None:
    """Each has a place until its own answer is through."""
    with limited(slow_readers_per_level=2) as bench:
        clients = [bench.ask(GET), bench.ask(GET)]
        for index, client in enumerate(clients):
            bench.send(bench.upstreams[index], CHUNKED_OK)
            connection_of(client).pause_writing()
            bench.send(bench.upstreams[index], b"4\r\nmore\r\n")
            sweep(bench, 1)
            if not index:
                bench.connect()
        assert {"queued": 2} == bench.context.slow_readers.by_level
        bench.end(clients[0])

        assert {"queued": 1} == bench.context.slow_readers.by_level
        bench.end(clients[1])
        bench.assert_at_rest()


def test_slow_reader_still_has_its_deadline() -> None:
    """It may hold a connection to the upstream no longer than others."""
    with limited() as bench:
        client = bench.ask(GET)
        bench.send(bench.upstreams[0], CHUNKED_OK)
        pause(bench, client)
        sweep(bench, 59)
        assert "" == client.ended_by
        sweep(bench, 1)

        assert "abort" == client.ended_by
        bench.assert_at_rest()


def test_reader_that_is_slow_now_and_then() -> None:
    """What it was slow counts less and less while it takes the answer."""
    with limited() as bench:
        client = bench.ask(GET)
        bench.send(bench.upstreams[0], CHUNKED_OK)
        for _ in range(10):
            pause(bench, client)
            sweep(bench, 0.75)
            connection_of(client).resume_writing()
            bench.loop.run_ready()
            sweep(bench, 0.75)

        assert 0 == bench.counters.slow_reader_releases
        assert {} == bench.context.slow_readers.watched
        assert (1, 0, 0) == bench.use()
        bench.end(client)


def test_reader_that_is_mostly_slow() -> None:
    """That it takes a bit now and then does not help."""
    with limited() as bench:
        client = bench.ask(GET)
        bench.send(bench.upstreams[0], CHUNKED_OK)
        for _ in range(3):
            pause(bench, client)
            sweep(bench, 0.75)
            connection_of(client).resume_writing()
            bench.loop.run_ready()
            sweep(bench, SWEEP_S)

        assert 1 == bench.counters.slow_reader_releases
        bench.end(client)


@pytest.mark.parametrize(
    ("limits", "releases"), [({}, 1), ({"slow_reader_grace_s": None}, 0)], ids=["on", "off"]
)
def test_slow_reader_may_keep_them(limits: dict[str, None], releases: int) -> None:
    """If so set, as in kube-apiserver."""
    with limited(**limits) as bench:
        client = bench.ask(GET)
        bench.send(bench.upstreams[0], CHUNKED_OK)
        pause(bench, client)
        sweep(bench, 20)

        assert releases == bench.counters.slow_reader_releases
        assert (1 - releases, 0, 0) == bench.use()
        bench.end(client)
        bench.assert_at_rest()


def test_slow_watcher() -> None:
    """It holds its seat for its initial events no longer than that."""
    with limited() as bench:
        client = bench.ask(WATCH + b"")
        bench.send(bench.upstreams[0], CHUNKED_OK)
        connection_of(client).pause_writing()
        for _ in range(4):
            bench.send(bench.upstreams[0], b"4\r\nmore\r\n")
            bench.wait(0.05)
        sweep(bench, 1)

        assert (0, 0, 0) == bench.use()
        bench.end(client)
        bench.assert_at_rest()


def test_client_that_ends_and_takes_nothing(bench: Bench) -> None:
    """What it was sent does not wait for it without end, even where no deadline is under way."""
    client = bench.ask(LOG)
    bench.send(bench.upstreams[0], CHUNKED_OK + b"2\r\nok\r\n")
    client.is_stuck = True
    bench.end(client)
    bench.wait(bench.settings.downstream.idle_timeout_s + 1)

    assert "abort" == client.ended_by
    assert {} == bench.context.listener.connections
    bench.assert_at_rest()
