"""What tells flows apart where an addition to their FlowSchema says so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from apfproxy.objects.additions import DistinguisherKind
from apfproxy.request.user import AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.objects.additions import Distinguisher
    from apfproxy.request.attributes import RequestAttributes
    from apfproxy.request.user import User

LONGEST_VALUE: Final = 128
"""Characters of a header or a path that count: flows are kept by their names."""

VIRTUAL_GROUPS: Final = frozenset(
    {AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP, "system:serviceaccounts"}
)
"""Those of everybody, or of all service accounts of a cluster."""

_PROGRAM: Final = re.compile(r"[^/\s]+")


def no_header(name: str) -> str:  # noqa: ARG001  the signature of those that know some
    """The value of a header of a request that has none."""
    return ""


def added_distinguisher(
    distinguisher: Distinguisher,
    user: User,
    attributes: RequestAttributes,
    header_of: Callable[[str], str],
) -> str:
    """What tells the flow of a request apart from others of its FlowSchema; "" if nothing does.

    `header_of` gives the value of a header by its name in lower case; "" if there is none.
    """
    if distinguisher.kind is DistinguisherKind.GROUP:
        return next((group for group in user.groups if group not in VIRTUAL_GROUPS), "")
    if distinguisher.kind is DistinguisherKind.PATH_PREFIX:
        return attributes.prefix_value[:LONGEST_VALUE]
    if distinguisher.kind is DistinguisherKind.HEADER:
        # A list that the proxy is to complete, X-Forwarded-For, ends with a comma.
        return _text(header_of(distinguisher.header)).rstrip(", ")[:LONGEST_VALUE]
    # Of `kubectl/v1.36.0 (linux/amd64) kubernetes/abc` what stays with another version.
    program = _PROGRAM.match(_text(header_of("user-agent")))
    return "" if program is None else program[0][:LONGEST_VALUE]


def _text(value: str) -> str:
    """A value with U+FFFD for what is no Unicode, which others keep as lone surrogates."""
    return (
        value
        if value.isascii()
        else value.encode(errors="surrogateescape").decode(errors="replace")
    )
