"""Work that clients can cause without a credential: linear in the bytes that cause it.

Each parser that such bytes reach is given eight small inputs that would cost it most, then one that
is eight times as long.  No time is judged, only the quotient of the two.
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
from tests.proxy.fakes import GET, Bench

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TIMES = 8
MOST = 3.0
"""The quotient is 1 for linear work, and `TIMES` for work that grows with the square."""
RUNS = 9
"""At most, of which the fastest count: others may have lost the processor's caches."""

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


def assert_linear(work: Callable[[bytes], object], kind: bytes, size: int) -> None:
    small, large = grown(kind, size), grown(kind, size * TIMES)
    best_of_small = best_of_large = 1 << 62
    for run in range(RUNS):
        best_of_small = min(best_of_small, time_of(work, small, TIMES))
        best_of_large = min(best_of_large, time_of(work, large, 1))
        if run and best_of_large < MOST * best_of_small:
            return
    raise AssertionError(best_of_large / best_of_small)


def time_of(work: Callable[[bytes], object], data: bytes, times: int) -> int:
    begun_ns = time.thread_time_ns()
    for _ in range(times):
        work(data)
    return time.thread_time_ns() - begun_ns


def grown(kind: bytes, size: int) -> bytes:
    """So many bytes of the piece in braces; with a number in it another one each time."""
    before, _, rest = kind.partition(b"{")
    piece, _, behind = rest.partition(b"}")
    if b"%x" not in piece:
        return before + piece * (size // len(piece)) + behind
    made = b"".join(piece % number for number in range(size // len(piece % 0)))
    return before + made[: made.rindex((piece % 0)[-1:], 0, size) + 1] + behind


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
    assert_linear(partial(read, bench), b"GET " + kind + b" HTTP/1.1\r\nHost: a\r\n\r\n", 1960)


@pytest.mark.parametrize("address", [TRUSTED, "10.0.0.1"])
@pytest.mark.parametrize("kind", FIELDS)
def test_fields(bench: Bench, kind: bytes, address: str) -> None:
    host = b"" if kind.startswith(b"Host") else b"Host: a\r\n"
    head = b"GET /a HTTP/1.1\r\n%b%b\r\n" % (host, kind)
    assert_linear(partial(read, bench, address=address), head, 8000)


def read(bench: Bench, head: bytes, *, address: str = "10.0.0.1") -> None:
    with contextlib.suppress(HeadError):
        bench.request_of(head, address)


PIECE = 8
"""Bytes of each read, since each event costs something, whatever it brings."""
POST = b"POST /a HTTP/1.1\r\nHost: a\r\n"


@pytest.mark.parametrize(
    ("begin", "kind"),
    [
        *((b"", b"GET / HTTP/1.1\r\nA: {a}"), (b"", b"GET / HTTP/1.1\r\n{A: b\r\n}")),
        *((b"", b"{\r\n}"), (GET, b"{GET / HTTP/1.1\r\nHost:\r\n\r\n}")),
        (POST + b"Content-Length: 32001\r\n\r\n", b"{abcdefgh}"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"{3\r\nabc\r\n}"),
    ],
    ids=["head", "lines", "empty-lines", "requests", "sized", "chunked"],
)
def test_pieces_of_what_waits(bench: Bench, begin: bytes, kind: bytes) -> None:
    holder = bench.ask(GET)

    def work(data: bytes) -> None:
        client = bench.ask(begin)
        for start in range(0, len(data), PIECE):
            client.feed(data[start : start + PIECE])
        bench.end(client)

    assert_linear(work, kind, 4000)
    bench.end(holder)


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
    assert_linear(work, kind, 500 if kind == b"1;{a}" else 2000)


@pytest.mark.parametrize(
    "kind",
    [
        *(b"{a: b\r\n}", b"{a%x: b\r\n}", b"Connection: {a,}\r\n", b"{Connection: a%x\r\n}"),
        *(b"{Transfer-Encoding: a\r\n}", b"{a}: b\r\n"),
    ],
)
def test_responses(kind: bytes) -> None:
    def work(data: bytes) -> None:
        with contextlib.suppress(ResponseError):
            parse_response_head(data, answers_head=False)

    assert_linear(work, b"HTTP/1.1 200 OK\r\n" + kind + b"\r\n", 30_000)
