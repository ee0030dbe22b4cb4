"""Whoever sends certain header fields: what those say is found out once for all heads with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.http.request_fields import SIZED

if TYPE_CHECKING:
    from apfproxy.authn.authenticator import Authentication
    from apfproxy.http.request_fields import RequestFields
    from apfproxy.request.user import User

_NAME: Final = b"content-length: "
_NAME_END: Final = b"ength: "
_ZERO: Final = 48
_MAX_DIGITS: Final = 18

SectionKey = tuple[bytes, bytes]
"""A field section in two parts: what stands before the digits of Content-Length, and what behind
them; b"" and all of it if it has no length, or not one that is told apart from the rest."""


def key_of(section: bytes) -> tuple[SectionKey, int]:
    """The parts of a section, and the length that stands between them; 0 if there is none."""
    # Searched for without regular expressions, which take ten times as long.
    end = section.find(_NAME_END)
    if end >= 0 and section.count(_NAME_END) == 1:
        start = end + len(_NAME_END)
        line = section[max(0, start - len(_NAME) - 1) : start].lower()
        if line == _NAME or line == b"\n" + _NAME:
            end = section.find(b"\r\n", start)
            digits = section[start:end]
            if _is_length(digits):
                return (section[:start], section[end:]), int(digits)
    return (b"", section), 0


def _is_length(digits: bytes | bytearray) -> bool:
    """Whether this is a length that is written as anybody does, of a body that is not empty."""
    return digits.isdigit() and digits[0] != _ZERO and len(digits) <= _MAX_DIGITS


class HeaderBlock:
    """A field section, whatever length of a body it says, and who sends it.

    Attributes:
        fields: What the section says.
        key: Its bytes, without the digits of a length.
        authentication: The last one; None before.
        logged: A user, and the access log's text of that user and these fields; None before.
        audit_line: The line of their Audit-ID; b"" if there is none, None before anybody asked.
        traceparent: Theirs, if it is a proper one; "" if not, None before anybody asked.
    """

    __slots__ = (
        "_after",
        "_before",
        "audit_line",
        "authentication",
        "fields",
        "key",
        "logged",
        "traceparent",
    )

    def __init__(self, fields: RequestFields, key: SectionKey = (b"", b"")) -> None:
        self.fields = fields
        self.key = key
        self._before, self._after = key
        self.authentication: Authentication | None = None
        self.logged: tuple[User, str] | None = None
        self.audit_line: bytes | None = None
        self.traceparent: str | None = None

    def match(self, data: bytes | bytearray, start: int) -> tuple[int, int]:
        """Where a head ends that has this section, and the length of its body; (0, 0) if not.

        Args:
            data: The head, and perhaps more.
            start: Where its fields begin.
        """
        before, after = self._before, self._after
        if not before:
            if data.startswith(after, start):
                return start + len(after), self.fields.body_bytes
            return 0, 0
        if not data.startswith(before, start):
            return 0, 0
        start += len(before)
        end = data.find(b"\r\n", start)
        if end < 0 or not data.startswith(after, end):
            return 0, 0
        digits = data[start:end]
        return (end + len(after), int(digits)) if _is_length(digits) else (0, 0)

    def __repr__(self) -> str:
        return f"<HeaderBlock of {len(self._before) + len(self._after)} bytes>"


def is_of_any_length(fields: RequestFields) -> bool:
    """Whether a section says the same of all but its body, whatever length that has."""
    return fields.framing == SIZED and fields.has_one_length
