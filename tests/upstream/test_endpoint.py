"""One server behind: what requests tell of it, what it is asked, and connections to it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
from typing import TYPE_CHECKING

import pytest

from apfproxy.http.read_buffer import WRITE_HIGH_WATER_BYTES
from apfproxy.http.response_head import MAX_HEAD_BYTES
from apfproxy.settings import Address, EndpointAddress, UpstreamSettings
from apfproxy.upstream import endpoint
from apfproxy.upstream.connecting import (
    CONNECTION,
    TLS_HANDSHAKE,
    ConnectTimeoutError,
    connect_failure,
    connected_socket,
)
from apfproxy.upstream.counters import PoolCounters, UpstreamFailure
from apfproxy.upstream.health_check import NoAnswerError, question, status_text
from apfproxy.upstream.idle_limit import FORGOTTEN_NS, IdleLimit
from apfproxy.upstream.pool import Pool
from apfproxy.upstream.response_sink import ResponseSink
from tests.end_to_end.scene import on_uvloop
from tests.proxy.fakes import OK, Bench, FakeTransport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.http.read_buffer import Piece
    from apfproxy.http.response_head import ResponseHead
    from apfproxy.upstream.endpoint import UpstreamConnection


class Endpoint(endpoint.Endpoint):
    """Counts how often it is said to fail."""

    def __init__(self, max_failures_in_row: int) -> None:
        super().__init__(
            EndpointAddress(address=Address(host="a", port=1)),
            UpstreamSettings(url=Address(host="a", port=1)),
            PoolCounters(),
            None,
            lambda: 0,
            on_closed=lambda _: None,
            on_failing=self._count,
        )
        self.max_failures_in_row = max_failures_in_row
        self.said = 0

    def _count(self, _: endpoint.Endpoint) -> None:
        self.said += 1


def fail(endpoint: Endpoint, *, is_telling: bool = True) -> None:
    endpoint.fail(UpstreamFailure.CONNECT, "connection refused", is_telling=is_telling)


def test_failures_and_errors_of_a_gateway_count_in_a_row_unless_a_client_brought_them_about() -> (
    None
):
    endpoint, never = Endpoint(3), Endpoint(0)
    for status in (502, 503, 501, 504, 503, 505, 504):
        endpoint.answered(status, 1000)
    assert 1 == endpoint.failures_in_row
    fail(endpoint)
    fail(endpoint, is_telling=False)
    assert (2, 0) == (endpoint.failures_in_row, endpoint.said)
    endpoint.answered(503, 1000)
    fail(never)  # it has no number of failures with which it fails

    assert (3, 1) == (endpoint.failures_in_row, endpoint.said)
    assert {501: 1, 502: 1, 503: 3, 504: 2, 505: 1} == endpoint.counters.answers
    assert 2 == endpoint.counters.failures[UpstreamFailure.CONNECT]
    assert (1, 0) == (never.failures_in_row, never.said)


@pytest.mark.parametrize("failure", UpstreamFailure)
def test_first_failure_of_one_of_several_is_told_unless_it_is_slow(
    failure: UpstreamFailure,
) -> None:
    endpoint = Endpoint(5)
    endpoint.is_one_of_several = True
    endpoint.fail(failure, "it is")

    assert (failure is not UpstreamFailure.ANSWER_TIMEOUT) == bool(endpoint.said)
    assert not endpoint.has_failed_enough


async def endpoint_at(listener: asyncio.Server) -> endpoint.Endpoint:
    address = Address(host="127.0.0.1", port=listener.sockets[0].getsockname()[1])
    [found] = Pool(UpstreamSettings(url=address), PoolCounters()).endpoints
    return found


async def test_probe_connects_and_closes() -> None:
    is_closed = asyncio.Event()

    async def see_it_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""
        writer.close()
        is_closed.set()

    async with await asyncio.start_server(see_it_close, "127.0.0.1", 0) as listener:
        endpoint = await endpoint_at(listener)
        await endpoint.probe()
        assert not endpoint.open
        await is_closed.wait()

    with pytest.raises(ConnectionRefusedError):
        await endpoint.probe()


# Checks.

S = 1_000_000_000
MS = 1_000_000
HANGS = b""
CLOSES = b"\0"
QUESTION = question("GET", "/readyz", "a.example")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", 403),
        (b"HTTP/1.1 200\r\n\r\n" + b"x" * 100_000, 200),
        (b"HTTP/1.0 500 Internal Server Error\r\n\r\n", 500),
        (HANGS, "no answer to a check within 0.05 s"),
        (CLOSES, "it closes the connection without an answer"),
        (b"HTTP/1.1 20", "it closes the connection without an answer"),
        (b"HTTP/1.1 2x0 OK\r\n\r\n", "its answer is not HTTP/1.1"),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", "its answer is not HTTP/1.1"),
    ],
)
@pytest.mark.parametrize("is_bit_by_bit", [False, True])
@on_uvloop
async def test_check_reads_the_status_code_alone(
    answer: bytes, *, expected: int | str, is_bit_by_bit: bool
) -> None:
    asked: list[bytes] = []

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        if answer == HANGS:
            await reader.read()
        elif answer != CLOSES:
            for piece in [answer[at : at + 1] for at in range(20)] if is_bit_by_bit else [answer]:
                writer.write(piece)
                await asyncio.sleep(0)
        writer.close()

    async with await asyncio.start_server(behave, "127.0.0.1", 0) as listener:
        endpoint = await endpoint_at(listener)
        limit_s = 0.05 if answer == HANGS else 60.0
        if isinstance(expected, int):
            assert expected == await endpoint.ask(QUESTION, limit_s)
        else:
            with pytest.raises(NoAnswerError, match=expected) as caught:
                await endpoint.ask(QUESTION, limit_s)
            assert (answer == HANGS) is (caught.value.kind is UpstreamFailure.ANSWER_TIMEOUT)
        assert not endpoint.open

    assert [QUESTION] == asked


def test_status_text_has_the_meaning_if_there_is_one() -> None:
    assert ["302 Found", "399"] == [status_text(302), status_text(399)]


# Connections.


class Sink(ResponseSink):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.reason = ""
        self.body = b""

    def on_interim(self, head: ResponseHead) -> None:
        self.told.append(f"interim {head.status}")

    def on_response(self, head: ResponseHead, body: Piece, *, is_whole: bool) -> None:
        self.told.append(f"response {head.status}")
        self.body = bytes(body)
        if is_whole:
            self.told.append("end")

    def on_body(self, pieces: Sequence[Piece], *, is_last: bool, trailers: bytes = b"") -> None:
        self.body += b"".join(pieces)
        if is_last:
            self.told.append(f"end{trailers.decode('latin-1')}")

    def on_switch(self, head: ResponseHead, raw: bytes, rest: bytes) -> None:
        raise AssertionError((head, raw, rest))

    def on_broken(self, reason: str, *, may_retry: bool) -> None:
        self.reason = reason
        self.told.append("broken, may retry" if may_retry else "broken")

    def on_upstream_writable(self) -> None:
        self.told.append("writable")

    def fail(self, error: Exception) -> None:
        raise error


def acquired(bench: Bench, sink: Sink) -> tuple[UpstreamConnection, FakeTransport]:
    connection = bench.pool.acquire()
    assert connection is not None
    connection.send(sink, b"request", is_head=False)
    return connection, bench.upstreams[-1]


def test_one_request(bench: Bench) -> None:
    sink = Sink()
    connection, upstream = acquired(bench, sink)
    connection.send_more(b" more")
    bench.send(upstream, OK)
    assert b"request more" == upstream.take()
    assert (12, len(OK)) == (bench.counters.pool.bytes_sent, bench.counters.pool.bytes_received)
    assert WRITE_HIGH_WATER_BYTES == upstream.high_water
    assert ["response 200", "end"] == sink.told


def test_pausing_twice_or_after_the_end_does_no_harm(bench: Bench) -> None:
    connection, upstream = acquired(bench, Sink())
    connection.resume_reading()
    connection.pause_reading()
    connection.pause_reading()
    assert not upstream.reads
    connection.resume_reading()
    connection.resume_reading()
    assert upstream.reads
    connection.abort()
    connection.pause_reading()
    connection.abort()

    assert "abort" == upstream.ended_by
    assert 0 == bench.pool.open_count


class Tls:
    """TLS whose other end has said that it ends, or not."""

    def __init__(self, error: type[ssl.SSLError]) -> None:
        self._error = error

    def read(self, _size: int) -> bytes:
        raise self._error


@pytest.mark.parametrize(
    ("tls", "expected"),
    [
        pytest.param(None, "end", id="plain"),
        pytest.param(Tls(ssl.SSLZeroReturnError), "end", id="announced"),
        pytest.param(Tls(ssl.SSLWantReadError), "broken", id="cut-off"),
    ],
)
def test_response_until_the_end_is_whole_by_tls_only_if_its_end_was_said(
    bench: Bench, tls: Tls | None, expected: str
) -> None:
    sink = Sink()
    _, upstream = acquired(bench, sink)
    upstream.tls = tls
    bench.send(upstream, b"HTTP/1.1 200 OK\r\n\r\nall of it, or half")
    bench.end(upstream)

    assert ["response 200", expected] == sink.told


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionResetError(104, "Connection reset by peer"), "broke: Connection reset by peer"),
        (OSError("odd"), "broke: odd"),
        (None, "was closed early"),
    ],
)
def test_reason_of_a_connection_that_breaks(
    bench: Bench, error: Exception | None, reason: str
) -> None:
    sink = Sink()
    acquired(bench, sink)[0].connection_lost(error)

    assert f"the connection {reason}" == sink.reason


def test_sink_that_leaves_at_an_interim_response_hears_no_more(bench: Bench) -> None:
    sink = Sink()
    connection, upstream = acquired(bench, sink)
    sink.on_interim = lambda head: connection.abort()  # type: ignore[method-assign]  # noqa: ARG005  a sink that leaves
    bench.send(upstream, b"HTTP/1.1 100 Continue\r\n\r\n" + OK)

    assert [] == sink.told
    assert "abort" == upstream.ended_by


def test_interim_responses_are_counted_by_request(bench: Bench) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    for count in (10, 32, 32, 33):
        sink = Sink()
        connection, upstream = acquired(bench, sink)
        bench.send(upstream, interim * count + OK)
        ends = ["broken"] if count > 32 else ["response 200", "end"]
        assert ["interim 100"] * min(count, 32) + ends == sink.told
        bench.pool.release(connection, 0)
    assert 1 == len(bench.upstreams)


def test_interim_responses_are_bounded_in_bytes(bench: Bench) -> None:
    """A client that takes none of them makes the proxy hold no more than a head."""
    start, end = b"HTTP/1.1 103 Early Hints\r\nLink: ", b"\r\n\r\n"
    half = MAX_HEAD_BYTES // 2
    interim = start + b"a" * (half - len(start) - len(end)) + end
    for sizes in ((half, half), (half, half), (half, half, 1)):
        sink = Sink()
        connection, upstream = acquired(bench, sink)
        for size in sizes:
            bench.send(upstream, interim if size == half else start + end)
        bench.send(upstream, OK)
        ends = ["response 200", "end"] if len(sizes) == 2 else ["broken"]
        assert ["interim 103"] * 2 + ends == sink.told
        bench.pool.release(connection, 0)


CONNECT, TLS, LATE = (UpstreamFailure.CONNECT, UpstreamFailure.TLS, UpstreamFailure.CONNECT_TIMEOUT)
NO = "no connection to the upstream: "
ODD = ssl.SSLError(1, "odd")
REFUSED = (CONNECT, 502, f"{NO}Connection refused", "connection refused")


def not_tls(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, "odd")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ODD, (TLS, 502, f"no TLS with the upstream: {ODD}", f"no TLS: {ODD}")),
        (
            not_tls("WRONG_VERSION_NUMBER"),
            (
                *(TLS, 502, "no TLS with the upstream: the server does not speak it"),
                "no TLS: the server does not speak it; upstream.url",
            ),
        ),
        (ConnectionRefusedError(111, "Connection refused"), REFUSED),
        (ConnectionRefusedError(111, "Connect call failed ('::1', 1)"), REFUSED),
        (OSError("DNS is away"), (CONNECT, 502, f"{NO}DNS is away", "DNS is away")),
        (OSError(), (CONNECT, 502, NO, "")),
        (UnicodeError("label too long"), (CONNECT, 502, f"{NO}label too long", "label too long")),
        (
            ConnectTimeoutError(CONNECTION, 5),
            (
                *(LATE, 504, "no connection to the upstream within 5 s (upstream.connectTimeout)"),
                "no connection within 5 s",
            ),
        ),
        (
            ConnectTimeoutError(TLS_HANDSHAKE, 0.5),
            (
                *(LATE, 504),
                "no TLS handshake with the upstream within 0.5 s (upstream.tls.handshakeTimeout)",
                "no TLS handshake within 0.5 s",
            ),
        ),
    ],
    ids=[
        *("tls", "plain-http", "refused", "refused-by-a-loop", "acronym", "without-words", "name"),
        *("stalls", "handshake-stalls"),
    ],
)
def test_failures_are_told_apart_for_clients_and_operators(
    error: Exception, expected: tuple[UpstreamFailure, int, str, str]
) -> None:
    found = connect_failure(error)

    assert expected == (found.kind, found.code, found.reason, found.problem)


@on_uvloop
async def test_address_where_nobody_listens() -> None:
    """The error is raised, and nothing keeps it until the next garbage collection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    def refusals() -> int:
        found = [each for each in gc.get_objects() if type(each) is ConnectionRefusedError]
        return sum(each.__traceback__ is not None for each in found)

    gc.collect()
    before = refusals()
    gc.disable()
    try:
        with contextlib.suppress(ConnectionRefusedError):
            await connected_socket("127.0.0.1", port)
            pytest.fail("somebody listens")
        await asyncio.sleep(0)  # the loop forgets its call
        assert before == refusals()
    finally:
        gc.enable()


