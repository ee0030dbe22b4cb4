"""The head of an upstream's response: checked line by line, and made ready to be passed on.

A line that was judged once is known by its bytes.  Those that differ in every response, its length
and its Audit-ID, are judged by their names.  A head that differs from two before in these values
alone is not even divided into lines: it is made by their pattern.  The grammar is as strict as
llhttp's (a test compares them): lines end in CRLF, names are tokens, values hold no control
characters, and none is continued.
"""

from __future__ import annotations

import re
from typing import Final

from apfproxy.http.grammar import TOKEN

MAX_HEAD_BYTES: Final = 262144
"""The longest head; Go's transport takes 10 MiB, nginx 4 to 8 KiB, HAProxy 16 KiB."""
MAX_LENGTH_DIGITS: Final = 18  # an exbibyte less: what fits a signed 64-bit integer
MAX_KNOWN_LINES = 1024  # field lines, status lines, and names
MAX_KNOWN_LINE_BYTES: Final = 128
"""Longer lines are judged each time, so that the bound above is one in bytes too."""
MAX_KNOWN_NAME_BYTES: Final = 64
MAX_PATTERNS = 256  # a Date makes another one each second
MAX_PATTERN_BYTES: Final = 1024

# How a response's body is framed.
NO_BODY: Final = 0
SIZED: Final = 1
CHUNKED: Final = 2
UNTIL_CLOSE: Final = 3

_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: [\t\x20-\x7e\x80-\xff]*)?")
_FIELD_LINE: Final = re.compile(
    rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)", re.DOTALL
)

_EVENT_STREAM: Final = re.compile(rb"\r\nContent-Type:[ \t]*text/event-stream\b", re.IGNORECASE)

# What becomes of a field; all that is not named here goes on as it is.
_UNKNOWN: Final = -1
_PASSES: Final = 0
_AUDIT_ID: Final = 1
_LENGTH: Final = 2
_DROP: Final = 3
_KEEP_ALIVE: Final = 4
_CONNECTION: Final = 5
_CODING: Final = 6
_IDLE: Final = 7
_DATE: Final = 8

# By the field's name.  The proxy's own X-Kubernetes-PF-* and X-Apfproxy-* fields take the place of
# those of an upstream with flow control of its own.
_ACTIONS: Final = {
    b"audit-id": _AUDIT_ID,
    b"connection": _CONNECTION,
    b"content-length": _LENGTH,
    b"date": _DATE,
    b"keep-alive": _IDLE,
    b"transfer-encoding": _CODING,
    **dict.fromkeys(
        b"proxy-authenticate proxy-connection te upgrade x-apfproxy-flow-schema"
        b" x-apfproxy-priority-level x-apfproxy-reason x-apfproxy-seats x-apfproxy-waited"
        b" x-kubernetes-pf-flowschema-uid x-kubernetes-pf-prioritylevel-uid".split(),
        _DROP,
    ),
}

_PLAIN_LENGTH: Final = b"Content-Length: "
_VERSION: Final = b"HTTP/1."
_BARE_LF: Final = re.compile(rb"(?<!\r)\n")
_UNFIT_BYTE: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_TLS_RECORDS: Final = (b"\x15\x03", b"\x16\x03")  # an alert and a handshake
_HTTP2_SETTINGS: Final = b"\x04\x00\x00\x00"
"""The rest of a frame's head: the first one of a server that speaks HTTP/2 only."""
MAX_SHOWN_BYTES: Final = 40


class ResponseError(Exception):
    """The upstream's response is not one that can be passed on."""


_StatusLine = tuple[int, bool]  # the code, and whether the version is 1.1
# What becomes of field lines, by their bytes, and of fields, by their names as they are spelled.
_known_lines: Final[dict[bytes, int]] = {}
_known_names: Final[dict[bytes, int]] = {}
_known_status_lines: Final[dict[bytes, _StatusLine]] = {}


