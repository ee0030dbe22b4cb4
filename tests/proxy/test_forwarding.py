"""Responses on their way to the client: each comes whole, or its client can see that it is cut."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import pytest

from apfproxy.proxy.server import exchanges
from apfproxy.settings import HTTP_API, UpstreamSettings
from tests.fuzz.messages import CHUNKED, read_answer
from tests.proxy.fakes import CHUNKED_OK, GET, OK, WATCH, Bench, Linger
from tests.proxy.http2.peer import CLEARTEXT, Http2Peer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SIZED_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
HEAD = GET.replace(b"GET", b"HEAD")
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nA: b\r\n\r\n"
CLOSING = SIZED_HEAD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize("cuts", [(), (-8,), range(1, 200)], ids=["whole", "in-two", "in-bytes"])
@pytest.mark.parametrize(
    ("request_", "answer", "contents", "is_kept"),
    [
        (GET, SIZED_HEAD + b"body", b"body", True),
        (GET, SIZED_HEAD + b"body, more", b"body", False),
        (GET, CHUNKED_OK + b"4\r\nbody\r\n0\r\n\r\n", b"chunked body", True),
        (GET, CHUNKED_OK + b"4\r\nbody\r\n0\r\nA: b\r\n\r\n", b"chunked bodyA: b", True),
        (GET, CHUNKED_OK + b"4\r\nbody\r\n0\r\n\r\n!", b"chunked body", False),
        (GET, CHUNKED_OK + b"0\r\n\r\n", b"chunked ", True),
        (GET, b"HTTP/1.1 204 No\r\n\r\n", b"", True),
        (GET, b"HTTP/1.1 304 N\r\nContent-Length: 4\r\n\r\n", b"", True),
        (GET, b"HTTP/1.1 304 N\r\n\r\nbody", b"", False),
        (HEAD, SIZED_HEAD, b"", True),
        (HEAD, CHUNKED_OK, b"", True),
        (GET, SIZED_HEAD.replace(b"1.1 ", b"1.0 ") + b"body", b"body", False),
        (GET, CLOSING + b"body", b"body", False),
        (GET, INTERIM + SIZED_HEAD + b"body", b"100 103 body", True),
    ],
)
def test_answers(
    bench: Bench,
    request_: bytes,
    answer: bytes,
    contents: bytes,
    is_kept: bool,
    cuts: Sequence[int],
) -> None:
    client = bench.ask(request_)
    places = sorted({0, *(cut % len(answer) for cut in cuts), len(answer)})
    for start, end in itertools.pairwise(places):
        bench.send(bench.upstreams[0], answer[start:end])
    taken = client.take()
    got = b""
    while (found := read_answer(taken, to_head=request_ is HEAD, is_ended=False)).status < 200:
        got += b"%d " % found.status
        taken = taken[found.end :]
    got += b"chunked " if found.framing == CHUNKED else b""
    got += found.body + taken[: found.end].partition(b"\r\n0\r\n")[2].strip(b"\r\n")

    assert contents == got
    assert found.is_whole
    assert len(taken) == found.end
    assert b"Connection" not in taken
    assert is_kept == (bench.pool.idle_count == 1)
    assert is_kept == (not bench.upstreams[0].ended_by)
    assert "" == client.ended_by
    bench.assert_at_rest()


@pytest.mark.parametrize(
    ("version", "line"),
    [
        (b"1.0\r\n", b"Connection: close\r\n\r\n"),
        (b"1.0\r\nConnection: keep-alive\r\n", b"Connection: keep-alive\r\n\r\n"),
        (b"1.1\r\nConnection: close\r\n", b"Connection: close\r\n\r\n"),
    ],
)
def test_connection_is_kept_as_the_client_says(bench: Bench, version: bytes, line: bytes) -> None:
    request_ = GET.replace(b"1.1\r\n", version)
    client = bench.ask(request_)
    bench.send(bench.upstreams[0], b"HTTP/1.1 100 Continue\r\n\r\n" + OK)
    answer = client.take()

    assert line in answer
    assert (b" 100 " in answer) == (b" HTTP/1.1" in request_)
    assert client.has_eof == (b"close" in line)
    assert 1 == bench.pool.idle_count
    bench.assert_at_rest()


TARGET = b"/anything"
HEADS = {
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n",
    "sized": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome",
    "until-close": b"HTTP/1.1 200 OK\r\n\r\nsome",
    "events": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n",
}
CHUNKED_END = b"5\r\n more\r\n0\r\n\r\n"
WHOLE, CUT, OPEN = "whole", "cut", "open"


class Http1Client:
    """A client of HTTP/1.0 or HTTP/1.1, with the start of a body if that is to be malformed."""

    def __init__(self, bench: Bench, version: bytes, target: bytes, *, has_body: bool) -> None:
        self._answer = b""
        self.transport = bench.client()
        self.transport.plain_socket = self.linger = Linger()
        head = b"%b %b HTTP/%b\r\nHost: h\r\n" % (b"POST" if has_body else b"GET", target, version)
        head += b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n" if has_body else b"\r\n"
        bench.send(self.transport, head)

    def spoil(self, bench: Bench) -> None:
        bench.send(self.transport, b"no chunk\r\n")

    def verdict(self) -> tuple[str, bytes]:
        self._answer += self.transport.take()
        has_ended = bool(self.transport.ended_by) or self.transport.has_eof
        is_end = has_ended and not self.linger.resets
        answer = read_answer(self._answer, to_head=False, is_ended=is_end)
        return WHOLE if answer.is_whole else CUT if has_ended else OPEN, answer.body


class Http2Client:
    def __init__(self, bench: Bench, target: bytes, *, has_body: bool) -> None:
        self._peer = Http2Peer(bench)
        self.transport = self._peer.transport
        fields = [(b"content-length", b"4")] if has_body else []
        method = b"POST" if has_body else b"GET"
        self._stream = self._peer.ask(target, method, fields, b"" if has_body else None)

    def spoil(self, bench: Bench) -> None:  # noqa: ARG002  the other's signature
        self._peer.h2.send_data(self._stream, b"too much", end_stream=True)
        self._peer.send()

    def verdict(self) -> tuple[str, bytes]:
        self._peer.take()
        answer = self._peer.answers[self._stream]
        has_ended = answer.reset_by is not None or bool(self.transport.ended_by)
        return WHOLE if answer.is_whole else CUT if has_ended else OPEN, answer.body


Client = Http1Client | Http2Client
CLIENTS = ["1.0", "1.1", "2"]


def client_of(
    bench: Bench, version: str, target: bytes = TARGET, *, has_body: bool = False
) -> Client:
    if version == "2":
        return Http2Client(bench, target, has_body=has_body)
    return Http1Client(bench, version.encode(), target, has_body=has_body)


class Case(NamedTuple):
    bench: Bench
    client: Client
    framing: str


def ends(case: Case) -> None:
    is_chunked = b"chunked" in HEADS[case.framing]
    case.bench.send(case.bench.upstreams[0], CHUNKED_END if is_chunked else b" more")
    if case.framing == "until-close":
        case.bench.end(case.bench.upstreams[0])


def upstream_closes(case: Case) -> None:
    case.bench.end(case.bench.upstreams[0])


def upstream_resets(case: Case) -> None:
    case.bench.end(case.bench.upstreams[0], ConnectionResetError(104, "Connection reset by peer"))


def time_is_over(case: Case) -> None:
    case.bench.wait(61)


def proxy_drains(case: Case) -> None:
    for each in exchanges(case.bench.listener.connections):
        assert not each.can_end_watch
        each.end_watch()
        assert not each.has_websocket
        each.close_websocket()
    case.bench.loop.run_ready()


def proxy_stops(case: Case) -> None:
    proxy_drains(case)
    for each in sorted(case.bench.listener.connections, key=lambda each: each.has_seats):
        each.leave()
    case.bench.loop.run_ready()


def cluster_goes(case: Case) -> None:
    for each in exchanges(case.bench.listener.connections, case.bench.context):
        each.client.leave()
    case.bench.loop.run_ready()


def program_fails(case: Case) -> None:
    case.bench.loop.errors = []
    [connection] = case.bench.pool.endpoints[0].open
    assert connection.sink is not None
    connection.sink.fail(RuntimeError("on purpose"))
    case.bench.loop.run_ready()
    assert case.bench.loop.errors


def client_half_closes(case: Case) -> None:
    case.bench.end(case.client.transport)


WAYS: dict[Callable[[Case], None], str] = {
    ends: WHOLE,
    upstream_closes: CUT,
    upstream_resets: CUT,
    time_is_over: CUT,
    proxy_drains: OPEN,
    proxy_stops: CUT,
    cluster_goes: CUT,
    program_fails: CUT,
    client_half_closes: CUT,
}


def bench_of(seen: str) -> Bench:
    upstream = UpstreamSettings(abandoned_wait_s=5.0 if seen == "abandoned" else 0.0)
    return Bench(preset=HTTP_API, downstream=CLEARTEXT, upstream=upstream)


@pytest.mark.parametrize("version", CLIENTS)
@pytest.mark.parametrize("framing", HEADS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("server", ["noticed", "abandoned"])
def test_whole_or_cut(way: Callable[[Case], None], framing: str, version: str, server: str) -> None:
    expected = WAYS[way]
    if (way, framing) == (upstream_closes, "until-close"):
        expected = WHOLE  # nothing else says where it ends
    if (way, framing) == (time_is_over, "events"):
        expected = OPEN  # it has none
    with bench_of(server) as bench:
        client = client_of(bench, version)
        bench.send(bench.upstreams[0], HEADS[framing])
        assert (OPEN, b"some") == client.verdict()
        way(Case(bench, client, framing))

        body = b"some more" if way is ends else b"some"
        assert (expected, body) == client.verdict()


@pytest.mark.parametrize("version", CLIENTS)
def test_malformed_chunk(version: str) -> None:
    with bench_of("noticed") as bench:
        client = client_of(bench, version)
        bench.send(bench.upstreams[0], HEADS["chunked"])
        bench.send(bench.upstreams[0], b"no chunk\r\n")

        assert (CUT, b"some") == client.verdict()


@pytest.mark.parametrize("framing", HEADS)
@pytest.mark.parametrize("version", CLIENTS[1:])
def test_malformed_request(framing: str, version: str) -> None:
    with bench_of("noticed") as bench:
        client = client_of(bench, version, has_body=True)
        bench.send(bench.upstreams[0], HEADS[framing])
        client.spoil(bench)

        assert (CUT, b"some") == client.verdict()
        assert 1 == bench.counters.client_aborts


@pytest.mark.parametrize("framing", HEADS)
@pytest.mark.parametrize("is_taken", [True, False])
def test_client_that_takes_nothing(framing: str, *, is_taken: bool) -> None:
    with bench_of("noticed") as bench:
        client = Http1Client(bench, b"1.0", TARGET, has_body=False)
        client.transport.is_stuck = not is_taken
        bench.send(bench.upstreams[0], HEADS[framing])
        client.transport.protocol.pause_writing()
        ends(Case(bench, client, framing))
        assert not client.linger.resets
        bench.wait(3)
        bench.wait(100)

        assert ("close" if is_taken else "abort") == client.transport.ended_by
        assert client.linger.resets == (not is_taken)


@pytest.mark.parametrize("version", CLIENTS)
def test_a_watch_ends_whole(version: str) -> None:
    with Bench(downstream=CLEARTEXT) as bench:
        client = client_of(bench, version, target=WATCH.split(b" ")[1])
        bench.send(bench.upstreams[0], HEADS["chunked"])
        for each in exchanges(bench.listener.connections):
            each.end_watch()
        bench.loop.run_ready()

        assert (WHOLE, b"some") == client.verdict()
        bench.assert_at_rest()
