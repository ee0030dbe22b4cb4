"""Bytes that have come on a connection of HTTP/1.1 and are not taken yet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from apfproxy.http.grammar import HeadError
from apfproxy.http.request_head import HeadProbe

if TYPE_CHECKING:
    from apfproxy.http.read_buffer import Piece

_EMPTY_LINES: Final = re.compile(rb"\A(?:\r\n)+")


class PendingBytes:
    """The start of a head, and of what follows a request that is under way.

    Attributes:
        data: All of it; once it has come in more than one piece, in an array.
        is_probing: Whether a head has begun and is not whole.
    """

    __slots__ = ("_probe", "_probed_bytes", "data", "is_probing")

    def __init__(self) -> None:
        self.data: bytes | bytearray = b""
        self.is_probing = False
        self._probe: HeadProbe | None = None
        self._probed_bytes = 0

    def append(self, data: Piece) -> None:
        if not self.data:
            self.data = bytes(data)
        else:
            if type(self.data) is bytes:
                self.data = bytearray(self.data)
            self.data += data

    def take_all(self) -> bytes:
        data, self.data = bytes(self.data), b""
        return data

    def skip_empty_lines(self) -> None:
        """Drop empty lines before a request line, which RFC 9112, section 2.2, has ignored."""
        self.data = data = _EMPTY_LINES.sub(b"", self.data)
        if data[:1] in (b"\r", b"\n") and data != b"\r":
            raise HeadError(400, "malformed request: no request line")

    def find_end_of_head(self) -> int:
        """The position behind the empty line that ends a head; below 4 if it has not come."""
        return self.data.find(b"\r\n\r\n", max(0, self._probed_bytes - 3)) + 4

    def probe(self) -> None:
        """Judge the start of a head, so that what is no HTTP is refused at once."""
        self.is_probing = True
        if self._probe is None:
            self._probe = HeadProbe()
        self._probe.feed(bytes(self.data[self._probed_bytes :]))
        self._probed_bytes = len(self.data)

    def take_head(self, end: int, *, is_one_of_many: bool) -> bytes:
        """Return a whole head of length `end`, and keep what follows it."""
        if self.is_probing:
            self.is_probing = False
            self._probe = None
            self._probed_bytes = 0
        data = self.data
        head = bytes(data[:end])
        if end == len(data):
            self.data = b""
        elif is_one_of_many:
            # An array gives up its start at no cost, however many requests there are.
            self.data = data if isinstance(data, bytearray) else bytearray(data)
            del self.data[:end]
        else:
            self.data = data[end:]
        return head