class ResponseHead:
    """A response's head, immutable once it is parsed.

    Attributes:
        lines: The status line and the header lines to pass on, each with its CRLF; a Content-Length
            is among them, a Transfer-Encoding is not.
        length: The value of Content-Length, or -1; also of a response that has no body.
        has_audit_id, has_date: Whether an Audit-ID, or a Date, is among the lines.
        idle_line: That of its Keep-Alive field, which says how long an idle connection is kept.
    """

    def __init__(
        self,
        status: int,
        lines: bytes,
        length: int,
        *,
        keep_alive: bool,
        framing: int,
        has_audit_id: bool,
        has_date: bool,
        idle_line: bytes = b"",
    ) -> None:
        self.status = status
        self.lines = lines
        self.length = length
        self.keep_alive = keep_alive
        self.framing = framing
        self.has_audit_id = has_audit_id
        self.has_date = has_date
        self.idle_line = idle_line

    def __repr__(self) -> str:
        return f"<ResponseHead {self.status}>"


_Pattern = tuple[bytes, bytes, bytes, ResponseHead]
"""The lines to pass on of a head that frames its body by a length, divided where that and the value
of Audit-Id stand, with b"" in third place if there is only a length; and a head like it."""


_Divided = tuple[bytes, bytes, bytes]
_patterns: Final[dict[_Divided, _Pattern]] = {}
_seen: Final[set[int]] = set()
"""Hashes of heads without those values: a pattern is kept of what comes twice."""
_LENGTH_LINE: Final = b"\r\nContent-Length: "
_AUDIT_LINE: Final = b"\r\nAudit-Id: "


def parse_response_head(head: bytes, *, answers_head: bool) -> ResponseHead:
    """Parse and check one whole head; ResponseError if it is malformed."""
    try:
        return _parsed(head, answers_head=True) if answers_head else _parsed_by_pattern(head)
    except ResponseError:
        check_start(head, 0)  # first, as where the head comes bit by bit
        raise


def _parsed_by_pattern(head: bytes) -> ResponseHead:
    start = head.find(_LENGTH_LINE) + len(_LENGTH_LINE)
    if start < len(_LENGTH_LINE) or len(head) > MAX_PATTERN_BYTES:
        return _parsed(head, answers_head=False)
    end = head.find(b"\r\n", start)
    digits = head[start:end]
    audit_start = head.find(_AUDIT_LINE) + len(_AUDIT_LINE)
    has_audit = audit_start >= len(_AUDIT_LINE)
    is_plain = digits.isdigit() and len(digits) <= MAX_LENGTH_DIGITS
    audit = b""
    if has_audit:
        audit_end = head.find(b"\r\n", audit_start)
        audit = head[audit_start:audit_end]
        is_plain = is_plain and audit.replace(b"-", b"").isalnum()
        if start < audit_start:
            divided = (head[:start], head[end:audit_start], head[audit_end:])
        else:
            divided = (head[:audit_start], head[audit_end:start], head[end:])
    else:
        divided = (head[:start], head[end:], b"")
    if not is_plain:
        return _parsed(head, answers_head=False)
    pattern = _patterns.get(divided)
    if pattern is None:
        found = _parsed(head, answers_head=False)
        _remember_pattern(divided, found, has_audit=has_audit)
        return found
    length = int(digits)
    first, second, third, like = pattern
    if not has_audit:
        lines = b"".join((first, digits, second))
    elif start < audit_start:
        lines = b"".join((first, digits, second, audit, third))
    else:
        lines = b"".join((first, audit, second, digits, third))
    return ResponseHead(
        like.status,
        lines,
        length,
        keep_alive=like.keep_alive,
        framing=SIZED if length else NO_BODY,
        has_audit_id=like.has_audit_id,
        has_date=like.has_date,
        idle_line=like.idle_line,
    )


def _remember_pattern(divided: _Divided, found: ResponseHead, *, has_audit: bool) -> None:
    mark = hash(divided)
    if mark not in _seen:
        if len(_seen) >= 4 * MAX_PATTERNS:
            _seen.clear()
        _seen.add(mark)
        return
    status, lines = found.status, found.lines
    has_body = status >= 200 and status not in (204, 304)
    if not has_body or (has_audit and not found.has_audit_id):
        return  # its length is not passed on, or its Audit-Id
    _seen.discard(mark)
    if len(_patterns) >= MAX_PATTERNS:
        _patterns.clear()
    marks = (_LENGTH_LINE, _AUDIT_LINE) if has_audit else (_LENGTH_LINE,)
    parts, at = [], 0
    for start in sorted(lines.find(mark) + len(mark) for mark in marks):
        parts.append(lines[at:start])
        at = lines.find(b"\r\n", start)
    parts += [lines[at:], b""]
    _patterns[divided] = parts[0], parts[1], parts[2], found


