"""The head of a request: its line, and its fields, which llhttp judges as a whole."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import httptools

from apfproxy.http.grammar import TOKEN, HeadError
from apfproxy.http.request_fields import SIZED, read_fields

if TYPE_CHECKING:
    from apfproxy.http.request_fields import FieldRules, RequestFields
    from apfproxy.http.upgrade import Offer

_REQUEST_LINE: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+ (\S+) HTTP/1\.[01]")
_TARGET: Final = re.compile(rb"[\x21\x22\x24-\x7e\x80-\xff]+")
_ABSOLUTE: Final = re.compile(rb"https?://([^/?#]+)", re.IGNORECASE)

MAX_METHOD_BYTES: Final = 64  # the longest registered one has 17
_FRAMING_METHODS: Final = (b"CONNECT", b"HEAD", b"PRI", b"TRACE")
"""These mean more for the bytes behind them than fields say, so servers that fold case
must not see them in another spelling."""
_STAND_IN: Final = b"POST"
"""llhttp reads it in place of a method, of which it knows some 40; it frames by fields alone."""
_AS_ASCII: Final = bytes((*range(0x80), *(b"x" * 0x80)))
"""For it, too: it takes no byte above 0x7F in a target, as clients send in raw UTF-8."""


class RequestHead:
    """The bytes of a head and what they say of themselves; immutable.

    `line` is the request line to forward, with the fields of an upgrade; `raw` is all of the head
    as it came, up to the empty line, or b"" where it is not forwarded so; `size` is its own.
    """

    def __init__(
        self,
        method: str,
        target: bytes,
        line: bytes,
        raw: bytes,
        fields: RequestFields,
        body_bytes: int,
        upgrade: Offer | None,
    ) -> None:
        self.method = method
        self.target = target
        self.line = line
        self.raw = raw if fields.is_verbatim else b""
        self.size = len(raw)
        self.fields = fields
        self.body_bytes = body_bytes
        self.is_head = method == "HEAD"
        self.framing = fields.framing
        self.is_http_10 = fields.is_http_10
        self.keep_alive = fields.keep_alive
        self.expects_continue = fields.expects_continue
        self.upgrade = upgrade

    def with_upgrade(self, upgrade: Offer | None) -> RequestHead:
        line = self.line if upgrade is None else self.line + upgrade.lines
        head = RequestHead(
            self.method, self.target, line, self.raw, self.fields, self.body_bytes, upgrade
        )
        head.size = self.size
        return head

    @property
    def kept_bytes(self) -> int:
        """The bytes kept while its request lasts: once as it came and goes on, and its target."""
        return len(self.raw) + 2 * len(self.line) + len(self.fields.forward)

    @property
    def forwarded_fields(self) -> bytes:
        """The lines of all fields that are forwarded; of some length if they have one."""
        fields = self.fields
        if fields.is_verbatim:
            return self.raw[self.raw.index(b"\r\n") + 2 : -2] + fields.forward
        return fields.forward

    def forwarded(self, user_lines: bytes = b"", suffix: bytes = b"") -> bytes:
        """The head to forward; `user_lines` name the user, and may have an Audit-ID."""
        fields = self.fields
        if fields.is_verbatim:
            return b"".join((self.raw[:-2], user_lines, fields.forward, suffix))
        length = b"Content-Length: %d\r\n" % self.body_bytes if fields.framing == SIZED else b""
        return b"".join((self.line, length, user_lines, fields.forward, suffix))

    def __repr__(self) -> str:
        return f"<RequestHead {self.method} {self.target!r}>"


class _Collector:
    def __init__(self) -> None:
        self.target = b""
        self.fields: list[tuple[bytes, bytes]] = []
        self.is_complete = False

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        # llhttp leaves the white space after a value, which is not part of it.
        self.fields.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        self.is_complete = True


class _Listener:
    def __init__(self) -> None:
        self.is_complete = False

    def on_headers_complete(self) -> None:
        self.is_complete = True


class HeadProbe:
    """Judges a head that arrives in pieces, so that what cannot become one is refused at once.

    It gets no empty line: whatever llhttp takes for the end of a head, such as a bare LF, is none.
    """

    def __init__(self) -> None:
        self._begin: bytes | None = b""  # of the request line, while its method may go on
        self._is_in_line = True
        # No method of its own is called back: the two would hold each other, and memory with them.
        self._found = _Listener()
        self._parser = httptools.HttpRequestParser(self._found)

    def feed(self, data: bytes) -> None:
        """Take the next piece; HeadError if it is no HTTP, or of no version served."""
        if self._begin is not None:
            data = self._begin + data
            if len(data) <= MAX_METHOD_BYTES and TOKEN.fullmatch(data):
                self._begin = data
                return
            self._begin, data = None, _with_stand_in(data)
        if self._is_in_line:
            data, self._is_in_line = _with_ascii_line(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # said of a whole head, too
        except httptools.HttpParserError as error:
            raise _malformed(error) from error
        if self._found.is_complete:
            raise HeadError(400, "malformed request: a line does not end with CR LF")


def _with_ascii_line(data: bytes) -> tuple[bytes, bool]:
    """The rest of a request line in ASCII, with what follows; whether more of it is to come."""
    end = data.find(b"\n")
    if end < 0:
        return data.translate(_AS_ASCII), True
    return data[:end].translate(_AS_ASCII) + data[end:], False


def _with_stand_in(head: bytes) -> bytes:
    """A head, or its start, with a method that llhttp knows; HeadError if it is not served."""
    found = TOKEN.match(head)
    if found is None:
        return head
    method = found[0]
    if len(method) > MAX_METHOD_BYTES:
        raise HeadError(501, f"the request method is longer than {MAX_METHOD_BYTES} bytes")
    if method.upper() in _FRAMING_METHODS:
        if method.isupper():
            return head
        raise HeadError(405, f"{method.decode()} is not served: methods are told apart by case")
    return _STAND_IN + head[len(method) :]


def _malformed(error: Exception) -> HeadError:
    return HeadError(400, f"malformed request: {error}")


def parse_head(head: bytes, rules: FieldRules) -> RequestHead:
    """Parse and check one head, from its request line to the empty line; or HeadError."""
    line = _REQUEST_LINE.fullmatch(head, 0, head.index(b"\r\n"))
    target = None if line is None else line[1]
    as_ascii = None if target is None else target.translate(_AS_ASCII)
    fields = parse_fields(_with_ascii_line(_with_stand_in(head))[0], as_ascii, rules)
    assert target is not None
    method = head[: head.index(b" ")].decode()
    if len(target) > rules.max_target_bytes:
        raise target_too_long(rules)
    _check_target(method, target, fields)
    line_on = b"%b %b HTTP/1.1\r\n" % (method.encode(), target)
    return RequestHead(method, target, line_on, head, fields, fields.body_bytes, fields.upgrade)


def parse_fields(
    head: bytes, target: bytes | None, rules: FieldRules, section: bytes = b""
) -> RequestFields:
    """Have llhttp judge a whole head, and read its fields; HeadError.

    The head has a method that llhttp knows and a target in ASCII; `target` is None if it has none.
    """
    # None is continued on a line of its own, and beside them are the first and the empty line.
    if head.count(b"\r\n") - 2 > rules.max_fields:
        raise HeadError(
            431,
            f"the request has more than {rules.max_fields} header fields"
            " (downstream.maxHeaderFields)",
        )
    found = _Collector()
    parser = httptools.HttpRequestParser(found)
    try:
        parser.feed_data(head)
    except httptools.HttpParserUpgrade:
        pass  # only a Connection field that nominates Upgrade makes it one: `read_fields`
    except httptools.HttpParserError as error:
        raise _malformed(error) from error
    if not found.is_complete or found.target != target:
        raise HeadError(400, "malformed request: it does not begin with METHOD TARGET HTTP/1.1")
    is_http_10 = parser.get_http_version() == "1.0"
    return read_fields(found.fields, rules, section, is_http_10=is_http_10)


def target_too_long(rules: FieldRules) -> HeadError:
    most = rules.max_target_bytes
    return HeadError(
        414, f"the request target is longer than {most} bytes (downstream.maxTargetBytes)"
    )


def _check_target(method: str, target: bytes, fields: RequestFields) -> None:
    """Refuse what is not a path, or a URL of the very host that is asked."""
    if method in ("TRACE", "CONNECT"):
        raise HeadError(405, f"{method} is not served")
    if not _TARGET.fullmatch(target):
        raise HeadError(400, "the request target has a character that must be escaped")
    if target[:1] == b"/" or (target == b"*" and method == "OPTIONS"):
        return
    absolute = _ABSOLUTE.match(target)
    if absolute is None:
        raise HeadError(400, "the request target is neither a path nor an http URL")
    if fields.host is None or absolute[1].lower() != fields.host.lower():
        raise HeadError(400, "the authority of the request target is not that of Host")
