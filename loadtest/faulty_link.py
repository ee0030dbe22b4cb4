"""A TCP link that can fail, between a proxy and its origin: it treats each connection badly.

What is done to a connection is a `Fault`: bytes late, in tiny pieces or slowly, and an ending after
so many bytes of one direction.  A link takes one for each connection from a function, which may
draw them from a seeded generator; `strike` does the same to the connections that are open.  The
listener itself can refuse connections or leave them in a black hole, as a host that is gone does.
"""

from __future__ import annotations

import asyncio
import enum
import socket
import struct
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from apfproxy.base.tasks import spawn

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

HOST = "127.0.0.1"
READ_BYTES = 65_536
PIECES = 64
"""A read is cut into about so many pieces at most: a megabyte byte by byte would take minutes."""
TICK_S = 0.01
"""Between two portions of a connection whose bandwidth is limited."""
FORGET_S = 30.0
"""After which a connection whose peer has vanished is closed after all, to have its descriptors."""
LINGER_NOT = struct.pack("ii", 1, 0)


class Ending(enum.StrEnum):
    """How a connection ends before its peers want it to."""

    NEVER = "never"
    RESET = "reset"
    CLOSE = "close"
    STALL = "stall"
    """It stays open, the ends of its peers are seen, but no byte comes through."""
    VANISH = "vanish"
    """Half-open: nothing is read, written or closed any more, in either direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The treatment of one connection, in both directions.

    Attributes:
        delay_s: Every byte comes so much later.
        piece_bytes: The most that comes at once; 0 for whole reads.
        bytes_per_s: The bandwidth; 0 for no limit.
        ending: Comes after `after_bytes` of the direction `is_towards_origin`.
    """

    delay_s: float = 0.0
    piece_bytes: int = 0
    bytes_per_s: int = 0
    ending: Ending = Ending.NEVER
    after_bytes: int = 0
    is_towards_origin: bool = False


GOOD = Fault()


class FaultyLink:
    """A listener that connects each of its clients to the origin; `choose` gives their faults."""

    def __init__(self, origin_port: int, random: random.Random) -> None:
        self.origin_port = origin_port
        self.random = random
        self.choose: Callable[[], Fault] = lambda: GOOD
        self.accepted = 0
        self.struck: Counter[Ending] = Counter()
        self.port = 0
        self.wires: set[Wire] = set()
        self._server: asyncio.Server | None = None
        self._hole: list[socket.socket] = []

    async def listen(self) -> None:
        self._fill_hole()
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, HOST, self.port, backlog=1024)
            self.port = self._server.sockets[0].getsockname()[1]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.wires.add(Wire(self, reader, writer))
        self.accepted += 1

    def refuse(self) -> None:
        self._fill_hole()
        if self._server is not None:
            self._server.close()
            self._server = None

    def swallow(self) -> None:
        self.refuse()
        listener = socket.socket()
        self._hole.append(listener)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, self.port))
        # The kernel drops what comes when this queue, which is not served, is full.
        listener.listen(0)
        for _ in range(2):
            filler = socket.socket()
            self._hole.append(filler)
            filler.setblocking(False)
            filler.connect_ex((HOST, self.port))

    def strike(self, ending: Ending) -> None:
        for wire in list(self.wires):
            wire.end(ending)

    def stop(self) -> None:
        self.refuse()
        self.drop()

    def drop(self) -> None:
        for wire in list(self.wires):
            wire.drop()

    def _fill_hole(self) -> None:
        for each in self._hole:
            each.close()
        self._hole.clear()


class Wire:
    """A connection of the proxy and one to the origin, with what is passed on between them."""

    def __init__(
        self, link: FaultyLink, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.link = link
        self.fault = link.choose()
        self.ended = Ending.NEVER
        self._reader = reader
        self._writers = [writer]
        self._pumps: list[asyncio.Task[None]] = []
        self._task = spawn(self._run(), name="connect through the faulty link")

    def end(self, ending: Ending) -> None:
        if ending is Ending.NEVER or self.ended is not Ending.NEVER:
            return
        self.ended = ending
        self.link.struck[ending] += 1
        match ending:
            case Ending.RESET:
                self.drop()
            case Ending.CLOSE:
                for writer in self._writers:
                    writer.close()
            case Ending.VANISH:
                for pump in self._pumps:
                    pump.cancel()
                for writer in self._writers:
                    if not writer.is_closing():
                        cast("asyncio.Transport", writer.transport).pause_reading()

    def drop(self) -> None:
        self._reset()
        self._task.cancel()
        self.link.wires.discard(self)  # it may not have begun

    async def _run(self) -> None:
        try:
            reader, writer = await asyncio.open_connection(HOST, self.link.origin_port)
            self._writers.append(writer)
            if self.fault.after_bytes == 0:
                self.end(self.fault.ending)
            if self.ended in (Ending.NEVER, Ending.STALL):
                ways = self._pump(self._reader, writer), self._pump(reader, self._writers[0])
                self._pumps += [spawn(way, name="pass on through the faulty link") for way in ways]
                await asyncio.wait(self._pumps)
            if self.ended is Ending.VANISH:
                await asyncio.sleep(FORGET_S)
        except OSError:
            self._reset()
        finally:
            for pump in self._pumps:
                pump.cancel()
            for writer in self._writers:
                writer.close()
            self.link.wires.discard(self)

    def _reset(self) -> None:
        for writer in self._writers:
            if not writer.is_closing():
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
            writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what one side sends, now or later, or lose it."""
        fault, left = self.fault, self.fault.after_bytes
        is_from_proxy = reader is self._reader
        ends = fault.ending is not Ending.NEVER and fault.is_towards_origin == is_from_proxy
        with suppress(OSError):
            while data := await reader.read(READ_BYTES):
                is_end = ends and len(data) >= left
                await self._pass(data[:left] if is_end else data, writer)
                left -= len(data)
                if is_end:
                    self.end(fault.ending)
        if is_from_proxy or self.ended is not Ending.STALL:
            writer.close()  # else the proxy is not to know

    async def _pass(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        fault, at = self.fault, 0
        if fault.delay_s:
            await asyncio.sleep(fault.delay_s)
        while at < len(data) and self.ended is Ending.NEVER and not writer.is_closing():
            size = len(data)
            if fault.piece_bytes:
                most = max(fault.piece_bytes, (len(data) - at) // PIECES)
                size = self.link.random.randint(1, most)
            if fault.bytes_per_s:
                size = min(size, max(1, int(fault.bytes_per_s * TICK_S)))
            writer.write(data[at : at + size])
            await writer.drain()
            at += size
            if at < len(data):
                await asyncio.sleep(TICK_S if fault.bytes_per_s else 0)
