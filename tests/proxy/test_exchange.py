"""Every way in which an exchange goes on and ends, and that it gives back what it took."""

from __future__ import annotations

import pytest

from apfproxy.upstream.counters import UpstreamFailure
from tests.proxy.fakes import (
    CHUNKED_OK,
    GET,
    LOG,
    OK,
    POST,
    Bench,
    body,
    status,
)


def test_request_that_fits(bench: Bench) -> None:
    """It is sent, answered, and all of it is given back."""
    client = bench.ask(GET)
    assert (1, 0, 0) == bench.use()
    assert 1 == len(bench.in_use_by_kind())
    upstream = bench.upstreams[0]
    assert upstream.take().startswith(b"GET /api/v1/namespaces/a/pods/b HTTP/1.1\r\nHost: h\r\n")
    bench.send(upstream, OK)

    answer = client.take()
    assert answer.startswith(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nVia: 1.1 apfproxy\r\n")
    assert b"X-Kubernetes-PF-FlowSchema-UID: " in answer
    assert answer.endswith(b"\r\n\r\nok")
    assert 1 == bench.pool.idle_count
    assert {200: 1} == bench.counters.requests_by_status
    bench.assert_at_rest()


# Executing.


@pytest.mark.parametrize("request_", [GET, LOG], ids=["with-a-seat", "without-seats"])
def test_client_leaves_while_the_upstream_works(bench: Bench, request_: bytes) -> None:
    """The connection to the upstream cannot be used again."""
    client = bench.ask(request_)
    bench.end(client, ConnectionResetError())

    assert "abort" == bench.upstreams[0].ended_by
    assert 0 == bench.pool.open_count
    assert 1 == bench.counters.client_aborts
    bench.assert_at_rest()


def test_client_leaves_while_the_answer_streams(bench: Bench) -> None:
    """The rest of the answer is nobody's."""
    client = bench.ask(GET)
    bench.send(bench.upstreams[0], b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123")
    assert client.take().endswith(b"\r\n\r\n123")
    bench.end(client)

    assert "abort" == bench.upstreams[0].ended_by
    bench.assert_at_rest()


def test_client_leaves_the_line_for_a_connection() -> None:
    """The connection that was opened for it is kept for others."""
    with Bench(idle_upstreams=0) as bench:
        client = bench.ask(GET)
        assert (1, 0, 1) == bench.use()
        bench.end(client)
        bench.assert_at_rest()
        bench.connect()

        assert 1 == bench.pool.idle_count
        assert b"" == bench.upstreams[0].take()


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        pytest.param(ConnectionRefusedError(111, "refused"), b"502", id="refused"),
        pytest.param(OSError("odd"), b"502", id="other-error"),
        pytest.param(TimeoutError(), b"504", id="too-slow"),
        pytest.param("lost", b"502", id="lost-at-once"),
    ],
)
def test_no_connection(outcome: BaseException | str, code: bytes) -> None:
    """The client is told why, keeps its connection, and may ask again."""
    with Bench(idle_upstreams=0) as bench:
        client = bench.ask(GET)
        bench.connect(outcome)
        assert code == status(client.take())
        bench.assert_at_rest()
        assert 0 == bench.pool.open_count

        bench.send(client, GET)
        bench.connect()
        bench.send(bench.upstreams[-1], OK)
        assert b"200" == status(client.take())


def test_deadline_before_the_answer(bench: Bench) -> None:
    """An upstream that says nothing is given up, and the client goes on."""
    client = bench.ask(GET)
    bench.wait(59)
    assert b"" == client.take()
    bench.wait(1)

    assert b"504" == status(client.take())
    assert "abort" == bench.upstreams[0].ended_by
    assert 1 == bench.counters.upstream.failures[UpstreamFailure.ANSWER_TIMEOUT]
    assert "" == client.ended_by
    bench.assert_at_rest()


