"""The one buffer that all connections read into, and how much may wait behind a slow reader.

A connection that delivers more than a read's worth is paused until it was passed on, so a direction
of an exchange holds at most one read and what the other side's transport has not written yet.
uvloop's own reads would be of up to 250 KiB; one shared buffer also keeps idle connections small.
It is safe to share: the loop fills it and calls `buffer_updated` without anything in between.
"""

from __future__ import annotations

import asyncio
from typing import Final

READ_BYTES: Final = 65536
READ_BUFFER: Final = bytearray(READ_BYTES)
READ_VIEW: Final = memoryview(READ_BUFFER)

WRITE_HIGH_WATER_BYTES: Final = 49152
"""Together with one read, and its chunk's frame, below 128 KiB."""

NOWHERE: Final = asyncio.Transport()
"""The transport of a connection that has not come about: whatever is asked of it, it raises
NotImplementedError."""

NOBODY: Final = asyncio.BufferedProtocol()
"""Gets a transport whose connection is lost.

uvloop's TLS keeps the methods of its protocol for good, and so a cycle that holds 60 KiB until the
collector comes, which it does hardly ever in this program.
"""
