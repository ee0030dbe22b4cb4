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
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from apfproxy.base.tasks import spawn

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

HOST = "127.0.0.1"
HELD_BYTES = 262_144
"""For one direction, that wait to be passed on; then the sender has to wait too."""
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
            self._server = await asyncio.get_running_loop().create_server(
                lambda: _Side(Wire(self)), HOST, self.port, backlog=1024
            )
            self.port = self._server.sockets[0].getsockname()[1]

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
    def __init__(self, link: FaultyLink) -> None:
        self.link = link
        self.fault = link.choose()
        self.to_origin = _Direction(self, is_towards_origin=True)
        self.to_proxy = _Direction(self, is_towards_origin=False)
        self.ended = Ending.NEVER
        self._lost = 0
        self._is_dropped = False
        self._sides: list[_Side] = []

    def on_side(self, side: _Side) -> None:
        self._sides.append(side)
        if len(self._sides) == 2:
            proxy, origin = self._sides
            self.to_origin.connect(proxy.transport, origin.transport)
            self.to_proxy.connect(origin.transport, proxy.transport)
            return
        self.link.accepted += 1
        self.link.wires.add(self)
        spawn(self._connect(), name="connect through the faulty link")

    def direction_from(self, side: _Side) -> _Direction:
        """Where the bytes of one side go."""
        return self.to_origin if side is self._sides[0] else self.to_proxy

    def direction_to(self, side: _Side) -> _Direction:
        """Where the bytes for one side come from."""
        return self.to_proxy if side is self._sides[0] else self.to_origin

    def on_lost(self, side: _Side) -> None:
        self._lost += 1
        if self._lost == 2:
            self.link.wires.discard(self)
            return
        if self.ended in (Ending.STALL, Ending.VANISH) and side is not self._sides[0]:
            return  # the proxy is not to know
        if len(self._sides) == 2:
            self.direction_from(side).close()

    def end(self, ending: Ending) -> None:
        if self.ended is not Ending.NEVER:
            return
        self.ended = ending
        self.link.struck[ending] += 1
        match ending:
            case Ending.RESET:
                self.drop()
            case Ending.CLOSE:
                for side in self._sides:
                    side.transport.close()
            case Ending.VANISH:
                for side in self._sides:
                    side.transport.pause_reading()
                asyncio.get_running_loop().call_later(FORGET_S, self.drop)

    def drop(self) -> None:
        self._is_dropped = True
        for side in self._sides:
            side.reset()

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: _Side(self), HOST, self.link.origin_port
            )
        except OSError:
            self.drop()
            self.link.wires.discard(self)
            return
        if self.fault.ending is not Ending.NEVER and self.fault.after_bytes == 0:
            self.end(self.fault.ending)
        if self._lost or self._is_dropped:
            self.drop()


class _Side(asyncio.Protocol):
    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._wire.on_side(self)

    def data_received(self, data: bytes) -> None:
        self._wire.direction_from(self).take(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._wire.on_lost(self)

    def pause_writing(self) -> None:
        self._wire.direction_to(self).set_full(is_full=True)

    def resume_writing(self) -> None:
        self._wire.direction_to(self).set_full(is_full=False)

    def reset(self) -> None:
        if not self.transport.is_closing():
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
        self.transport.abort()


class _Direction:
    def __init__(self, wire: Wire, *, is_towards_origin: bool) -> None:
        fault = wire.fault
        self._wire = wire
        self._ends = (
            fault.ending is not Ending.NEVER and fault.is_towards_origin == is_towards_origin
        )
        self._is_shaped = bool(fault.delay_s or fault.piece_bytes or fault.bytes_per_s)
        self._taken = 0
        self._queue: deque[tuple[float, bytes]] = deque()
        self._queued_bytes = 0
        self._is_pumping = False
        self._is_full = False
        self._is_closing = False
        self._is_held = False
        self._source: asyncio.Transport | None = None
        self._target: asyncio.Transport
        self._early = b""

    def connect(self, source: asyncio.Transport, target: asyncio.Transport) -> None:
        self._source, self._target = source, target
        early, self._early = self._early, b""
        if early:
            self.take(early)

    def take(self, data: bytes) -> None:
        """Pass bytes on, now or later, or lose them."""
        wire = self._wire
        if wire.ended is not Ending.NEVER:
            return
        if self._source is None:
            self._early += data
            return
        fault = wire.fault
        self._taken += len(data)
        excess = self._taken - fault.after_bytes
        is_end = self._ends and excess >= 0
        if is_end and excess:
            data = data[:-excess]
        if not self._is_shaped:
            self._write(data)
        elif data:
            due_s = asyncio.get_running_loop().time() + fault.delay_s
            self._queue.append((due_s, data))
            self._queued_bytes += len(data)
            self._pump_later()
            self._hold()
        if is_end:
            self._flush()
            wire.end(fault.ending)

    def set_full(self, *, is_full: bool) -> None:
        self._is_full = is_full
        self._hold()

    def close(self) -> None:
        self._is_closing = True
        if not self._queue or self._wire.ended is not Ending.NEVER:
            self._target.close()

    def _flush(self) -> None:
        for _, data in self._queue:
            self._write(data)
        self._queue.clear()
        self._queued_bytes = 0

    def _write(self, data: bytes) -> None:
        if not self._target.is_closing():
            self._target.write(data)

    def _hold(self) -> None:
        is_held = self._is_full or self._queued_bytes > HELD_BYTES
        source = self._source
        if is_held != self._is_held and source is not None and not source.is_closing():
            self._is_held = is_held
            if is_held:
                source.pause_reading()
            elif self._wire.ended is not Ending.VANISH:
                source.resume_reading()

    def _pump_later(self) -> None:
        if self._is_pumping or not self._queue:
            return
        self._is_pumping = True
        loop = asyncio.get_running_loop()
        fault = self._wire.fault
        wait_s = max(self._queue[0][0] - loop.time(), TICK_S if fault.bytes_per_s else 0.0)
        loop.call_later(wait_s, self._pump)

    def _pump(self) -> None:
        self._is_pumping = False
        if not self._queue or self._wire.ended is not Ending.NEVER:
            return
        fault = self._wire.fault
        due_s, data = self._queue.popleft()
        count = len(data)
        if fault.piece_bytes:
            most = max(fault.piece_bytes, self._queued_bytes // PIECES)
            count = min(count, self._wire.link.random.randint(1, most))
        if fault.bytes_per_s:
            count = min(count, max(1, int(fault.bytes_per_s * TICK_S)))
        self._write(data[:count])
        self._queued_bytes -= count
        if count < len(data):
            self._queue.appendleft((due_s, data[count:]))
        self._hold()
        self._pump_later()
        if self._is_closing and not self._queue:
            self._target.close()
