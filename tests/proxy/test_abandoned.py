"""Requests whose client is gone, and whose seats are kept while the upstream works on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.proxy.abandoned import MAX_DISCARDED_BYTES
from apfproxy.settings import OBSERVE, Address, UpstreamSettings, WatchSettings
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

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_S = 30.0


def bench_with(*, wait_s: float = WAIT_S, **others: str) -> Bench:
    """A data plane with one seat before an upstream that may not notice that a client has left."""
    upstream = UpstreamSettings(url=Address(host="upstream", port=80), abandoned_wait_s=wait_s)
    return Bench(upstream=upstream, **others)  # type: ignore[arg-type]  # settings by their names


def assert_over(bench: Bench, *, given_up: int = 0) -> None:
    """The only abandoned request is through: its connection closed, its seats back."""
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


def leave_in_the_body(bench: Bench) -> None:
    bench.end(bench.ask(POST + b"\r\nbo"))


def break_the_body(bench: Bench) -> None:
    client = bench.ask(CHUNKED_POST + b"\r\n4\r\nbo")
    bench.send(client, b"dyXX")
    assert b"400" == status(client.take())


def body_too_late(bench: Bench) -> None:
    client = bench.ask(POST + b"\r\nbo")
    for _ in range(5):
        bench.wait(1)
    assert b"408" == status(client.take())


def answer_too_late(bench: Bench) -> None:
    client = bench.ask(GET)
    bench.wait(60)
    assert b"504" == status(client.take())


def rest_too_late(bench: Bench) -> None:
    client = bench.ask(GET)
    bench.send(bench.upstreams[0], CHUNKED_OK)
    bench.wait(60)
    assert "abort" == client.ended_by


WAYS_OUT = (
    leave_at_work,
    leave_half_way,
    leave_unread,
    leave_in_the_body,
    break_the_body,
    body_too_late,
    answer_too_late,
    rest_too_late,
)


def way_out(function: Callable[[Bench], None]) -> str:
    return function.__name__.replace("_", "-")


@pytest.mark.parametrize("abandon", WAYS_OUT, ids=way_out)
def test_seats_are_kept_until_the_answer(abandon: Callable[[Bench], None]) -> None:
    with bench_with() as bench:
        abandon(bench)
        second = bench.ask(GET)

        assert (1, 1, 0) == bench.use()
        assert not bench.upstreams[0].has_eof
        assert bench.upstreams[0].reads
        assert "" == bench.upstreams[0].ended_by
        has_begun = abandon in (leave_half_way, leave_unread, rest_too_late)
        bench.send(bench.upstreams[0], b"4\r\nmore\r\n0\r\n\r\n" if has_begun else OK)
        assert (1, 0, 1) == bench.use()
        bench.end(second)
        assert_over(bench)


@pytest.mark.parametrize("abandon", WAYS_OUT, ids=way_out)
def test_not_for_ever(abandon: Callable[[Bench], None]) -> None:
    with bench_with() as bench:
        abandon(bench)
        bench.clock.run_until(bench.clock.now_ns() + round(WAIT_S * 1e9) - 1)
        assert (1, 0, 0) == bench.use()
        bench.clock.run_until(bench.clock.now_ns() + 1)

        assert_over(bench, given_up=1)


@pytest.mark.parametrize("abandon", WAYS_OUT, ids=way_out)
def test_seats_go_back_at_once_by_default(abandon: Callable[[Bench], None]) -> None:
    with Bench() as bench:
        abandon(bench)

        assert "abort" == bench.upstreams[0].ended_by
        assert 0 == bench.counters.abandoned_requests
        bench.assert_at_rest()


@pytest.mark.parametrize(
    "come",
    [
        pytest.param(lambda bench: bench.end(bench.upstreams[0]), id="end"),
        pytest.param(lambda bench: bench.end(bench.upstreams[0], OSError()), id="error"),
        pytest.param(
            lambda bench: bench.send(bench.upstreams[0], b"no HTTP\r\n\r\n"), id="nonsense"
        ),
        pytest.param(
            lambda bench: bench.send(
                bench.upstreams[0], b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"
            ),
            id="switch",
        ),
    ],
)
def test_an_upstream_that_gives_up(come: Callable[[Bench], None]) -> None:
    with bench_with() as bench:
        leave_at_work(bench)
        come(bench)

        assert {} == bench.context.abandoned
        assert (1, 0) == (bench.counters.abandoned_requests, bench.counters.abandoned_given_up)
        bench.assert_at_rest()


def test_a_long_answer_is_cut() -> None:
    with bench_with() as bench:
        leave_half_way(bench)
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        for _ in range(MAX_DISCARDED_BYTES // 0x10000):
            bench.send(bench.upstreams[0], chunk)
        assert (1, 0, 0) == bench.use()
        bench.send(bench.upstreams[0], chunk)

        assert_over(bench)


def test_a_watch_is_held_no_longer_than_one_that_stays() -> None:
    with bench_with() as bench:
        bench.end(bench.ask(WATCH))
        bench.wait(WatchSettings().limit_s - 0.001)
        assert (1, 0, 0) == bench.use()
        bench.wait(0.001)

        assert_over(bench, given_up=1)


def test_nothing_is_kept_for_what_the_upstream_does_not_know_of() -> None:
    with bench_with(wait_s=WAIT_S) as bench:
        first, second = bench.ask(GET), bench.ask(GET)
        bench.end(second)
        assert (1, 0, 0) == bench.use()
        bench.send(bench.upstreams[0], OK)
        bench.upstreams[0].end()
        third = bench.ask(GET)
        assert (1, 0, 1) == bench.use()
        bench.end(third)

        assert b"200" == status(first.take())
        assert 0 == bench.counters.abandoned_requests
        bench.assert_at_rest()


def test_observed_seats_are_kept_as_well() -> None:
    with bench_with(enforcement=OBSERVE) as bench:
        first, second = bench.ask(GET), bench.ask(GET)
        bench.connect()
        assert (1, 1, 0) == bench.use()
        bench.end(second)
        assert (1, 0, 0) == bench.use()
        assert "abort" == bench.upstreams[1].ended_by
        bench.end(first)
        assert (1, 0, 0) == bench.use()
        bench.send(bench.upstreams[0], OK)

        assert_over(bench)


def test_an_observed_shadow_keeps_its_seats() -> None:
    with bench_with(enforcement=OBSERVE) as bench:
        first, second = bench.ask(GET), bench.ask(GET)
        bench.connect()
        bench.wait(2)
        bench.send(bench.upstreams[0], OK)
        assert b"200" == status(first.take())
        bench.end(second)
        bench.wait(1)
        bench.send(bench.upstreams[1], OK)
        assert (1, 0, 0) == bench.use()
        bench.wait(2)

        assert (0, 0, 0) == bench.use()
        assert {} == bench.context.abandoned
        bench.assert_at_rest()


@pytest.mark.parametrize("event", ["answer", "limit"])
def test_an_error_gives_the_seats_back(monkeypatch: pytest.MonkeyPatch, event: str) -> None:
    with bench_with() as own:
        errors = own.loop.errors = []
        leave_at_work(own)
        assert (1, 0, 0) == own.use()
        monkeypatch.setattr(own.upstreams[0], "abort", broken)
        if event == "answer":
            own.send(own.upstreams[0], OK)
        else:
            own.wait(WAIT_S + 1)

        assert errors
        assert {} == own.context.abandoned
        assert (0, 0, 0) == own.use()


def test_an_error_in_the_answer_of_the_proxy() -> None:
    with bench_with() as bench:
        errors = bench.loop.errors = []
        client = bench.ask(GET.replace(b" HTTP", b"?timeout=5s HTTP"))
        connection_of(client).write = broken
        bench.wait(5)
        assert "abort" == client.ended_by
        assert (1, 0, 0) == bench.use()
        bench.send(bench.upstreams[0], OK)

        assert [ZeroDivisionError] == [type(error) for error in errors]
        assert_over(bench)
