"""Which FlowSchema a request belongs to, by trying one rule after the other as Kubernetes does.

Source: kubernetes/apiserver pkg/util/flowcontrol/rule.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.flowcontrol.classifier import ALL, Subjects, matching_order, no_header
from apfproxy.flowcontrol.mismatch import match_url, unmet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apfproxy.objects.types import (
        FlowSchema,
        NonResourcePolicyRule,
        PolicyRulesWithSubjects,
        ResourcePolicyRule,
    )
    from apfproxy.request.attributes import RequestAttributes, User


def first_match(
    flow_schemas: Iterable[FlowSchema],
    user: User,
    attributes: RequestAttributes,
    header_of: Callable[[str], str] = no_header,
) -> FlowSchema | None:
    for flow_schema in sorted(flow_schemas, key=matching_order):
        condition = flow_schema.additions.condition
        if condition is not None and unmet(condition, attributes, header_of):
            continue
        for rule in flow_schema.spec.rules:
            if Subjects(rule.subjects).match(user) and rule_matches(rule, attributes):
                return flow_schema
    return None


def rule_matches(rule: PolicyRulesWithSubjects, attributes: RequestAttributes) -> bool:
    if attributes.is_resource_request:
        return any(resource_rule_matches(each, attributes) for each in rule.resource_rules)
    return any(url_rule_matches(each, attributes) for each in rule.non_resource_rules)


def resource_rule_matches(rule: ResourcePolicyRule, attributes: RequestAttributes) -> bool:
    resource = attributes.resource
    if attributes.subresource:
        resource += f"/{attributes.subresource}"
    if not (
        has(rule.verbs, attributes.verb)
        and has(rule.resources, resource)
        and has(rule.api_groups, attributes.api_group)
    ):
        return False
    if attributes.namespace:
        return has(rule.namespaces, attributes.namespace)
    return rule.cluster_scope


def url_rule_matches(rule: NonResourcePolicyRule, attributes: RequestAttributes) -> bool:
    return has(rule.verbs, attributes.verb) and match_url(rule.non_resource_urls, attributes.path)


def has(values: tuple[str, ...], value: str) -> bool:
    """Whether a list of a rule has a value; a wildcard counts only if it stands alone."""
    return values == (ALL,) or value in values
