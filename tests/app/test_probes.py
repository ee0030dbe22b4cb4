"""Health checks and scrapes without aiohttp, and connections that are passed on."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import time
from typing import TYPE_CHECKING, cast

import pytest

from apfproxy.app import probes as probes_module
from apfproxy.app.listening import Listener
from apfproxy.app.places import Place, Places
from apfproxy.app.probes import Probes
from apfproxy.base.health_checks import READYZ, HealthRegistry
from tests.end_to_end.peer import WAIT_S
from tests.end_to_end.scene import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from apfproxy.admin.metrics import ScrapedPage

HOST = b"Host: 127.0.0.1\r\n"
CLOSE = b"Connection: close\r\n\r\n"
SAFE = ("Cache-Control: no-cache, private", "X-Content-Type-Options: nosniff")


class Metrics:
    """A page of few slices.

    Args:
        fails: Whether the last one cannot be made.
    """

    content_type = "text/plain; version=0.0.4"

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails

    def slices(self) -> Iterator[bytes]:
        """The page."""
        yield b"one\n"
        if self.fails:
            raise ArithmeticError
        yield b"two\n"


class Other(asyncio.Protocol):
    """Answers with what it was told, and ends."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Send it back."""
        assert self.transport is not None
        self.heard.append(data.decode("latin-1"))
        self.transport.write(b"other:" + data)
        if data.endswith((b"\r\n\r\n", b"end")):
            self.transport.close()

    def eof_received(self) -> None:
        """Remember it."""
        self.heard.append("eof")

    def pause_writing(self) -> None:
        """Remember it."""
        self.heard.append("pause")

    def resume_writing(self) -> None:
        """Remember it."""
        self.heard.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        """Remember it."""
        del exc
        self.heard.append("lost")


class Site:
    """A listener with two checks, one of which fails readiness."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        self.health = HealthRegistry()
        self.health.add("start", pages=(READYZ,), problem="not yet")
        self.places = Places("test", 100, time.monotonic_ns)
        self.others = 0
        self.made: list[Other] = []
        self._metrics = cast("ScrapedPage", metrics or Metrics())
        self.probes = Probes(self.places, self.health, self._page, self._start)
        self.listener = Listener(self.probes.connection, self.places)

    async def _page(self) -> ScrapedPage:
        return self._metrics

    async def _start(self) -> Callable[[], Other]:
        self.others += 1
        await asyncio.sleep(0)
        return lambda: self.made.pop() if self.made else Other()

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection to it."""
        if not self.listener.sockets:
            await self.listener.start([socket.create_server(("127.0.0.1", 0))])
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port)
        try:
            yield reader, writer
        finally:
            writer.close()
            self.listener.close()

    async def answer(self, *pieces: bytes) -> bytes:
        """What comes until the connection ends, for data that is sent in pieces."""
        async with self.connected() as (reader, writer), asyncio.timeout(WAIT_S):
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0.001 if len(pieces) > 1 else 0)
            return await reader.read()


