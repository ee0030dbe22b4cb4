"""Whether the origin answers at all: one request on a connection of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from apfproxy.proxy.read_buffer import READS

if TYPE_CHECKING:
    from apfproxy.proxy.upstream import UpstreamConnection
    from apfproxy.settings import UpstreamSettings

QUESTION: Final = (
    b"HEAD / HTTP/1.1\r\nHost: %b\r\nUser-Agent: apfproxy\r\nConnection: close\r\n\r\n"
)


class FirstByte(asyncio.BufferedProtocol):
    """Waits for the first byte of an answer.

    Attributes:
        came: Whether it came, once that or the end of the connection is known.
    """

    def __init__(self) -> None:
        self.came: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002  the protocol's signature
        """Where it goes."""
        return READS.data

    def buffer_updated(self, nbytes: int) -> None:  # noqa: ARG002  as above
        """It came."""
        self._tell(came=True)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  as above
        """It will not come any more."""
        self._tell(came=False)

    def _tell(self, *, came: bool) -> None:
        if not self.came.done():
            self.came.set_result(came)


async def is_answered(connection: UpstreamConnection, settings: UpstreamSettings) -> bool:
    """Ask on a new connection, which is closed then: whether anything came in time."""
    first = FirstByte()
    transport = connection.transport
    connection.hand_over(first)
    try:
        transport.write(QUESTION % (settings.address.host or "localhost").encode())
        async with asyncio.timeout(settings.connect_timeout_s):
            return await first.came
    except TimeoutError:
        return False
    finally:
        transport.abort()