def test_deadline_within_the_answer(bench: Bench) -> None:
    """There is nothing left to say but that the answer is not whole."""
    client = bench.ask(GET)
    bench.send(bench.upstreams[0], b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123")
    bench.wait(60)

    assert "abort" == client.ended_by
    assert "abort" == bench.upstreams[0].ended_by
    bench.assert_at_rest()


# The upstream breaks.


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(b"", None, id="closed"),
        pytest.param(b"", ConnectionResetError("reset"), id="reset"),
        pytest.param(b"HTTP/1.1 2", None, id="within-the-head"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n", None, id="after-an-interim-answer"),
    ],
)
def test_upstream_breaks_before_the_answer(
    bench: Bench, answer: bytes, error: Exception | None
) -> None:
    """On a connection that was never used, the request may have been acted upon."""
    client = bench.ask(GET)
    bench.send(bench.upstreams[0], answer)
    client.take()
    bench.end(bench.upstreams[0], error)

    assert b"502" == status(client.take())
    assert 0 == bench.counters.upstream_retries
    assert 1 == bench.counters.upstream.failures[UpstreamFailure.BROKEN_ANSWER]
    assert "" == client.ended_by
    bench.assert_at_rest()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"no HTTP\r\n\r\n", id="malformed"),
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", id="switches-protocols"),
        pytest.param(b"HTTP/1.1 102 Processing\r\n\r\n" * 33, id="interim-answers-without-end"),
        pytest.param(b"A" * 262145, id="head-without-end"),
    ],
)
def test_answer_that_makes_no_sense(bench: Bench, answer: bytes) -> None:
    """The client gets a 502, and the connection is given up."""
    client = bench.ask(GET.replace(b"1.1", b"1.0").replace(b"\r\nH", b"\r\nConnection: x\r\nH"))
    bench.send(bench.upstreams[0], answer)

    assert b"502" == status(client.take())
    assert "abort" == bench.upstreams[0].ended_by
    bench.assert_at_rest()


@pytest.mark.parametrize(
    ("answer", "passed_on"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n12", b"12", id="sized"),
        pytest.param(CHUNKED_OK + b"2\r\n12\r\n", b"2\r\n12\r\n", id="chunked"),
    ],
)
@pytest.mark.parametrize("error", [None, ConnectionResetError()], ids=["closed", "reset"])
def test_upstream_breaks_within_the_answer(
    bench: Bench, answer: bytes, passed_on: bytes, error: Exception | None
) -> None:
    """The client gets what came, and an end that is none."""
    client = bench.ask(GET)
    bench.send(bench.upstreams[0], answer)
    bench.end(bench.upstreams[0], error)

    assert passed_on == body(client.take())
    assert "close" == client.ended_by
    bench.assert_at_rest()


@pytest.mark.parametrize(
    ("pieces", "passed_on"),
    [
        pytest.param([CHUNKED_OK + b"1\r\na\r\n", b"x"], b"1\r\na\r\n", id="later"),
        pytest.param([CHUNKED_OK + b"x"], b"", id="with-the-head"),
    ],
)
def test_malformed_chunk(bench: Bench, pieces: list[bytes], passed_on: bytes) -> None:
    """It breaks the answer as a lost connection does."""
    client = bench.ask(GET)
    for piece in pieces:
        bench.send(bench.upstreams[0], piece)

    assert passed_on == body(client.take())
    assert "close" == client.ended_by
    bench.assert_at_rest()


def warmed_up(bench: Bench) -> None:
    """Have the connection to the upstream been used."""
    client = bench.ask(GET)
    bench.send(bench.upstreams[0], OK)
    bench.end(client)
    bench.upstreams[0].take()


@pytest.mark.parametrize("method", [b"GET", b"OPTIONS"])
def test_stale_connection_is_retried_once(bench: Bench, method: bytes) -> None:
    """The upstream closed it before it saw the request, so a new connection gets it, once."""
    warmed_up(bench)
    client = bench.ask(GET.replace(b"GET", method))
    sent = bench.upstreams[0].take()
    bench.end(bench.upstreams[0])
    assert (1, 0, 1) == bench.use()
    assert b"" == client.take()
    bench.connect()
    assert sent == bench.upstreams[1].take()
    bench.send(bench.upstreams[1], OK)

    assert b"200" == status(client.take())
    assert 1 == bench.counters.upstream_retries
    bench.assert_at_rest()


def test_nothing_is_retried_twice(bench: Bench) -> None:
    """Whoever breaks the second connection as well saw the request, or never will."""
    warmed_up(bench)
    first = bench.ask(LOG)
    second = bench.ask(GET)
    bench.connect()
    bench.send(bench.upstreams[1], OK)
    assert b"200" == status(second.take())
    bench.end(bench.upstreams[0])
    # The new connection of the line may be one that was used before.
    bench.send(second, GET)
    bench.send(bench.upstreams[1], OK)
    second.take()
    bench.connect()
    bench.end(bench.upstreams[1])

    assert b"502" == status(first.take())
    assert 1 == bench.counters.upstream_retries
    bench.end(second)
    bench.assert_at_rest()


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(GET.replace(b"GET", b"POST"), id="not-idempotent"),
        pytest.param(GET.replace(b"GET", b"DELETE"), id="a-deletion"),
        pytest.param(GET.replace(b"GET", b"PUT"), id="a-command"),
        pytest.param(GET.replace(b"/b ", b"/b/exec "), id="exec-without-an-upgrade"),
        pytest.param(GET[:-2] + b"X-HTTP-Method: DELETE\r\n\r\n", id="overridden"),
        pytest.param(POST.replace(b"POST", b"PUT") + b"\r\nbody", id="with-a-body"),
    ],
)
def test_not_everything_is_retried(bench: Bench, request_: bytes) -> None:
    """What may have been acted upon, or cannot be sent again, is not."""
    warmed_up(bench)
    client = bench.ask(request_)
    bench.end(bench.upstreams[0])

    assert b"502" == status(client.take())
    bench.wait(10)
    bench.assert_at_rest()


