"""Header blocks, by which clients are known.

A client sends the same fields with every target.  So what they say is found out once and kept, by
their bytes, with the user that they authenticate: in a cache that all clients of a kind share once
they came twice, and at the connection, which knows its last few.
"""

from __future__ import annotations

from itertools import chain
from sys import getsizeof
from typing import TYPE_CHECKING, Final

from apfproxy.base.bounded_cache import BoundedCache, MemoryBudget

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.authn.authenticator import Authentication
    from apfproxy.authn.credentials import Peer
    from apfproxy.http.request_fields import FieldRules, RequestFields
    from apfproxy.request.attributes import User

_LENGTH_NAME: Final = b"content-length: "
_LENGTH_NAME_END: Final = b"ength: "

BlockKey = tuple[bytes, bytes]
"""A block's bytes: what stands before the digits of Content-Length, and what behind them; b"" and
all of it if it has no length, or not one that is told apart from the rest."""


class HeaderBlock:
    """The fields of a client's heads, whatever length of a body they say, with who sends them.

    Attributes:
        authentication: The last one; None before.
        logged: A user, and the access log's text of that user and these fields; None before.
        audit_line: The line of their Audit-ID; b"" if there is none, None before anybody asked.
        parent: Their traceparent, if it is a proper one; "" if not, None before anybody asked.
    """

    __slots__ = ("_after", "_before", "audit_line", "authentication", "fields", "logged", "parent")

    def __init__(self, fields: RequestFields, key: BlockKey = (b"", b"")) -> None:
        self.fields = fields
        self._before, self._after = key
        self.authentication: Authentication | None = None
        self.logged: tuple[User, str] | None = None
        self.audit_line: bytes | None = None
        self.parent: str | None = None

    def match(self, data: bytes | bytearray, start: int) -> tuple[int, int]:
        """Where a head ends that has this block, and the length of its body; (0, 0) if not.

        The head's fields begin at `start`; behind it there may be more data.
        """
        before, after = self._before, self._after
        if not before and data.startswith(after, start):
            return start + len(after), self.fields.body_bytes
        if not before or not data.startswith(before, start):
            return 0, 0
        start += len(before)
        end = data.find(b"\r\n", start)
        if end < 0 or not data.startswith(after, end):
            return 0, 0
        digits = data[start:end]
        return (end + len(after), int(digits)) if _is_length(digits) else (0, 0)

    def __repr__(self) -> str:
        return f"<HeaderBlock of {len(self._before) + len(self._after)} bytes>"


def key_of(section: bytes) -> tuple[BlockKey, int]:
    """The key of a head's fields, and the length that they say; 0 if it is not told apart."""
    # Searched for without regular expressions, which take ten times as long.
    end = section.find(_LENGTH_NAME_END)
    if end >= 0 and section.count(_LENGTH_NAME_END) == 1:
        start = end + len(_LENGTH_NAME_END)
        line = section[max(0, start - len(_LENGTH_NAME) - 1) : start].lower()
        if line == _LENGTH_NAME or line == b"\n" + _LENGTH_NAME:
            end = section.find(b"\r\n", start)
            digits = section[start:end]
            if _is_length(digits):
                return (section[:start], section[end:]), int(digits)
    return (b"", section), 0


def _is_length(digits: bytes | bytearray) -> bool:
    """Whether this is a length that is written as anybody does, of a body that is not empty."""
    return digits.isdigit() and not digits.startswith(b"0") and len(digits) <= 18


class ClientKind:
    """Clients whose heads are read alike, with their header blocks; `room` is of all kinds."""

    __slots__ = ("blocks", "peer", "rules")

    def __init__(self, peer: Peer, rules: FieldRules, room: MemoryBudget, max_blocks: int) -> None:
        self.peer = peer
        self.rules = rules
        self.blocks: BoundedCache[BlockKey, HeaderBlock] = BoundedCache(
            max_blocks, room, size_of_block
        )


# How much memory a kept block takes: never more than this, also later, since the user and the lines
# of the access log come after.  What all requests share is not counted.

PLACE: Final = 224
"""In two dictionaries that are as empty as they get, with a key's tuple and a number."""
STRUCTURE: Final = 320
"""An object, with what the collector needs, and its options; a dictionary of few values."""
PARAMETER: Final = 160
"""A value's place in a list, and the tuple of it."""
LATER: Final = 1024
"""The lines of the access log that are kept, and the authentication's object."""


def size_of_block(key: BlockKey, block: HeaderBlock) -> int:
    """Bytes of a header block and its key."""
    # Its user's lines are as long as the fields that they are made of, at most.
    before, after = key
    fields = block.fields
    credentials, offer = fields.credentials, fields.upgrade
    size = PLACE + LATER + 2 * STRUCTURE
    size += getsizeof(before) + getsizeof(after) + len(before) + len(after)
    size += getsizeof(fields.host)
    if not fields.is_verbatim:
        size += getsizeof(fields.forward)
    size += _size_of_texts((credentials.token, credentials.key, credentials.basic, fields.address))
    users = credentials.claimed, credentials.impersonated, credentials.alias, credentials.source
    size += sum(map(_size_of_user, users))
    if offer is not None:
        listed = chain(offer.protocols, offer.keys, offer.versions, offer.subprotocols)
        size += STRUCTURE + _size_of_texts(listed)
    return size


def _size_of_user(user: User | None) -> int:
    if user is None:
        return 0
    size = STRUCTURE + _size_of_texts((user.name, user.uid)) + _size_of_texts(user.groups)
    for key, values in user.extra:
        size += PARAMETER + getsizeof(key) + _size_of_texts(values)
    return size


def _size_of_texts(texts: Iterable[str | bytes]) -> int:
    return sum(getsizeof(text) + 8 for text in texts)