def parted(answer: bytes) -> tuple[list[str], bytes]:
    """The lines of a head, the date apart, and the body."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return [line for line in head.decode().split("\r\n") if not line.startswith("Date: ")], body


@pytest.mark.parametrize(
    ("target", "status", "body"),
    [
        ("livez", "200 OK", b"ok"),
        ("healthz?verbose", "200 OK", b"[+]ping ok\nhealthz check passed\n"),
        (
            "readyz",
            "500 Internal Server Error",
            b"[+]ping ok\n[-]start failed: not yet\nreadyz check failed\n",
        ),
        ("readyz?exclude=start", "200 OK", b"ok"),
    ],
)
@pytest.mark.parametrize("is_bytewise", [False, True], ids=["whole", "byte-by-byte"])
async def test_health(target: str, status: str, body: bytes, is_bytewise: bool) -> None:
    """A check is answered, however its request comes."""
    site = Site()
    data = f"GET /{target} HTTP/1.1\r\n".encode() + HOST + CLOSE
    pieces = [data[at : at + 1] for at in range(len(data))] if is_bytewise else [data]
    lines, found = parted(await site.answer(*pieces))

    assert [
        f"HTTP/1.1 {status}",
        "Content-Type: text/plain; charset=utf-8",
        *SAFE,
        f"Content-Length: {len(body)}",
        "Connection: close",
    ] == lines
    assert body == found
    assert 0 == site.others


async def test_head() -> None:
    """A head has no body; requests that were sent together are answered one after the other."""
    request = b"HEAD /livez HTTP/1.1\r\n" + HOST
    answer = await Site().answer(request + b"\r\n" + request + CLOSE)

    assert 2 == answer.count(b"HTTP/1.1 200 OK\r\n")
    assert 2 == answer.count(b"Content-Length: 2\r\n")
    assert b"ok" not in answer


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
async def test_scrape(encoding: str) -> None:
    """Metrics come slice by slice, compressed if the scraper takes it so, and more may follow."""
    scrape = f"GET /metrics HTTP/1.1\r\nAccept: a/b\r\nAccept-Encoding: {encoding}\r\n"
    check = b"GET /livez HTTP/1.1\r\n" + HOST + CLOSE
    lines, rest = parted(await Site().answer(scrape.encode() + HOST + b"\r\n" + check))
    body, length = b"", -1
    while length:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        body, rest = body + rest[:length], rest[length + 2 :]

    assert ["HTTP/1.1 200 OK", "Content-Type: text/plain; version=0.0.4"] == lines[:2]
    assert {"Vary: Accept-Encoding", "Transfer-Encoding: chunked", *SAFE} < {*lines}
    assert ("Content-Encoding: gzip" in lines) == (encoding == "gzip")
    assert b"one\ntwo\n" == (gzip.decompress(body) if encoding == "gzip" else body)
    assert rest.startswith(b"HTTP/1.1 200 OK\r\n")


async def test_head_of_a_scrape() -> None:
    """The head of the metrics makes none."""
    site = Site(Metrics(fails=True))

    lines, body = parted(await site.answer(b"HEAD /metrics HTTP/1.1\r\n" + HOST + CLOSE))
    assert ("HTTP/1.1 200 OK", b"") == (lines[0], body)


async def test_scrape_that_fails() -> None:
    """A page that cannot be made to its end does not seem to be whole."""
    site = Site(Metrics(fails=True))
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, error: errors.append(error))
    answer = b""
    async with site.connected() as (reader, writer):
        writer.write(b"GET /metrics HTTP/1.1\r\n" + HOST + b"\r\n")
        with contextlib.suppress(ConnectionResetError):
            while data := await reader.read(1000):
                answer += data

    assert not answer.endswith(b"0\r\n\r\n")
    assert 1 == len(errors)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n", id="other-page"),
        pytest.param(b"GET /readyz/ping HTTP/1.1\r\n" + HOST + b"\r\n", id="one-check"),
        pytest.param(b"GET /metricsx HTTP/1.1\r\n" + HOST + b"\r\n", id="like-a-page"),
        pytest.param(b"POST /livez HTTP/1.1\r\n" + HOST + b"\r\n", id="method"),
        pytest.param(b"GET /livez HTTP/1.0\r\n" + HOST + b"\r\n", id="version"),
        pytest.param(b"GET /livez HTTP/1.1\r\nHost: evil.example\r\n\r\n", id="foreign-name"),
        pytest.param(b"GET /livez HTTP/1.1\r\n\r\n", id="no-host"),
        pytest.param(b"GET /livez HTTP/1.1\r\n" + HOST + HOST + b"\r\n", id="two-hosts"),
        pytest.param(
            b"GET /livez HTTP/1.1\r\n" + HOST + b"Content-Length: 0\r\n\r\n", id="with-body"
        ),
        pytest.param(b"GET /livez HTTP/1.1\r\n folded: x\r\n\r\n", id="malformed"),
        pytest.param(b"\x16\x03\x01end", id="no-http"),
        pytest.param(b"GET /livez HTTP/1.1\r\nX: " + b"x" * 5000 + b"end", id="long"),
        pytest.param(
            b"GET /livez HTTP/1.1\r\n" + HOST + b"X: " + b"x" * 5000 + b"\r\n\r\n", id="long-whole"
        ),
        pytest.param(
            b"GET /livez HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 32 + b"\r\n", id="many-fields"
        ),
        pytest.param(
            b"GET /livez HTTP/1.1\r\n" + HOST + b"Connection: close, te\r\n\r\n", id="connection"
        ),
        pytest.param(b"GET /livez?verbose#a HTTP/1.1\r\n" + HOST + b"\r\n", id="fragment"),
        pytest.param(b"GET /livez HTTP/1.1\nHost: 127.0.0.1\n\r\n\r\n", id="bare-lf"),
    ],
)
async def test_passed_on(data: bytes) -> None:
    """Whatever is not plainly for a page here is passed on, byte for byte."""
    site = Site()

    assert b"other:" + data == await site.answer(data)
    assert 1 == site.others


async def test_bare_lf() -> None:
    """What cannot become a request here is passed on, though no empty line comes."""
    site = Site()
    async with site.connected() as (reader, writer), asyncio.timeout(WAIT_S):
        writer.write(b"GET /livez HTTP/1.1\n\n")

        assert b"other:GET /livez HTTP/1.1\n\n" == await reader.readuntil(b"\n\n")


async def test_only_crlf_ends_a_field() -> None:
    """Other characters that end lines elsewhere are part of its value."""
    request = b"GET /livez HTTP/1.1\r\n" + HOST + b"X: y\x85Connection: close\r\n"
    answer = await Site().answer(request + b"\r\n" + request + CLOSE)

    assert 2 == answer.count(b"HTTP/1.1 200 OK\r\n")


class Quiet(asyncio.Transport):
    """A transport that is told everything, and does nothing."""

    def pause_reading(self) -> None:
        """Do nothing."""

    def resume_reading(self) -> None:
        """Do nothing."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def is_closing(self) -> bool:
        """It is not."""
        return False


