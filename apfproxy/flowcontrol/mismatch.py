"""Why a FlowSchema does not match a request: the first thing that fails in each of its rules.

It asks the questions of the `classifier`, one by one and in the order in which they stand in the
object; tests hold the two together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from apfproxy.flowcontrol.classifier import ALL, MODEL, QUERY, ROOT, Subjects, below, no_header
from apfproxy.objects.additions import (
    MATCH_HEADER,
    MATCH_METHODS,
    MATCH_MODEL,
    MATCH_QUERY,
    MOST_VALUES,
    field_of,
    listed_values,
    matches,
)
from apfproxy.request.attributes import parameter_pattern, parameter_values
from apfproxy.request.rules import is_plain_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from apfproxy.objects.additions import Condition
    from apfproxy.objects.types import (
        FlowSchema,
        NonResourcePolicyRule,
        PolicyRulesWithSubjects,
        ResourcePolicyRule,
        Subject,
    )
    from apfproxy.request.attributes import RequestAttributes, User

MAX_NAMED = 6
"""Values that would have matched."""
LONGEST_SHOWN = 64
"""Characters of a client's value."""


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that keeps a rule from matching, at a field such as `spec.rules[0].subjects`."""

    field: str
    reason: str


def mismatches(
    flow_schema: FlowSchema,
    user: User,
    attributes: RequestAttributes,
    header_of: Callable[[str], str] = no_header,
) -> tuple[Mismatch, ...]:
    """Why a FlowSchema does not match a request; empty if, and only if, it does.

    For each rule it is the first thing that fails, in its subjects or else in each of its resource
    or non-resource rules; where a rule matches, the condition of an addition.
    """
    if not flow_schema.spec.rules:
        return (Mismatch(field="spec.rules", reason="there is no rule"),)
    found: list[Mismatch] = []
    for index, rule in enumerate(flow_schema.spec.rules):
        failed = _of_rule(rule, f"spec.rules[{index}]", user, attributes)
        if not failed:
            condition = flow_schema.additions.condition
            broken = condition and unmet(condition, attributes, header_of)
            return (Mismatch(field=field_of(broken[0]), reason=broken[1]),) if broken else ()
        found += failed
    return tuple(found)


def _of_rule(
    rule: PolicyRulesWithSubjects, field: str, user: User, attributes: RequestAttributes
) -> list[Mismatch]:
    if not Subjects(rule.subjects).match(user):
        named = _listed([_subject_text(subject) for subject in rule.subjects])
        return [Mismatch(field=f"{field}.subjects", reason=f"the user is not {named}")]
    if attributes.is_resource_request:
        name, what = "resourceRules", "a resource"
        failures = [_of_resource_rule(each, attributes) for each in rule.resource_rules]
    else:
        name, what = "nonResourceRules", "no resource"
        failures = [_of_non_resource_rule(each, attributes) for each in rule.non_resource_rules]
    if not failures:
        reason = f"there is none, and the request is for {what}"
        return [Mismatch(field=f"{field}.{name}", reason=reason)]
    if None in failures:
        return []
    return [
        Mismatch(field=f"{field}.{name}[{index}].{failed[0]}", reason=failed[1])
        for index, failed in enumerate(failures)
        if failed is not None
    ]


def _of_resource_rule(
    rule: ResourcePolicyRule, attributes: RequestAttributes
) -> tuple[str, str] | None:
    resource = attributes.resource
    if attributes.subresource:
        resource += f"/{attributes.subresource}"
    for name, value, values in (
        ("verbs", attributes.verb, rule.verbs),
        ("resources", resource, rule.resources),
        ("apiGroups", attributes.api_group, rule.api_groups),
    ):
        if not _has(values, value):
            return name, _not_among(value, values)
    if not attributes.namespace:
        if rule.cluster_scope:
            return None
        return "clusterScope", "it is false, and the request has no namespace"
    if _has(rule.namespaces, attributes.namespace):
        return None
    return "namespaces", _not_among(attributes.namespace, rule.namespaces)


def _of_non_resource_rule(
    rule: NonResourcePolicyRule, attributes: RequestAttributes
) -> tuple[str, str] | None:
    if not _has(rule.verbs, attributes.verb):
        return "verbs", _not_among(attributes.verb, rule.verbs)
    if match_url(rule.non_resource_urls, attributes.path):
        return None
    return "nonResourceURLs", _not_among(attributes.path, rule.non_resource_urls)


def _has(values: tuple[str, ...], value: str) -> bool:
    """Whether a list of a rule has a value; a wildcard counts only if it stands alone."""
    return values == (ALL,) or value in values


def _not_among(value: str, values: Sequence[str]) -> str:
    return f"{quoted(value)} is not {_listed(map(quoted, values))}"


def _subject_text(subject: Subject) -> str:
    if subject.kind == "User" and subject.user is not None:
        return f"user {quoted(subject.user.name)}"
    if subject.kind == "Group" and subject.group is not None:
        return f"in group {quoted(subject.group.name)}"
    account = subject.service_account
    if subject.kind == "ServiceAccount" and account is not None:
        if account.name == ALL:
            return f"a service account in {quoted(account.namespace)}"
        return f"service account {quoted(account.name)} in {quoted(account.namespace)}"
    return "what a subject without its part of the union says"


def _listed(items: Iterable[str]) -> str:
    """Items with an `or` before the last; the end of a long list is only counted."""
    shown = list(items)
    if not shown:
        return "in the list, which is empty"
    if len(shown) > MAX_NAMED:
        shown[MAX_NAMED - 1 :] = [f"any of {len(shown) - MAX_NAMED + 1} others"]
    *first, last = shown
    return f"{', '.join(first)} or {last}" if first else last


def quoted(text: str) -> str:
    return f'"{text}"'


def unmet(
    condition: Condition, attributes: RequestAttributes, header_of: Callable[[str], str]
) -> tuple[str, str] | None:
    """The annotation that a request does not meet, and why; None if it meets all."""
    methods, verb = condition.methods, attributes.verb
    if condition.is_broken:
        return MATCH_HEADER, "a condition cannot be read, and so is never met"
    if methods is not None and not attributes.is_resource_request and verb not in methods:
        allowed = " or ".join(sorted(each.upper() for each in methods))
        return MATCH_METHODS, f"{verb.upper()} is not {allowed}"
    if name := condition.header:
        value = header_of(name).strip(" \t")
        if not value:
            return MATCH_HEADER, f"the request has no header {name}"
        if failed := _not_matched(value, condition.values):
            return MATCH_HEADER, f"{name} {failed}"
    if condition.models is not None:
        model = header_of(MODEL).strip(" \t")
        if not model:
            return MATCH_MODEL, "the request is no completion whose body names a model"
        if failed := _not_matched(model, condition.models):
            return MATCH_MODEL, f"the model {failed}"
    if name := condition.parameter:
        query, wanted = header_of(QUERY).encode("latin-1"), condition.parameter_values
        values, may_be_missing = parameter_values(parameter_pattern(name), query)
        reasons = [_not_matched(value, wanted) for value in values]
        is_met = "" in reasons or len(reasons) > MOST_VALUES or (may_be_missing and "" in wanted)
        if not is_met:
            why = f"{name} {reasons[0]}" if reasons else f"the query has no parameter {name}"
            return MATCH_QUERY, why
    return None


def _not_matched(value: str, patterns: frozenset[str]) -> str:
    """How a value fails to match any of some patterns; "" if it does, or there are none."""
    if not patterns or any(matches(each, value) for each in patterns):
        return ""
    shown = value if value.isascii() and len(value) <= LONGEST_SHOWN else "another"
    return f"is {shown}, not {listed_values(patterns)}"


def match_url(urls: tuple[str, ...], path: str) -> bool:
    if ALL in urls or path in urls:
        return True
    prefixes = tuple(map(below, urls))
    return path.startswith(prefixes) and (is_plain_path(path) or ROOT in prefixes)