def _parsed(head: bytes, *, answers_head: bool) -> ResponseHead:
    lines = head.split(b"\r\n")
    status_line = lines[0]
    status, is_http_11 = _known_status_lines.get(status_line) or _judge_status_line(status_line)
    kept = [status_line if is_http_11 else b"HTTP/1.1" + status_line[8:]]
    length = -1
    has_audit_id = has_date = says_keep_alive = False
    idle_line = b""
    codings: list[bytes] = []
    nominated: set[bytes] | None = None
    for line in lines[1:-2]:
        action = _known_lines.get(line, _UNKNOWN)
        if action == _UNKNOWN:
            action = _LENGTH if line.startswith(_PLAIN_LENGTH) else _judge_line(line, lines)
        if action == _PASSES:
            kept.append(line)
        elif action == _DATE:
            has_date = True
            kept.append(line)
        elif action == _LENGTH:
            length = _length_in(line, length)
            kept.append(line)
        elif action == _AUDIT_ID:
            has_audit_id = True
            kept.append(line)
        elif action == _IDLE:
            idle_line = line
        elif action == _KEEP_ALIVE:
            says_keep_alive = True
        elif action == _CONNECTION:
            nominated = nominated or set()
            options = {option.strip(b" \t").lower() for option in _value_of(line).split(b",")}
            nominated |= options - {b""}  # empty elements count for nothing
        elif action == _CODING:
            codings.append(_value_of(line))
        # And `_DROP`, of which nothing is kept.
    keep_alive = is_http_11 or says_keep_alive
    if nominated is not None:
        keep_alive = b"close" not in nominated and (is_http_11 or b"keep-alive" in nominated)
        has_audit_id = has_audit_id and b"audit-id" not in nominated
        has_date = has_date and b"date" not in nominated
        kept[1:] = [line for line in kept[1:] if _name_of(line) not in nominated]
    if length >= 0 and (status < 200 or status == 204):
        # RFC 9110, section 8.6, forbids it: some clients would wait for a body.
        kept[1:] = [line for line in kept[1:] if not line.lower().startswith(b"content-length:")]
    if codings:
        _check_codings(codings, length, is_http_11=is_http_11)
    framing = NO_BODY if answers_head else _framing(status, length, is_chunked=bool(codings))
    kept.append(b"")
    return ResponseHead(
        status,
        b"\r\n".join(kept),
        length,
        keep_alive=keep_alive and framing != UNTIL_CLOSE,
        framing=framing,
        has_audit_id=has_audit_id,
        has_date=has_date,
        idle_line=idle_line,
    )


def _framing(status: int, length: int, *, is_chunked: bool) -> int:
    if status < 200 or status in (204, 304):
        return NO_BODY
    if is_chunked:
        return CHUNKED
    if length >= 0:
        return SIZED if length else NO_BODY
    return UNTIL_CLOSE


def check_start(start: bytes | bytearray, searched: int) -> None:
    """Refuse with ResponseError what cannot become a head; so much was `searched` before."""
    if len(start) < len(_VERSION):
        return
    if not start.startswith(_VERSION):
        raise _malformed(_other_protocol(bytes(start[: len(_VERSION)])))
    bare = _BARE_LF.search(start, searched)
    if bare is not None:
        line = bytes(start[start.rfind(b"\n", 0, bare.start()) + 1 : bare.start()])
        raise _malformed(f"the line {_shown(line.partition(b':')[0])} ends in LF, not in CR LF")


def _malformed(problem: str) -> ResponseError:
    return ResponseError(f"malformed answer: {problem}")