def test_client_leaves_while_its_request_is_retried(bench: Bench) -> None:
    """Its place in the line goes with it."""
    warmed_up(bench)
    client = bench.ask(GET)
    bench.end(bench.upstreams[0])
    bench.end(client)

    bench.assert_at_rest()


# What becomes of it in the counters.


def level_failures(bench: Bench) -> int:
    """Requests of all levels that had seats, but that the upstream failed."""
    return sum(level.failed_total for level in bench.controller.levels.values())


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        pytest.param(OK, 0, id="ok"),
        pytest.param(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 0, id="client"),
        pytest.param(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", 1, id="server"),
        pytest.param(b"HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\n123", 1, id="server-cut-short"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123", 1, id="cut-short"),
        pytest.param(b"nonsense\r\n\r\n", 1, id="nonsense"),
        pytest.param(b"", 1, id="closed"),
    ],
)
def test_requests_that_the_upstream_fails(bench: Bench, answer: bytes, failed: int) -> None:
    """Each counts once, whether it got a 502 from the proxy or a 5xx from the upstream."""
    bench.ask(GET)
    bench.send(bench.upstreams[0], answer)
    bench.end(bench.upstreams[0])

    assert failed == level_failures(bench)


def test_requests_without_a_connection_or_an_answer() -> None:
    """They had their seats for nothing, too; those without seats are of no level."""
    with Bench(idle_upstreams=0) as bench:
        bench.ask(GET)
        bench.connect(ConnectionRefusedError(111, "refused"))
        assert 1 == level_failures(bench)
        bench.ask(GET)
        bench.connect()
        bench.wait(60)
        assert 2 == level_failures(bench)
        bench.ask(LOG)
        bench.connect(ConnectionRefusedError(111, "refused"))
        assert 2 == level_failures(bench)


@pytest.mark.parametrize(
    ("is_sent_before", "expected"),
    [pytest.param(False, True, id="nothing-sent"), pytest.param(True, False, id="sent-before")],
)
def test_who_may_ask_again(is_sent_before: bool, expected: bool) -> None:
    """Retry-After only where no server has seen the request."""
    with Bench(idle_upstreams=1 if is_sent_before else 0) as bench:
        if is_sent_before:
            warmed_up(bench)
        client = bench.ask(GET)
        if is_sent_before:
            bench.end(bench.upstreams[0])
        bench.connect(ConnectionRefusedError(111, "refused"))
        answer = client.take()

    assert b"502" == status(answer)
    assert expected is (b"\r\nRetry-After: 1\r\n" in answer)


@pytest.mark.parametrize(
    ("timeout_s", "telling"),
    [
        pytest.param(4, 0, id="impatient"),
        pytest.param(5, 1, id="long-enough"),
        pytest.param(9, 1, id="patient"),
    ],
)
def test_time_outs_of_impatient_clients(bench: Bench, timeout_s: int, telling: int) -> None:
    """A client that gives the upstream no time says nothing of the upstream."""
    client = bench.ask(GET.replace(b" HTTP", b"?timeout=%ds HTTP" % timeout_s, 1))
    bench.wait(timeout_s)

    assert b"504" == status(client.take())
    counters = bench.counters.upstream
    assert (1, telling) == (counters.failures[UpstreamFailure.ANSWER_TIMEOUT], counters.telling)


def test_answers_that_are_awaited(bench: Bench) -> None:
    """A request counts from when it is sent until the head of its answer is there."""
    bench.ask(GET)
    assert 1 == bench.pool.endpoints[0].count_awaiting()
    bench.send(bench.upstreams[0], b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123")
    assert 0 == bench.pool.endpoints[0].count_awaiting()
    bench.send(bench.upstreams[0], b"456789")
    assert 0 == bench.pool.endpoints[0].count_awaiting()
    bench.ask(LOG)
    assert 0 == bench.pool.endpoints[0].count_awaiting()
