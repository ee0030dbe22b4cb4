"""The chunked transfer coding of RFC 9112, section 7.1, decoded strictly and encoded plainly.

The decoder accepts what the grammar says and nothing else: no bare LF, no white space around the
size, no sign, no prefix.  Chunk extensions are checked and dropped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from apfproxy.http.grammar import hyphenated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apfproxy.http.read_buffer import Piece

MAX_LINE_BYTES = 4096
"""A chunk-size line with its extension; HAProxy takes a buffer's size, Go 4 KiB."""
MAX_EXTENSION_BYTES = 16384
"""All extensions of one message: a sender could otherwise make a byte of body cost thousands."""
MAX_TRAILER_BYTES = 16384
MAX_TRAILER_FIELDS = 100

LAST_CHUNK = b"0\r\n\r\n"

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(;[\t\x20-\x7e\x80-\xff]*)?\r\n")
_SMALL_SIZES = tuple(range(1, 16))
_SMALL_CHUNKS = re.compile(
    b"(?:0{0,14}+(?:%b))++"
    % b"|".join(b"(?i:%x)\r\n.{%d}\r\n" % (size, size) for size in _SMALL_SIZES),
    re.DOTALL,
)
"""Chunks of less than 16 bytes, one behind the other: thousands of them in one call."""
_SMALL_DATA = re.compile(
    b"[1-9a-fA-F]\r\n(%b)\r\n"
    % b"|".join(b"(?<=(?i:%x)\r\n).{%d}" % (size, size) for size in _SMALL_SIZES),
    re.DOTALL,
)
"""The data of the first of them."""
_TRAILER_LINE = re.compile(
    rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)\r\n", re.DOTALL
)

# Fields that a trailer must not carry (RFC 9110, section 6.5.1): framing, routing, authentication,
# request modifiers, response control and what describes the content.
_FORBIDDEN_TRAILERS = frozenset(
    b"authorization cache-control connection content-encoding content-length content-range"
    b" content-type cookie expect forwarded host keep-alive max-forwards proxy-authenticate"
    b" proxy-authorization proxy-connection range set-cookie te trailer transfer-encoding upgrade"
    b" via www-authenticate x-original-url x-real-ip x-rewrite-url".split()
)
_FORBIDDEN_PREFIXES = (b"x-remote-", b"x-forwarded-", b"impersonate-", b"if-", b"x-kubernetes-pf-")

# Where a decoder stands.
_SIZE: Final = 0
_DATA: Final = 1
_DATA_END: Final = 2
_TRAILERS: Final = 3


class ChunkedError(ValueError):
    """The bytes are not in the chunked coding, or over a limit."""


def encode_chunk(pieces: Sequence[Piece], size: int) -> list[Piece]:
    """One chunk that holds `pieces`, of `size` bytes together; nothing where there are none."""
    return [b"%x\r\n" % size, *pieces, b"\r\n"] if size else []


def chunk_frame(size: int, *, is_whole: bool) -> tuple[bytes, bytes]:
    start, end = (b"%x\r\n" % size, b"\r\n") if size else (b"", b"")
    return start, end + LAST_CHUNK if is_whole else end


def last_chunk(trailers: bytes) -> bytes:
    """The last chunk and the trailer section; `trailers` are whole lines."""
    return b"0\r\n%b\r\n" % trailers if trailers else LAST_CHUNK


