"""A SPDY/3.1 session, the server's end: the client makes streams, both write to them.

As the implementation in kubectl and the kubelet does, it heeds no windows and announces none.
"""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING

from tests.end_to_end.streaming_upstream.spdy_frames import (
    DATA,
    FIN,
    GOAWAY,
    HEADERS,
    PING,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    RST_STREAM,
    SETTINGS,
    SYN_REPLY,
    SYN_STREAM,
    WINDOW_UPDATE,
    Frame,
    Frames,
    HeaderBlocks,
    control_frame,
    data_frame,
)

if TYPE_CHECKING:
    from tests.end_to_end.streaming_upstream.duplex import Duplex

MAX_STREAMS = 64
MAX_FRAMES = 32
"""What a stream holds before the whole session waits for whoever reads it."""
PIECE_BYTES = 1 << 15


class SpdyStream:
    """One of a session's streams.

    Attributes:
        headers: That it was made with, names in lower case.
    """

    def __init__(self, session: SpdySession, stream_id: int, headers: dict[str, str]) -> None:
        self.headers = headers
        self._session = session
        self._id = stream_id
        self._received: asyncio.Queue[bytes] = asyncio.Queue(MAX_FRAMES)
        self._is_at_end = False
        self._is_open = True

    async def read(self) -> bytes:
        """Whatever comes next; b"" at the end."""
        data = b"" if self._is_at_end else await self._received.get()
        self._is_at_end = not data
        return data

    async def write(self, data: bytes) -> None:
        """Send all of it."""
        for start in range(0, len(data), PIECE_BYTES):
            if not self._is_open:
                return
            await self._session.send(data_frame(self._id, data[start : start + PIECE_BYTES]))

    async def close(self) -> None:
        """Send no more."""
        if self._is_open:
            self._is_open = False
            await self._session.send(data_frame(self._id, b"", FIN))

    async def receive(self, data: bytes) -> None:
        """Take what came; b"" for the end."""
        await self._received.put(data)

    def reset(self) -> None:
        """The other side wants no more of it."""
        self._is_open = False

    def __repr__(self) -> str:
        return f"<SpdyStream {self._id} {self.headers}>"


class SpdySession:
    """Streams over one connection.

    Args:
        duplex: The connection.
    """

    def __init__(self, duplex: Duplex) -> None:
        self._duplex = duplex
        self._blocks = HeaderBlocks()
        self._streams: dict[int, SpdyStream] = {}
        self._made: asyncio.Queue[SpdyStream | None] = asyncio.Queue()

    async def next_stream(self) -> SpdyStream | None:
        """The next stream that the client made; None at the end of the session."""
        return await self._made.get()

    async def run(self) -> None:
        """Read until the client ends the session."""
        frames = Frames()
        while data := await self._duplex.read():
            for frame in frames.feed(data):
                await self._take(frame)
        for stream in self._streams.values():
            stream.reset()
            await stream.receive(b"")
        self._made.put_nowait(None)

    async def send(self, frame: bytes) -> None:
        """Send a frame."""
        await self._duplex.write(frame)

    async def close(self) -> None:
        """Say that nothing follows, and end the connection."""
        last = max(self._streams, default=0)
        await self.send(control_frame(GOAWAY, struct.pack(">II", last, 0)))
        await self._duplex.close()

    async def _take(self, frame: Frame) -> None:
        if frame.kind == DATA:
            await self._take_data(frame)
        elif frame.kind == SYN_STREAM:
            await self._make_stream(frame)
        elif frame.kind == RST_STREAM:
            stream_id, _ = struct.unpack(">II", frame.payload)
            if (stream := self._streams.get(stream_id)) is not None:
                stream.reset()
                await stream.receive(b"")
        elif frame.kind == PING:
            await self.send(control_frame(PING, frame.payload))
        elif frame.kind == HEADERS:
            self._blocks.decode(frame.payload[4:])
        else:
            assert frame.kind in {SETTINGS, WINDOW_UPDATE, GOAWAY}, frame

    async def _take_data(self, frame: Frame) -> None:
        stream = self._streams.get(frame.stream_id)
        if stream is None:
            reset = struct.pack(">II", frame.stream_id, PROTOCOL_ERROR)
            await self.send(control_frame(RST_STREAM, reset))
            return
        if frame.payload:
            await stream.receive(frame.payload)
        if frame.flags & FIN:
            await stream.receive(b"")

    async def _make_stream(self, frame: Frame) -> None:
        (stream_id,) = struct.unpack_from(">I", frame.payload)
        headers = self._blocks.decode(frame.payload[10:])
        if len(self._streams) >= MAX_STREAMS:
            await self.send(
                control_frame(RST_STREAM, struct.pack(">II", stream_id, REFUSED_STREAM))
            )
            return
        stream = self._streams[stream_id] = SpdyStream(self, stream_id, headers)
        reply = struct.pack(">I", stream_id) + self._blocks.encode({})
        await self.send(control_frame(SYN_REPLY, reply))
        if frame.flags & FIN:
            await stream.receive(b"")
        self._made.put_nowait(stream)

    def __repr__(self) -> str:
        return f"<SpdySession, {len(self._streams)} streams>"
