"""The streams of a remote command, over either protocol: stdin, stdout, stderr, error, resize."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.end_to_end.streaming_upstream.spdy_session import SpdySession, SpdyStream
    from tests.end_to_end.streaming_upstream.websocket import WebSocket

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
"""The numbers of channels; a message of the last one says which channel ends."""

V5 = "v5.channel.k8s.io"
V4 = "v4.channel.k8s.io"
V4_BASE64 = "v4.base64.channel.k8s.io"
WEBSOCKET_PROTOCOLS = (V5, V4, V4_BASE64)
SPDY_PROTOCOLS = (V4,)

PIECE_BYTES = 1 << 15
MAX_PIECES = 32
"""What a channel holds before the connection waits for whoever reads it."""


class Streams(Protocol):
    """Those of one command."""

    async def read_stdin(self) -> bytes:
        """What comes next; b"" at the end."""

    async def read_size(self) -> tuple[int, int]:
        """The next size of the terminal: columns and rows."""

    async def write(self, channel: int, data: bytes) -> None:
        """Send output: `STDOUT` or `STDERR`."""

    async def end(self, exit_code: int) -> None:
        """Say how the command ended, and end the streams."""


def status_of(exit_code: int) -> dict[str, Any]:
    """What the error stream says at the end of a command."""
    if exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    cause = {"reason": "ExitCode", "message": str(exit_code)}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {exit_code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [cause]},
    }


def _size_of(message: bytes) -> tuple[int, int]:
    size = json.loads(message)
    return size["Width"], size["Height"]


class WebSocketStreams:
    """A WebSocket whose messages begin with the number of a channel.

    Args:
        websocket: After its handshake.
        protocol: One of `WEBSOCKET_PROTOCOLS`.
    """

    def __init__(self, websocket: WebSocket, protocol: str) -> None:
        self._websocket = websocket
        self._is_base64 = protocol == V4_BASE64
        self._knows_close = protocol == V5
        self._channels: dict[int, asyncio.Queue[bytes]] = {
            channel: asyncio.Queue(MAX_PIECES) for channel in (STDIN, RESIZE)
        }

    async def run(self) -> None:
        """Read until the client ends the connection."""
        while message := await self._websocket.read():
            channel, data = self._decode(message)
            if channel == CLOSE:
                assert self._knows_close
                await self._channels[data[0]].put(b"")
            elif data:
                await self._channels[channel].put(data)
        for queue in self._channels.values():
            await queue.put(b"")

    async def read_stdin(self) -> bytes:
        """What comes next; b"" at the end."""
        return await self._channels[STDIN].get()

    async def read_size(self) -> tuple[int, int]:
        """The next size of the terminal: columns and rows."""
        return _size_of(await self._channels[RESIZE].get())

    async def write(self, channel: int, data: bytes) -> None:
        """Send output, in messages of a size that clients expect."""
        for start in range(0, len(data), PIECE_BYTES):
            await self._websocket.write(self._encode(channel, data[start : start + PIECE_BYTES]))

    async def end(self, exit_code: int) -> None:
        """Say how the command ended, and end the connection."""
        await self.write(ERROR, json.dumps(status_of(exit_code)).encode())
        await self._websocket.close()

    def _decode(self, message: bytes) -> tuple[int, bytes]:
        if self._is_base64:
            return message[0] - ord("0"), base64.b64decode(message[1:])
        return message[0], message[1:]

    def _encode(self, channel: int, data: bytes) -> bytes:
        if self._is_base64:
            return str(channel).encode() + base64.b64encode(data)
        return bytes([channel]) + data

    def __repr__(self) -> str:
        return f"<WebSocketStreams over {self._websocket}>"


class SpdyStreams:
    """A SPDY session with a stream for each.

    Args:
        session: Which runs.
        streams: Their `streamType` to them.
    """

    def __init__(self, session: SpdySession, streams: dict[str, SpdyStream]) -> None:
        self._session = session
        self._streams = streams
        self._outputs = {STDOUT: streams.get("stdout"), STDERR: streams.get("stderr")}

    async def read_stdin(self) -> bytes:
        """What comes next; b"" at the end."""
        return await self._streams["stdin"].read()

    async def read_size(self) -> tuple[int, int]:
        """The next size of the terminal: columns and rows."""
        return _size_of(await self._streams["resize"].read())

    async def write(self, channel: int, data: bytes) -> None:
        """Send output, if the client wants it."""
        if (stream := self._outputs[channel]) is not None:
            await stream.write(data)

    async def end(self, exit_code: int) -> None:
        """Say how the command ended, and end all streams and the session."""
        await self._streams["error"].write(json.dumps(status_of(exit_code)).encode())
        for stream in self._streams.values():
            await stream.close()
        await self._session.close()

    def __repr__(self) -> str:
        return f"<SpdyStreams {sorted(self._streams)}>"


@contextlib.asynccontextmanager
async def beside(running: Any) -> AsyncIterator[None]:  # noqa: ANN401  a coroutine
    """Run something until the end of the context."""
    task = asyncio.create_task(running)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
