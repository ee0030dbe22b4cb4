"""Where the frames of a WebSocket end: RFC 6455, section 5.2.

The proxy reads no frame.  It only has to know whether one is under way, since a close frame of its
own may stand between two frames and nowhere else; between the fragments of a message it may.
"""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from apfproxy.proxy.read_buffer import Piece

_CLOSE: Final = 8
_OPCODE: Final = 0x0F
_MASKED: Final = 0x80
_LENGTH: Final = 0x7F
_TWO_BYTES: Final = 126
_EIGHT_BYTES: Final = 127
_MASK_BYTES: Final = 4

GOING_AWAY: Final = pack("!BBH", 0x80 | _CLOSE, 2, 1001)
"""A server's close frame that says that it goes away; section 7.4.1."""


class FramePosition:
    """Follows the frames of one direction.

    Attributes:
        has_closed: Whether a close frame has begun: no other frame may follow it.
    """

    __slots__ = ("_head", "_left", "has_closed")

    def __init__(self) -> None:
        self._head = bytearray()
        """Of a frame's head, of which the end has not come."""
        self._left = 0
        """Bytes to the end of the frame, once its head is through."""
        self.has_closed = False

    @property
    def is_between(self) -> bool:
        """Whether no frame is under way."""
        return not self._left and not self._head

    def feed(self, data: Piece, *, to_end: bool = False) -> int:
        """Follow what comes; how much of it that was.

        Args:
            data: What comes.
            to_end: Whether to stop at the end of a frame; else all of it is followed.
        """
        at, size, head = 0, len(data), self._head
        while at < size:
            if self._left:
                step = min(self._left, size - at)
                self._left -= step
                at += step
            else:
                head.append(data[at])
                at += 1
                if len(head) > 1 and len(head) == _head_bytes(head[1]):
                    self._take_head(head)
            if to_end and self.is_between:
                break
        return at

    def _take_head(self, head: bytearray) -> None:
        length = head[1] & _LENGTH
        if length == _TWO_BYTES:
            length = int.from_bytes(head[2:4], "big")
        elif length == _EIGHT_BYTES:
            length = int.from_bytes(head[2:10], "big")
        self._left = length
        self.has_closed = self.has_closed or head[0] & _OPCODE == _CLOSE
        head.clear()

    def __repr__(self) -> str:
        return f"<FramePosition: {len(self._head)} bytes of a head, {self._left} left>"


def _head_bytes(second: int) -> int:
    """The length of a frame's head, by its second byte."""
    length = second & _LENGTH
    size = 2 + (2 if length == _TWO_BYTES else 8 if length == _EIGHT_BYTES else 0)
    return size + _MASK_BYTES if second & _MASKED else size