def taught(*lessons: tuple[int, int], announced: bytes = b"") -> IdleLimit:
    limit = IdleLimit()
    if announced:
        limit.announced(announced)
    for age_ns, now_ns in lessons:
        limit.closed(age_ns, now_ns)
    return limit


@pytest.mark.parametrize(
    ("lessons", "expected"),
    [
        pytest.param([], 0, id="nothing"),
        pytest.param([(2 * S, 9 * S)], 1800 * MS, id="one"),
        pytest.param([(2 * S, 9 * S), (5 * S, 20 * S)], 1800 * MS, id="later-is-nothing-new"),
        pytest.param([(5 * S, 9 * S), (2 * S, 20 * S)], 1800 * MS, id="sooner"),
        pytest.param([(200 * MS, 9 * S)], 0, id="too-soon-for-idleness"),
        pytest.param([(2 * S, 9 * S)] * 9, 1800 * MS, id="many-of-one-age"),
        pytest.param([(2900 * MS, 9 * S), (2 * S, 9 * S)], 1800 * MS, id="about-one-age"),
        pytest.param([(2 * S, 9 * S), (30 * S, 9 * S)], 0, id="a-server-that-ends"),
        pytest.param(
            [(30 * S, 9 * S), (2 * S, 9 * S + 1), (1 * S, 9 * S + 2), (5 * S, 9 * S + 3)],
            0,
            id="with-many",
        ),
        pytest.param(
            [(9 * S, 2 * S), (5 * S, 9 * S), (900 * MS, 9 * S)], 8100 * MS, id="as-it-was-before"
        ),
        pytest.param(
            [(2 * S, 9 * S), (30 * S, 9 * S), (2 * S, 20 * S)], 1800 * MS, id="again-after-that"
        ),
    ],
)
def test_shortest_time_counts_unless_all_connections_ended(
    lessons: list[tuple[int, int]], expected: int
) -> None:
    assert expected == taught(*lessons).limit_ns(21 * S)


