"""The head of an origin's answer: parsed by llhttp, checked, and made ready to be passed on."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

import httptools

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_HEAD_BYTES = 262144
"""Of one head; Go's transport takes 10 MiB, nginx 4 to 8 KiB, HAProxy 16 KiB."""

NO_BODY, SIZED, CHUNKED, UNTIL_CLOSE = range(4)
"""How an answer's body is framed."""

_REASON = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
MAX_KEPT_REASONS = 256

_LENGTH, _CODING, _CONNECTION, _DROP = range(1, 5)

# What becomes of a field, by its name; all others go on as they are.  The proxy's own
# X-Kubernetes-PF-* fields take the place of those of an origin with flow control of its own.
_ACTIONS = {
    b"connection": _CONNECTION,
    b"content-length": _LENGTH,
    b"keep-alive": _DROP,
    b"proxy-authenticate": _DROP,
    b"proxy-connection": _DROP,
    b"te": _DROP,
    b"transfer-encoding": _CODING,
    b"upgrade": _DROP,
    b"x-kubernetes-pf-flowschema-uid": _DROP,
    b"x-kubernetes-pf-prioritylevel-uid": _DROP,
}
# Spellings of field names that have been met, so that lower() is not called for each of them.
_SPELLINGS: dict[bytes, int] = {}
MAX_KEPT_SPELLINGS = 1024
MAX_KEPT_SPELLING_BYTES = 64
MAX_LENGTH_DIGITS = 18
"""An exbibyte less: what fits a signed 64-bit integer."""
_known_reasons: set[bytes] = {b"OK"}


class ResponseError(Exception):
    """The origin's answer is not one that can be passed on."""


class ResponseHead:
    """An answer's head.

    Attributes:
        status: The status code.
        lines: The status line and the header lines to pass on, each with its CRLF; a Content-Length
            is among them, a Transfer-Encoding is not.
        framing: `NO_BODY`, `SIZED`, `CHUNKED` or `UNTIL_CLOSE`.
        length: The value of Content-Length, or -1; also of an answer that has no body.
        keep_alive: Whether the origin keeps the connection.
    """

    __slots__ = ("framing", "keep_alive", "length", "lines", "status")

    def __init__(self, status: int, lines: bytes, length: int, *, keep_alive: bool) -> None:
        self.status = status
        self.lines = lines
        self.framing = NO_BODY
        self.length = length
        self.keep_alive = keep_alive

    def __repr__(self) -> str:
        return f"<ResponseHead {self.status}, framing {self.framing}, length {self.length}>"


class _Collector:
    """Takes what llhttp finds in one head.

    A dictionary's own method takes the fields, since a Python function for each of them costs
    0.15 us; where a name stood twice, `_FieldList` takes them again.
    """

    __slots__ = ("fields", "on_header", "reason")

    def __init__(self) -> None:
        self.fields: dict[bytes, bytes] = {}
        self.on_header = self.fields.__setitem__
        self.reason = b""

    def on_status(self, reason: bytes) -> None:
        self.reason += reason


class _FieldList:
    """Takes every field line of a head, in order."""

    __slots__ = ("fields",)

    def __init__(self) -> None:
        self.fields: list[tuple[bytes, bytes]] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name, value))


