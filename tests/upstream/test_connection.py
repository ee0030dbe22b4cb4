"""A connection to the upstream, by itself: what it tells the one whose request it carries."""

from __future__ import annotations

import itertools
import ssl
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apfproxy.http.read_buffer import WRITE_HIGH_WATER_BYTES
from apfproxy.http.response_head import ResponseError
from apfproxy.upstream.response_sink import ResponseSink
from tests.proxy.fakes import CHUNKED_OK, OK, Bench, FakeTransport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.http.read_buffer import Piece
    from apfproxy.http.response_head import ResponseHead
    from apfproxy.upstream.endpoint import UpstreamConnection


class Sink(ResponseSink):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.reason = ""
        self.body = b""
        self.rest = b""

    def on_interim(self, head: ResponseHead) -> None:
        """Write it down."""
        self.told.append(f"interim {head.status}")

    def on_response(self, head: ResponseHead, body: Piece, *, is_whole: bool) -> None:
        """Write it down."""
        self.told.append(f"answer {head.status}")
        self.body = bytes(body)
        if is_whole:
            self.told.append("end")

    def on_body(self, pieces: Sequence[Piece], *, is_last: bool, trailers: bytes = b"") -> None:
        """Write it down, however the body is cut."""
        self.body += b"".join(pieces)
        if is_last:
            self.told.append(f"end{trailers.decode('latin-1')}")

    def on_switch(self, head: ResponseHead, raw: bytes, rest: bytes) -> None:
        """Refuse it."""
        self.told.append(f"switch {head.status} {raw[9:12]!r}")
        self.rest = rest
        raise ResponseError("an unexpected answer 101")

    def on_broken(self, reason: str, *, may_retry: bool) -> None:
        """Write it down."""
        assert reason
        self.reason = reason
        self.told.append("broken, may retry" if may_retry else "broken")

    def on_upstream_writable(self) -> None:
        """Write it down."""
        self.told.append("writable")

    def fail(self, error: Exception) -> None:
        """Let nothing be hidden."""
        raise error


def acquired(
    bench: Bench, sink: Sink, *, is_head: bool = False
) -> tuple[UpstreamConnection, FakeTransport]:
    """Begin a request on the idle connection."""
    connection = bench.pool.acquire()
    assert connection is not None
    connection.send(sink, b"request", is_head=is_head)
    return connection, bench.upstreams[-1]


def test_sends_and_counts(bench: Bench) -> None:
    """What goes out and comes in is counted; the write buffer has a limit."""
    connection, upstream = acquired(bench, Sink())
    connection.send_more(b" more")
    bench.send(upstream, OK)

    assert b"request more" == upstream.take()
    assert (12, len(OK)) == (bench.counters.pool.bytes_sent, bench.counters.pool.bytes_received)
    assert WRITE_HIGH_WATER_BYTES == upstream.high_water


def test_pauses_once(bench: Bench) -> None:
    """Whoever asks twice, or after the end, does no harm."""
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


def test_nothing_is_told_after_the_end(bench: Bench) -> None:
    """Who gave a connection up hears no more of it."""
    sink = Sink()
    connection, upstream = acquired(bench, sink)
    connection.abort()
    bench.loop.run_ready()
    upstream.protocol.resume_writing()

    assert [] == sink.told


class Tls:
    """TLS whose other end has said that it ends, or not."""

    def __init__(self, error: type[ssl.SSLError]) -> None:
        self._error = error

    def read(self, _size: int) -> bytes:
        """There is nothing to read."""
        raise self._error


@pytest.mark.parametrize(
    ("tls", "expected"),
    [
        pytest.param(None, "end", id="plain"),
        pytest.param(Tls(ssl.SSLZeroReturnError), "end", id="announced"),
        pytest.param(Tls(ssl.SSLWantReadError), "broken", id="cut-off"),
    ],
)
def test_answer_until_the_end(bench: Bench, tls: Tls | None, expected: str) -> None:
    """Over TLS it is whole only if the upstream said that it ends, as anybody can cut it off."""
    sink = Sink()
    _, upstream = acquired(bench, sink)
    upstream.tls = tls
    bench.send(upstream, b"HTTP/1.1 200 OK\r\n\r\nall of it, or half")
    bench.end(upstream)

    assert ["answer 200", expected] == sink.told


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionResetError(104, "Connection reset by peer"), "broke: Connection reset by peer"),
        (OSError("odd"), "broke: odd"),
        (None, "was closed early"),
    ],
)
def test_connection_that_breaks(bench: Bench, error: Exception | None, reason: str) -> None:
    """The client is told in words, without the number of an error."""
    sink = Sink()
    connection, _ = acquired(bench, sink)
    connection.connection_lost(error)

    assert f"the connection {reason}" == sink.reason


