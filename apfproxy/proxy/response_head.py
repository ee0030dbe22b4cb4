"""The head of an origin's answer: checked line by line, and made ready to be passed on.

An origin says most lines again and again, so a line that was judged once is known by its bytes.
That, and one regular expression for the others, costs 1.3 us for an answer of six fields; llhttp
with a callback per field costs 3 us.  The grammar is as strict as llhttp's (a test compares them):
lines end in CRLF, names are tokens, values hold no control characters, and none is continued.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_HEAD_BYTES = 262144
"""Of one head; Go's transport takes 10 MiB, nginx 4 to 8 KiB, HAProxy 16 KiB."""
MAX_LENGTH_DIGITS = 18
"""An exbibyte less: what fits a signed 64-bit integer."""
MAX_KNOWN_LINES = 1024
MAX_KNOWN_LINE_BYTES = 128
"""Longer lines are judged each time, so that the bound above is one in bytes too."""

NO_BODY, SIZED, CHUNKED, UNTIL_CLOSE = range(4)
"""How an answer's body is framed."""

_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: [\t\x20-\x7e\x80-\xff]*)?")
_FIELD_LINE = re.compile(
    rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)", re.DOTALL
)

_EVENT_STREAM = re.compile(rb"\r\nContent-Type:[ \t]*text/event-stream\b", re.IGNORECASE)

_LENGTH, _CODING, _CONNECTION, _DROP = range(4)

# What becomes of a field, by its name; all others go on as they are.  The proxy's own
# X-Kubernetes-PF-* and X-Apfproxy-* fields take the place of those of an origin with flow control
# of its own.
_ACTIONS = {
    b"connection": _CONNECTION,
    b"content-length": _LENGTH,
    b"keep-alive": _DROP,
    b"proxy-authenticate": _DROP,
    b"proxy-connection": _DROP,
    b"te": _DROP,
    b"transfer-encoding": _CODING,
    b"upgrade": _DROP,
    b"x-apfproxy-flow-schema": _DROP,
    b"x-apfproxy-priority-level": _DROP,
    b"x-apfproxy-reason": _DROP,
    b"x-apfproxy-seats": _DROP,
    b"x-apfproxy-waited": _DROP,
    b"x-kubernetes-pf-flowschema-uid": _DROP,
    b"x-kubernetes-pf-prioritylevel-uid": _DROP,
}


class ResponseError(Exception):
    """The origin's answer is not one that can be passed on."""


_Special = tuple[int, bytes]
"""What becomes of a field line that does not simply go on, and the field's value, stripped."""
_StatusLine = tuple[int, bool]
"""The code, and whether the version is 1.1."""
_UNKNOWN: _Special = (-1, b"")
# Field lines by their bytes: None for those that go on as they are.
_known_lines: dict[bytes, _Special | None] = {}
_known_status_lines: dict[bytes, _StatusLine] = {}


@dataclass(slots=True, eq=False, repr=False)
class ResponseHead:
    """An answer's head; nobody changes it once it is parsed.

    Attributes:
        status: The status code.
        lines: The status line and the header lines to pass on, each with its CRLF; a Content-Length
            is among them, a Transfer-Encoding is not.
        framing: `NO_BODY`, `SIZED`, `CHUNKED` or `UNTIL_CLOSE`.
        length: The value of Content-Length, or -1; also of an answer that has no body.
        keep_alive: Whether the origin keeps the connection.
    """

    status: int
    lines: bytes
    length: int
    keep_alive: bool
    framing: int = NO_BODY


