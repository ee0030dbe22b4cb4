"""How much memory what is kept of requests takes.

At least as much as it does, also later: authentication, and the lines of the access log, come
after.
What all requests share is not counted: kinds, classes, configuration.
"""

from __future__ import annotations

from itertools import chain
from sys import getsizeof
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.http.header_block import HeaderBlock, SectionKey
    from apfproxy.http.request_fields import RequestFields
    from apfproxy.request.user import User

PLACE = 224
"""In two dictionaries that are as empty as they get, with a key's tuple and a number."""
STRUCTURE = 320
"""An object, with what the collector needs, and its options; a dictionary of few values."""
PARAMETER = 160
"""A value's place in a list, and the tuple of it."""
LATER = 1024
"""The lines of the access log that are kept, and the identity's object."""


def of_section(key: SectionKey, block: HeaderBlock) -> int:
    """Bytes of what the fields of a head say, with their own."""
    # Its identity's lines are as long as the fields that they are made of, at most.
    before, after = key
    own = getsizeof(before) + getsizeof(after) + len(before) + len(after)
    return PLACE + LATER + STRUCTURE + own + _of_fields(block.fields)


def _of_fields(fields: RequestFields) -> int:
    credentials, offer = fields.credentials, fields.upgrade
    size = STRUCTURE + getsizeof(fields.host)
    if not fields.is_verbatim:
        size += getsizeof(fields.forward)
    size += _of_texts((credentials.token, credentials.key, credentials.basic, fields.address))
    users = credentials.claimed, credentials.impersonated, credentials.alias, credentials.source
    size += sum(map(_of_user, users))
    if offer is not None:
        listed = chain(offer.protocols, offer.keys, offer.versions, offer.subprotocols)
        size += STRUCTURE + _of_texts(listed)
    return size


def _of_user(user: User | None) -> int:
    if user is None:
        return 0
    size = STRUCTURE + _of_texts((user.name, user.uid)) + _of_texts(user.groups)
    for key, values in user.extra:
        size += PARAMETER + getsizeof(key) + _of_texts(values)
    return size


def _of_texts(texts: Iterable[str | bytes]) -> int:
    """Bytes of texts, and of their places in a tuple."""
    return sum(getsizeof(text) + 8 for text in texts)