def _shown(text: bytes) -> str:
    """The part of a name, or of what should be one, for a message; values may be secrets."""
    cut = text[:MAX_SHOWN_BYTES].decode("ascii", "backslashreplace")
    shown = "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in cut)
    return f'"{shown}..."' if len(text) > MAX_SHOWN_BYTES else f'"{shown}"'


def _other_protocol(start: bytes) -> str:
    if start.startswith(_TLS_RECORDS):
        return "the server speaks TLS: its URL begins with https"
    if start.startswith(_HTTP2_SETTINGS, 3):
        return "the server speaks HTTP/2 only, as one of gRPC does; it has to speak HTTP/1.1"
    return f"it begins with {_shown(start)}, not with HTTP/1.1"


def _length_in(line: bytes, before: int) -> int:
    """The length that a line says, where another one has said `before`, or -1."""
    value = line.partition(b":")[2].strip(b" \t")
    if not value.isdigit() or len(value) > MAX_LENGTH_DIGITS:
        raise _malformed(f"Content-Length is {_shown(value)}, not one decimal number")
    if before >= 0:
        # Refused even if equal: recipients differ in which one they take.
        raise _malformed(f"it has two Content-Length fields, {before} and {int(value)}")
    return int(value)


def _check_codings(codings: list[bytes], length: int, *, is_http_11: bool) -> None:
    if len(codings) > 1:
        raise _malformed(f"it has {len(codings)} Transfer-Encoding fields")
    if codings[0].lower() != b"chunked":
        raise _malformed(f"Transfer-Encoding is {_shown(codings[0])}, not chunked alone")
    if not is_http_11:
        raise _malformed("it has a Transfer-Encoding in HTTP/1.0")
    if length >= 0:
        raise _malformed("it has both Content-Length and Transfer-Encoding")


def is_event_stream(lines: bytes) -> bool:
    return _EVENT_STREAM.search(lines) is not None


def _judge_status_line(line: bytes) -> _StatusLine:
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        raise _malformed(f"{_shown(line)} is no status line")
    result = int(match[2]), match[1] == b"1"
    if len(line) <= MAX_KNOWN_LINE_BYTES:
        if len(_known_status_lines) >= MAX_KNOWN_LINES:
            _known_status_lines.clear()
        _known_status_lines[line] = result
    return result


def _judge_line(line: bytes, lines: list[bytes]) -> int:
    """Judge a field line that is new, or differs in every response.

    Where the name is known, ASCII without control characters is right as a value.
    """
    action = _known_names.get(line[: max(0, line.find(b":"))])
    if action is None or not line.isascii() or not line.decode().isprintable():
        match = _FIELD_LINE.fullmatch(line)
        if match is None:
            raise _malformed(_line_problem(line, lines.index(line)))
        name = match[1]
        action = _ACTIONS.get(name.lower(), _PASSES)
        if len(name) <= MAX_KNOWN_NAME_BYTES:
            _remember(_known_names, name, action)
    if action == _CONNECTION and _value_of(line) == b"keep-alive":
        action = _KEEP_ALIVE
    if action not in (_LENGTH, _AUDIT_ID) and len(line) <= MAX_KNOWN_LINE_BYTES:
        _remember(_known_lines, line, action)
    return action


def _line_problem(line: bytes, number: int) -> str:
    name, colon, value = line.partition(b":")
    if line[:1] in (b" ", b"\t"):
        return f"header line {number} begins with white space, as if it continued another one"
    if not colon:
        return f"header line {number} has no colon"
    if not TOKEN.fullmatch(name):
        return f"header line {number} has the name {_shown(name)}, which is no token"
    unfit = _UNFIT_BYTE.search(value)
    assert unfit is not None
    return f"the value of {_shown(name)} has the byte 0x{unfit[0].hex()}"


def _remember(known: dict[bytes, int], what: bytes, action: int) -> None:
    if len(known) >= MAX_KNOWN_LINES:
        known.clear()
    known[what] = action


def _value_of(line: bytes) -> bytes:
    return line.partition(b":")[2].strip(b" \t")


def _name_of(line: bytes) -> bytes:
    """The lower-case name of a field line; of Content-Length b"", since nothing may take it out."""
    name = line.partition(b":")[0].lower()
    return b"" if name == b"content-length" else name