def parse_response_head(head: bytes, *, answers_head: bool) -> ResponseHead:
    """Parse and check one head, the empty line at its end included.

    Raises:
        ResponseError: It is malformed, or frames its body in more than one way.
    """
    lines = head.split(b"\r\n")
    del lines[-2:]
    status, is_http_11 = _known_status_lines.get(lines[0]) or _judge_status_line(lines[0])
    kept = [lines[0]]
    specials: list[_Special] = []
    for line in lines[1:]:
        special = _known_lines.get(line, _UNKNOWN)
        if special is _UNKNOWN:
            special = _judge_line(line)
        if special is None:
            kept.append(line)
        else:
            specials.append(special)
            if special[0] == _LENGTH:
                kept.append(line)
    length = -1
    codings: list[bytes] = []
    nominated: set[bytes] | None = None
    for action, value in specials:
        if action == _LENGTH:
            # Twice is refused even if equal: recipients differ in which one they take.
            if length >= 0 or not value.isdigit() or len(value) > MAX_LENGTH_DIGITS:
                raise ResponseError("Content-Length of the answer is not one decimal number")
            length = int(value)
        elif action == _CODING:
            codings.append(value)
        elif action == _CONNECTION and value != b"keep-alive":
            if nominated is None:
                nominated = set()
            nominated |= _options(value)
    if length >= 0 and (status < 200 or status == 204):
        # RFC 9110, section 8.6, forbids it: some clients would wait for a body.
        kept[1:] = [line for line in kept[1:] if not line.lower().startswith(b"content-length:")]
    keep_alive = is_http_11
    if nominated is not None:
        keep_alive = b"close" not in nominated and (is_http_11 or b"keep-alive" in nominated)
        kept[1:] = [line for line in kept[1:] if _name_of(line) not in nominated]
    elif not is_http_11:
        keep_alive = any(action == _CONNECTION for action, _ in specials)
    if not is_http_11:
        kept[0] = b"HTTP/1.1" + lines[0][8:]
    kept.append(b"")
    result = ResponseHead(status, b"\r\n".join(kept), length, keep_alive=keep_alive)
    _frame(result, codings, answers_head=answers_head, is_http_11=is_http_11)
    return result


def _frame(
    result: ResponseHead, codings: list[bytes], *, answers_head: bool, is_http_11: bool
) -> None:
    """Decide the framing, RFC 9112, section 6.3."""
    if codings and (
        not is_http_11 or result.length >= 0 or len(codings) > 1 or codings[0].lower() != b"chunked"
    ):
        raise ResponseError("the answer's Transfer-Encoding is not chunked, alone and of HTTP/1.1")
    status = result.status
    if answers_head or status < 200 or status in (204, 304):
        return
    if codings:
        result.framing = CHUNKED
    elif result.length > 0:
        result.framing = SIZED
    elif result.length < 0:
        result.framing = UNTIL_CLOSE
        result.keep_alive = False


def is_event_stream(lines: bytes) -> bool:
    """Whether an answer is one of server-sent events, by its header lines."""
    return _EVENT_STREAM.search(lines) is not None


def _judge_status_line(line: bytes) -> _StatusLine:
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        raise ResponseError("malformed answer: no status line")
    result = int(match[2]), match[1] == b"1"
    if len(line) <= MAX_KNOWN_LINE_BYTES:
        if len(_known_status_lines) >= MAX_KNOWN_LINES:
            _known_status_lines.clear()
        _known_status_lines[line] = result
    return result


def _judge_line(line: bytes) -> _Special | None:
    """What becomes of a field line that has not been met."""
    match = _FIELD_LINE.fullmatch(line)
    if match is None:
        raise ResponseError("malformed answer: a malformed header line")
    action = _ACTIONS.get(match[1].lower())
    result = None if action is None else (action, match[2].rstrip(b" \t"))
    if len(line) <= MAX_KNOWN_LINE_BYTES:
        if len(_known_lines) >= MAX_KNOWN_LINES:
            _known_lines.clear()
        _known_lines[line] = result
    return result


def _options(value: bytes) -> set[bytes]:
    """The options of a Connection field; empty elements count for nothing."""
    return {option.strip(b" \t").lower() for option in value.split(b",")} - {b""}


def _name_of(line: bytes) -> bytes:
    """The lower-case name of a field line; of Content-Length b"", since nothing may take it out."""
    name = line.partition(b":")[0].lower()
    return b"" if name == b"content-length" else name
