"""Whether a request meets the condition that an addition makes of its FlowSchema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.objects.conditions import MATCH_HEADER, MATCH_METHODS, matches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apfproxy.objects.conditions import Condition
    from apfproxy.request.attributes import RequestAttributes

LONGEST_SHOWN = 64
"""Of a value that a client has sent."""


def unmet(
    condition: Condition, attributes: RequestAttributes, header_of: Callable[[str], str]
) -> tuple[str, str] | None:
    """The annotation that a request does not meet, and why; None if it meets all.

    `header_of` gives the value of a header by its name in lower case; "" if there is none.
    """
    methods, verb = condition.methods, attributes.verb
    if condition.is_broken:
        return MATCH_HEADER, "a condition cannot be read, and so is never met"
    if methods is not None and not attributes.is_resource_request and verb not in methods:
        return MATCH_METHODS, f"{verb.upper()} is not {_listed(each.upper() for each in methods)}"
    if not condition.header:
        return None
    value = header_of(condition.header).strip(" \t")
    if not value:
        return MATCH_HEADER, f"the request has no header {condition.header}"
    if condition.values and not any(matches(each, value) for each in condition.values):
        shown = value if value.isascii() and len(value) <= LONGEST_SHOWN else "another"
        return MATCH_HEADER, f"{condition.header} is {shown}, not {_listed(condition.values)}"
    return None


def _listed(values: Iterable[str]) -> str:
    return " or ".join(sorted(values))