class ChunkedDecoder:
    """Takes a chunked body piece by piece, until it `is_done`, with the lines of its trailers."""

    def __init__(self, is_claim: Callable[[bytes], bool] | None = None) -> None:
        """Let `is_claim` say of a trailer, by its name in lower case, that it is not forwarded."""
        self._is_claim = is_claim
        self._state: int = _SIZE
        self._data_left = 0
        self._extension_bytes = 0
        self._partial = bytearray()
        """The start of a line, or of the trailer section, whose end has not come."""
        self.is_done = False
        self.trailers = b""

    @property
    def is_within_chunk(self) -> bool:
        return self._state != _SIZE or bool(self._partial)

    def feed(self, data: Piece) -> tuple[list[Piece], bytes]:
        """Decode a read's worth at most: the body in pieces, and what stands after its end.

        Pieces are views where `data` is one.  The decoder is of no more use after ChunkedError.
        """
        if self._partial:
            data = bytes(data)
            self._partial += data
            # To look at it from its start would be too much work where it comes byte by byte.
            most = MAX_LINE_BYTES if self._state == _SIZE else MAX_TRAILER_BYTES
            if self._state != _DATA_END and b"\n" not in data and len(self._partial) <= most:
                return [], b""
            data = bytes(self._partial)
            self._partial.clear()
        pieces: list[Piece] = []
        position, end = 0, len(data)
        while True:
            if self._state == _SIZE:
                small = _SMALL_CHUNKS.match(data, position)
                if small is not None:
                    pieces += _SMALL_DATA.findall(data, position, small.end())
                    position = small.end()
                match = _SIZE_LINE.match(data, position)
                if match is None:
                    self._keep_partial_line(data, position)
                    break
                position = match.end()
                if match[2] is not None:
                    self._extension_bytes += len(match[2])
                    if (
                        len(match[0]) > MAX_LINE_BYTES
                        or self._extension_bytes > MAX_EXTENSION_BYTES
                    ):
                        raise ChunkedError("chunk extensions are too long")
                self._data_left = int(match[1], 16)
                self._state = _DATA if self._data_left else _TRAILERS
            elif self._state == _DATA:
                piece = data[position : position + self._data_left]
                pieces.append(piece)
                position += len(piece)
                self._data_left -= len(piece)
                if self._data_left:
                    break
                self._state = _DATA_END
            elif self._state == _DATA_END:
                if end - position < 2:
                    if position < end and data[position] != 0x0D:
                        raise ChunkedError("a chunk is longer than its size")
                    self._partial += data[position:]
                    break
                if data[position : position + 2] != b"\r\n":
                    raise ChunkedError("a chunk is longer than its size")
                position += 2
                self._state = _SIZE
            else:
                return pieces, self._take_trailers(bytes(data[position:]))
        return list(filter(None, pieces)), b""

    def _keep_partial_line(self, data: Piece, position: int) -> None:
        """Keep the start of a size line for the next feed, if it can still become one."""
        line = bytes(data[position:])
        is_size = not line or line[0] in b"0123456789abcdefABCDEF"
        if b"\n" in line or len(line) > MAX_LINE_BYTES or not is_size:
            raise ChunkedError("a chunk size is malformed")
        self._partial += line

    def _take_trailers(self, data: bytes) -> bytes:
        if data.startswith(b"\r\n"):
            self.is_done = True
            return data[2:]
        end = data.find(b"\r\n\r\n")
        if (len(data) - 3 if end < 0 else end) > MAX_TRAILER_BYTES:
            raise ChunkedError("the trailer section is too long")
        if end < 0:
            if data.count(b"\n") > MAX_TRAILER_FIELDS:
                raise ChunkedError("the trailer section has too many fields")
            self._partial += data
            return b""
        self.trailers = passable_trailers(data[: end + 2], self._is_claim)
        self.is_done = True
        return data[end + 4 :]


def passable_trailers(section: bytes, is_claim: Callable[[bytes], bool] | None) -> bytes:
    """The lines of a trailer section without those fields that a trailer must not carry."""
    kept: list[bytes] = []
    position = fields = 0
    while position < len(section):
        match = _TRAILER_LINE.match(section, position)
        if match is None:
            raise ChunkedError("a trailer field is malformed")
        fields += 1
        if fields > MAX_TRAILER_FIELDS:
            raise ChunkedError("the trailer section has too many fields")
        # Some servers read any other character as the hyphen, so every such spelling counts.
        name = hyphenated(match[1].lower())
        is_forbidden = name in _FORBIDDEN_TRAILERS or name.startswith(_FORBIDDEN_PREFIXES)
        if not is_forbidden and not (is_claim is not None and is_claim(name)):
            kept.append(match[0])
        position = match.end()
    return b"".join(kept)
