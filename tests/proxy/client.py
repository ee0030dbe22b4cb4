"""A client that sends exactly the bytes of a test and reads answers with their framing."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field
from typing import Self

from tests.proxy.wire import WITHIN_S, Body, Head, Wire, set_buffers

STATUSES_WITHOUT_BODY = (204, 304)


@dataclass(frozen=True, slots=True)
class Response:
    """One final response, and the heads of the interim ones before it."""

    head: Head
    body: Body
    interim: list[Head] = field(default_factory=list)

    @property
    def status(self) -> int:
        """The status code."""
        return self.head.status


class Client(Wire):
    """A connection to the proxy; use `connect`, as a context manager."""

    @classmethod
    async def connect(
        cls,
        port: int,
        *,
        source: str = "127.0.0.1",
        send_buffer_bytes: int | None = None,
        receive_buffer_bytes: int | None = None,
    ) -> Self:
        """Connect to a port of 127.0.0.1.

        Args:
            port: The proxy's.
            source: The address to come from, 127.x.x.x.
            send_buffer_bytes: Size of the kernel's buffer of outgoing bytes, if not its own choice.
            receive_buffer_bytes: The same for incoming bytes.
        """
        unconnected = socket.socket()
        try:
            set_buffers(
                unconnected, send_bytes=send_buffer_bytes, receive_bytes=receive_buffer_bytes
            )
            unconnected.bind((source, 0))
            unconnected.setblocking(False)
            async with asyncio.timeout(WITHIN_S):
                await asyncio.get_running_loop().sock_connect(unconnected, ("127.0.0.1", port))
        except BaseException:
            unconnected.close()
            raise
        return cls(unconnected)

    async def read_response(self, *, method: bytes = b"GET") -> Response:
        """Read one response, interim ones included.

        Args:
            method: The request's: an answer to HEAD has no body.

        Raises:
            ClosedEarlyError: The proxy closed before the response was whole.
        """
        interim = []
        while (head := await self.read_head()).status < 200:
            interim.append(head)
        if method == b"HEAD" or head.status in STATUSES_WITHOUT_BODY:
            return Response(head, Body(), interim)
        return Response(head, await self.read_body(head, until_close=True), interim)

    async def ask(self, request: bytes) -> Response:
        """Send a whole request and read its response."""
        await self.send(request)
        return await self.read_response(method=request.split(b" ", 1)[0])
