"""Which FlowSchema a request belongs to, and what tells flows apart.

FlowSchemas are tried by their matching precedence, then by name; the first that matches wins.  One
matches if any of its rules does: any subject of the rule, and any of its resource rules (for a
resource request) or of its non-resource rules (for any other).  An addition may ask for more than
the rules do, see `mismatch.unmet`.

Source: kubernetes/apiserver pkg/util/flowcontrol/rule.go.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Final

import mmh3

from apfproxy.flowcontrol.rule_index import MOST_LINES, Line, RuleIndex, Subjects
from apfproxy.objects.additions import DistinguisherKind
from apfproxy.request.attributes import (
    AUTHENTICATED_GROUP,
    UNAUTHENTICATED_GROUP,
    RequestAttributes,
    User,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from apfproxy.objects.additions import Distinguisher
    from apfproxy.objects.types import FlowSchema

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


def flow_hash(seed: int, flow_schema_name: str, distinguisher: str) -> int:
    """The hash of a flow, 64 bits, from which it is dealt its hand.

    The seed (32 bits) is drawn at start, so that nobody can compute which names share a hand.
    """
    # A header may carry text that is no Unicode; it is hashed as it came.
    key = f"{flow_schema_name}\0{distinguisher}".encode(errors="surrogatepass")
    return mmh3.hash64(key, seed & 0xFFFFFFFF, signed=False)[0]


class Classifier:
    """Finds the FlowSchema of a request, in a time that hardly depends on how many there are."""

    def __init__(self, flow_schemas: Iterable[FlowSchema], most_lines: int = MOST_LINES) -> None:
        lines = list(chain.from_iterable(map(_lines, sorted(flow_schemas, key=matching_order))))
        self._indexes = [
            RuleIndex(lines[start : start + most_lines])
            for start in range(0, len(lines), most_lines)
        ]

    def classify(
        self,
        user: User,
        attributes: RequestAttributes,
        header_of: Callable[[str], str] = no_header,
    ) -> FlowSchema | None:
        """The first FlowSchema that matches; None cannot be with the mandatory `catch-all`."""
        for index in self._indexes:
            found = index.first(user, attributes, header_of)
            if found is not None:
                return found
        return None


def _lines(flow_schema: FlowSchema) -> Iterator[Line]:
    """What can match of a FlowSchema."""
    condition = flow_schema.additions.condition
    if condition is not None and condition.is_broken:
        return
    for rule in flow_schema.spec.rules:
        subjects = Subjects(rule.subjects)
        for resource_rule in rule.resource_rules:
            yield Line(flow_schema, subjects, resource_rule, condition)
        for url_rule in rule.non_resource_rules:
            yield Line(flow_schema, subjects, url_rule, condition)


def matching_order(flow_schema: FlowSchema) -> tuple[int, str]:
    """What FlowSchemas are sorted by before they are tried."""
    return flow_schema.spec.matching_precedence, flow_schema.metadata.name


def added_distinguisher(
    distinguisher: Distinguisher,
    user: User,
    attributes: RequestAttributes,
    header_of: Callable[[str], str],
) -> str:
    """What tells the flow of a request apart from others of its FlowSchema; "" if nothing does."""
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
