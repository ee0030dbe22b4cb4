"""Answers health checks and scrapes, and passes connections with other requests on to aiohttp.

Nothing else is asked of most proxies, for days.  aiohttp takes 15 MiB of memory and 0.15 s of
processor time to import, so it is imported when somebody asks for another page.  A connection
belongs to aiohttp from its first request that is no plain GET or HEAD of a page below.
"""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING, cast
from urllib.parse import parse_qsl

from apfproxy.admin.negotiation import accepts_gzip
from apfproxy.admin.own_names import may_read
from apfproxy.admin.slices import SAFETY, encoded
from apfproxy.app.places import IDLE_S
from apfproxy.base.faults import Part, report
from apfproxy.base.health_checks import PAGES
from apfproxy.base.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from apfproxy.admin.metrics import ScrapedPage
    from apfproxy.app.admin_access import AdminAccess
    from apfproxy.app.places import Place, Places
    from apfproxy.base.health_checks import HealthRegistry

    Make = Callable[[], asyncio.Protocol]

METRICS = "metrics"
MAX_HEAD_BYTES = 4096
"""Of a request that is answered here; probes and scrapers send some hundred."""
MAX_FIELDS = 32
"""Of its header; they send a dozen at most."""
STARTS = tuple(
    f"{method} /{page}".encode() for method in ("GET", "HEAD") for page in (*PAGES, METRICS)
)
HEAD = re.compile(
    rb"(GET|HEAD) /([a-z]+)(?:\?([!\x22$-~]*))? HTTP/1\.1\r\n"
    rb"((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*\r\n)*)\r\n"
)
UNUSUAL = frozenset({"content-length", "transfer-encoding", "expect", "upgrade"})
"""Fields of requests that aiohttp answers."""
CLOSE = "close"
CONNECTION = frozenset({"", "keep-alive", CLOSE})
"""What `Connection` may say in a request that is answered here."""
REASONS = {200: "OK", 500: "Internal Server Error"}
TEXT = "text/plain; charset=utf-8"


class Probes:
    """The pages, and what answers other requests."""

    def __init__(
        self,
        places: Places,
        health: HealthRegistry,
        metrics: Callable[[], Awaitable[ScrapedPage]],
        others: Callable[[], Awaitable[Make]],
        access: AdminAccess | None = None,
    ) -> None:
        """`access` says who may read more than health; None for everybody."""
        self.places = places
        self.access = access
        self.health = health
        self.metrics = metrics
        self._start_others = others
        self._starting = asyncio.Lock()
        self._make: Make | None = None

    def connection(self) -> asyncio.Protocol:
        """The protocol of a new connection."""
        return ProbeConnection(self)

    async def make_other(self) -> asyncio.Protocol:
        """A protocol for other requests."""
        async with self._starting:
            if self._make is None:
                self._make = await self._start_others()
        return self._make()


