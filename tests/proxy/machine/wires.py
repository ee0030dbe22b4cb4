"""Transports as the kernel and uvloop have them: what is not read is not seen, not even an end."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.proxy.fakes import Tls
    from tests.proxy.machine.loop import VirtualLoop


SCALE = 512
"""Buffers are so much smaller than they claim, so that small messages fill them."""


class Wire(asyncio.Transport):
    """One connection, seen from both its ends.

    1. Bytes, the end and a reset by the peer come in their order, and only while the proxy reads.
    2. A reset throws away what was on its way, and fails the next write.
    3. To a peer that takes nothing a buffer's worth is kept; then the protocol is told to pause.
    4. `close` waits for that peer, `abort` does not.
    """

    def __init__(self, loop: VirtualLoop, peer: object, tls: Tls | None = None) -> None:
        super().__init__()
        self._loop = loop
        self._extra_info = {"peername": peer, "ssl_object": tls}
        self._inbox: deque[bytes | None] = deque()
        self._unsent = bytearray()
        self._high_water = 0
        self._is_write_paused = False
        self._is_broken = False
        self._is_losing = False
        self.protocol = asyncio.BufferedProtocol()
        self.received = bytearray()
        self.takes = True
        self.reads = True
        self.is_closed = False
        self.is_over = False
        self.has_eof = False
        self.has_left = False
        self.left_ns = 0
        self.on_disconnect: Callable[[], None] | None = None

    def connect(self, protocol: asyncio.BufferedProtocol) -> None:
        self.protocol = protocol
        protocol.connection_made(self)

    # What the peer does.

    def feed(self, data: bytes) -> None:
        if not self.has_left and not self.is_closed:
            self._inbox.append(data)
            self._deliver()

    def end(self) -> None:
        if not self.has_left:
            self._leave()
            self._inbox.append(None)
            self._deliver()

    def break_off(self) -> None:
        if self._is_broken:
            return
        self._leave()
        self._is_broken = True
        has_unsent = bool(self._unsent)
        self._inbox.clear()
        self._unsent.clear()
        if self.reads or has_unsent or self.is_closed:
            self._lose(ConnectionResetError(104, "Connection reset by peer"))

    def _leave(self) -> None:
        if not self.has_left:
            self.has_left, self.left_ns = True, self._loop.now_ns()
            if self.on_disconnect is not None:
                self._loop.call_soon(self.tell_disconnect)

    def tell_disconnect(self) -> None:
        on_disconnect, self.on_disconnect = self.on_disconnect, None
        if on_disconnect is not None:
            on_disconnect()

    def take(self, *, takes: bool) -> None:
        self.takes = takes
        if not takes or self._is_losing:
            return
        self.received += self._unsent
        self._unsent.clear()
        if self._is_write_paused:
            self._is_write_paused = False
            self.protocol.resume_writing()
        if self.is_closed and not self._unsent:
            self._lose(None)

    def take_all(self) -> None:
        self.take(takes=True)

    @property
    def is_ended(self) -> bool:
        return not self._unsent and (self.is_closed or self.has_eof)

    # What the proxy does.

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._extra_info.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:  # noqa: ARG002  the base's signature
        self._high_water = (high or 0) // SCALE

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        assert not self.has_eof, "written after the end"
        if self.is_closed:
            return
        if self._is_broken:
            self._lose(BrokenPipeError(32, "Broken pipe"))
        elif self.takes and not self._unsent:
            self.received += data
        else:
            self._unsent += data
            if len(self._unsent) > self._high_water and not self._is_write_paused:
                self._is_write_paused = True
                self.protocol.pause_writing()

    def can_write_eof(self) -> bool:
        return self._extra_info["ssl_object"] is None

    def write_eof(self) -> None:
        assert self.can_write_eof()
        self.has_eof = True

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = cast("asyncio.BufferedProtocol", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def pause_reading(self) -> None:
        assert self.reads, "paused twice"
        self.reads = False

    def resume_reading(self) -> None:
        assert not self.reads, "resumed without a pause"
        self.reads = True
        self._loop.call_soon(self._deliver)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True
        self._inbox.clear()
        if not self._unsent:
            self._lose(None)

    def abort(self) -> None:
        self.is_closed = True
        self._unsent.clear()
        self._inbox.clear()
        self._lose(None)

    def _deliver(self) -> None:
        while self.reads and not self.is_closed:
            if self._is_broken:
                self._lose(ConnectionResetError(104, "Connection reset by peer"))
                return
            if not self._inbox:
                return
            data = self._inbox.popleft()
            if data is None:
                if not self.protocol.eof_received():
                    self.close()
                return
            buffer = cast("bytearray", self.protocol.get_buffer(-1))
            if len(data) > len(buffer):
                self._inbox.appendleft(data[len(buffer) :])
                data = data[: len(buffer)]
            buffer[: len(data)] = data
            self.protocol.buffer_updated(len(data))
            buffer[: len(data)] = b"?" * len(data)  # as the next read: no view may be in use now

    def _lose(self, error: Exception | None) -> None:
        self.is_closed = True
        if not self._is_losing:
            self._is_losing = True
            self._loop.call_soon(self._tell_lost, error)

    def _tell_lost(self, error: Exception | None) -> None:
        self.is_over = True
        self.protocol.connection_lost(error)

    def __repr__(self) -> str:
        state = "over" if self.is_over else "closing" if self.is_closed else "open"
        return f"<Wire {self._extra_info['peername']}, {state}>"


class Disconnects:
    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def watch(self, wire: Wire, on_disconnect: Callable[[], None]) -> None:
        wire.on_disconnect = on_disconnect
        if wire.has_left:
            self._loop.call_soon(wire.tell_disconnect)

    def forget(self, wire: Wire) -> None:
        wire.on_disconnect = None

    def close(self) -> None:
        pass
