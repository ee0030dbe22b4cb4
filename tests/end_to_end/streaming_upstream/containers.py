"""A pod's one container: scripted commands and their streams."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.end_to_end.streaming_upstream.connections import WebSocket
    from tests.end_to_end.streaming_upstream.spdy import Session, Stream

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
"""The numbers of channels; a message of the last one says which channel ends."""
PIECE_BYTES = 1 << 15
MAX_PIECES = 32
"""For a channel, before the connection waits for its reader."""
FIRST_LINE = b"started\n"
NOT_FOUND = 127


class Streams(Protocol):
    """Holds those of one command; `read` gives b"" at the end of stdin or sizes of the terminal."""

    async def read(self, channel: int) -> bytes: ...
    async def write(self, channel: int, data: bytes) -> None: ...
    async def end(self) -> None: ...


class WebSocketStreams:
    """A WebSocket whose messages begin with the number of a channel."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._channels: dict[int, asyncio.Queue[bytes]] = {
            channel: asyncio.Queue(MAX_PIECES) for channel in (STDIN, RESIZE)
        }

    async def run(self) -> None:
        while message := await self._websocket.read():
            if message[0] == CLOSE:
                await self._channels[message[1]].put(b"")
            elif len(message) > 1:
                await self._channels[message[0]].put(message[1:])
        for queue in self._channels.values():
            await queue.put(b"")

    async def read(self, channel: int) -> bytes:
        return await self._channels[channel].get()

    async def write(self, channel: int, data: bytes) -> None:
        for start in range(0, len(data), PIECE_BYTES):
            await self._websocket.write(bytes([channel]) + data[start : start + PIECE_BYTES])

    async def end(self) -> None:
        await self._websocket.close()


class SpdyStreams:
    """A SPDY session with a stream for each channel, by its `streamType`."""

    NAMES = ("stdin", "stdout", "stderr", "error", "resize")

    def __init__(self, session: Session, streams: dict[str, Stream]) -> None:
        self._session = session
        self._streams = streams

    async def read(self, channel: int) -> bytes:
        return await self._streams[self.NAMES[channel]].read()

    async def write(self, channel: int, data: bytes) -> None:
        if (stream := self._streams.get(self.NAMES[channel])) is not None:
            await stream.write(data)

    async def end(self) -> None:
        for stream in self._streams.values():
            await stream.close()
        await self._session.close()


def status_of(exit_code: int) -> dict[str, Any]:
    if exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {exit_code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
    }


class Container:
    """Commands, and what was written to the log."""

    def __init__(self) -> None:
        self._lines = [FIRST_LINE]
        self._has_ended = False
        self._changed = asyncio.Condition()

    async def lines(self, *, is_followed: bool) -> AsyncIterator[bytes]:
        at = 0
        while True:
            while at < len(self._lines):
                yield self._lines[at]
                at += 1
            if self._has_ended or not is_followed:
                return
            async with self._changed:
                while at == len(self._lines) and not self._has_ended:
                    await self._changed.wait()

    async def run(self, command: list[str], streams: Streams) -> None:
        name, *arguments = command
        known = {
            "cat": self._cat,
            "echo": self._echo,
            "exit": self._exit,
            "log": self._log,
            "size": self._size,
            "stop": self._stop,
        }
        if name in known:
            code = await known[name](streams, arguments)
        else:
            await streams.write(STDERR, f"{name}: not found\n".encode())
            code = NOT_FOUND
        await streams.write(ERROR, json.dumps(status_of(code)).encode())
        await streams.end()

    async def _cat(self, streams: Streams, _: list[str]) -> int:
        while data := await streams.read(STDIN):
            await streams.write(STDOUT, data)
        return 0

    async def _echo(self, streams: Streams, arguments: list[str]) -> int:
        await streams.write(STDOUT, (" ".join(arguments) + "\n").encode())
        return 0

    async def _exit(self, streams: Streams, arguments: list[str]) -> int:
        await streams.write(STDOUT, b"going\n")
        await streams.write(STDERR, b"gone wrong\n")
        return int(arguments[0])

    async def _log(self, streams: Streams, _: list[str]) -> int:
        line = await _all_of(streams)
        async with self._changed:
            self._lines.append(line)
            self._changed.notify_all()
        return 0

    async def _size(self, streams: Streams, _: list[str]) -> int:
        size = json.loads(await streams.read(RESIZE))
        await streams.write(STDOUT, f"{size['Width']}x{size['Height']}\r\n".encode())
        return 0

    async def _stop(self, _streams: Streams, _: list[str]) -> int:
        async with self._changed:
            self._has_ended = True
            self._changed.notify_all()
        return 0


async def _all_of(streams: Streams) -> bytes:
    text = b""
    while data := await streams.read(STDIN):
        text += data
    return text


@contextlib.asynccontextmanager
async def beside(running: Any) -> AsyncIterator[None]:  # noqa: ANN401  a coroutine
    task = asyncio.create_task(running)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