class ProbeConnection(asyncio.Protocol):
    """One connection."""

    def __init__(self, probes: Probes) -> None:
        self._probes = probes
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._inner: asyncio.Protocol | None = None
        self._buffer = b""
        self._task: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()

    @property
    def _place(self) -> Place:
        place = self._probes.places.of(self._transport)
        assert place is not None, "a connection that lost its place gets no data"
        return place

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request; `Places` bounds how long."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        if self._inner is not None:
            self._inner.data_received(data)
            return
        self._buffer += data
        self._go_on()

    def eof_received(self) -> bool | None:
        """End the connection, unless aiohttp has it."""
        return None if self._inner is None else self._inner.eof_received()

    def pause_writing(self) -> None:
        """Let a scrape, and further requests, wait for the client to take what was answered."""
        self._can_write.clear()
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Go on."""
        self._can_write.set()
        if self._inner is not None:
            self._inner.resume_writing()
        else:
            self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """End what is under way."""
        self._disarm()
        self._transport = None
        if self._task is not None:
            self._task.cancel()
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def _go_on(self) -> None:
        """Answer the requests that are there, until one takes a task, or is not whole yet."""
        while self._buffer and self._is_free():
            head = HEAD.match(self._buffer)
            if head is None and self._may_be_ours():
                break
            self._disarm()
            if head is None or not self._take(head):
                self._do(self._pass_on())
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._inner is None and not self._is_free():
            transport.pause_reading()
            return
        transport.resume_reading()
        if self._inner is None and self._idle is None:
            self._idle = self._loop.call_later(IDLE_S, transport.close)

    def _is_free(self) -> bool:
        """Whether a request can be answered now."""
        return (
            self._task is None
            and self._inner is None
            and self._can_write.is_set()
            and self._transport is not None
            and not self._transport.is_closing()
        )

    def _may_be_ours(self) -> bool:
        """Whether more bytes can make a request of what is there that is answered here."""
        buffer = self._buffer
        return (
            len(buffer) <= MAX_HEAD_BYTES
            and b"\r\n\r\n" not in buffer
            and b"\n" not in buffer.replace(b"\r\n", b"")
            and any(buffer.startswith(each[: len(buffer)]) for each in STARTS)
        )

    def _take(self, head: re.Match[bytes]) -> bool:
        """Answer a request; False if it is not for us."""
        fields: dict[str, str] = {}
        lines = head[4].decode("latin-1").split("\r\n")[:-1]
        for line in lines:
            name, _, value = line.partition(":")
            name = name.lower()
            fields[name] = f"{fields[name]},{value.strip()}" if name in fields else value.strip()
        page, connection = head[2].decode(), fields.get("connection", "").lower()
        if (
            page not in {*PAGES, METRICS}
            or head.end() > MAX_HEAD_BYTES
            or len(lines) > MAX_FIELDS
            or connection not in CONNECTION
            or not UNUSUAL.isdisjoint(fields)
            or not self._is_own_name(fields.get("host", ","))
            or not self._may_read(page, fields.get("authorization"))
        ):
            return False
        self._buffer = self._buffer[head.end() :]
        is_head, is_last = head[1] == b"HEAD", connection == CLOSE
        if page == METRICS:
            self._do(self._scrape(fields, is_head=is_head, is_last=is_last))
            return True
        query = parse_qsl((head[3] or b"").decode("latin-1"), keep_blank_values=True)
        with self._probes.places.handling(self._place, is_lasting=False):
            found = self._probes.health.page(
                page,
                verbose=any(name == "verbose" for name, _ in query),
                excluded=[value for name, value in query if name == "exclude"],
            )
            body = found.text.encode()
            self._write_head(
                200 if found.is_healthy else 500,
                {"Content-Type": TEXT, **SAFETY, "Content-Length": str(len(body))},
                is_last=is_last,
            )
            self._end(b"" if is_head else body, is_last=is_last)
        return True

    def _may_read(self, page: str, shown: str | None) -> bool:
        """As all pages have it; aiohttp answers who may not."""
        access = self._probes.access
        values = [] if shown is None else [shown]
        return access is None or access.may_read(f"/{page}", values, self._transport)

    def _is_own_name(self, host: str) -> bool:
        """As `own_names_only` has it for all pages, which answers if it is none."""
        assert self._transport is not None, "a request came"
        return "," not in host and may_read(self._transport.get_extra_info("sockname"), host)

    async def _scrape(self, fields: Mapping[str, str], *, is_head: bool, is_last: bool) -> None:
        if self._transport is None or self._transport.is_closing():
            return  # it had to make way for another one
        with self._probes.places.handling(self._place, is_lasting=False):
            is_gzip = accepts_gzip(fields.get("accept-encoding", ""))
            metrics = await self._probes.metrics()
            headers = {"Content-Type": metrics.content_type, "Vary": "Accept-Encoding", **SAFETY}
            if is_gzip:
                headers["Content-Encoding"] = "gzip"
            if not is_head:
                headers["Transfer-Encoding"] = "chunked"
            self._write_head(200, headers, is_last=is_last)
            if not is_head:
                async for data in encoded(metrics.slices(), is_gzip=is_gzip):
                    self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
                    await self._can_write.wait()
            self._end(b"" if is_head else b"0\r\n\r\n", is_last=is_last)

    async def _pass_on(self) -> None:
        """Have aiohttp answer from here on."""
        inner = await self._probes.make_other()
        assert self._transport is not None, "this is cancelled when it is lost"
        inner.connection_made(self._transport)
        self._inner = inner
        data, self._buffer = self._buffer, b""
        inner.data_received(data)

    def _do(self, work: Awaitable[None]) -> None:
        self._task = spawn(self._contained(work), name="answering on the admin listener")

    async def _contained(self, work: Awaitable[None]) -> None:
        """Do something; an error cuts the connection: an answer that ends would seem whole."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 - whatever it is, only this connection ends
            report(Part.ADMIN, error)
            if self._transport is not None:
                self._transport.abort()
        self._task = None
        self._go_on()

    def _write_head(self, status: int, headers: Mapping[str, str], *, is_last: bool) -> None:
        assert self._transport is not None, "a request came"
        date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
        lines = [f"HTTP/1.1 {status} {REASONS[status]}", f"Date: {date}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if is_last:
            lines.append("Connection: close")
        self._transport.write("\r\n".join([*lines, "", ""]).encode())

    def _end(self, data: bytes, *, is_last: bool) -> None:
        assert self._transport is not None, "a request came"
        if data:
            self._transport.write(data)
        if is_last:
            self._buffer = b""
            self._transport.close()

    def _disarm(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
