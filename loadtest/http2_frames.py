"""Frames and fields of HTTP/2 as Go's clients write them, for programs that drive a proxy.

Nothing here checks what a server sends: a client that measures has to be cheap.  RFC 9113 has the
frames, RFC 7541 the fields (HPACK).
"""

from __future__ import annotations

import struct
from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING

from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Field = tuple[bytes, bytes]

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
ACK = END_STREAM = 1
END_HEADERS = 4

FRAME = struct.Struct(">HBBBL")
"""The head of a frame: 16 and 8 bits of its length, kind, flags, stream."""
FRAME_BYTES = FRAME.size
MAX_PAYLOAD = 1 << 14

WINDOW = 65_535
"""Bytes of a new stream and of a new connection, unless SETTINGS say otherwise."""
GOS_WINDOW = 4 << 20
GOS_CONNECTION_WINDOW = 1 << 30
GOS_REFRESH = 4 << 10
"""Bytes that Go's client has taken at least before it gives them back to the connection."""

TABLE_BYTES = 4096
ENTRY_BYTES = 32
"""What an entry of HPACK's table counts besides its name and value."""
EMPTY_TABLE = b"\x20\x3f\xe1\x1f"
"""At the start of a block: the dynamic table is made 0 bytes, then `TABLE_BYTES`."""
STATIC: dict[Field, int] = {
    field: at for at, field in reversed([*enumerate(HeaderTable.STATIC_TABLE, 1)])
}
STATIC_NAMES = {name: at for (name, _), at in STATIC.items()}
STATUS = STATIC_NAMES[b":status"]


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return frame_head(len(payload), kind, flags, stream) + payload


def frame_head(size: int, kind: int, flags: int, stream: int) -> bytes:
    """The head of a frame whose payload has so many bytes."""
    return FRAME.pack(size >> 8, size & 255, kind, flags, stream)


def window_update(stream: int, size: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">L", size))


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
OPENING = (
    PREFACE
    + frame(SETTINGS, 0, 0, struct.pack(">HLHLHL", 2, 0, 4, GOS_WINDOW, 6, 10 << 20))
    + window_update(0, GOS_CONNECTION_WINDOW)
)
"""What Go's client sends first."""

SETTINGS_ACK = frame(SETTINGS, ACK, 0, b"")


class FrameReader:
    """Takes frames out of what has come."""

    def __init__(self) -> None:
        self._pending = b""

    def read(self, data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
        self._pending += data
        at = 0
        while len(self._pending) - at >= FRAME_BYTES:
            high, low, kind, flags, stream = FRAME.unpack_from(self._pending, at)
            end = at + FRAME_BYTES + (high << 8 | low)
            if end > len(self._pending):
                break
            yield kind, flags, stream, self._pending[at + FRAME_BYTES : end]
            at = end
        self._pending = self._pending[at:]


def first_status(block: bytes) -> int:
    """The status that a block of an answer begins with.

    Args:
        block: The fields; `:status` comes first, as a pseudo field has to.
    """
    at = 0
    while block[at] & 0xE0 == 0x20:  # the size of the table
        at += 1 if block[at] & 0x1F != 0x1F else 1 + _continued(block[at + 1 :])
    if block[at] & 0x80:
        name, value = HeaderTable.STATIC_TABLE[(block[at] & 0x7F) - 1]
    else:
        index = block[at] & (0x3F if block[at] & 0x40 else 0x0F)
        name = HeaderTable.STATIC_TABLE[index - 1][0]
        size = block[at + 1] & 0x7F
        value = block[at + 2 : at + 2 + size]
        if block[at + 1] & 0x80:
            value = decode_huffman(value)
    if name != b":status":
        raise ValueError(f"an answer begins with {name!r}")
    return int(value)


def _continued(data: bytes) -> int:
    return next(at for at, byte in enumerate(data, 1) if byte < 0x80)


class FieldEncoder:
    """Writes a connection's fields: Go adds each that is new to the table that both sides keep."""

    def __init__(self) -> None:
        self._entries: deque[Field] = deque()
        self._bytes = 0
        self._added = 0
        """Entries so far; the latest has the lowest index."""
        self._numbers: dict[Field, int] = {}
        self._names: dict[bytes, int] = {}

    def encode(self, fields: Iterable[Field]) -> bytes:
        return b"".join([self._encode(field) for field in fields])

    def _encode(self, field: Field) -> bytes:
        if (at := STATIC.get(field)) is not None:
            return _integer(at, 7, 0x80)
        if (number := self._numbers.get(field)) is not None:
            return _integer(self._index(number), 7, 0x80)
        name, value = field
        if (at := STATIC_NAMES.get(name)) is None and (number := self._names.get(name)) is not None:
            at = self._index(number)
        bits, pattern = (6, 0x40) if self._add(field) else (4, 0)
        start = bytes((pattern,)) + _string(name) if at is None else _integer(at, bits, pattern)
        return start + _string(value)

    def _index(self, number: int) -> int:
        return len(HeaderTable.STATIC_TABLE) + self._added - number

    def _add(self, field: Field) -> bool:
        size = len(field[0]) + len(field[1]) + ENTRY_BYTES
        if size > TABLE_BYTES:
            return False
        while self._entries and self._bytes + size > TABLE_BYTES:
            gone = self._entries.popleft()
            self._bytes -= len(gone[0]) + len(gone[1]) + ENTRY_BYTES
            number = self._numbers.pop(gone)
            if self._names[gone[0]] == number:
                del self._names[gone[0]]
        self._entries.append(field)
        self._bytes += size
        self._numbers[field] = self._names[field[0]] = self._added
        self._added += 1
        return True


def _integer(number: int, bits: int, pattern: int) -> bytes:
    most = (1 << bits) - 1
    if number < most:
        return bytes((pattern | number,))
    number -= most
    octets = [pattern | most]
    while number >= 0x80:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*octets, number))


HUFFMAN = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)


@lru_cache(maxsize=1 << 16)
def _string(text: bytes) -> bytes:
    coded = HUFFMAN.encode(text)
    if len(coded) < len(text):
        return _integer(len(coded), 7, 0x80) + coded
    return _integer(len(text), 7, 0) + text
