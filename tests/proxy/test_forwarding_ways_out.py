"""Every way out of an answer that has begun: its client has it whole, or can see that it is cut.

A client of HTTP/1.1 sees the last chunk or all of the length; one of HTTP/1.0 may know the end of
the connection only, so that must be a reset; one of HTTP/2 sees END_STREAM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from apfproxy.settings import HTTP_API, UpstreamSettings
from tests.proxy.fakes import WATCH, Bench, Linger
from tests.proxy.http2.peer import CLEARTEXT, Http2Peer

if TYPE_CHECKING:
    from collections.abc import Callable

TARGET = b"/anything"
HEADS = {
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n",
    "sized": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome",
    "until-close": b"HTTP/1.1 200 OK\r\n\r\nsome",
    "events": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n",
}
ENDS = {
    "chunked": b"5\r\n more\r\n0\r\n\r\n",
    "sized": b" more",
    "until-close": b" more",
    "events": b"5\r\n more\r\n0\r\n\r\n",
}
WHOLE, CUT, OPEN = "whole", "cut", "open"


class Http1Client:
    """A client of HTTP/1.0 or HTTP/1.1, with the start of a body if that is to be malformed.

    Attributes:
        linger: What the kernel does when its connection is closed.
        transport: Its connection.
    """

    def __init__(self, bench: Bench, version: bytes, target: bytes, *, has_body: bool) -> None:
        self._answer = b""
        self.transport = bench.client()
        self.transport.plain_socket = self.linger = Linger()
        head = b"POST " if has_body else b"GET "
        head += target + b" HTTP/" + version + b"\r\nHost: h\r\n"
        head += b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n" if has_body else b"\r\n"
        bench.send(self.transport, head)

    def spoil(self, bench: Bench) -> None:
        bench.send(self.transport, b"no chunk\r\n")

    def verdict(self) -> tuple[str, bytes]:
        self._answer += self.transport.take()
        head, _, body = self._answer.partition(b"\r\n\r\n")
        has_ended = bool(self.transport.ended_by) or self.transport.has_eof
        if b"\r\nTransfer-Encoding: chunked" in head:
            is_whole = body.endswith(b"0\r\n\r\n")
            body = b"".join(body.split(b"\r\n")[1::2])
        elif b"\r\nContent-Length: 9" in head:
            is_whole = len(body) == 9
        else:
            is_whole = has_ended and not self.linger.resets
        return WHOLE if is_whole else CUT if has_ended else OPEN, body


class Http2Client:
    """A client of HTTP/2.

    Attributes:
        transport: Its connection.
    """

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


def over_http_10(bench: Bench, target: bytes = TARGET, *, has_body: bool = False) -> Client:
    """A client that knows no chunks; it sends no body of a kind that could be malformed."""
    assert not has_body
    return Http1Client(bench, b"1.0", target, has_body=False)


def over_http_11(bench: Bench, target: bytes = TARGET, *, has_body: bool = False) -> Client:
    return Http1Client(bench, b"1.1", target, has_body=has_body)


def over_http_2(bench: Bench, target: bytes = TARGET, *, has_body: bool = False) -> Client:
    return Http2Client(bench, target, has_body=has_body)


CLIENTS = [over_http_10, over_http_11, over_http_2]


class Case(NamedTuple):
    """An answer under way.

    Attributes:
        bench: The data plane.
        client: Whose answer it is.
        framing: The server's.
    """

    bench: Bench
    client: Client
    framing: str


def ends(case: Case) -> None:
    case.bench.send(case.bench.upstreams[0], ENDS[case.framing])
    if case.framing == "until-close":
        case.bench.end(case.bench.upstreams[0])


def upstream_closes(case: Case) -> None:
    case.bench.end(case.bench.upstreams[0])


def upstream_resets(case: Case) -> None:
    case.bench.end(case.bench.upstreams[0], ConnectionResetError(104, "Connection reset by peer"))


def time_is_over(case: Case) -> None:
    case.bench.wait(61)


def proxy_drains(case: Case) -> None:
    for each in list(case.bench.listener.connections):
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
    """What the cluster still has is broken; the connection of HTTP/2 stays."""
    for each in [
        each for each in case.bench.listener.connections if each.is_serving(case.bench.context)
    ]:
        each.leave()
    case.bench.loop.run_ready()


def program_fails(case: Case) -> None:
    case.bench.loop.errors = []
    [connection] = case.bench.pool.endpoints[0].open
    assert connection.sink is not None
    connection.sink.fail(RuntimeError("on purpose"))
    case.bench.loop.run_ready()
    assert case.bench.loop.errors


def client_half_closes(case: Case) -> None:
    """The client sends no more, and is taken to be gone; it may still read."""
    case.bench.end(case.client.transport)


WAYS: dict[str, tuple[Callable[[Case], None], str]] = {
    "through": (ends, WHOLE),
    "closed": (upstream_closes, CUT),
    "reset": (upstream_resets, CUT),
    "deadline": (time_is_over, CUT),
    "drain": (proxy_drains, OPEN),
    "stop": (proxy_stops, CUT),
    "cluster": (cluster_goes, CUT),
    "error": (program_fails, CUT),
    "half-close": (client_half_closes, CUT),
}


def bench_of(seen: str) -> Bench:
    """A data plane before any API, whose clients may speak HTTP/2."""
    upstream = UpstreamSettings(abandoned_wait_s=5.0 if seen == "abandoned" else 0.0)
    return Bench(preset=HTTP_API, downstream=CLEARTEXT, upstream=upstream)


@pytest.mark.parametrize("over", CLIENTS)
@pytest.mark.parametrize("framing", HEADS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("server", ["noticed", "abandoned"])
def test_whole_or_cut(way: str, framing: str, over: Callable[..., Client], server: str) -> None:
    """Whatever ends it, and whether or not the server's answer is waited for after that."""
    act, expected = WAYS[way]
    if (way, framing) == ("closed", "until-close"):
        expected = WHOLE  # nothing else says where it ends
    if (way, framing) == ("deadline", "events"):
        expected = OPEN  # it has none
    with bench_of(server) as bench:
        client = over(bench)
        bench.send(bench.upstreams[0], HEADS[framing])
        assert (OPEN, b"some") == client.verdict()
        act(Case(bench, client, framing))

        body = b"some more" if way == "through" else b"some"
        assert (expected, body) == client.verdict()