class Full(Quiet):
    """A transport whose client takes nothing; it counts what is written."""

    def __init__(self, connection: asyncio.Protocol) -> None:
        super().__init__()
        self.connection = connection
        self.written = 0
        self.reads = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Count it, and want no more."""
        self.written += len(data)
        self.connection.pause_writing()

    def pause_reading(self) -> None:
        """Note it."""
        self.reads = False

    def resume_reading(self) -> None:
        """Note it."""
        self.reads = True


async def test_client_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its next requests are neither answered nor read until it takes what it has got."""
    site = Site()
    connection = site.probes.connection()
    transport = Full(connection)
    monkeypatch.setattr(Places, "of", lambda *_: Place(site.places, connection))
    connection.connection_made(transport)
    connection.data_received((b"GET /livez HTTP/1.1\r\n" + HOST + b"\r\n") * 3)
    assert not transport.reads
    once = transport.written
    for times in (2, 3):
        connection.resume_writing()
        assert times * once == transport.written
        assert not transport.reads
    connection.resume_writing()

    assert transport.reads
    assert 3 * once == transport.written
    connection.connection_lost(None)


async def test_passed_on_later() -> None:
    """A connection that was answered here can be passed on, and stays so; others start no more."""
    site = Site()
    async with site.connected() as (reader, writer):
        writer.write(b"GET /livez HTTP/1.1\r\n" + HOST + b"\r\n")
        assert (await reader.readuntil(b"\r\nok")).startswith(b"HTTP/1.1 200 OK")
        writer.write(b"GET /events HTTP/1.1\r\n")
        assert b"other:GET /events HTTP/1.1\r\n" == await reader.readuntil(b"\r\n")
        writer.write(b"GET /livez end")
        assert b"other:GET /livez end" == await reader.read()
    site.listener = Listener(site.probes.connection, site.places)
    assert b"other:PUT end" == await site.answer(b"PUT end")

    assert 1 == site.others


async def test_what_the_loop_tells() -> None:
    """Events of a connection that was passed on reach its new protocol."""
    site, other = Site(), Other()
    site.made.append(other)
    connection = site.probes.connection()
    connection.pause_writing()
    connection.resume_writing()
    assert connection.eof_received() is None
    connection.connection_made(Quiet())
    connection.data_received(b"PUT")
    await until(lambda: other.heard)
    connection.pause_writing()
    connection.resume_writing()
    connection.eof_received()
    connection.connection_lost(None)

    assert ["PUT", "pause", "resume", "eof", "lost"] == other.heard


@pytest.mark.parametrize("data", [b"", b"GET /liv"], ids=["between-requests", "within-a-head"])
async def test_idle(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """A connection whose next request does not come is closed."""
    monkeypatch.setattr(probes_module, "IDLE_S", 0.01)
    answer = await Site().answer(b"GET /livez HTTP/1.1\r\n" + HOST + b"\r\n" + data)

    assert answer.endswith(b"\r\n\r\nok")


async def test_client_that_leaves() -> None:
    """A scrape ends with its connection."""
    site = Site()
    async with site.connected() as (_, writer):
        writer.write(b"GET /metrics HTTP/1.1\r\n" + HOST + b"\r\n")
        writer.transport.abort()
        await until(lambda: not len(site.places))

    assert 0 == len(site.places)
