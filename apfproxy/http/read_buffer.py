"""The one buffer that all connections read into, and how parts of bodies are written out of it.

A connection that delivers more than a read's worth is paused until it was passed on.  uvloop's own
reads would be of up to 250 KiB; one shared buffer also keeps idle connections small.  It is safe to
share: the loop fills it and calls `buffer_updated` without anything in between.

1. Small reads are copied out.  A large one of a body is passed on as a view of the buffer, which is
   valid until `buffer_updated` returns.
2. Only a transport keeps a view, of what it could not write at once.  The buffer is then left to
   it, and the next read is into another one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

READ_BYTES: Final = 65536
"""A read of a client, of whose body half as much may be held while it waits for seats."""
ANSWER_READ_BYTES: Final = 122880
"""A read of a server; twice as much saves a quarter of the CPU of a large response."""
LARGE_BYTES: Final = 16384  # from here on a copy costs more than a view does
MAX_PIECES: Final = 64
"""Written without being joined; beyond, they are so small that a copy costs less."""

Piece = bytes | memoryview
"""A part of a body: bytes, or a view that is valid for the time of a call."""


class ReadBuffer:
    def __init__(self) -> None:
        self.data = bytearray(ANSWER_READ_BYTES)
        self.view = memoryview(self.data)
        self.start = self.view[:READ_BYTES]

    def leave(self) -> None:
        """Leave the buffer to the transport that holds a part of it, and take another one."""
        self.data = bytearray(ANSWER_READ_BYTES)
        self.view = memoryview(self.data)
        self.start = self.view[:READ_BYTES]


READS: Final = ReadBuffer()

WRITE_HIGH_WATER_BYTES: Final = 4096
"""Together with one read, and its chunk's frame, below 128 KiB.  More would speed up nothing: what
waits here waits behind what the kernel holds."""

MAX_LINGER_BYTES: Final = 1 << 20
"""Read after an early response, and thrown away, so that the client sees it before a reset."""

NOWHERE: Final = asyncio.Transport()
"""The transport of a connection that has not come about; it raises NotImplementedError."""

NOBODY: Final = asyncio.BufferedProtocol()
"""Gets a transport whose connection is lost.

uvloop's TLS keeps the methods of its protocol for good, and so a cycle that holds 60 KiB until the
collector comes, which it does hardly ever in this program.
"""


def write_pieces(transport: asyncio.Transport, pieces: Sequence[Piece], size: int) -> None:
    """Write pieces, of `size` bytes together and none empty, that may be views of the buffer."""
    if size < LARGE_BYTES or len(pieces) > MAX_PIECES:
        transport.write(b"".join(pieces))
        return
    transport.writelines(pieces)
    if transport.get_write_buffer_size():
        READS.leave()