@pytest.mark.parametrize("over", CLIENTS)
def test_malformed_chunk(over: Callable[..., Client]) -> None:
    with bench_of("noticed") as bench:
        client = over(bench)
        bench.send(bench.upstreams[0], HEADS["chunked"])
        bench.send(bench.upstreams[0], b"no chunk\r\n")

        assert (CUT, b"some") == client.verdict()


@pytest.mark.parametrize("over", CLIENTS)
def test_malformed_first_chunk(over: Callable[..., Client]) -> None:
    with bench_of("noticed") as bench:
        client = over(bench)
        bench.send(bench.upstreams[0], HEADS["chunked"].replace(b"4\r\n", b"no\r\n"))

        assert (CUT, b"") == client.verdict()


@pytest.mark.parametrize("framing", HEADS)
@pytest.mark.parametrize("over", CLIENTS[1:])
def test_malformed_request(framing: str, over: Callable[..., Client]) -> None:
    with bench_of("noticed") as bench:
        client = over(bench, has_body=True)
        bench.send(bench.upstreams[0], HEADS[framing])
        client.spoil(bench)

        assert (CUT, b"some") == client.verdict()


@pytest.mark.parametrize("framing", HEADS)
@pytest.mark.parametrize("is_taken", [True, False])
def test_client_that_takes_nothing(framing: str, *, is_taken: bool) -> None:
    """What waits for it in the proxy is thrown away in the end: then no part of it seems whole."""
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


@pytest.mark.parametrize("over", CLIENTS)
def test_a_watch_ends_whole(over: Callable[..., Client]) -> None:
    """It alone is ended by a drain, as its client resumes it."""
    with Bench(downstream=CLEARTEXT) as bench:
        client = over(bench, target=WATCH.split(b" ")[1])
        bench.send(bench.upstreams[0], HEADS["chunked"])
        for each in list(bench.listener.connections):
            each.end_watch()
        bench.loop.run_ready()

        assert (WHOLE, b"some") == client.verdict()
        bench.assert_at_rest()
