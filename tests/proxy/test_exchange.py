"""Every way in which an exchange goes on and ends: retries, deadlines, bodies, slow readers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.flowcontrol.load_meter import LoadMeter
from apfproxy.request.attributes import parse_attributes
from apfproxy.settings import (
    HTTP_API,
    KUBERNETES_API,
    OBSERVE,
    Address,
    DownstreamSettings,
    LimitSettings,
    UpstreamSettings,
)
from apfproxy.upstream.counters import UpstreamFailure
from tests.proxy.fakes import (
    CHUNKED_OK,
    CHUNKED_POST,
    GET,
    LIST,
    LOG,
    OBJECTS,
    OK,
    POST,
    WATCH,
    Bench,
    FakeTransport,
    body,
    connection_of,
    status,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.flowcontrol.load_meter import LoadClass


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
    assert {200: 1} == bench.counters.responses
    bench.assert_at_rest()


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (ConnectionRefusedError(111, "refused"), b"502"),
        (OSError("odd"), b"502"),
        (TimeoutError(), b"504"),
        ("lost", b"502"),
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


CUT = b"Content-Length: 9\r\n\r\n123"


@pytest.mark.parametrize(
    ("answer", "code", "failed"),
    [
        (OK, b"200", 0),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", b"404", 0),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", b"503", 1),
        (b"HTTP/1.1 500 No\r\n" + CUT, b"500", 1),
        (b"HTTP/1.1 200 OK\r\n" + CUT, b"200", 1),
        *((begun, b"502", 1) for begun in (b"nonsense\r\n\r\n", b"", b"HTTP/1.1 2")),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"502", 1),
    ],
)
@pytest.mark.parametrize("error", [None, ConnectionResetError("reset")], ids=["closed", "reset"])
def test_an_upstream_that_breaks_off(
    bench: Bench, answer: bytes, code: bytes, failed: int, error: Exception | None
) -> None:
    client = bench.ask(GET)
    bench.send(bench.upstreams[0], answer)
    bench.end(bench.upstreams[0], error)

    assert b"HTTP/1.1 %b " % code in client.take()
    assert 0 == bench.counters.upstream_retries
    assert failed == sum(level.failed_total for level in bench.controller.levels.values())
    assert (b"123" in answer) == bool(client.ended_by)
    bench.assert_at_rest()


def warmed_up(bench: Bench) -> None:
    client = bench.ask(GET)
    bench.send(bench.upstreams[0], OK)
    bench.end(client)
    bench.upstreams[0].take()


@pytest.mark.parametrize(
    ("request_", "waited_s", "is_retried"),
    [
        (GET, 0, True),
        (LOG, 0, True),
        (LOG, 60, False),
        (GET.replace(b"GET", b"DELETE"), 0, False),
        (POST.replace(b"POST", b"PUT") + b"\r\nbody", 0, False),
    ],
    ids=["a-request", "long-running", "that-has-waited", "a-deletion", "with-a-body"],
)
def test_request_on_a_stale_connection(
    bench: Bench, request_: bytes, waited_s: float, *, is_retried: bool
) -> None:
    warmed_up(bench)
    client = bench.ask(request_)
    sent = bench.upstreams[0].take()
    bench.wait(waited_s)
    bench.end(bench.upstreams[0])
    if is_retried:
        assert b"" == client.take()
        bench.connect()
        assert sent == bench.upstreams[1].take()
        bench.send(bench.upstreams[1], OK)
    answer = client.take()

    assert (b"200" if is_retried else b"502") == status(answer)
    assert b"Retry-After" not in answer
    assert is_retried == bench.counters.upstream_retries
    bench.wait(10)
    bench.assert_at_rest()


def test_nothing_is_retried_twice(bench: Bench) -> None:
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


@pytest.mark.parametrize(("timeout_s", "telling"), [(4, 0), (5, 1)])
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


@pytest.mark.parametrize("is_whole", [True, False], ids=["in-one-read", "in-two-reads"])
@pytest.mark.parametrize(
    ("code", "learned"),
    [pytest.param(b"200", True, id="success"), pytest.param(b"403", False, id="refusal")],
)
def test_lists_teach_their_cost(bench: Bench, is_whole: bool, code: bytes, learned: bool) -> None:
    client = bench.ask(LIST)
    head = b"HTTP/1.1 " + code + b" X\r\nContent-Length: 4\r\n\r\n"
    for piece in [head + b"body"] if is_whole else [head + b"bo", b"dy"]:
        bench.send(bench.upstreams[0], piece)

    assert code == status(client.take())
    stats = bench.costs.object_stats(parse_attributes("GET", b"/api/v1/pods"))
    assert learned is (stats is not None)
    bench.assert_at_rest()


LOG_WITH_BODY = LOG.replace(b"\r\n\r\n", b"\r\nContent-Length: 4\r\n\r\n")


@pytest.fixture
def patient() -> Iterator[Bench]:
    with Bench(
        downstream=DownstreamSettings(
            request_timeout_s=100, limits=LimitSettings(min_body_rate_bytes=0)
        ),
        upstream=UpstreamSettings(url=Address(host="upstream", port=80), answer_timeout_s=10),
    ) as bench:
        yield bench


@pytest.mark.parametrize("request_", [GET, POST + b"\r\nbody"])
def test_upstream_has_its_time_after_the_queue(patient: Bench, request_: bytes) -> None:
    first, second = patient.ask(GET), patient.ask(request_)
    patient.wait(9)
    patient.send(patient.upstreams[0], OK)
    assert b"200" == status(first.take())
    patient.wait(9)
    assert b"" == second.take()
    patient.wait(1)

    assert b"504" == status(second.take())
    assert 1 == patient.counters.upstream.failures[UpstreamFailure.ANSWER_TIMEOUT]
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


LARGE_POST = POST.replace(b"Length: 4", b"Length: 100000") + b"\r\n"
SWEEP_S = 0.25


def bench_of(**limits: Any) -> Bench:  # noqa: ANN401  settings by their names
    return Bench(
        gathered_body_bytes=8, downstream=DownstreamSettings(limits=LimitSettings(**limits))
    )


def sized_post(length: int) -> bytes:
    return POST.replace(b"4", b"%d" % length) + b"\r\n"


def test_start_of_a_large_body_is_waited_for() -> None:
    with bench_of() as bench:
        client = bench.ask(sized_post(20) + b"1234567")
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
        CHUNKED_POST + b"\r\n1\r\nb\r\n",
        POST + b"Expect: 100-continue\r\n\r\n",
        POST.replace(b"a/pods", b"a/pods/b/exec") + b"\r\nb",
    ],
)
def test_other_bodies_are_not_waited_for(request_: bytes) -> None:
    with bench_of() as bench:
        client = bench.ask(request_)
        assert b"POST" in bench.upstreams[0].take()
        bench.assert_at_rest(client)


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


def pause(bench: Bench, client: FakeTransport) -> None:
    connection_of(client).pause_writing()
    bench.send(bench.upstreams[0], b"4\r\nmore\r\n")


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


@pytest.mark.parametrize(
    ("request_", "answer", "expected"),
    [
        pytest.param(GET, OK, ("get", "pods", 1), id="a-response"),
        pytest.param(LIST, OK, ("list", "pods", 1), id="a-list"),
        pytest.param(
            GET,
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            ("get", "pods", 0),
            id="an-error-of-the-client",
        ),
        *(
            pytest.param(
                GET, b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % code, None, id=f"{code}"
            )
            for code in (429, 500, 503)
        ),
        pytest.param(GET, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", None, id="cut-short"),
        pytest.param(WATCH, OK, None, id="a-watch"),
        pytest.param(LOG, OK, None, id="long-running"),
    ],
)
def test_responses_that_a_limit_is_found_from(
    bench: Bench, request_: bytes, answer: bytes, expected: LoadClass | None
) -> None:
    meter = bench.context.load_meter = LoadMeter()
    client = bench.ask(request_)
    bench.wait(2)
    bench.send(bench.upstreams[0], answer)
    bench.end(client)

    assert ({} if expected is None else {expected: (1.0, 2.0)}) == meter.take()


@pytest.mark.parametrize(
    ("request_", "code", "distress"),
    [
        *((GET, code, 1) for code in (429, 503, 504)),
        *((GET, code, 0) for code in (404, 500)),
        *((request, 503, 0) for request in (WATCH, LOG)),
    ],
)
def test_responses_of_distress(bench: Bench, request_: bytes, code: int, distress: int) -> None:
    """Requests that the limit does not hold back say nothing of it."""
    meter = bench.context.load_meter = LoadMeter()
    bench.ask(request_)
    bench.send(bench.upstreams[0], b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % code)

    assert distress == meter.distress


def test_exempt_responses_tell_of_no_distress(bench: Bench) -> None:
    bench.apply(OBJECTS.replace(b"Configuration: {name: queued}", b"Configuration: {name: exempt}"))
    meter = bench.context.load_meter = LoadMeter()
    bench.ask(GET)
    bench.send(bench.upstreams[0], b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")

    assert 0 == meter.distress


def test_no_limit_is_found_from_what_two_servers_took(bench: Bench) -> None:
    warmed_up(bench)
    meter = bench.context.load_meter = LoadMeter()
    client = bench.ask(GET)
    bench.end(bench.upstreams[0])
    bench.connect()
    bench.send(bench.upstreams[1], OK)

    assert b"200" == status(client.take())
    assert {} == meter.take()


def test_observed_responses_count_without_seats() -> None:
    """The server has them all, also those that would wait or be rejected."""
    with Bench(idle_upstreams=6, enforcement=OBSERVE) as bench:
        meter = bench.context.load_meter = LoadMeter()
        for _ in range(6):
            bench.ask(GET)
        bench.wait(1)
        for upstream in bench.upstreams:
            bench.send(upstream, OK)

        assert {("get", "pods", 1): (6.0, 6.0)} == meter.take()
