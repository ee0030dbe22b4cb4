"""Where the frames of a WebSocket end: RFC 6455, section 5.2.

The proxy reads no frame.  It only has to know whether one is under way, since a close frame of its
own may stand between two frames and nowhere else; between the fragments of a message it may.
"""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from apfproxy.http.read_buffer import Piece

_CLOSE: Final = 8
_OPCODE: Final = 0x0F
_LENGTH: Final = 0x7F
_TWO_BYTES: Final = 126
_EIGHT_BYTES: Final = 127

GOING_AWAY: Final = pack("!BBH", 0x80 | _CLOSE, 2, 1001)
"""A server's close frame that says that it goes away; section 7.4.1."""


class FramePosition:
    """Follows the frames of one direction, after a close frame (`has_closed`) no others."""

    def __init__(self) -> None:
        self._head = bytearray()  # of a frame's head, of which the end has not come
        self._left = 0  # bytes to the end of the frame, once its head is through
        self.has_closed = False

    @property
    def is_between(self) -> bool:
        return not self._left and not self._head

    def feed(self, data: Piece, *, to_end: bool = False) -> int:
        """Follow all that comes, or with `to_end` only to the end of a frame; returns how much."""
        at, size, left, head = 0, len(data), self._left, self._head
        while at < size:
            if left:
                step = min(left, size - at)
                left -= step
                at += step
            elif not head and at + 2 <= size and data[at + 1] < _TWO_BYTES:
                # Most frames of servers, without a call.
                left = data[at + 1]
                if data[at] & _OPCODE == _CLOSE:
                    self.has_closed = True
                at += 2
            else:
                head.append(data[at])
                at += 1
                if len(head) > 1 and len(head) == _head_bytes(head[1]):
                    left = self._take_head(head)
            if to_end and not left and not head:
                break
        self._left = left
        return at

    def _take_head(self, head: bytearray) -> int:
        length = head[1] & _LENGTH
        if length == _TWO_BYTES:
            length = int.from_bytes(head[2:4], "big")
        elif length == _EIGHT_BYTES:
            length = int.from_bytes(head[2:10], "big")
        self.has_closed = self.has_closed or head[0] & _OPCODE == _CLOSE
        head.clear()
        return length

    def __repr__(self) -> str:
        return f"<FramePosition: {len(self._head)} bytes of a head, {self._left} left>"


def _head_bytes(second: int) -> int:
    length = second & _LENGTH
    size = 2 + (2 if length == _TWO_BYTES else 8 if length == _EIGHT_BYTES else 0)
    return size + 4 if second & 0x80 else size  # with its mask
