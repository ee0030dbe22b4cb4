"""Work that anybody can cause, without a credential: linear in the bytes that cause it.

Every parser that bytes reach before it is known who sent them is here, with the inputs that would
cost it most.  Each is given eight small inputs, then one that is eight times as long: the second
takes about the CPU time of the first if the work is linear, and eight times that if it grows with
the square.  No time is judged, only their quotient.
"""

from __future__ import annotations

import contextlib
import ipaddress
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from apfproxy.http.chunked import ChunkedDecoder, ChunkedError
from apfproxy.http.grammar import HeadError
from apfproxy.http.response_head import ResponseError, parse_response_head
from apfproxy.settings import (
    ApiKeySettings,
    AuthenticationSettings,
    DownstreamSettings,
    UnverifiedSettings,
)
from tests.proxy.fakes import Bench

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.proxy.fakes import FakeTransport

TIMES = 8
MOST = 3.0
"""Quotient of the two times: 1 for linear work, `TIMES` for work that grows with the square."""
RUNS = 7
"""The fastest of them counts: others may have lost the processor's caches to somebody else."""

TRUSTED = "127.0.0.2"
NAMING = AuthenticationSettings(
    api_keys=ApiKeySettings(file="keys.csv", is_basic=True),
    unverified=UnverifiedSettings(
        secret_headers=("Authorization", "X-Secret"),
        headers=("X-Client-Id",),
        is_by_basic=True,
        is_by_address=True,
    ),
)
"""All that says who clients are."""

PODS = b"/api/v1/pods?"
NAMED = PODS + b"watch=FALSE&fieldSelector=metadata.name=x"
LABELS = NAMED + b"&labelSelector="


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    trusted = (ipaddress.ip_network(TRUSTED),)
    with Bench(
        downstream=DownstreamSettings(identity_headers_from=trusted), authentication=NAMING
    ) as bench:
        yield bench


def growth(work: Callable[[bytes], object], small: bytes, large: bytes) -> float:
    def fastest(data: bytes, times: int) -> int:
        best = 1 << 62
        for _ in range(RUNS):
            begun_ns = time.thread_time_ns()
            for _ in range(times):
                work(data)
            best = min(best, time.thread_time_ns() - begun_ns)
        return best

    return fastest(large, 1) / fastest(small, TIMES)


