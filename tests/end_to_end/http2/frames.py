"""Frames of HTTP/2 byte by byte, right ones and wrong ones, and a client that sends them.

`hyperframe` and `h2` refuse to write what breaks a rule; here a test writes whatever it wants.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Self

from hpack import Decoder

if TYPE_CHECKING:
    import ssl

WAIT_S = 60.0
"""For what must come; a test that waits so long has failed."""
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

END_STREAM = ACK = 0x01
END_HEADERS = 0x04
PADDED = 0x08
PRIORITIZED = 0x20


class Kind(IntEnum):
    """Types of frames (RFC 9113, section 6)."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class Code(IntEnum):
    """Error codes (RFC 9113, section 7)."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class Setting(IntEnum):
    """Parameters of a connection (RFC 9113, section 6.5.2)."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    return (
        struct.pack(">I", len(payload))[1:]
        + bytes((kind, flags))
        + (struct.pack(">I", stream_id) + payload)
    )


def data(stream_id: int, content: bytes = b"", *, ends: bool = True) -> bytes:
    return frame(Kind.DATA, END_STREAM if ends else 0, stream_id, content)


def headers(
    stream_id: int,
    block: bytes,
    *,
    ends: bool = True,
    is_whole: bool = True,
    padding: int | None = None,
    priority: bytes = b"",
) -> bytes:
    """HEADERS.

    Args:
        stream_id: Of the stream.
        block: The encoded fields, or their first part.
        ends: Whether the stream ends with it.
        is_whole: Whether no CONTINUATION follows.
        padding: Its length, if there is any.
        priority: As `dependency` makes it, if there is any.
    """
    flags = (END_STREAM if ends else 0) | (END_HEADERS if is_whole else 0)
    flags |= PRIORITIZED if priority else 0
    payload = priority + block
    if padding is not None:
        flags |= PADDED
        payload = bytes([padding]) + payload + bytes(padding)
    return frame(Kind.HEADERS, flags, stream_id, payload)


def continuation(stream_id: int, block: bytes, *, is_whole: bool = True) -> bytes:
    return frame(Kind.CONTINUATION, END_HEADERS if is_whole else 0, stream_id, block)


def dependency(parent: int, weight: int = 255, *, is_exclusive: bool = False) -> bytes:
    """The content of PRIORITY, and of HEADERS with priority (RFC 7540, section 6.3)."""
    return struct.pack(">IB", parent | (1 << 31 if is_exclusive else 0), weight)


def priority(stream_id: int, content: bytes) -> bytes:
    return frame(Kind.PRIORITY, 0, stream_id, content)


def reset(stream_id: int, code: int = Code.CANCEL) -> bytes:
    return frame(Kind.RST_STREAM, 0, stream_id, struct.pack(">I", code))


def settings(*pairs: tuple[int, int]) -> bytes:
    return frame(Kind.SETTINGS, 0, 0, b"".join(struct.pack(">HI", *pair) for pair in pairs))


SETTINGS_ACK = frame(Kind.SETTINGS, ACK, 0)


def ping(content: bytes = bytes(8), *, is_answer: bool = False) -> bytes:
    return frame(Kind.PING, ACK if is_answer else 0, 0, content)


def goaway(code: int = Code.NO_ERROR, last: int = 0, reason: bytes = b"") -> bytes:
    return frame(Kind.GOAWAY, 0, 0, struct.pack(">II", last, code) + reason)


def window_update(stream_id: int, more: int) -> bytes:
    return frame(Kind.WINDOW_UPDATE, 0, stream_id, struct.pack(">I", more))


def prefixed(value: int, bits: int, pattern: int = 0) -> bytes:
    """An integer with a prefix of some bits (RFC 7541, section 5.1)."""
    limit = (1 << bits) - 1
    if value < limit:
        return bytes([pattern | value])
    encoded, value = [pattern | limit], value - limit
    while value >= 1 << 7:
        encoded.append(1 << 7 | value & 0x7F)
        value >>= 7
    return bytes([*encoded, value])


def literal(name: bytes, value: bytes, pattern: int = 0) -> bytes:
    """A field with both parts as they are; by default it enters no table (RFC 7541, 6.2.2)."""
    return b"".join(
        (bytes([pattern]), prefixed(len(name), 7), name, prefixed(len(value), 7), value)
    )


