"""An upstream for the clients of others: it answers by the path, and says what it got."""

from __future__ import annotations

import gzip
import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.end_to_end.upstream import Arrival

BIG_BYTES = 5_000_000
"""More than all windows and buffers on the way."""
PIECE = bytes(range(256)) * 256
COOKIES = 40
ZIPPED = gzip.compress(b"a text that comes as it was sent" * 100, mtime=0)

TOLD = ("content-length", "content-type", "cookie", "range", "te", "x-a")
"""Fields of a request that the upstream says it got."""

HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"


def whole(body: bytes, *lines: bytes, status: bytes = b"200 OK") -> bytes:
    fields = b"".join(line + b"\r\n" for line in lines)
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n%b\r\n%b" % (status, len(body), fields, body)


async def answer(arrival: Arrival) -> None:
    peer, request = arrival
    method, target, _ = request.line.split(b" ")
    match target.partition(b"?")[0]:
        case b"/empty":
            await peer.send(b"HTTP/1.1 204 No Content\r\n\r\n")
        case b"/known":
            await peer.send(b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n')
        case b"/zipped":
            await peer.send(whole(ZIPPED, b"Content-Encoding: gzip"))
        case b"/cookies":
            lines = [b"Set-Cookie: c%d=%d; Path=/" % (each, each) for each in range(COOKIES)]
            await peer.send(whole(b"ok", *lines))
        case b"/hints":
            await peer.send(HINTS + whole(b"ok"))
        case b"/trailers":
            await peer.send(CHUNKED + b"Trailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n")
        case b"/big":
            await peer.send(CHUNKED + b"\r\n")
            sent = 0
            while sent < BIG_BYTES:
                piece = PIECE[: BIG_BYTES - sent]
                await peer.send(b"%x\r\n%b\r\n" % (len(piece), piece))
                sent += len(piece)
            await peer.send(b"0\r\n\r\n")
        case b"/unknown":
            await peer.send(whole(b"no such thing", status=b"404 Not Found"))
        case _:
            said = whole(told(arrival), b"Content-Type: application/json")
            head, _, body = said.partition(b"\r\n\r\n")
            await peer.send(head + b"\r\n\r\n" + (b"" if method == b"HEAD" else body))


def told(arrival: Arrival) -> bytes:
    request = arrival.request
    fields = {
        name: [value.decode() for value in request.values(name.encode())]
        for name in TOLD
        if request.values(name.encode())
    }
    return json.dumps(
        {
            "line": request.line.decode(),
            "fields": fields,
            "bytes": len(request.body),
            "sha256": hashlib.sha256(request.body).hexdigest(),
            "trailers": request.trailers.decode(),
        },
        sort_keys=True,
    ).encode()
