"""The frames of SPDY/3.1, as kubectl and the kubelet use them; no I/O.

Source: https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

CONTROL = 0x80
VERSION = 3

SYN_STREAM = 1
SYN_REPLY = 2
RST_STREAM = 3
SETTINGS = 4
PING = 6
GOAWAY = 7
HEADERS = 8
WINDOW_UPDATE = 9

FIN = 0x01
"""The flag of a sender's last frame of a stream."""

PROTOCOL_ERROR = 1
REFUSED_STREAM = 3

FRAME_HEAD_BYTES = 8
MAX_FRAME_BYTES = (1 << 24) - 1

DICTIONARY_NAMES = """
options head post put delete trace accept accept-charset accept-encoding accept-language
accept-ranges age allow authorization cache-control connection content-base content-encoding
content-language content-length content-location content-md5 content-range content-type date etag
expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since
last-modified location max-forwards pragma proxy-authenticate proxy-authorization range referer
retry-after server te trailer transfer-encoding upgrade user-agent vary via warning
www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie keep-alive origin
"""
"""Each preceded by its length in the dictionary; _ stands for a space."""

DICTIONARY_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 "
    "Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
    "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age="
    "gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _dictionary() -> bytes:
    names = [name.replace("_", " ").encode() for name in DICTIONARY_NAMES.split()]
    lengthened = b"".join(struct.pack(">I", len(name)) + name for name in names)
    return lengthened + DICTIONARY_REST.encode()


DICTIONARY = _dictionary()
"""What both ends' compressors of header blocks know from the start, section 2.6.10.1."""
DICTIONARY_ADLER32 = 0xE3C6A7C2
assert DICTIONARY_ADLER32 == zlib.adler32(DICTIONARY)


@dataclass(frozen=True)
class Frame:
    """A frame, a control frame unless it is of `DATA`.

    Attributes:
        kind: The type of a control frame; 0 for data.
        flags: Of the frame.
        stream_id: Of data; a control frame has it in its payload.
        payload: What follows the head.
    """

    kind: int
    flags: int
    stream_id: int
    payload: bytes


DATA = 0
"""Stands for the type that data frames do not have."""


class Frames:
    """Cuts bytes into frames."""

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete with these bytes."""
        self._pending += data
        frames = []
        while len(self._pending) >= FRAME_HEAD_BYTES:
            first, last = struct.unpack_from(">II", self._pending)
            flags, length = last >> 24, last & MAX_FRAME_BYTES
            end = FRAME_HEAD_BYTES + length
            if len(self._pending) < end:
                break
            payload = self._pending[FRAME_HEAD_BYTES:end]
            self._pending = self._pending[end:]
            if first >> 31:
                assert VERSION == first >> 16 & 0x7FFF, hex(first)
                frames.append(Frame(first & 0xFFFF, flags, 0, payload))
            else:
                frames.append(Frame(DATA, flags, first, payload))
        return frames

    def __repr__(self) -> str:
        return f"<Frames, {len(self._pending)} bytes pending>"


def data_frame(stream_id: int, data: bytes, flags: int = 0) -> bytes:
    """A frame of data."""
    return struct.pack(">II", stream_id, flags << 24 | len(data)) + data


def control_frame(kind: int, payload: bytes, flags: int = 0) -> bytes:
    """A control frame."""
    first = CONTROL << 24 | VERSION << 16 | kind
    return struct.pack(">II", first, flags << 24 | len(payload)) + payload


class HeaderBlocks:
    """Reads and writes header blocks, whose compression goes on from one to the next."""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj(zdict=DICTIONARY)
        self._decompressor = zlib.decompressobj(zdict=DICTIONARY)

    def decode(self, block: bytes) -> dict[str, str]:
        """Names, in lower case, and values."""
        plain = self._decompressor.decompress(block)
        (number,) = struct.unpack_from(">I", plain)
        texts: list[str] = []
        at = 4
        for _ in range(2 * number):
            (length,) = struct.unpack_from(">I", plain, at)
            texts.append(plain[at + 4 : at + 4 + length].decode())
            at += 4 + length
        assert len(plain) == at
        return dict(zip(texts[::2], texts[1::2], strict=True))

    def encode(self, headers: dict[str, str]) -> bytes:
        """A block of such headers."""
        plain = struct.pack(">I", len(headers))
        for text in (text for pair in headers.items() for text in pair):
            plain += struct.pack(">I", len(text)) + text.encode()
        return self._compressor.compress(plain) + self._compressor.flush(zlib.Z_SYNC_FLUSH)

    def __repr__(self) -> str:
        return "<HeaderBlocks>"
