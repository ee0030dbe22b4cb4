"""What a request is found by in the logs of others: Audit-ID, traceparent and User-Agent.

A request without an Audit-ID is given one where the access log wants it, as kube-apiserver gives
one: the server behind, its audit log and the client then have the same.

Sources: kubernetes/apiserver, `endpoints/filters/audit_init.go` and `audit/context.go`; W3C Trace
Context, section 3.2.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_AUDIT_ID: Final = 64
"""Characters of an Audit-ID in a log, as in kube-apiserver's; header fields have all of it."""

_NAME: Final = b"Audit-Id: "
_END: Final = b"\r\n"
_LINE_ENDS: Final = tuple(b"%02x%b" % (number, _END) for number in range(256))
BATCH: Final = len(_LINE_ENDS)

_FIELDS: Final = re.compile(
    rb"^(audit-id|traceparent|user-agent):[ \t]*([^\r\n]*)", re.MULTILINE | re.IGNORECASE
)
_TRACEPARENT: Final = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?P<more>-.*)?"
)
_VERSION_0: Final = b"00-"
_LENGTH: Final = 55
"""Of a traceparent of version 0, and of what is known of later versions."""


class Traces(NamedTuple):
    """What the fields say; "" for what they do not say, or not properly."""

    audit_id: str
    traceparent: str
    user_agent: str


def read_traces(fields: bytes) -> Traces:
    """Find them among the lines of header fields; of several Audit-IDs the first counts."""
    found: dict[bytes, list[bytes]] = {}
    for name, value in _FIELDS.findall(fields):
        found.setdefault(name.lower(), []).append(value)
    parents = found.get(b"traceparent", ())
    return Traces(
        _first(found.get(b"audit-id", ())),
        _traceparent(parents[0]) if len(parents) == 1 else "",
        _first(found.get(b"user-agent", ())),
    )


def made_audit_lines() -> Iterator[bytes]:
    """The header lines of new Audit-IDs, for ever, each of the form of a UUID of version 4.

    Those of a batch differ in their last digits only, which takes a tenth of the time of UUIDs that
    are all random: an Audit-ID has to be unique, it is no secret.
    """
    while True:
        text = os.urandom(16).hex()
        audit_id = f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:30]}"
        start = _NAME + audit_id.encode()
        for end in _LINE_ENDS:
            yield start + end


def made_id(line: bytes) -> str:
    """The Audit-ID of a header line that was made here."""
    return line[len(_NAME) : -len(_END)].decode()


def audit_line(audit_id: str) -> bytes:
    """The header line of an Audit-ID."""
    return _NAME + audit_id.encode() + _END


def _first(values: list[bytes] | tuple[()]) -> str:
    return values[0].decode(errors="replace") if values else ""


def _traceparent(value: bytes) -> str:
    """The value, without what later versions may add; "" if it is malformed."""
    match = _TRACEPARENT.fullmatch(value)
    if match is None or (match["more"] and value.startswith(_VERSION_0)):
        return ""
    return value[:_LENGTH].decode()
