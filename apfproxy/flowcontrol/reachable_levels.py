"""Which priority levels requests can come to, by what is known of all clients.

A level that no request can come to keeps what it does not lend from the others.  Where nothing
verifies users every client is anonymous, or has a name that nobody has verified, in the group of
the unauthenticated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.flowcontrol.subjects import ALL
from apfproxy.request.user import ANONYMOUS_NAME, UNAUTHENTICATED_GROUP, UNVERIFIED_PREFIXES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.objects.types import FlowSchema, PolicyRulesWithSubjects, Subject


def reachable_levels(
    flow_schemas: Iterable[FlowSchema], *, knows_users: bool, is_plain: bool
) -> set[str]:
    """Names of the levels that FlowSchemas can send a request to, whatever their order.

    Args:
        flow_schemas: Those in force.
        knows_users: Whether anything verifies users.
        is_plain: Whether the API is not Kubernetes', so that no request is for a resource.
    """
    return {
        schema.spec.priority_level_configuration.name
        for schema in flow_schemas
        if any(
            _can_match(rule, knows_users=knows_users, is_plain=is_plain)
            for rule in schema.spec.rules
        )
    }


def _can_match(rule: PolicyRulesWithSubjects, *, knows_users: bool, is_plain: bool) -> bool:
    if not rule.non_resource_rules and (is_plain or not rule.resource_rules):
        return False
    return any(knows_users or _can_be_unverified(subject) for subject in rule.subjects)


def _can_be_unverified(subject: Subject) -> bool:
    if subject.user is not None:
        name = subject.user.name
        return name in {ALL, ANONYMOUS_NAME} or name.startswith(UNVERIFIED_PREFIXES)
    return subject.group is not None and subject.group.name in {ALL, UNAUTHENTICATED_GROUP}
