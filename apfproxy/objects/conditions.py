"""Conditions that a request must meet for a FlowSchema to match it, beside its rules.

* `match-header`: `NAME: VALUE[, VALUE...]`: the request has this header, with one of these values;
  `NAME: *` for any value.  A value with `*` is a pattern of the whole value, in which `*` stands
  for any characters, or none; others are compared as they are.  The first field of the name counts.
* `match-methods`: `METHOD[, METHOD...]`: a request for a non-resource path has one of these HTTP
  methods.  The verbs of a rule cannot say POST or PUT: Kubernetes allows only verbs of resources
  there.

A condition that cannot be read is never met: without it the FlowSchema would match far more than
it is meant to.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

MATCH_HEADER = "apfproxy.io/match-header"
MATCH_METHODS = "apfproxy.io/match-methods"
MOST_VALUES = 32
LONGEST_VALUE = 128
"""Characters of a header's value that count."""
LONGEST_HEADER_NAME = 64
SECRET_HEADERS = frozenset(
    {"authorization", "cookie", "proxy-authorization", "sec-websocket-protocol", "x-api-key"}
)
"""Objects, metrics, dumps and logs show what annotations and flows are named by."""
_CONNECTION_HEADER = re.compile(
    "connection|expect|keep-alive|proxy-authenticate|proxy-connection|te|trailer"
    "|transfer-encoding|upgrade"
)
_IDENTITY_HEADER = re.compile(r"x-remote-(?:user|uid|group|extra-.*)")
_HEADER_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?")
_METHOD = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Z]{1,64}")
_VALUE = re.compile(r"[\x21-\x2b\x2d-\x7e](?:[\x20-\x2b\x2d-\x7e]*[\x21-\x2b\x2d-\x7e])?")


class HeaderUse(enum.Enum):
    """Whether requests can be told apart by a header, or why not."""

    FIT = "fit"
    MALFORMED = "no name of letters, digits and hyphens"
    SECRET = "a secret"  # noqa: S105  no password
    CONNECTION = "about a connection"
    IDENTITY = "about the user"
    """Such a header is not forwarded, as one about a connection is not."""


def use_of(name: str) -> HeaderUse:
    """Judge a header by its name in lower case."""
    if len(name) > LONGEST_HEADER_NAME or not _HEADER_NAME.fullmatch(name):
        return HeaderUse.MALFORMED
    if name in SECRET_HEADERS:
        return HeaderUse.SECRET
    if _CONNECTION_HEADER.fullmatch(name):
        return HeaderUse.CONNECTION
    if _IDENTITY_HEADER.fullmatch(name):
        return HeaderUse.IDENTITY
    return HeaderUse.FIT


WHY_NOT = {
    HeaderUse.MALFORMED: "a header's name has letters, digits and hyphens, such as X-Priority",
    HeaderUse.SECRET: "an object must not hold secrets: take another header",
    HeaderUse.CONNECTION: "it is about a connection, and tells no requests apart: take another",
    HeaderUse.IDENTITY: "it names the user: name users and groups as subjects of a rule",
}


class Condition(msgspec.Struct, frozen=True):
    """A condition on requests.

    Attributes:
        methods: In small letters, of requests for no resource; None for any.
        header: The name in lower case; "" for none.
        values: Values or patterns; empty for any.
        is_broken: No request meets it, because it cannot be read.
    """

    methods: frozenset[str] | None = None
    header: str = ""
    values: frozenset[str] = frozenset()
    is_broken: bool = False

    def can_meet(self, other: Condition) -> bool:
        if self.is_broken or other.is_broken:
            return False
        if self.header and self.header == other.header and self.values and other.values:
            return any(values_meet(one, two) for one in self.values for two in other.values)
        return True

    def holds(self, other: Condition | None) -> bool:
        """Whether every request that meets the other meets this one; False may be wrong."""
        if other is None or self.is_broken or other.is_broken:
            return False
        if self.methods is not None and not (other.methods or {""}) <= self.methods:
            return False
        if not self.header:
            return True
        if not self.values or not other.values:
            return self.header == other.header and not self.values
        # A pattern matches another as if that were a value: each `*` of it falls in one of its own.
        return self.header == other.header and all(
            any(matches(own, each) for own in self.values) for each in other.values
        )


def matches(pattern: str, value: str) -> bool:
    """Whether a value is as a pattern says; linear in the value."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == value
    *middle, last = rest
    at, end = len(first), len(value) - len(last)
    if at > end or not value.startswith(first) or not value.endswith(last):
        return False
    for piece in middle:
        at = value.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


def values_meet(one: str, other: str) -> bool:
    """Whether a value can be as both patterns say."""
    if "*" not in one or "*" not in other:
        return matches(one, other) or matches(other, one)
    start, other_start = one.partition("*")[0], other.partition("*")[0]
    end, other_end = one.rpartition("*")[2], other.rpartition("*")[2]
    # What is between can be all of one and then all of the other.
    return (start.startswith(other_start) or other_start.startswith(start)) and (
        end.endswith(other_end) or other_end.endswith(end)
    )


def parse_methods(text: str) -> frozenset[str]:
    """Read `METHOD, METHOD`; a `ValueError` says what to write."""
    methods = [part.strip() for part in text.split(",")]
    if len(methods) > MOST_VALUES or not all(map(_METHOD.fullmatch, methods)):
        raise ValueError("write HTTP methods in capital letters, such as GET, HEAD")
    return frozenset(method.lower() for method in methods)


def parse_header(text: str) -> tuple[str, frozenset[str]]:
    """Read `NAME: VALUE, VALUE`: the name in lower case and the values; errors as above."""
    name, colon, rest = text.partition(":")
    name = name.strip().lower()
    use = use_of(name)
    if use is not HeaderUse.FIT:
        raise ValueError(WHY_NOT[use])
    values = [part.strip() for part in rest.split(",")]
    if (
        not colon
        or len(values) > MOST_VALUES
        or not all(len(each) <= LONGEST_VALUE and _VALUE.fullmatch(each) for each in values)
    ):
        raise ValueError(
            f"write NAME: VALUE, such as X-Priority: batch, or up to {MOST_VALUES} values with"
            f" commas, of {LONGEST_VALUE} ASCII characters at most, in which * stands for any"
            " characters; or NAME: * for any value"
        )
    return name, frozenset() if "*" in values else frozenset(values)


def describe_condition(condition: Condition) -> Iterator[str]:
    """A sentence for each part of a condition."""
    if condition.is_broken:
        yield "It matches no request, because a condition cannot be read."
    if condition.methods is not None:
        methods = ", ".join(sorted(condition.methods)).upper()
        yield f"Of requests for other URLs it matches only {methods} ({MATCH_METHODS})."
    if condition.header:
        values = f", {' or '.join(sorted(condition.values))}" if condition.values else ""
        header = f"{condition.header}{values}"
        yield f"It matches only requests with the header {header} ({MATCH_HEADER})."
