"""The specifications that the mandatory objects have, and that nobody may change.

Every request finds its way to one of these levels if to no other, whatever else is configured.
They stand here and not only in the bootstrap files so that an edited file cannot redefine what it
is checked against.

Source: Kubernetes documentation, "API Priority and Fairness", mandatory configuration objects.
"""

from __future__ import annotations

from apfproxy.api.flowcontrol.types import (
    ExemptPriorityLevelConfiguration,
    FlowDistinguisherMethod,
    FlowSchemaSpec,
    GroupSubject,
    LimitedPriorityLevelConfiguration,
    LimitResponse,
    NonResourcePolicyRule,
    PolicyRulesWithSubjects,
    PriorityLevelConfigurationReference,
    PriorityLevelConfigurationSpec,
    ResourcePolicyRule,
    Subject,
)

EXEMPT = "exempt"
CATCH_ALL = "catch-all"


def everything_by(*groups: str) -> tuple[PolicyRulesWithSubjects, ...]:
    """Rules that match every request by a member of one of the groups."""
    every = ("*",)
    return (
        PolicyRulesWithSubjects(
            subjects=tuple(
                Subject(kind="Group", group=GroupSubject(name=group)) for group in groups
            ),
            resource_rules=(
                ResourcePolicyRule(
                    verbs=every,
                    api_groups=every,
                    resources=every,
                    cluster_scope=True,
                    namespaces=every,
                ),
            ),
            non_resource_rules=(NonResourcePolicyRule(verbs=every, non_resource_urls=every),),
        ),
    )


FLOW_SCHEMAS = {
    EXEMPT: FlowSchemaSpec(
        priority_level_configuration=PriorityLevelConfigurationReference(name=EXEMPT),
        matching_precedence=1,
        rules=everything_by("system:masters"),
    ),
    CATCH_ALL: FlowSchemaSpec(
        priority_level_configuration=PriorityLevelConfigurationReference(name=CATCH_ALL),
        matching_precedence=10000,
        distinguisher_method=FlowDistinguisherMethod(type="ByUser"),
        rules=everything_by("system:unauthenticated", "system:authenticated"),
    ),
}

PRIORITY_LEVELS = {
    EXEMPT: PriorityLevelConfigurationSpec(
        type="Exempt",
        exempt=ExemptPriorityLevelConfiguration(nominal_concurrency_shares=0, lendable_percent=0),
    ),
    CATCH_ALL: PriorityLevelConfigurationSpec(
        type="Limited",
        limited=LimitedPriorityLevelConfiguration(
            nominal_concurrency_shares=5,
            limit_response=LimitResponse(type="Reject"),
            lendable_percent=0,
        ),
    ),
}
