"""One of several servers behind a gateway: it writes down each request, and misbehaves if told to.

A request has a number in X-Request-Id; a whole one is written to the journal at once, before it is
answered, so nothing is forgotten when the process is killed.  Answers repeat number and Host.
`watch=true` gets an event each second without an end; `limit=...` a list of 20 kB in chunks;
anything else a small answer.

`GET /-/be/MANNER` says how to behave from now on: `well`, `slow`, `failing` (503), `unready` or
`starting`, which refuses everything by 403, as kube-apiserver does until its roles are loaded.
SIGTERM ends it as servers end in order: what is under way is answered, then connections close.
"""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import sys
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, cast

import httptools
import uvloop

from loadtest.arguments import Parser

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ENTRY = struct.Struct("=dQ?")
WRITES = frozenset((b"POST", b"PUT", b"PATCH"))
MANNERS = ("well", "slow", "failing", "unready", "starting")
READINESS = ("/readyz", "/livez", "/healthz")
DELAY_S = 0.004
SLOW_DELAY_S = 0.4
EVENT_PERIOD_S = 1.0
ITEM = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"default"}}\n'
LIST_ITEMS = 240
LIST = b"%x\r\n%b\r\n0\r\n\r\n" % (len(ITEM) * LIST_ITEMS, ITEM * LIST_ITEMS)
EVENT = b'{"type":"ADDED","object":%b}\n' % ITEM.rstrip()
END_WITHIN_S = 3.0


class Entry(NamedTuple):
    """A request that an origin got.

    Attributes:
        at_s: When, on the monotonic clock, which all processes of a machine share.
        number: Its own.
        is_write: Whether it must not come twice.
    """

    at_s: float
    number: int
    is_write: bool


def read_journal(path: Path) -> list[Entry]:
    """Read what an origin wrote down, in all of its lives."""
    if not path.exists():
        return []
    data = path.read_bytes()
    whole = len(data) - len(data) % ENTRY.size
    return [Entry(*each) for each in ENTRY.iter_unpack(data[:whole])]


class Server:
    """What all connections share.

    Args:
        name: Told in each answer.
        journal: A descriptor to append to.
        manner: How it behaves at first.
    """

    def __init__(self, name: str, journal: int, manner: str) -> None:
        self.name = name.encode()
        self.manner = manner
        self.connections: set[Connection] = set()
        self.is_ending = False
        self._journal = journal
        self.loop = asyncio.get_running_loop()

    def note(self, number: int, *, is_write: bool) -> None:
        """Write a request down."""
        os.write(self._journal, ENTRY.pack(monotonic(), number, is_write))

    @property
    def delay_s(self) -> float:
        """How long a request takes."""
        return SLOW_DELAY_S if self.manner == "slow" else DELAY_S


class Connection(asyncio.Protocol):
    """A connection, with one request at a time."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self._target = ""
        self._number = 0
        self._host = b""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End what is under way."""
        del exc
        self._server.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Take requests apart."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.abort()

    def on_message_begin(self) -> None:
        """A request starts."""
        self._target, self._number, self._host = "", 0, b""

    def on_url(self, url: bytes) -> None:
        """The target."""
        self._target += url.decode()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field."""
        match name.lower():
            case b"x-request-id":
                self._number = int(value)
            case b"host":
                self._host = value

    def on_message_complete(self) -> None:
        """The request is whole."""
        server, target = self._server, self._target
        if target.startswith("/-/be/"):
            manner = target.rpartition("/")[2]
            server.manner = manner if manner in MANNERS else "well"
            self._write(b"200 OK", b"")
            return
        if server.manner == "starting":
            self._write(b"403 Forbidden", b"")
            return
        if target in READINESS:
            is_well = server.manner in ("well", "slow")
            self._write(b"200 OK" if is_well else b"500 Internal Server Error", b"")
            return
        if self._number:
            method = self._parser.get_method()
            server.note(self._number, is_write=method in WRITES)
        self._timer = server.loop.call_later(server.delay_s, self._answer)

    def end(self) -> None:
        """Close the connection unless a request is under way; a watch ends with its last chunk."""
        if self._timer is None:
            self._transport.close()
        elif "watch=true" in self._target:
            self._timer.cancel()
            self._transport.write(b"0\r\n\r\n")
            self._transport.close()

    def _answer(self) -> None:
        self._timer = None
        server = self._server
        if server.manner == "failing":
            self._write(b"503 Service Unavailable", b"not now\n")
        elif "watch=true" in self._target:
            self._transport.write(self._head(b"200 OK") + b"Transfer-Encoding: chunked\r\n\r\n")
            self._send_event()
        elif "limit=" in self._target:
            head = self._head(b"200 OK") + b"Transfer-Encoding: chunked\r\n\r\n"
            self._transport.write(head + LIST)
            if self._server.is_ending:
                self._transport.close()
        else:
            self._write(b"200 OK", ITEM)

    def _head(self, status: bytes) -> bytes:
        return b"HTTP/1.1 %b\r\nX-Origin: %b\r\nX-Host: %b\r\nX-Request-Id: %d\r\n" % (
            status,
            self._server.name,
            self._host,
            self._number,
        )

    def _write(self, status: bytes, body: bytes) -> None:
        is_last = self._server.is_ending or not self._parser.should_keep_alive()
        head = self._head(status) + (b"Connection: close\r\n" if is_last else b"")
        self._transport.write(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
        if is_last:
            self._transport.close()

    def _send_event(self) -> None:
        self._transport.write(b"%x\r\n%b\r\n" % (len(EVENT), EVENT))
        self._timer = self._server.loop.call_later(EVENT_PERIOD_S, self._send_event)


async def serve(port: int, name: str, journal: int, manner: str) -> None:
    """Serve until the process is told to end.

    Args:
        port: Of 127.0.0.1.
        name: Told in each answer.
        journal: A descriptor to append to.
        manner: How it behaves at first.
    """
    loop = asyncio.get_running_loop()
    server, end = Server(name, journal, manner), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, end.set)
    listener = await loop.create_server(lambda: Connection(server), "127.0.0.1", port, backlog=4096)
    await end.wait()
    listener.close()
    server.is_ending = True
    for connection in list(server.connections):
        connection.end()
    end_s = monotonic() + END_WITHIN_S
    while server.connections and monotonic() < end_s:  # noqa: ASYNC110 - they are many
        await asyncio.sleep(0.01)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the origin; the result is the exit status."""
    parser = Parser(__doc__)
    parser.add_argument("--port", type=int, required=True, help="port of 127.0.0.1")
    parser.add_argument("--name", required=True, help="told in each answer")
    parser.add_argument("--journal", default=os.devnull, help="file to append to")
    parser.add_argument("--manner", choices=MANNERS, default="well", help="how it behaves at first")
    options = parser.parse_args(arguments)
    try:
        journal = os.open(options.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        uvloop.run(serve(options.port, options.name, journal, options.manner))
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        print(f"gateway_origin: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