def test_sink_that_leaves_at_an_interim_answer(bench: Bench) -> None:
    """What follows in the same read is nobody's."""
    sink = Sink()
    connection, upstream = acquired(bench, sink)
    sink.on_interim = lambda head: connection.abort()  # type: ignore[method-assign]  # noqa: ARG005  a sink that leaves
    bench.send(upstream, b"HTTP/1.1 100 Continue\r\n\r\n" + OK)

    assert [] == sink.told
    assert "abort" == upstream.ended_by


def test_many_answers_on_one_connection(bench: Bench) -> None:
    """The count of interim answers begins anew with each request."""
    for _ in range(5):
        sink = Sink()
        connection, upstream = acquired(bench, sink)
        bench.send(upstream, b"HTTP/1.1 100 Continue\r\n\r\n" * 10 + OK)
        assert ["interim 100"] * 10 + ["answer 200", "end"] == sink.told
        bench.pool.release(connection, 0)
    assert 1 == len(bench.upstreams)


def test_shows_its_state(bench: Bench) -> None:
    """A log can read it."""
    idle = bench.pool.acquire()
    assert idle is not None
    assert "<UpstreamConnection idle>" == repr(idle)
    bench.pool.release(idle, 0)
    connection, _ = acquired(bench, Sink())
    assert "<UpstreamConnection busy>" == repr(connection)
    connection.abort()
    assert "<UpstreamConnection closed>" == repr(connection)


ANSWERS = [
    OK,
    CHUNKED_OK + b"2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\n",
    CHUNKED_OK + b"2\r\nab\r\n0\r\nA: b\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\nbody",
    b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nbody",
    b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    CHUNKED_OK + b"1\r\nabc\r\n",
]
answers = st.one_of(
    st.sampled_from(ANSWERS),
    st.builds(
        lambda answer, place, noise: answer[:place] + noise + answer[place:],
        st.sampled_from(ANSWERS),
        st.integers(0, 90),
        st.binary(max_size=3),
    ),
    st.builds(lambda first, second: first + second, *[st.sampled_from(ANSWERS)] * 2),
    st.binary(max_size=30),
)


def heard(data: bytes, cuts: list[int], *, is_head: bool) -> tuple[list[str], bytes, bool, int]:
    """What a sink is told of those bytes, and whether the connection is of further use."""
    with Bench() as bench:
        sink = Sink()
        connection, upstream = acquired(bench, sink, is_head=is_head)
        places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
        for start, end in itertools.pairwise(places):
            bench.send(upstream, data[start:end])
        # What comes behind a whole answer may come after it, and ends the connection then.
        is_open = not connection.is_closed
        bench.end(upstream)
        # The bytes that came in one read with the head of a 101 are the tunnel's first.
        if any(each.startswith("switch") for each in sink.told):
            begin = b"\r\n\r\n" + sink.rest
            assert any(data[:place].endswith(begin) for place in places)
        return sink.told, sink.body, is_open, bench.pool.open_count


@given(
    data=answers,
    cuts=st.lists(st.integers(0, 120), max_size=6),
    is_head=st.booleans(),
)
@example(data=OK, cuts=list(range(120)), is_head=False)
def test_any_bytes_are_told_alike_however_cut(
    data: bytes, cuts: list[int], *, is_head: bool
) -> None:
    """Any bytes are an answer or a broken connection, once, never an exception."""
    told, body, is_open, left = heard(data, [], is_head=is_head)
    ends = [t for t in told if t.startswith(("end", "broken"))]

    assert 1 == len(ends)
    assert ends == told[-1:]
    assert 0 == left
    told_of_pieces, body_of_pieces, is_open_after_pieces, _ = heard(data, cuts, is_head=is_head)
    assert (told, is_open) == (told_of_pieces, is_open_after_pieces)
    if "broken" not in told:
        assert body == body_of_pieces
