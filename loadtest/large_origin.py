"""An origin for slow clients: large answers to those who ask for one, and bodies read to the end.

`GET /large...` gets an answer of `--kib`, `GET /chunked...` the same in chunks; any other request,
once its body is there, gets a small one.

    python -m loadtest.large_origin --port 9000 --kib 2048
"""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING, cast

import uvloop

from loadtest.arguments import Parser, count_up_to

if TYPE_CHECKING:
    from collections.abc import Sequence

SMALL = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 3\r\n\r\n{}\n"
CHUNK_BYTES = 32768
"""As Go's clients and servers copy bodies."""
LENGTH = re.compile(rb"^content-length: *([0-9]+)\r$", re.IGNORECASE | re.MULTILINE)


class Connection(asyncio.Protocol):
    """One connection; its requests come one at a time."""

    def __init__(self, large: bytes, chunked: bytes) -> None:
        self._large = large
        self._chunked = chunked
        self._head = b""
        self._body_left = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer each request that is whole."""
        if self._body_left:
            self._body_left -= len(data)
            if not self._body_left:
                self._transport.write(SMALL)
            return
        self._head += data
        while (end := self._head.find(b"\r\n\r\n") + 4) > 3:
            head, self._head = self._head[:end], self._head[end:]
            length = LENGTH.search(head)
            self._body_left = int(length[1]) if length else 0
            if self._body_left:
                # A proxy sends one request at a time: what is there is of this one's body.
                self._body_left -= len(self._head)
                self._head = b""
            if not self._body_left:
                self._transport.write(self._answer(head))

    def _answer(self, head: bytes) -> bytes:
        if head.startswith(b"GET /large"):
            return self._large
        return self._chunked if head.startswith(b"GET /chunked") else SMALL


def answers_of(kib: int) -> tuple[bytes, bytes]:
    """A large answer with a Content-Length, and the same in chunks."""
    body = b"0123456789abcde\n" * (kib * 64)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
    pieces = [body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES)]
    return (
        b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body),
        b"%bTransfer-Encoding: chunked\r\n\r\n%b0\r\n\r\n"
        % (head, b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in pieces)),
    )


async def serve(port: int, kib: int) -> None:
    """Listen on 127.0.0.1 until the process is told to end.

    Args:
        port: The port.
        kib: Size of a large answer's body.
    """
    large, chunked = answers_of(kib)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Connection(large, chunked), "127.0.0.1", port, backlog=4096
    )
    await server.serve_forever()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the origin; the result is the exit status."""
    parser = Parser(__doc__)
    parser.add_argument("--port", type=int, required=True, help="port of 127.0.0.1")
    parser.add_argument("--kib", type=count_up_to(1 << 20), default=2048, help="large answers")
    options = parser.parse_args(arguments)
    try:
        uvloop.run(serve(options.port, options.kib))
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
