"""A connection over HTTP/2 that asks for one thing after the other and holds what it has got."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Self

from loadtest.http2_frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME,
    FRAME_BYTES,
    GOAWAY,
    HEADERS,
    OPENING,
    RST_STREAM,
    SETTINGS,
    SETTINGS_ACK,
    FieldEncoder,
    first_status,
    frame,
)
from loadtest.processes import LoadTestError

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping


class Http2Connection:
    """A connection whose calls block.

    Args:
        sock: Connected, with TLS or without.
        name: What messages call the server.

    Raises:
        LoadTestError: The server chose another protocol.
    """

    def __init__(self, sock: socket.socket, name: str) -> None:
        self._sock = sock
        self._name = name
        self._scheme = b"http"
        self._encoder = FieldEncoder()
        self._next = 1
        if isinstance(sock, ssl.SSLSocket):
            self._scheme = b"https"
            if sock.selected_alpn_protocol() != "h2":
                raise LoadTestError(f"{name} does not speak HTTP/2")
        sock.sendall(OPENING)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._sock.close()

    def ask(self, target: str, fields: Mapping[str, str], until: bytes) -> None:
        """Send a GET and wait until its answer has some bytes, or its end if there are none.

        Args:
            target: Its path.
            fields: Of the request, `Host` among them.
            until: Bytes of the answer's body.
        """
        stream, self._next = self._next, self._next + 2
        lines = {name.lower().encode(): text.encode() for name, text in fields.items()}
        block = self._encoder.encode(
            [
                (b":authority", lines.pop(b"host")),
                (b":method", b"GET"),
                (b":path", target.encode()),
                (b":scheme", self._scheme),
                *lines.items(),
            ]
        )
        self._sock.sendall(frame(HEADERS, END_HEADERS | END_STREAM, stream, block))
        body, is_last = b"", False
        while not ((until and until in body) or is_last):
            kind, flags, of, payload = self._receive()
            if kind == SETTINGS and not flags & ACK:
                self._sock.sendall(SETTINGS_ACK)
            elif kind == GOAWAY or (kind == RST_STREAM and of == stream):
                raise LoadTestError(f"{self._name} ended a request by a frame of kind {kind}")
            elif kind == HEADERS and of == stream and (status := first_status(payload)) != 200:
                raise LoadTestError(f"{self._name} answered {status} instead of 200")
            elif kind == DATA and of == stream:
                body += payload
            is_last = kind in (DATA, HEADERS) and of == stream and bool(flags & END_STREAM)
        if until not in body:
            raise LoadTestError(f"{self._name} answered {body[:100]!r} instead of {until!r}")

    def _receive(self) -> tuple[int, int, int, bytes]:
        high, low, kind, flags, stream = FRAME.unpack(self._exactly(FRAME_BYTES))
        return kind, flags, stream, self._exactly(high << 8 | low)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._sock.recv(size - len(data))
            if not part:
                raise LoadTestError(f"{self._name} closed a connection")
            data += part
        return data