def test_a_server_that_is_gone_taught_nothing() -> None:
    limit = taught((9 * S, 2 * S))
    for age_s, now_s, is_lesson in ((5, 90, True), (5, 90, False)):
        assert is_lesson == limit.closed(age_s * S, now_s * S)
    for now_s in (95, 96):
        limit.gone(now_s * S)
        assert 8100 * MS == limit.limit_ns(now_s * S)
    assert limit.closed(5 * S, 100 * S)
    assert not limit.closed(6 * S, 110 * S)
    limit.gone(120 * S)

    assert 4500 * MS == limit.limit_ns(120 * S)


def test_it_is_forgotten_slowly() -> None:
    limit = taught((2 * S, 9 * S))
    periods = [limit.limit_ns(9 * S + number * FORGOTTEN_NS) // MS for number in (0, 1, 2, 3)]
    assert [1800, 3600, 7200, 14400] == periods
    assert 24 * 3600 * S < limit.limit_ns(9 * S + 10**6 * FORGOTTEN_NS) < 1 << 60
    now_ns = 9 * S + 2 * FORGOTTEN_NS

    assert limit.closed(2 * S, now_ns)
    assert 1800 * MS == limit.limit_ns(now_ns)


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (b"Keep-Alive: timeout=5", 4500 * MS),
        (b"keep-alive: max=100, Timeout = 20", 18 * S),
        (b'Keep-Alive: timeout="5"', 4500 * MS),
        (b"Keep-Alive: max=100", 0),
        (b"Keep-Alive: timeout=soon", 0),
        (b"Keep-Alive: timeout=0", 0),
    ],
)
def test_field_of_the_server_counts(field: bytes, expected: int) -> None:
    limit = taught(announced=field)

    assert expected == limit.limit_ns(9 * S)
    assert (expected or 7200 * MS) == taught((8 * S, 9 * S), announced=field).limit_ns(9 * S) or (
        expected > 7200 * MS
    )
