"""A second reader of HTTP/1.1, written for plainness and shared with nothing that it judges.

It takes what RFC 9112 and docs/hostile-input.md call well-formed, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

TOKEN = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
VALUE = frozenset((9, *range(0x20, 0x7F), *range(0x80, 0x100)))
HEXADECIMAL = frozenset(b"0123456789abcdefABCDEF")

MAX_TRAILERS = 100

NO_BODY, SIZED, CHUNKED, UNTIL_CLOSE = "none", "sized", "chunked", "until close"


class MalformedError(Exception):
    """The bytes can become no message, whatever follows."""


class UnfinishedError(Exception):
    """The bytes are the start of a message at best."""


@dataclass(frozen=True)
class Message:
    line: tuple[bytes, ...]
    fields: tuple[tuple[bytes, bytes], ...]
    framing: str
    body: bytes
    is_whole: bool
    end: int

    @property
    def method(self) -> bytes:
        return self.line[0]

    @property
    def target(self) -> bytes:
        return self.line[1]

    @property
    def status(self) -> int:
        return int(self.line[1])

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.fields if key == name]


def read_request(data: bytes, start: int = 0) -> Message:
    while data.startswith(b"\r\n", start):
        start += 2
    line, fields, end = _head(data, start)
    words = tuple(line.split(b" "))
    if len(words) != 3 or not _is(words[0], TOKEN) or words[2] not in (b"HTTP/1.0", b"HTTP/1.1"):
        raise MalformedError(f"no request line: {line!r}")
    if any(byte <= 0x20 or byte == 0x7F for byte in words[1]) or not words[1]:
        raise MalformedError(f"no target: {words[1]!r}")
    lengths, codings = _framing_of(fields)
    if codings:
        if lengths or words[2] == b"HTTP/1.0" or [c.lower() for c in codings] != [b"chunked"]:
            raise MalformedError("more than one framing")
        body, is_whole, end = read_chunked(data, end)
        return Message(words, fields, CHUNKED, body, is_whole, end)
    if len(set(lengths)) > 1 or any(not length.isdigit() for length in lengths):
        raise MalformedError("no length")
    length = int(lengths[0]) if lengths else 0
    body = data[end : end + length]
    framing = SIZED if length else NO_BODY
    return Message(words, fields, framing, body, len(body) == length, end + len(body))


def read_answer(data: bytes, start: int = 0, *, to_head: bool, is_ended: bool) -> Message:
    """Read one response, after whose bytes the server has closed the connection if `is_ended`.

    Raises MalformedError, or UnfinishedError if its head is not there; of a body `is_whole` tells.
    """
    line, fields, end = _head(data, start)
    words = tuple(line.split(b" ", 2))
    if (
        len(words) < 2
        or words[0] not in (b"HTTP/1.0", b"HTTP/1.1")
        or len(words[1]) != 3
        or not words[1].isdigit()
        or words[1] < b"100"
        or (len(words) == 3 and not _is(words[2], VALUE, may_be_empty=True))
    ):
        raise MalformedError(f"no status line: {line!r}")
    status = int(words[1])
    lengths, codings = _framing_of(fields)
    if codings and (
        lengths or words[0] == b"HTTP/1.0" or [c.lower() for c in codings] != [b"chunked"]
    ):
        raise MalformedError("more than one framing")
    if len(lengths) > 1 or any(not length.isdigit() or len(length) > 18 for length in lengths):
        raise MalformedError("no length")
    if to_head or status < 200 or status in (204, 304):
        return Message(words, fields, NO_BODY, b"", is_whole=True, end=end)
    if codings:
        body, is_whole, end = read_chunked(data, end)
        return Message(words, fields, CHUNKED, body, is_whole, end)
    if lengths:
        length = int(lengths[0])
        body = data[end : end + length]
        return Message(words, fields, SIZED, body, len(body) == length, end + len(body))
    return Message(words, fields, UNTIL_CLOSE, data[end:], is_ended, len(data))


def read_chunked(data: bytes, position: int) -> tuple[bytes, bool, int]:
    body = b""
    while True:
        end = data.find(b"\r\n", position)
        if end < 0:
            return body, False, len(data)
        size, semicolon, extension = data[position:end].partition(b";")
        if not _is(size, HEXADECIMAL) or len(size) > 15:
            raise MalformedError(f"no chunk size: {size!r}")
        if semicolon and not _is(extension, VALUE, may_be_empty=True):
            raise MalformedError("a control character in a chunk extension")
        position = end + 2
        length = int(size, 16)
        if not length:
            break
        body += data[position : position + length]
        position += length
        if position + 2 > len(data):
            if not b"\r\n".startswith(data[position:]):
                raise MalformedError("a chunk is longer than its size")
            return body, False, len(data)
        if data[position : position + 2] != b"\r\n":
            raise MalformedError("a chunk is longer than its size")
        position += 2
    trailers = b"" if data.startswith(b"\r\n", position) else data[position:]
    trailers, end_of_section, _ = trailers.partition(b"\r\n\r\n")
    if trailers.count(b"\n") + bool(end_of_section) > MAX_TRAILERS:
        raise MalformedError("no field: there are too many trailers")
    try:
        _, position = _fields(data, position)
    except UnfinishedError:
        return body, False, len(data)
    return body, True, position


def _head(data: bytes, start: int) -> tuple[bytes, tuple[tuple[bytes, bytes], ...], int]:
    end = data.find(b"\r\n", start)
    if end < 0:
        raise UnfinishedError
    fields, end_of_head = _fields(data, end + 2)
    return data[start:end], fields, end_of_head


def _fields(data: bytes, position: int) -> tuple[tuple[tuple[bytes, bytes], ...], int]:
    found: list[tuple[bytes, bytes]] = []
    # Only a whole section is judged: of half of one nothing is known.
    if not data.startswith(b"\r\n", position) and data.find(b"\r\n\r\n", position) < 0:
        raise UnfinishedError
    while not data.startswith(b"\r\n", position):
        end = data.index(b"\r\n", position)
        name, colon, value = data[position:end].partition(b":")
        if not colon or not _is(name, TOKEN) or not _is(value, VALUE, may_be_empty=True):
            raise MalformedError(f"no field: {data[position:end]!r}")
        found.append((name.lower(), value.strip(b" \t")))
        position = end + 2
    return tuple(found), position + 2


def _framing_of(fields: tuple[tuple[bytes, bytes], ...]) -> tuple[list[bytes], list[bytes]]:
    lengths = [value for name, value in fields if name == b"content-length"]
    return lengths, [value for name, value in fields if name == b"transfer-encoding"]


def _is(text: bytes, alphabet: frozenset[int], *, may_be_empty: bool = False) -> bool:
    return (bool(text) or may_be_empty) and all(byte in alphabet for byte in text)
