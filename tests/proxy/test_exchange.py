"""Every way in which an exchange goes on and ends, and that it gives back what it took."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.upstream.counters import UpstreamFailure
from tests.proxy.fakes import (
    CHUNKED_OK,
    GET,
    LIST,
    LOG,
    OK,
    POST,
    WATCH,
    Bench,
    body,
    connection_of,
    status,
)

if TYPE_CHECKING:
    from apfproxy.flowcontrol.queue_set import Flow, Ticket


def test_request_that_fits(bench: Bench) -> None:
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
    with Bench(idle_upstreams=0) as bench:
        client = bench.ask(GET)
        bench.connect(outcome)
        answer = client.take()
        assert code == status(answer)
        assert (b"\r\nRetry-After: 1\r\n" in answer) == (code == b"502")
        bench.assert_at_rest()
        assert 0 == bench.pool.open_count

        bench.send(client, GET)
        bench.connect()
        bench.send(bench.upstreams[-1], OK)
        assert b"200" == status(client.take())


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
    client = bench.ask(GET)
    bench.send(bench.upstreams[0], answer)
    client.take()
    bench.end(bench.upstreams[0], error)

    assert b"502" == status(client.take())
    assert 0 == bench.counters.upstream_retries
    assert 1 == bench.counters.upstream.failures[UpstreamFailure.BROKEN_ANSWER]
    assert "" == client.ended_by
    bench.assert_at_rest()


def warmed_up(bench: Bench) -> None:
    client = bench.ask(GET)
    bench.send(bench.upstreams[0], OK)
    bench.end(client)
    bench.upstreams[0].take()


def test_stale_connection_is_retried_once(bench: Bench) -> None:
    warmed_up(bench)
    client = bench.ask(GET)
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
    bench.assert_at_rest(second)


@pytest.mark.parametrize(
    "request_",
    [GET.replace(b"GET", b"DELETE"), POST.replace(b"POST", b"PUT") + b"\r\nbody"],
    ids=["a-deletion", "with-a-body"],
)
def test_not_everything_is_retried(bench: Bench, request_: bytes) -> None:
    warmed_up(bench)
    client = bench.ask(request_)
    bench.end(bench.upstreams[0])
    answer = client.take()

    assert b"502" == status(answer)
    assert b"Retry-After" not in answer
    bench.wait(10)
    bench.assert_at_rest()


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
    bench.ask(GET)
    bench.send(bench.upstreams[0], answer)
    bench.end(bench.upstreams[0])

    assert failed == sum(level.failed_total for level in bench.controller.levels.values())


@pytest.mark.parametrize(
    ("timeout_s", "telling"),
    [
        pytest.param(4, 0, id="impatient"),
        pytest.param(5, 1, id="long-enough"),
        pytest.param(9, 1, id="patient"),
    ],
)
def test_time_outs_of_impatient_clients(bench: Bench, timeout_s: int, telling: int) -> None:
    client = bench.ask(GET.replace(b" HTTP", b"?timeout=%ds HTTP" % timeout_s, 1))
    bench.wait(timeout_s)

    assert b"504" == status(client.take())
    counters = bench.counters.upstream
    assert (1, telling) == (counters.failures[UpstreamFailure.ANSWER_TIMEOUT], counters.telling)


def test_full_queue_refuses(bench: Bench) -> None:
    named = GET.replace(b"\r\n\r\n", b"\r\nAudit-ID: mine\r\n\r\n")
    clients = [bench.ask(named) for _ in range(5)]
    answer = clients[4].take()

    assert (1, 3, 0) == bench.use()
    assert b"429" == status(answer)
    assert b"\r\nRetry-After: 1\r\n" in answer
    assert b"\r\nAudit-Id: mine\r\n" in answer
    assert b"\r\nCache-Control: no-cache, private\r\n" in answer
    assert b"\r\nDate: " in answer
    assert b"Connection" not in answer
    assert body(answer) == b"Too many requests, please try again later.\n"
    bench.assert_at_rest(*clients)


class BrokenObserver:
    def on_seats_back(self, ticket: Ticket, now_ns: int) -> None:
        raise ZeroDivisionError((ticket, now_ns))

    def on_no_seats(self, flow: Flow, waited_ns: int, *, is_rejected: bool) -> None:
        raise ZeroDivisionError((flow, waited_ns, is_rejected))


@pytest.mark.parametrize("is_answered", [True, False], ids=["answered", "left"])
def test_an_error_before_the_seats_are_back(bench: Bench, is_answered: bool) -> None:
    errors = bench.loop.errors = []
    bench.context.flow_control.top_flows = BrokenObserver()
    client, waiting = bench.ask(GET), bench.ask(GET)
    assert (1, 1, 0) == bench.use()
    bench.end(waiting)
    assert (1, 0, 0) == bench.use()
    if is_answered:
        bench.send(bench.upstreams[0], OK)
    else:
        bench.end(client)

    assert (0, 0, 0) == bench.use()
    assert client.ended_by
    assert {ZeroDivisionError} == {type(error) for error in errors}


def test_watch_can_be_ended(bench: Bench) -> None:
    client = bench.ask(WATCH)
    connection_of(client).end_watch()
    assert b"" == client.take()
    bench.send(bench.upstreams[0], CHUNKED_OK + b"5\r\neve")
    client.take()
    connection_of(client).end_watch()
    assert b"" == client.take()
    bench.send(bench.upstreams[0], b"nt\r\n")
    assert b"2\r\nnt\r\n" == client.take()
    connection_of(client).end_watch()

    assert b"0\r\n\r\n" == client.take()
    assert client.has_eof
    bench.assert_at_rest()


@pytest.mark.parametrize("is_whole", [True, False], ids=["in-one-read", "in-two-reads"])
@pytest.mark.parametrize(
    ("code", "learned"),
    [pytest.param(b"200", 1, id="success"), pytest.param(b"403", 0, id="refusal")],
)
def test_lists_teach_their_cost(bench: Bench, is_whole: bool, code: bytes, learned: int) -> None:
    client = bench.ask(LIST)
    head = b"HTTP/1.1 " + code + b" X\r\nContent-Length: 4\r\n\r\n"
    for piece in [head + b"body"] if is_whole else [head + b"bo", b"dy"]:
        bench.send(bench.upstreams[0], piece)

    assert code == status(client.take())
    assert repr(bench.costs).startswith(f"<LearnedCosts of {learned} lists")
    bench.assert_at_rest()
