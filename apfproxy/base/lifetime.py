"""For how long a token of the proxy's own is good, as far as it says so itself."""

from __future__ import annotations

import base64
import re
from typing import NamedTuple

from apfproxy.base.strict_json import StrictJsonError, read_object

JWT = re.compile(rb"[\w-]+\.([\w-]+)\.[\w-]*")
"""Of RFC 7519, with the claims in the middle."""
LATEST_UNIX_S = 253_402_300_799.0
"""The end of the year 9999; a later time is no time."""


class Lifetime(NamedTuple):
    """From when to when a token is good, in seconds since 1970."""

    since_unix_s: float
    until_unix_s: float


def lifetime(token: bytes) -> Lifetime | None:
    """The lifetime of a JSON Web Token; None for any other token, and for one that does not expire.

    The signature is not looked at: that is for those who accept the token.  Without a time of issue
    it counts from 1970.
    """
    found = JWT.fullmatch(token)
    if found is None:
        return None
    try:
        claims = read_object(base64.urlsafe_b64decode(found[1] + b"=" * (-len(found[1]) % 4)))
    except (StrictJsonError, ValueError):
        return None
    until = time_of(claims.get("exp"))
    if until is None:
        return None
    since = time_of(claims.get("iat")) or time_of(claims.get("nbf")) or 0.0
    return Lifetime(min(since, until), until)


def time_of(value: object) -> float | None:
    """The time of a claim; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value <= LATEST_UNIX_S else None
