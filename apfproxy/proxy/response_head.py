"""The head of an origin's answer: parsed by llhttp, checked, and made ready to be passed on."""

from __future__ import annotations

import re

import httptools

from apfproxy.proxy.request_head import VIA

MAX_HEAD_BYTES = 262144
"""Of one head; Go's transport takes 10 MiB, nginx 4 to 8 KiB, HAProxy 16 KiB."""

NO_BODY, SIZED, CHUNKED, UNTIL_CLOSE = range(4)
"""How an answer's body is framed."""

_FORBIDDEN = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|(?<!\r)\n|\n[ \t]")
_DIGITS = re.compile(rb"[0-9]{1,18}")

_FORWARD, _DROP, _LENGTH, _CODING, _CONNECTION, _UPGRADE = range(6)

# What becomes of a field, by its name.  The proxy's own X-Kubernetes-PF-* fields take the place of
# those that an origin with flow control of its own sends.
_ACTIONS = {
    b"connection": _CONNECTION,
    b"content-length": _LENGTH,
    b"keep-alive": _DROP,
    b"proxy-authenticate": _DROP,
    b"proxy-connection": _DROP,
    b"te": _DROP,
    b"transfer-encoding": _CODING,
    b"upgrade": _UPGRADE,
    b"x-kubernetes-pf-flowschema-uid": _DROP,
    b"x-kubernetes-pf-prioritylevel-uid": _DROP,
}
# The spellings that origins use most are found without lower(); measured, 0.3 us per answer.
_ACTIONS |= {
    b"-".join(part.title() for part in name.split(b"-")): action
    for name, action in _ACTIONS.items()
}


class ResponseError(Exception):
    """The origin's answer is not one that can be passed on."""


class ResponseHead:
    """An answer's head.

    Attributes:
        status: The status code.
        lines: The status line and the header lines to pass on, each with its CRLF; without those
            that frame the body.
        framing: `NO_BODY`, `SIZED`, `CHUNKED` or `UNTIL_CLOSE`.
        length: The value of Content-Length, or -1; also of an answer that has no body.
        keep_alive: Whether the origin keeps the connection.
    """

    __slots__ = ("framing", "keep_alive", "length", "lines", "status")

    def __init__(self) -> None:
        self.status = 0
        self.lines = b""
        self.framing = NO_BODY
        self.length = -1
        self.keep_alive = True

    def __repr__(self) -> str:
        return f"<ResponseHead {self.status}, framing {self.framing}, length {self.length}>"


class _Collector:
    """Takes what llhttp finds in one head."""

    __slots__ = ("fields", "is_complete", "reason")

    def __init__(self) -> None:
        self.fields: list[tuple[bytes, bytes]] = []
        self.reason = b""
        self.is_complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name, value))

    def on_status(self, reason: bytes) -> None:
        self.reason += reason

    def on_headers_complete(self) -> None:
        self.is_complete = True


def parse_response_head(head: bytes, *, answers_head: bool) -> ResponseHead:
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
    if not found.is_complete or _FORBIDDEN.search(head):
        raise ResponseError("malformed answer: a forbidden character or line ending in the head")
    result = ResponseHead()
    status = result.status = parser.get_status_code()
    if not 100 <= status <= 999:  # noqa: PLR2004  three digits
        raise ResponseError("malformed answer: the status code has not three digits")
    is_http_11 = parser.get_http_version() == "1.1"
    result.keep_alive = is_http_11
    parts = [b"HTTP/1.1 %d %b\r\n" % (status, found.reason)]
    codings: list[bytes] = []
    nominated: set[bytes] = set()
    for name, value in found.fields:
        action = _ACTIONS.get(name)
        if action is None:
            action = _ACTIONS.get(name.lower())
            if action is None:
                parts += (name, b": ", value, b"\r\n")
                continue
        if action == _LENGTH:
            _take_length(result, value)
        elif action == _CODING:
            codings.append(value)
        elif action == _CONNECTION:
            nominated.update(option.strip(b" \t").lower() for option in value.split(b","))
    if nominated:
        if b"close" in nominated:
            result.keep_alive = False
        elif b"keep-alive" in nominated:
            result.keep_alive = True
        if nominated - {b"close", b"keep-alive"}:
            parts = _without(parts, nominated)
    parts.append(VIA)
    result.lines = b"".join(parts)
    _frame(result, codings, answers_head=answers_head, is_http_11=is_http_11)
    return result


def _take_length(result: ResponseHead, value: bytes) -> None:
    if not _DIGITS.fullmatch(value) or result.length not in (-1, int(value)):
        raise ResponseError("Content-Length of the answer is not one decimal number")
    result.length = int(value)


def _without(parts: list[bytes], nominated: set[bytes]) -> list[bytes]:
    """The status line and those fields that Connection does not nominate."""
    kept = parts[:1]
    for index in range(1, len(parts), 4):
        if parts[index].lower() not in nominated:
            kept += parts[index : index + 4]
    return kept


def _frame(
    result: ResponseHead, codings: list[bytes], *, answers_head: bool, is_http_11: bool
) -> None:
    """Decide the framing, RFC 9112, section 6.3."""
    if codings:
        if not is_http_11 or result.length >= 0:
            raise ResponseError("the answer has Transfer-Encoding with HTTP/1.0 or Content-Length")
        if len(codings) != 1 or codings[0].lower() != b"chunked":
            raise ResponseError("the only transfer coding that is passed on is chunked")
    if answers_head or result.status < 200 or result.status in (204, 304):  # noqa: PLR2004
        result.framing = NO_BODY
    elif codings:
        result.framing = CHUNKED
    elif result.length > 0:
        result.framing = SIZED
    elif result.length < 0:
        result.framing = UNTIL_CLOSE
        result.keep_alive = False