def block(*fields: tuple[bytes, bytes]) -> bytes:
    return b"".join(literal(*each) for each in fields)


def request(method: bytes = b"GET", path: bytes = b"/", *more: tuple[bytes, bytes]) -> bytes:
    return block(
        *((b":method", method), (b":scheme", b"http"), (b":path", path)),
        *((b":authority", b"localhost"), *more),
    )


GET = request()
POST = request(b"POST")


@dataclass(frozen=True)
class Frame:
    """One that came."""

    kind: int
    flags: int
    stream_id: int
    payload: bytes

    @property
    def ends(self) -> bool:
        return self.kind in (Kind.DATA, Kind.HEADERS) and bool(self.flags & END_STREAM)

    @property
    def code(self) -> int:
        start = 4 if self.kind == Kind.GOAWAY else 0
        return int.from_bytes(self.payload[start : start + 4], "big")

    @property
    def number(self) -> int:
        return self.stream_id & 0x7FFFFFFF

    def __str__(self) -> str:
        kind = Kind(self.kind).name if self.kind in list(Kind) else str(self.kind)
        if self.kind in (Kind.RST_STREAM, Kind.GOAWAY):
            kind += f" with code {self.code}"
        return f"{kind} of stream {self.stream_id}, flags {self.flags}, {len(self.payload)} bytes"


class FrameReader:
    """Bytes to frames."""

    def __init__(self) -> None:
        self._pending = b""

    @property
    def pending(self) -> bytes:
        return self._pending

    def feed(self, received: bytes) -> list[Frame]:
        self._pending += received
        found = []
        while len(self._pending) >= 9:
            size = int.from_bytes(self._pending[:3], "big")
            if len(self._pending) < 9 + size:
                break
            kind, flags, stream_id = struct.unpack_from(">BBI", self._pending, 3)
            found.append(Frame(kind, flags, stream_id, self._pending[9 : 9 + size]))
            self._pending = self._pending[9 + size :]
        return found


class FrameClient:
    """A connection that a test moves frame by frame; it blocks."""

    def __init__(self, connection: socket.socket | ssl.SSLSocket) -> None:
        connection.settimeout(WAIT_S)
        self._socket = connection
        self._reader = FrameReader()
        self._unread: list[Frame] = []
        self._decoder = Decoder()
        self.arrived: list[Frame] = []

    @classmethod
    def connect(cls, port: int) -> FrameClient:
        connection = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, *pieces: bytes) -> None:
        try:
            self._socket.sendall(b"".join(pieces))
        except (BrokenPipeError, ConnectionResetError):
            return  # what it said before that is still to be read

    def begin(self, *pairs: tuple[int, int]) -> None:
        self.send(PREFACE, settings(*pairs))
        self.until(Kind.SETTINGS, flags=0)
        self.send(SETTINGS_ACK)
        self.until(Kind.SETTINGS, flags=ACK)

    def next_frame(self) -> Frame | None:
        while not self._unread:
            try:
                received = self._socket.recv(1 << 16)
            except ConnectionResetError:
                received = b""
            if not received:
                return None
            self._unread = self._reader.feed(received)
        found = self._unread.pop(0)
        self.arrived.append(found)
        return found

    def until(self, kind: int, stream_id: int | None = None, *, flags: int | None = None) -> Frame:
        while (found := self.next_frame()) is not None:
            if (
                found.kind == kind
                and stream_id in (None, found.stream_id)
                and flags in (None, found.flags)
            ):
                return found
        raise AssertionError(f"no {Kind(kind).name} among {self.told()}")

    def told(self) -> list[str]:
        return [str(each) for each in self.arrived]

    def status(self, stream_id: int) -> int:
        while True:
            found = self.next_frame()
            assert found is not None, self.told()
            if found.kind != Kind.HEADERS:
                continue
            assert found.flags & END_HEADERS, found
            fields = dict(self._decoder.decode(found.payload, raw=True))
            status = int(fields.get(b":status", b"0"))
            if found.stream_id == stream_id and status >= 200:
                return status

    def has_ended(self) -> bool:
        self._socket.setblocking(False)
        try:
            while self.next_frame() is not None:
                pass
        except BlockingIOError:
            return False
        finally:
            self._socket.settimeout(WAIT_S)
        return True

    def end(self) -> list[Frame]:
        found = []
        while (each := self.next_frame()) is not None:
            found.append(each)
        return found
