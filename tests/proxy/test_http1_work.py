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

from apfproxy.authn.json_web_tokens import JsonWebTokens
from apfproxy.authn.secret_files import StaticTokens
from apfproxy.authn.web_keys import FileKeys
from apfproxy.http.chunked import ChunkedDecoder, ChunkedError
from apfproxy.http.grammar import HeadError
from apfproxy.http.response_head import ResponseError, parse_response_head
from apfproxy.settings import (
    ApiKeySettings,
    AuthenticationSettings,
    DownstreamSettings,
    JwtSettings,
    UnverifiedSettings,
)
from tests.proxy.fakes import Bench

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.proxy.fakes import FakeTransport

TIMES = 8
MOST = 3.0
"""Quotient of the two times: 1 for linear work, `TIMES` for work that grows with the square."""
RUNS = 7
"""Of which the fastest counts: others may have lost the processor's caches to somebody else."""

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
    """How much longer one large input takes than as many bytes of small ones."""

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


def grown(before: bytes, piece: bytes, behind: bytes = b"", *, size: int) -> bytes:
    """So many bytes of a piece between others; of one with a number in it another one each time."""
    return before + (different if b"%x" in piece else repeated)(piece, size) + behind


def different(piece: bytes, size: int) -> bytes:
    """So many bytes of a piece with a number in it, which is another one each time."""
    made = b"".join(piece % number for number in range(size // len(piece % 0)))
    return made[: made.rindex((piece % 0)[-1:], 0, size) + 1]


TARGETS: dict[str, tuple[bytes, ...]] = {
    "parameters": (PODS, b"a&"),
    "known-parameters": (PODS, b"limit&"),
    "different-parameters": (PODS, b"a%x=1&"),
    "escaped-parameters": (PODS, b"%41&"),
    "escaped-known-parameters": (PODS, b"%6cimit&"),
    "bad-escapes": (PODS, b"limit=%zz&"),
    "spaces": (PODS, b"+&"),
    "long-value": (PODS + b"limit=", b"0"),
    "not-utf-8": (PODS + b"continue=", b"%ff"),
    "duration": (b"/healthz?timeout=", b"1h"),
    "field-selector": (NAMED, b",a=b"),
    "field-selector-different": (NAMED, b",a%x=b"),
    "field-selector-names": (NAMED, b",metadata.name=x"),
    "field-selector-escapes": (NAMED, b"\\,"),
    "field-selector-backslashes": (NAMED, b"\\\\"),
    "field-selector-field": (NAMED + b",", b"!\\"),
    "field-selector-commas": (NAMED, b","),
    "label-selector-keys": (LABELS, b"a,"),
    "label-selector-equals": (LABELS, b"a=b,"),
    "label-selector-different": (LABELS + b"a", b",a%x"),
    "label-selector-sets": (LABELS, b"a+in+(b),"),
    "label-selector-values": (LABELS + b"a+in+(", b"b,", b"b)"),
    "label-selector-commas": (LABELS + b"a+in+(", b",", b"b)"),
    "label-selector-numbers": (LABELS, b"a>9,"),
    "label-selector-word": (LABELS, b"a-"),
    "label-selector-domain": (LABELS, b"a.-"),
    "label-selector-nuls": (LABELS, b"a%00,"),
    "label-selector-spaces": (LABELS, b"%20"),
    "slashes": (b"", b"/"),
    "segments": (b"/api/v1/", b"a/"),
    "dots": (b"/healthz", b"/.."),
    "escaped-path": (b"/", b"%41"),
    "backslashes": (b"/", b"%5c"),
    "path-that-is-not-utf-8": (b"/", b"%ff"),
    "user-of-an-authority": (b"http://", b"a@", b"/"),
    "address-of-an-authority": (b"http://[", b":", b"]/"),
    "zone-of-an-authority": (b"http://[::1%25", b"%41", b"]/"),
    "host-of-an-authority": (b"http://", b"a.", b"/"),
}
"""Request targets, whose parsers are those of `request.attributes` and of selectors."""

UPGRADE = b"Connection: upgrade\r\nUpgrade: websocket\r\n"
FIELDS: dict[str, tuple[bytes, ...]] = {
    "lines": (b"", b"a: b\r\n"),
    "different-lines": (b"", b"a%x: b\r\n"),
    "empty-lines-in-front": (b"", b"a:\r\n"),
    "value": (b"A: ", b"b", b"\r\n"),
    "white-space": (b"A:", b" ", b"x\r\n"),
    "name": (b"", b"a-", b": x\r\n"),
    "name-like-another": (b"", b"a_", b": x\r\n"),
    "connection": (b"Connection: ", b"a,", b"\r\n"),
    "connection-different": (b"Connection: ", b"a%x,", b"\r\n"),
    "connection-spaces": (b"Connection: ", b" ,", b"\r\n"),
    "connection-token": (b"Connection: ", b"a", b"\r\n"),
    "connection-lines": (b"", b"Connection: close\r\n"),
    "upgrade": (UPGRADE + b"Upgrade: ", b"websocket,", b"\r\n"),
    "subprotocols": (UPGRADE + b"Sec-WebSocket-Protocol: ", b"a,", b"\r\n"),
    "bearer-subprotocol": (
        UPGRADE + b"Sec-WebSocket-Protocol: v5, base64url.bearer.authorization.k8s.io.",
        b"YWFh",
        b"\r\n",
    ),
    "host": (b"Host: ", b"a.", b"\r\n"),
    "content-length": (b"Content-Length: ", b"0", b"\r\n"),
    "transfer-encoding": (b"Transfer-Encoding: ", b"a,", b"\r\n"),
    "forwarded-for": (b"X-Forwarded-For: ", b"a,", b"\r\n"),
    "forwarded-for-proxies": (b"X-Forwarded-For: ", TRUSTED.encode() + b",", b"\r\n"),
    "forwarded-for-lines": (b"", b"X-Forwarded-For: 127.0.0.2\r\n"),
    "forwarded-for-zone": (b"X-Forwarded-For: ::1%", b"a", b"\r\n"),
    "api-key": (b"X-API-Key: ", b"k", b"\r\n"),
    "api-key-lines": (b"", b"X-API-Key: k\r\n"),
    "client-name": (b"X-Client-Id: ", b"\xc3\xa9", b"\r\n"),
    "secret": (b"X-Secret: ", b"k", b"\r\n"),
    "basic": (b"Authorization: Basic ", b"YWFh", b"\r\n"),
    "basic-spaces": (b"Authorization: Basic", b" ", b"YTpi\r\n"),
    "scheme": (b"Authorization: ", b"a", b"\r\n"),
    "scheme-spaces": (b"Authorization: Token", b" ", b"b c\r\n"),
    "forwarded": (b"Forwarded: ", b"for=a,", b"\r\n"),
    "cookie": (b"Cookie: ", b"a=b; ", b"\r\n"),
    "authorization": (b"Authorization: Bearer", b" a", b"\r\n"),
    "remote-user": (b"X-Remote-User: ", b"\xc3\xa9", b"\r\n"),
    "remote-extra": (b"X-Remote-User: u\r\nX-Remote-Extra-", b"%41", b": x\r\n"),
    "impersonated-extra": (b"Impersonate-User: u\r\nImpersonate-Extra-", b"%41", b": x\r\n"),
    "impersonated-groups": (b"Impersonate-User: u\r\n" + b"Impersonate-Group: ", b"g,", b"\r\n"),
}
"""Fields of a head, whose parsers are llhttp, `proxy.request_head`, `.request_fields`, `.upgrade`
and `http.credential_fields`."""


@pytest.mark.parametrize("kind", TARGETS)
def test_targets(bench: Bench, kind: str) -> None:
    def head(size: int) -> bytes:
        return b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % grown(*TARGETS[kind], size=size)

    assert growth(partial(read, bench), head(1960), head(1960 * TIMES)) < MOST


@pytest.mark.parametrize("is_trusted", [False, True])
@pytest.mark.parametrize("kind", FIELDS)
def test_fields(bench: Bench, kind: str, is_trusted: bool) -> None:
    def head(size: int) -> bytes:
        host = b"" if kind == "host" else b"Host: a\r\n"
        return b"GET /a HTTP/1.1\r\n%b%b\r\n" % (host, grown(*FIELDS[kind], size=size))

    address = TRUSTED if is_trusted else "10.0.0.1"
    work = partial(read, bench, address=address)
    assert growth(work, head(8000), head(8000 * TIMES)) < MOST


def read(bench: Bench, head: bytes, *, address: str = "10.0.0.1") -> None:
    """Read a head as a connection does: parse, check, make attributes."""
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


CHUNKS: dict[str, Callable[[int], bytes]] = {
    "one-byte": lambda n: repeated(b"1\r\na\r\n", n),
    "padded-sizes": lambda n: repeated(b"01\r\na\r\n", n),
    "small-and-not": lambda n: repeated(b"1\r\na\r\n10\r\n" + bytes(16) + b"\r\n", n),
    "two-digits": lambda n: repeated(b"10\r\n" + bytes(16) + b"\r\n", n),
    "extension": lambda n: b"1;" + repeated(b"a", min(n, 4000)),
    "extensions": lambda n: repeated(b"1;a\r\na\r\n", min(n, 60_000)),
    "trailer": lambda n: b"0\r\nA: " + repeated(b"b", n) + b"\r\n\r\n",
    "trailers": lambda n: b"0\r\n" + repeated(b"a: b\r\n", n) + b"\r\n",
}


@pytest.mark.parametrize("piece", [PIECE, 1 << 16])
@pytest.mark.parametrize("kind", CHUNKS)
def test_chunks(kind: str, piece: int) -> None:
    def work(data: bytes) -> None:
        decoder = ChunkedDecoder()
        with contextlib.suppress(ChunkedError):
            for start in range(0, len(data), piece):
                decoder.feed(data[start : start + piece])

    size = 500 if kind == "extension" else 2000 if kind.startswith("trailer") else 7500
    assert growth(work, CHUNKS[kind](size), CHUNKS[kind](size * TIMES)) < MOST


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 32001", b"Transfer-Encoding: chunked"], ids=["sized", "chunked"]
)
def test_waiting_body(bench: Bench, framing: bytes) -> None:
    """Of a body that comes in pieces while its request waits for a seat."""
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
    """Of requests that come in pieces while one of their connection is under way."""

    def work(data: bytes) -> None:
        client = bench.ask(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
        feed(client, data)
        bench.end(client)

    one = b"GET / HTTP/1.1\r\nHost:\r\n\r\n"
    assert growth(work, repeated(one, 4000), repeated(one, 4000 * TIMES)) < MOST


TOKENS: dict[str, Callable[[int], bytes]] = {
    "word": lambda n: repeated(b"a", n),
    "dots": lambda n: repeated(b"a.", n),
    "json": lambda n: b"YQ." + repeated(b"eyJh", n) + b".YQ",
    "nested": lambda n: b"YQ.eyJh" + repeated(b"W1tb", n) + b".YQ",
}


@pytest.mark.parametrize("kind", TOKENS)
def test_tokens(kind: str, tmp_path: Path) -> None:
    """Of bearer tokens, as they are read before anything is known of their signatures."""
    path = tmp_path / "tokens.csv"
    path.write_text("t,user,uid")
    static = StaticTokens(path)
    static.load()
    keys = FileKeys(str(path))
    tokens = JsonWebTokens(JwtSettings(issuer="https://a", audiences=("b",)), keys)

    def work(data: bytes) -> None:
        token = data.decode()
        assert static.check(token).user is None
        verdict = tokens.check(token)
        assert verdict is not None
        assert verdict.user is None

    assert growth(work, TOKENS[kind](1990), TOKENS[kind](1990 * TIMES)) < MOST


ANSWERS: dict[str, Callable[[int], bytes]] = {
    "lines": lambda n: repeated(b"a: b\r\n", n),
    "different-lines": lambda n: different(b"a%x: b\r\n", n),
    "connection": lambda n: b"Connection: " + repeated(b"a,", n) + b"\r\n",
    "connections": lambda n: different(b"Connection: a%x\r\n", n),
    "codings": lambda n: repeated(b"Transfer-Encoding: a\r\n", n),
    "name": lambda n: repeated(b"a", n) + b": b\r\n",
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_answers(kind: str) -> None:
    def work(data: bytes) -> None:
        with contextlib.suppress(ResponseError):
            parse_response_head(b"HTTP/1.1 200 OK\r\n" + data + b"\r\n", answers_head=False)

    assert growth(work, ANSWERS[kind](30_000), ANSWERS[kind](30_000 * TIMES)) < MOST
