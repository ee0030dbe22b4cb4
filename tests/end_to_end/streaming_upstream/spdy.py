"""A SPDY/3.1 session, the server's end: the client makes streams, both write to them.

As the implementation in kubectl and the kubelet does, it heeds no windows and announces none.
Source: https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.end_to_end.streaming_upstream.connections import Duplex

DATA, SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY, HEADERS = 0, 1, 2, 3, 6, 7, 8
"""Types of control frames; data frames have none."""
IGNORED = {4, GOAWAY, 9}
"""SETTINGS and WINDOW_UPDATE as well."""
CONTROL_3 = 0x8003 << 16
FIN = 0x01
PROTOCOL_ERROR = 1
FRAME_HEAD_BYTES = 8
MAX_FRAME_BYTES = (1 << 24) - 1
MAX_FRAMES = 32
"""For a stream that are held before the whole session waits for their reader."""
PIECE_BYTES = 1 << 15

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
NAMES = [name.replace("_", " ").encode() for name in DICTIONARY_NAMES.split()]
DICTIONARY = (
    b"".join(struct.pack(">I", len(name)) + name for name in NAMES) + DICTIONARY_REST.encode()
)
"""Known to both ends' compressors of header blocks from the start, section 2.6.10.1."""
assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2


def data_frame(stream_id: int, data: bytes, flags: int = 0) -> bytes:
    return struct.pack(">II", stream_id, flags << 24 | len(data)) + data


def control_frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">II", CONTROL_3 | kind, len(payload)) + payload


class Stream:
    """One of a session's streams, with the headers that it was made with, names in lower case."""

    def __init__(self, session: Session, stream_id: int, headers: dict[str, str]) -> None:
        self.headers = headers
        self.received: asyncio.Queue[bytes] = asyncio.Queue(MAX_FRAMES)
        self.is_open = True
        self._session = session
        self._id = stream_id
        self._is_at_end = False

    async def read(self) -> bytes:
        data = b"" if self._is_at_end else await self.received.get()
        self._is_at_end = not data
        return data

    async def write(self, data: bytes) -> None:
        for start in range(0, len(data), PIECE_BYTES):
            if self.is_open:
                await self._session.send(data_frame(self._id, data[start : start + PIECE_BYTES]))

    async def close(self) -> None:
        if self.is_open:
            self.is_open = False
            await self._session.send(data_frame(self._id, b"", FIN))


class Session:
    """Streams over one connection."""

    def __init__(self, duplex: Duplex) -> None:
        self._duplex = duplex
        self._compressor = zlib.compressobj(zdict=DICTIONARY)
        self._decompressor = zlib.decompressobj(zdict=DICTIONARY)
        self._streams: dict[int, Stream] = {}
        self._made: asyncio.Queue[Stream | None] = asyncio.Queue()

    async def next_stream(self) -> Stream | None:
        return await self._made.get()

    async def run(self) -> None:
        pending = b""
        while data := await self._duplex.read():
            pending += data
            while len(pending) >= FRAME_HEAD_BYTES:
                first, last = struct.unpack_from(">II", pending)
                end = FRAME_HEAD_BYTES + (last & MAX_FRAME_BYTES)
                if len(pending) < end:
                    break
                payload, pending = pending[FRAME_HEAD_BYTES:end], pending[end:]
                if first >> 31:
                    await self._take_control(first ^ CONTROL_3, last >> 24, payload)
                else:
                    await self._take_data(first, last >> 24, payload)
        for stream in self._streams.values():
            await self._end(stream)
        self._made.put_nowait(None)

    async def send(self, frame: bytes) -> None:
        await self._duplex.write(frame)

    async def close(self) -> None:
        last = max(self._streams, default=0)
        await self.send(control_frame(GOAWAY, struct.pack(">II", last, 0)))
        await self._duplex.close()

    async def _take_control(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == SYN_STREAM:
            (stream_id,) = struct.unpack_from(">I", payload)
            stream = Stream(self, stream_id, self._decode(payload[10:]))
            self._streams[stream_id] = stream
            none = self._compressor.compress(bytes(4)) + self._compressor.flush(zlib.Z_SYNC_FLUSH)
            await self.send(control_frame(SYN_REPLY, struct.pack(">I", stream_id) + none))
            if flags & FIN:
                await stream.received.put(b"")
            self._made.put_nowait(stream)
        elif kind == RST_STREAM:
            stream_id, _ = struct.unpack(">II", payload)
            if stream_id in self._streams:
                await self._end(self._streams[stream_id])
        elif kind == PING:
            await self.send(control_frame(PING, payload))
        elif kind == HEADERS:
            self._decode(payload[4:])
        else:
            assert kind in IGNORED, kind

    async def _take_data(self, stream_id: int, flags: int, payload: bytes) -> None:
        stream = self._streams.get(stream_id)
        if stream is None:
            reset = struct.pack(">II", stream_id, PROTOCOL_ERROR)
            await self.send(control_frame(RST_STREAM, reset))
            return
        if payload:
            await stream.received.put(payload)
        if flags & FIN:
            await stream.received.put(b"")

    async def _end(self, stream: Stream) -> None:
        stream.is_open = False
        await stream.received.put(b"")

    def _decode(self, block: bytes) -> dict[str, str]:
        plain = self._decompressor.decompress(block)
        (number,) = struct.unpack_from(">I", plain)
        texts: list[str] = []
        at = 4
        for _ in range(2 * number):
            (length,) = struct.unpack_from(">I", plain, at)
            texts.append(plain[at + 4 : at + 4 + length].decode())
            at += 4 + length
        return dict(zip(texts[::2], texts[1::2], strict=True))
