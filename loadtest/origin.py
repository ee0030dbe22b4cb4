"""An origin for load tests: it takes a fixed time, serves so many at once, holds watches open.

`GET` of any target with `watch=true` gets a chunked answer with one event that then stays open.
Any other request gets a small JSON answer `--delay-ms` after a slot is free; at most `--slots` are
being served at once, the others wait in the order of their arrival, as before a server without
flow control.  `GET /-/slots` says how long how many slots were busy since it was last asked.

    python -m loadtest.origin --port 9000 --delay-ms 50 --slots 20
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, cast

import uvloop

from loadtest.arguments import Parser

if TYPE_CHECKING:
    from collections.abc import Sequence

BODY = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"default"}}\n'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
    len(BODY),
    BODY,
)
EVENT = b'{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}}\n'
WATCH_ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"%x\r\n%s\r\n" % (len(EVENT), EVENT)
)


class Slots:
    """What can be served at once, first come first served, and how long how much of it was busy."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._busy = 0
        self._waiting: deque[Connection] = deque()
        self._changed_s = monotonic()
        self._seconds_at: dict[int, float] = {}

    def ask(self, connection: Connection) -> None:
        """Serve the connection's request now, or when its turn comes."""
        if self._busy == self._count:
            self._waiting.append(connection)
        else:
            self._set_busy(self._busy + 1)
            connection.serve()

    def give_back(self) -> None:
        """End serving one request; the next in line is served."""
        while self._waiting:
            connection = self._waiting.popleft()
            if not connection.is_gone:
                connection.serve()
                return
        self._set_busy(self._busy - 1)

    def report(self) -> bytes:
        """Give the JSON object of seconds by number of busy slots since the last report."""
        self._set_busy(self._busy)
        body = json.dumps({str(busy): round(s, 6) for busy, s in self._seconds_at.items()})
        self._seconds_at.clear()
        return body.encode()

    def _set_busy(self, busy: int) -> None:
        now_s = monotonic()
        elapsed_s = now_s - self._changed_s
        self._seconds_at[self._busy] = self._seconds_at.get(self._busy, 0.0) + elapsed_s
        self._changed_s = now_s
        self._busy = busy


class Connection(asyncio.Protocol):
    """One connection; its requests have no body and come one at a time."""

    def __init__(self, slots: Slots, delay_s: float, jitter: float) -> None:
        self._slots = slots
        self._delay_s = delay_s
        self._jitter = jitter
        self._head = b""
        self._transport: asyncio.Transport
        self.is_gone = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a request that still waits."""
        del exc
        self.is_gone = True

    def data_received(self, data: bytes) -> None:
        """Answer or queue each request whose head is complete."""
        self._head += data
        while (end := self._head.find(b"\r\n\r\n")) >= 0:
            line = self._head[: self._head.index(b"\r\n")]
            self._head = self._head[end + 4 :]
            if b"watch=true" in line:
                self._transport.write(WATCH_ANSWER)
            elif b" /-/slots " in line:
                body = self._slots.report()
                head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
                self._transport.write(head + body)
                self._transport.close()
            elif self._delay_s:
                self._slots.ask(self)
            else:
                self._transport.write(ANSWER)

    def serve(self) -> None:
        """Begin to serve a request that has got a slot."""
        factor = 1 + self._jitter * (2 * random.random() - 1)  # noqa: S311 - no secret
        asyncio.get_running_loop().call_later(self._delay_s * factor, self._finish)

    def _finish(self) -> None:
        if not self.is_gone:
            self._transport.write(ANSWER)
        self._slots.give_back()


async def serve(port: int, delay_s: float, jitter: float, slot_count: int) -> None:
    """Listen on 127.0.0.1 until the process is told to end.

    Args:
        port: The port.
        delay_s: How long each request takes once it has a slot; 0 answers at once.
        jitter: Share of `delay_s` by which a request may take less or more, evenly spread.
        slot_count: How many requests are served at once.
    """
    loop = asyncio.get_running_loop()
    slots = Slots(slot_count)
    server = await loop.create_server(
        lambda: Connection(slots, delay_s, jitter), "127.0.0.1", port, backlog=4096
    )
    await server.serve_forever()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the origin; the result is the exit status."""
    parser = Parser(__doc__)
    parser.add_argument("--port", type=int, required=True, help="port of 127.0.0.1")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="time to serve a request")
    parser.add_argument("--jitter-percent", type=float, default=0.0, help="of it, less or more")
    parser.add_argument("--slots", type=int, default=1_000_000, help="requests served at once")
    options = parser.parse_args(arguments)
    delay_s, jitter = options.delay_ms / 1000, options.jitter_percent / 100
    try:
        uvloop.run(serve(options.port, delay_s, jitter, options.slots))
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        print(f"origin: cannot listen on port {options.port}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