def parse_response_head(  # noqa: C901, PLR0912, PLR0915  one pass over the fields, measured
    head: bytes, *, answers_head: bool
) -> ResponseHead:
    """Parse and check one head.

    Args:
        head: From the first byte of the status line to the empty line, that included.
        answers_head: Whether the request's method was HEAD.

    Raises:
        ResponseError: It is malformed, or frames its body in more than one way.
    """
    found = _Collector()
    parser = httptools.HttpResponseParser(found)
    try:
        parser.feed_data(head)
    except httptools.HttpParserUpgrade:
        pass  # a 101, which nobody asked for: refused by its status
    except httptools.HttpParserError as error:
        raise ResponseError(f"malformed answer: {error}") from error
    if found.reason not in _known_reasons:
        _check_reason(found.reason)
    # llhttp has seen to it that lines end in CRLF and in nothing else, so this counts them.
    line_count = head.count(b"\r\n") - 2
    fields: Iterable[tuple[bytes, bytes]] = found.fields.items()
    if len(found.fields) != line_count:
        fields = _all_fields(head)
    status = parser.get_status_code()
    is_http_11 = parser.get_http_version() == "1.1"
    keep_alive = is_http_11
    length = -1
    coding = nominated = b""
    drops = 0
    for name, value in fields:
        action = _SPELLINGS.get(name, -1)
        if action <= 0:
            if action == 0:
                continue
            action = _learn_spelling(name)
        if action == _LENGTH:
            # Twice is refused even if equal: recipients differ in which one they take.
            if length >= 0 or not value.isdigit() or len(value) > MAX_LENGTH_DIGITS:
                raise ResponseError("Content-Length of the answer is not one decimal number")
            length = int(value)
        elif action == _CONNECTION:
            drops += 1
            nominated += b"," + value if nominated else value
        elif action == _CODING:
            drops += 1
            coding += b"," + value if coding else value or b"?"
        elif action == _DROP:
            drops += 1
    if not drops and is_http_11:
        lines = head[:-2]
    elif drops == 1 and nominated == b"keep-alive" and is_http_11:
        lines = head[:-2].replace(b"\r\nConnection: keep-alive\r\n", b"\r\n", 1)
        if len(lines) == len(head) - 2:
            lines, keep_alive = _pass_on(head, nominated, keep_alive=keep_alive)
    else:
        lines, keep_alive = _pass_on(head, nominated, keep_alive=keep_alive)
    result = ResponseHead(status, lines, length, keep_alive=keep_alive)
    # The framing, RFC 9112, section 6.3.
    if coding and (not is_http_11 or length >= 0 or coding.lower() != b"chunked"):
        raise ResponseError("the answer's Transfer-Encoding is not chunked, alone and of HTTP/1.1")
    if not (answers_head or status in (204, 304) or status < 200):
        if coding:
            result.framing = CHUNKED
        elif length > 0:
            result.framing = SIZED
        elif length < 0:
            result.framing = UNTIL_CLOSE
            result.keep_alive = False
    return result


def _all_fields(head: bytes) -> list[tuple[bytes, bytes]]:
    """Every field line, in order, also where names repeat."""
    found = _FieldList()
    parser = httptools.HttpResponseParser(found)
    with contextlib.suppress(httptools.HttpParserUpgrade):
        parser.feed_data(head)
    return found.fields


def _learn_spelling(name: bytes) -> int:
    """What becomes of a field whose name has not been met in this spelling; 0: it goes on."""
    action = _ACTIONS.get(name.lower(), 0)
    if len(_SPELLINGS) >= MAX_KEPT_SPELLINGS:
        _SPELLINGS.clear()
    if len(name) <= MAX_KEPT_SPELLING_BYTES:
        _SPELLINGS[name] = action
    return action


def _check_reason(reason: bytes) -> None:
    """Refuse control characters, which llhttp lets through here."""
    if not _REASON.fullmatch(reason):
        raise ResponseError("malformed answer: a forbidden character in the reason phrase")
    if len(_known_reasons) < MAX_KEPT_REASONS and len(reason) <= MAX_KEPT_SPELLING_BYTES:
        _known_reasons.add(reason)


def _pass_on(head: bytes, nominated: bytes, *, keep_alive: bool) -> tuple[bytes, bool]:
    """The lines of a head without those of the connection, and whether the origin keeps that."""
    options = {option.strip(b" \t").lower() for option in nominated.split(b",")}
    if b"close" in options:
        keep_alive = False
    elif b"keep-alive" in options:
        keep_alive = True
    lines = head[:-4].split(b"\r\n")
    kept = [b"HTTP/1.1" + lines[0][8:]]
    for line in lines[1:]:
        lower = line[: line.index(b":")].lower()
        action = _ACTIONS.get(lower, 0)
        # A nomination must not take out what frames the body.
        if action == _LENGTH or (action == 0 and lower not in options):
            kept.append(line)
    kept.append(b"")
    return b"\r\n".join(kept), keep_alive
