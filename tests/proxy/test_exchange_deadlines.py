"""How long an exchange may take: the request's own time, and the upstream's time to answer in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.settings import (
    HTTP_API,
    KUBERNETES_API,
    Address,
    DownstreamSettings,
    LimitSettings,
    UpstreamSettings,
)
from apfproxy.upstream.counters import UpstreamFailure
from tests.proxy.fakes import CHUNKED_OK, CHUNKED_POST, GET, LOG, OK, POST, WATCH, Bench, status

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG_WITH_BODY = LOG.replace(b"\r\n\r\n", b"\r\nContent-Length: 4\r\n\r\n")


@pytest.fixture
def patient() -> Iterator[Bench]:
    """Requests have 100 s, however slow their bodies; the upstream 10 s to begin its answer."""
    with Bench(
        downstream=DownstreamSettings(
            request_timeout_s=100, limits=LimitSettings(min_body_rate_bytes=0)
        ),
        upstream=UpstreamSettings(url=Address(host="upstream", port=80), answer_timeout_s=10),
    ) as bench:
        yield bench


@pytest.mark.parametrize(
    ("request_", "seconds"),
    [
        pytest.param(GET, 10, id="with-a-seat"),
        pytest.param(POST + b"\r\nbody", 10, id="with-its-body"),
        pytest.param(GET.replace(b" HTTP", b"?timeout=5s HTTP"), 5, id="its-own-time-is-shorter"),
    ],
)
def test_upstream_has_so_long_to_answer(patient: Bench, request_: bytes, seconds: int) -> None:
    client = patient.ask(request_)
    patient.wait(seconds - 1)
    assert b"" == client.take()
    patient.wait(1)

    assert b"504" == status(client.take())
    assert 1 == patient.counters.upstream.failures[UpstreamFailure.ANSWER_TIMEOUT]
    patient.assert_at_rest()


def test_upstream_has_its_time_after_the_queue(patient: Bench) -> None:
    first, second = patient.ask(GET), patient.ask(GET)
    patient.wait(9)
    patient.send(patient.upstreams[0], OK)
    assert b"200" == status(first.take())
    patient.wait(9)
    assert b"" == second.take()
    patient.wait(1)

    assert b"504" == status(second.take())
    patient.assert_at_rest()


def test_answer_that_has_begun_has_the_time_of_the_request(patient: Bench) -> None:
    client = patient.ask(GET)
    patient.wait(9)
    patient.send(patient.upstreams[0], b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123")
    patient.wait(90)
    assert "" == client.ended_by
    patient.wait(1)

    assert "abort" == client.ended_by
    patient.assert_at_rest()


@pytest.mark.parametrize("request_", [WATCH, LOG, LOG_WITH_BODY + b"body"])
def test_long_running_request_waits_as_long_as_it_likes(patient: Bench, request_: bytes) -> None:
    client = patient.ask(request_)
    patient.wait(3600)
    assert (b"", "", (0, 0, 0)) == (client.take(), client.ended_by, patient.use())
    patient.send(patient.upstreams[0], CHUNKED_OK)
    patient.wait(3600)
    patient.send(patient.upstreams[0], b"0\r\n\r\n")

    assert b"200" == status(client.take())
    assert 0 == patient.counters.upstream.failures[UpstreamFailure.ANSWER_TIMEOUT]
    patient.assert_at_rest()


def test_long_running_request_without_a_connection(patient: Bench) -> None:
    first = patient.ask(LOG)
    patient.context.pool.limit(1)
    client = patient.ask(LOG)
    patient.wait(10)

    assert b"504" == status(client.take())
    patient.assert_at_rest(first)


def test_long_running_request_that_waited_is_not_sent_again(patient: Bench) -> None:
    patient.ask(GET)
    patient.send(patient.upstreams[0], OK)
    client = patient.ask(LOG)
    patient.wait(60)
    patient.end(patient.upstreams[0])

    assert (b"502", 1) == (status(client.take()), len(patient.upstreams))
    patient.assert_at_rest()


def test_upstream_has_its_time_after_the_body(patient: Bench) -> None:
    client = patient.ask(POST + b"\r\nbo")
    patient.wait(50)
    assert b"" == client.take()
    patient.send(client, b"dy")
    patient.wait(9)
    assert b"" == client.take()
    patient.wait(1)

    assert b"504" == status(client.take())
    patient.assert_at_rest()


@pytest.mark.parametrize("start", [POST + b"\r\nbo", CHUNKED_POST + b"\r\n4\r\nbo"])
def test_body_that_does_not_arrive(patient: Bench, start: bytes) -> None:
    client = patient.ask(start)
    patient.wait(99)
    assert b"" == client.take()
    patient.wait(1)
    answer = client.take()

    assert b"408" == status(answer)
    assert b"\r\nConnection: close\r\n" in answer
    assert client.has_eof
    assert 0 == patient.counters.upstream.failures[UpstreamFailure.ANSWER_TIMEOUT]
    patient.assert_at_rest()


def test_connections_that_were_idle_when_one_is_found_dead(patient: Bench) -> None:
    """The upstream's machine may be gone, and they with it; those since then are not suspected."""
    clients = [patient.ask(LOG) for _ in range(2)]
    patient.connect()
    late = patient.ask(LOG)
    patient.connect()
    for upstream in patient.upstreams[:2]:
        patient.send(upstream, OK)
    lost = patient.ask(GET)
    patient.wait(1)
    patient.send(patient.upstreams[2], OK)
    patient.wait(9)

    assert b"504" == status(lost.take())
    assert 1 == patient.pool.open_count
    patient.assert_at_rest(*clients, late, lost)


@pytest.mark.parametrize(
    ("request_", "own_s", "upstream_s", "settings"),
    [
        (GET, 60, 60, "upstream.answerTimeout, downstream.requestTimeout"),
        (GET, 90, 60, "upstream.answerTimeout"),
        (GET, 60, 90, "downstream.requestTimeout"),
        (GET.replace(b" HTTP", b"?timeout=60s HTTP"), 90, 90, "its timeout parameter"),
    ],
)
@pytest.mark.parametrize("preset", [KUBERNETES_API, HTTP_API])
def test_says_what_to_raise(
    preset: str, request_: bytes, own_s: int, upstream_s: int, settings: str
) -> None:
    if preset == HTTP_API and b"timeout" in request_:
        own_s, settings = 60, "downstream.requestTimeout"  # the parameter is the server's business
    with Bench(
        preset=preset,
        downstream=DownstreamSettings(request_timeout_s=own_s),
        upstream=UpstreamSettings(answer_timeout_s=upstream_s),
    ) as bench:
        client = bench.ask(request_)
        bench.wait(60)
        answer = client.take()
        bench.assert_at_rest()

    assert b"504" == status(answer)
    what = f"the server did not begin its answer within 60 s ({settings})"
    assert what.encode() in answer
