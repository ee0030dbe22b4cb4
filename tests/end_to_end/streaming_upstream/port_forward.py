"""Port-forward: pairs of SPDY streams, each pair a connection to a port of the pod."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from tests.end_to_end.streaming_upstream.duplex import READ_BYTES

if TYPE_CHECKING:
    from tests.end_to_end.streaming_upstream.spdy_session import SpdySession, SpdyStream

PROTOCOL = "portforward.k8s.io"
TUNNELLED = "SPDY/3.1+portforward.k8s.io"
"""The WebSocket subprotocol whose messages are the bytes of a SPDY connection."""


async def forward(session: SpdySession, ports: dict[int, int]) -> None:
    """Connect what the client asks for until it ends the session.

    Args:
        session: Which runs.
        ports: Port of the pod to the port of this machine that stands for it.
    """
    errors: dict[str, SpdyStream] = {}
    async with asyncio.TaskGroup() as connections:
        while (stream := await session.next_stream()) is not None:
            request = stream.headers["requestid"]
            if stream.headers["streamtype"] == "error":
                errors[request] = stream
            else:
                connections.create_task(_connect(stream, errors.pop(request), ports))


async def _connect(data: SpdyStream, error: SpdyStream, ports: dict[int, int]) -> None:
    port = int(data.headers["port"])
    if port not in ports:
        await error.write(f"nothing listens on port {port} of the pod".encode())
        await error.close()
        await data.close()
        return
    reader, writer = await asyncio.open_connection("127.0.0.1", ports[port])
    with contextlib.suppress(ConnectionError):
        await asyncio.gather(_to_pod(data, writer), _from_pod(reader, data))
    writer.close()
    await error.close()


async def _to_pod(data: SpdyStream, writer: asyncio.StreamWriter) -> None:
    while piece := await data.read():
        writer.write(piece)
        await writer.drain()
    writer.write_eof()


async def _from_pod(reader: asyncio.StreamReader, data: SpdyStream) -> None:
    while piece := await reader.read(READ_BYTES):
        await data.write(piece)
    await data.close()
