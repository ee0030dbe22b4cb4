"""Which FlowSchema a request belongs to, and the hash of a flow.

FlowSchemas are tried by their matching precedence, then by name; the first that matches wins.  One
matches if any of its rules does: any subject of the rule, and any of its resource rules (for a
resource request) or of its non-resource rules (for any other).  An addition may ask for more than
the rules do, see `conditions`.

Source: kubernetes/apiserver pkg/util/flowcontrol/rule.go.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import mmh3

from apfproxy.flowcontrol.added_distinguisher import no_header
from apfproxy.flowcontrol.rule_index import MOST_LINES, Line, RuleIndex
from apfproxy.flowcontrol.subjects import Subjects
from apfproxy.objects.additions import flow_schema_additions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from apfproxy.objects.types import FlowSchema
    from apfproxy.request.attributes import RequestAttributes
    from apfproxy.request.user import User


def flow_hash(seed: int, flow_schema_name: str, distinguisher: str) -> int:
    """The hash of a flow, 64 bits, from which it is dealt its hand.

    The seed (32 bits) is drawn at start, so that nobody can compute which names share a hand.
    """
    # A header may carry text that is no Unicode; it is hashed as it came.
    key = f"{flow_schema_name}\0{distinguisher}".encode(errors="surrogatepass")
    return mmh3.hash64(key, seed & 0xFFFFFFFF, signed=False)[0]


class Classifier:
    """Finds the FlowSchema of a request, in a time that hardly depends on how many there are.

    Args:
        flow_schemas: In any order; names differ.
        most_lines: Of one index; >= 1.
    """

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
        """The first FlowSchema that matches; None cannot be with the mandatory `catch-all`.

        `header_of` gives the value of a header by its name in lower case; "" if there is none.
        """
        for index in self._indexes:
            found = index.first(user, attributes, header_of)
            if found is not None:
                return found
        return None


def _lines(flow_schema: FlowSchema) -> Iterator[Line]:
    """What can match of a FlowSchema."""
    condition = flow_schema_additions(flow_schema).condition
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