def repeated(piece: bytes, size: int) -> bytes:
    return piece * (size // len(piece))


def different(piece: bytes, size: int) -> bytes:
    """So many bytes of a piece with a number in it, which is another one each time."""
    made = b"".join(piece % number for number in range(size // len(piece % 0)))
    return made[: made.rindex((piece % 0)[-1:], 0, size) + 1]


def grown(kind: bytes, size: int) -> bytes:
    """So many bytes of the piece in braces; with a number in it another one each time."""
    before, _, rest = kind.partition(b"{")
    piece, _, behind = rest.partition(b"}")
    return before + (different if b"%x" in piece else repeated)(piece, size) + behind


TARGETS = [
    *(
        PODS + each
        for each in b"{a&} {limit&} {a%x=1&} {%41&} {%6cimit&} {limit=%zz&} {+&}".split()
    ),
    *(PODS + b"limit={0}", PODS + b"continue={%ff}", b"/healthz?timeout={1h}"),
    *(
        NAMED + each
        for each in b"{,a=b} {,a%x=b} {,metadata.name=x} {\\,} {\\\\} ,{!\\} {,}".split()
    ),
    *(
        LABELS + each
        for each in b"{a,} {a=b,} a{,a%x} {a+in+(b),} a+in+({b,}b) a+in+({,}b)".split()
    ),
    *(LABELS + each for each in b"{a>9,} {a-} {a.-} {a%00,} {%20}".split()),
    *b"{/} /api/v1/{a/} /healthz{/..} /{%41} /{%5c} /{%ff} http://{a@}/ http://[{:}]/".split(),
    *b"http://[::1%25{%41}]/ http://{a.}/".split(),
]
"""Request targets, whose parsers are those of `request.attributes` and of selectors."""

UPGRADE = b"Connection: upgrade\r\nUpgrade: websocket\r\n"
FIELDS = [
    *(b"{a: b\r\n}", b"{a%x: b\r\n}", b"{a:\r\n}", b"A: {b}\r\n", b"A:{ }x\r\n", b"{a-}: x\r\n"),
    *(b"{a_}: x\r\n", b"Connection: {a,}\r\n", b"Connection: {a%x,}\r\n", b"Connection: { ,}\r\n"),
    *(b"Connection: {a}\r\n", b"{Connection: close\r\n}", UPGRADE + b"Upgrade: {websocket,}\r\n"),
    UPGRADE + b"Sec-WebSocket-Protocol: {a,}\r\n",
    UPGRADE + b"Sec-WebSocket-Protocol: v5, base64url.bearer.authorization.k8s.io.{YWFh}\r\n",
    *(b"Host: {a.}\r\n", b"Content-Length: {0}\r\n", b"Transfer-Encoding: {a,}\r\n"),
    *(b"X-Forwarded-For: {a,}\r\n", b"X-Forwarded-For: {127.0.0.2,}\r\n"),
    *(b"{X-Forwarded-For: 127.0.0.2\r\n}", b"X-Forwarded-For: ::1%{a}\r\n", b"X-API-Key: {k}\r\n"),
    *(b"{X-API-Key: k\r\n}", b"X-Client-Id: {\xc3\xa9}\r\n", b"X-Secret: {k}\r\n"),
    *(b"Authorization: Basic {YWFh}\r\n", b"Authorization: Basic{ }YTpi\r\n"),
    *(
        b"Authorization: {a}\r\n",
        b"Authorization: Token{ }b c\r\n",
        b"Authorization: Bearer{ a}\r\n",
    ),
    *(b"Forwarded: {for=a,}\r\n", b"Cookie: {a=b; }\r\n", b"X-Remote-User: {\xc3\xa9}\r\n"),
    b"X-Remote-User: u\r\nX-Remote-Extra-{%41}: x\r\n",
    b"Impersonate-User: u\r\nImpersonate-Extra-{%41}: x\r\n",
    b"Impersonate-User: u\r\nImpersonate-Group: {g,}\r\n",
]
"""Fields of a head, whose parsers are llhttp, `proxy.request_head`, `.request_fields`, `.upgrade`
and `http.credential_fields`."""


@pytest.mark.parametrize("kind", TARGETS)
def test_targets(bench: Bench, kind: bytes) -> None:
    def head(size: int) -> bytes:
        return b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % grown(kind, size)

    assert growth(partial(read, bench), head(1960), head(1960 * TIMES)) < MOST


@pytest.mark.parametrize("is_trusted", [False, True])
@pytest.mark.parametrize("kind", FIELDS)
def test_fields(bench: Bench, kind: bytes, is_trusted: bool) -> None:
    def head(size: int) -> bytes:
        host = b"" if kind.startswith(b"Host") else b"Host: a\r\n"
        return b"GET /a HTTP/1.1\r\n%b%b\r\n" % (host, grown(kind, size))

    work = partial(read, bench, address=TRUSTED if is_trusted else "10.0.0.1")
    assert growth(work, head(8000), head(8000 * TIMES)) < MOST


def read(bench: Bench, head: bytes, *, address: str = "10.0.0.1") -> None:
    with contextlib.suppress(HeadError):
        bench.request_of(head, address)


# What comes bit by bit: each event costs something, whatever it brings, so they are of one size.

PIECE = 8


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(lambda n: b"GET / HTTP/1.1\r\nA: " + bytes([97]) * n, id="head"),
        pytest.param(lambda n: b"GET / HTTP/1.1\r\n" + repeated(b"A: b\r\n", n), id="lines"),
        pytest.param(lambda n: repeated(b"\r\n", n), id="empty-lines"),
    ],
)
def test_head_in_pieces(bench: Bench, data: Callable[[int], bytes]) -> None:
    def work(data: bytes) -> None:
        client = bench.client()
        feed(client, data)
        client.end()
        bench.loop.run_ready()

    assert growth(work, data(8000), data(8000 * TIMES)) < MOST


def feed(client: FakeTransport, data: bytes) -> None:
    for start in range(0, len(data), PIECE):
        client.feed(data[start : start + PIECE])


CHUNKS = [
    *(b"{1\r\na\r\n}", b"{01\r\na\r\n}", b"{1\r\na\r\n10\r\n0123456789abcdef\r\n}"),
    *(b"{10\r\n0123456789abcdef\r\n}", b"1;{a}", b"{1;a\r\na\r\n}", b"0\r\nA: {b}\r\n\r\n"),
    b"0\r\n{a: b\r\n}\r\n",
]


@pytest.mark.parametrize("piece", [PIECE, 1 << 16])
@pytest.mark.parametrize("kind", CHUNKS)
def test_chunks(kind: bytes, piece: int) -> None:
    def work(data: bytes) -> None:
        decoder = ChunkedDecoder()
        with contextlib.suppress(ChunkedError):
            for start in range(0, len(data), piece):
                decoder.feed(data[start : start + piece])

    # Within the bounds of extensions and trailers.
    size = 500 if kind == b"1;{a}" else 2000 if kind.startswith(b"0") else 7500
    assert growth(work, grown(kind, size), grown(kind, size * TIMES)) < MOST


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 32001", b"Transfer-Encoding: chunked"], ids=["sized", "chunked"]
)
def test_waiting_body(bench: Bench, framing: bytes) -> None:
    holder = bench.ask(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")

    def work(data: bytes) -> None:
        client = bench.ask(b"POST /a HTTP/1.1\r\nHost: a\r\n%b\r\n\r\n" % framing)
        feed(client, data)
        bench.end(client)

    piece = b"3\r\nabc\r\n" if b"chunked" in framing else b"abcdefgh"
    quotient = growth(work, repeated(piece, 4000), repeated(piece, 4000 * TIMES))
    bench.end(holder)

    assert quotient < MOST


def test_requests_that_wait_for_another(bench: Bench) -> None:
    def work(data: bytes) -> None:
        client = bench.ask(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
        feed(client, data)
        bench.end(client)

    one = b"GET / HTTP/1.1\r\nHost:\r\n\r\n"
    assert growth(work, repeated(one, 4000), repeated(one, 4000 * TIMES)) < MOST


@pytest.mark.parametrize(
    "kind",
    [
        *(b"{a: b\r\n}", b"{a%x: b\r\n}", b"Connection: {a,}\r\n", b"{Connection: a%x\r\n}"),
        *(b"{Transfer-Encoding: a\r\n}", b"{a}: b\r\n"),
    ],
)
def test_answers(kind: bytes) -> None:
    def work(data: bytes) -> None:
        with contextlib.suppress(ResponseError):
            parse_response_head(b"HTTP/1.1 200 OK\r\n" + data + b"\r\n", answers_head=False)

    assert growth(work, grown(kind, 30_000), grown(kind, 30_000 * TIMES)) < MOST
