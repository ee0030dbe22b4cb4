"""An origin for load tests: it takes a fixed time, serves so many at once, misbehaves on request.

`watch=true` in a target gets a chunked response with an event each `--event-period` that does not
end; `limit=` a list of 20 kB in chunks; `/large` a response of `--kib`; anything else, once its
body is there, a small one.  It comes `--delay-ms` after a slot is free; at most
`--slots` requests are served at once, the others wait in the order of their arrival, as before a
server without flow control.

A request with X-Answer (`echo.py`) gets the response that this names, and one that wants to upgrade
a tunnel, from which each byte comes back.

A request with a number in X-Request-Id is written to the journal before its response, so nothing is
forgotten when the process is killed; the response repeats the number.  `/-/be/MANNER` says how to
behave from now on: `well`, `slow`, `failing` (503) or `unready`.  SIGTERM ends it in order:
what is under way gets its response, then connections close.

    python -m loadtest.origin --port 9000 --delay-ms 50 --slots 20
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import struct
import sys
from collections import deque
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, cast

import httptools
import uvloop

from loadtest.echo import (
    ANSWER,
    EVENT_PERIOD_S,
    EVENTS,
    ID,
    NEVER,
    SWITCH,
    WITH_BODY,
    FirstFew,
    event,
    in_chunks,
    pattern,
)
from loadtest.program import Parser, count_up_to

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ENTRY = struct.Struct("=dQ?")
WRITES = frozenset((b"POST", b"PUT", b"PATCH"))
READINESS = ("/readyz", "/livez", "/healthz")
SLOW_TIMES = 100
ITEM = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"default"}}\n'
LIST_ITEMS = 240
EVENT = b'{"type":"ADDED","object":%b}\n' % ITEM.rstrip()
END_WITHIN_S = 3.0


LIST = in_chunks(ITEM * LIST_ITEMS)


class Entry(NamedTuple):
    """A request in a journal; `at_s` is of the monotonic clock, which all processes share."""

    at_s: float
    number: int
    is_write: bool


def read_journal(path: Path) -> list[Entry]:
    data = path.read_bytes() if path.exists() else b""
    whole = len(data) - len(data) % ENTRY.size
    return [Entry(*each) for each in ENTRY.iter_unpack(data[:whole])]


@dataclass(slots=True)
class Seen:
    """The first violations that origins found of what proxies may do, and names of POSTs."""

    wrong: FirstFew = field(default_factory=FirstFew)
    posted: set[bytes] = field(default_factory=set)


class Origin:
    """The settings and the slots that all connections share."""

    def __init__(
        self,
        *,
        delay_s: float = 0.0,
        jitter: float = 0.0,
        slots: int = 1_000_000,
        kib: int = 0,
        event_period_s: float = 0.0,
        name: str = "",
        journal: int | None = None,
    ) -> None:
        self.manner = "well"
        self.seen = Seen()
        self.name = name.encode()
        self.event_period_s = event_period_s
        self.connections: set[Connection] = set()
        self.is_ending = False
        self.large = b"0123456789abcde\n" * (kib * 64)
        self.port = 0
        self._delay_s, self._jitter, self._slots = delay_s, jitter, slots
        self._journal = journal
        self._busy = 0
        self._waiting: deque[Connection] = deque()
        self._server: asyncio.Server | None = None

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self), "127.0.0.1", port, backlog=4096
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def refuse(self) -> None:
        """Take no connections until another `start`; open ones go on."""
        if self._server is not None:
            self._server.close()

    def stop(self) -> None:
        self.refuse()
        for connection in tuple(self.connections):
            connection.transport.abort()

    async def end(self) -> None:
        self.refuse()
        self.is_ending = True
        for connection in list(self.connections):
            connection.end()
        end_s = monotonic() + END_WITHIN_S
        while self.connections and monotonic() < end_s:  # noqa: ASYNC110 - they are many
            await asyncio.sleep(0.01)

    def take(self, connection: Connection) -> None:
        if connection.number and self._journal is not None:
            is_write = connection.method in WRITES
            os.write(self._journal, ENTRY.pack(monotonic(), connection.number, is_write))
        if not self._delay_s:
            connection.respond()
        elif self._busy == self._slots:
            self._waiting.append(connection)
        else:
            self._busy += 1
            self._serve(connection)

    def _serve(self, connection: Connection) -> None:
        factor = 1 + self._jitter * (2 * random.random() - 1)  # noqa: S311 - no secret
        if self.manner == "slow":
            factor *= SLOW_TIMES
        loop = asyncio.get_running_loop()
        self.on_begin(connection.target)
        # The target may be that of another request by then, if the client leaves.
        loop.call_later(self._delay_s * factor, self._served, connection, connection.target)

    def _served(self, connection: Connection, target: str) -> None:
        self.on_end(target)
        connection.respond()
        while self._waiting:
            following = self._waiting.popleft()
            if not following.is_gone:
                self._serve(following)
                return
        self._busy -= 1

    def on_begin(self, target: str) -> None:
        """Note that a request has a slot."""

    def on_end(self, target: str) -> None:
        """Note that it has its response."""


class Connection(asyncio.Protocol):
    """A connection to the origin, with one request at a time."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._parser = httptools.HttpRequestParser(self)
        self._timer: asyncio.TimerHandle | None = None
        self._body = bytearray()
        self._is_busy = self._is_tunnel = False
        self.transport: asyncio.Transport
        self.target = ""
        self.method = b""
        self.fields: dict[bytes, bytes] = {}
        self.is_gone = False

    @property
    def number(self) -> int:
        name = self.fields.get(ID, b"")
        return int(name) if name.isdigit() else 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._origin.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._origin.connections.discard(self)
        self.is_gone = True
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        if self._is_tunnel:
            self.transport.write(data)
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._is_tunnel = True
            self.transport.write(SWITCH + data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._origin.seen.wrong.add(f"the origin got what is no HTTP: {error}: {data[:200]!r}")
            self.transport.abort()

    def on_message_begin(self) -> None:
        self.fields = {}
        self.target = ""
        self._body.clear()
        if self._is_busy:
            self._origin.seen.wrong.add("the origin got a request before it had answered another")

    def on_url(self, url: bytes) -> None:
        self.target += url.decode()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields[name.lower()] = value

    def on_body(self, data: bytes) -> None:
        if ANSWER in self.fields:
            self._body += data

    def on_message_complete(self) -> None:
        origin, target = self._origin, self.target
        if b"upgrade" in self.fields:
            return
        if target.startswith("/-/be/"):
            origin.manner = target.rpartition("/")[2]
            self._write(b"200 OK", b"")
        elif target in READINESS:
            is_well = origin.manner in ("well", "slow")
            self._write(b"200 OK" if is_well else b"500 Internal Server Error", b"")
        else:
            self.method = self._parser.get_method()
            self._is_busy = True
            origin.take(self)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self.transport.write(b"0\r\n\r\n")
        if self._timer is not None or not self._is_busy:
            self.transport.close()

    def respond(self) -> None:
        self._is_busy = False
        if self.is_gone:
            return
        origin, target = self._origin, self.target
        if origin.manner == "failing":
            self._write(b"503 Service Unavailable", b"not now\n")
        elif ANSWER in self.fields:
            self._echo(*self.fields[ANSWER].decode().split())
        elif "watch=true" in target:
            self._watch(EVENT, origin.event_period_s)
        elif "limit=" in target:
            self._write_chunks(LIST)
        else:
            is_large = origin.large and target.startswith("/large")
            self._write(b"200 OK", origin.large if is_large else ITEM)

    def _echo(self, kind: str, size: str) -> None:
        if kind == NEVER:
            return
        seen, name = self._origin.seen, self.fields.get(ID, b"")
        body = pattern(name, int(size))
        if self._body != (body if kind in WITH_BODY else b""):
            seen.wrong.add(f"the body of {name!r} is not its own: {bytes(self._body[:200])!r}")
        if kind == "posted":
            if name in seen.posted:
                seen.wrong.add(f"the POST {name!r} came twice")
            seen.posted.add(name)
        head, write = self._head(b"200 OK"), self.transport.write
        match kind:
            case "empty":
                write(self._head(b"204 No Content") + b"\r\n")
            case "bodiless":
                write(b"%bContent-Length: %d\r\n\r\n" % (head, int(size)))
            case "chunked":
                self._write_chunks(in_chunks(body))
            case "until-close":
                write(b"%bConnection: close\r\n\r\n%b" % (head, body))
                self.transport.close()
            case "watch":
                self._watch(event(name), EVENT_PERIOD_S, EVENTS if int(size) % 8 else -1)
            case _:
                if kind == "hinted":
                    write(self._head(b"103 Early Hints") + b"\r\n")
                self._write(b"200 OK", body)

    def _head(self, status: bytes) -> bytes:
        own = b"X-Origin: %b\r\n" % self._origin.name if self._origin.name else b""
        if name := self.fields.get(ID):
            own += b"X-Request-Id: %b\r\n" % name
        return b"HTTP/1.1 %b\r\nContent-Type: application/json\r\n%b" % (status, own)

    def _write(self, status: bytes, body: bytes) -> None:
        is_last = self._origin.is_ending or not self._parser.should_keep_alive()
        head = self._head(status) + (b"Connection: close\r\n" if is_last else b"")
        self.transport.write(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
        if is_last:
            self.transport.close()

    def _write_chunks(self, chunks: bytes) -> None:
        self.transport.write(self._head(b"200 OK") + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
        if self._origin.is_ending:
            self.transport.close()

    def _watch(self, text: bytes, period_s: float, count: int = -1) -> None:
        """Send an event as often, or without an end; one alone if there is no period."""
        self._is_busy = True
        self.transport.write(self._head(b"200 OK") + b"Transfer-Encoding: chunked\r\n\r\n")
        self._send_event(text, period_s, count)

    def _send_event(self, text: bytes, period_s: float, left: int) -> None:
        if left == 0:
            self._is_busy, self._timer = False, None
            self.transport.write(b"0\r\n\r\n")
            return
        self.transport.write(b"%x\r\n%b\r\n" % (len(text), text))
        if period_s:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(period_s, self._send_event, text, period_s, left - 1)


async def serve(port: int, origin: Origin) -> None:
    end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    await origin.start(port)
    await end.wait()
    await origin.end()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(__doc__, has_results=False)
    add = parser.add_argument
    add("--port", type=int, required=True, help="port of 127.0.0.1")
    add("--delay-ms", type=float, default=0.0, help="time to serve a request")
    add("--jitter-percent", type=float, default=0.0, help="of it, less or more")
    add("--slots", type=int, default=1_000_000, help="requests served at once")
    add("--kib", type=count_up_to(1 << 20), default=2048, help="large responses")
    add("--event-period", type=float, default=0.0, help="seconds; 0 for one event of a watch")
    add("--name", default="", help="told in responses")
    add("--journal", default=os.devnull, help="file to append to")
    options = parser.parse_args(arguments)
    try:
        journal = None
        if options.journal != os.devnull:
            journal = os.open(options.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        origin = Origin(
            delay_s=options.delay_ms / 1000,
            jitter=options.jitter_percent / 100,
            slots=options.slots,
            kib=options.kib,
            event_period_s=options.event_period,
            name=options.name,
            journal=journal,
        )
        uvloop.run(serve(options.port, origin))
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        print(f"origin: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
