"""Priority levels and FlowSchemas for tests that need some and care for few of their fields."""

from __future__ import annotations

import json

import msgspec

from apfproxy.objects.types import (
    FlowDistinguisherMethod,
    FlowSchema,
    FlowSchemaSpec,
    GroupSubject,
    LimitedPriorityLevelConfiguration,
    LimitResponse,
    NonResourcePolicyRule,
    ObjectMeta,
    PolicyRulesWithSubjects,
    PriorityLevelConfiguration,
    PriorityLevelConfigurationReference,
    PriorityLevelConfigurationSpec,
    QueuingConfiguration,
    ResourcePolicyRule,
    Subject,
    UserSubject,
)

EVERY_RESOURCE = ResourcePolicyRule(
    verbs=("*",), api_groups=("*",), resources=("*",), cluster_scope=True, namespaces=("*",)
)
EVERY_URL = NonResourcePolicyRule(verbs=("*",), non_resource_urls=("*",))


def user_subject(name: str) -> Subject:
    return Subject(kind="User", user=UserSubject(name=name))


def group_subject(name: str) -> Subject:
    return Subject(kind="Group", group=GroupSubject(name=name))


def priority_level(
    name: str,
    *,
    shares: int = 10,
    queuing: QueuingConfiguration | None = None,
    lendable_percent: int = 0,
    borrowing_limit_percent: int | None = 0,
) -> PriorityLevelConfiguration:
    return PriorityLevelConfiguration(
        metadata=ObjectMeta(name=name),
        spec=PriorityLevelConfigurationSpec(
            type="Limited",
            limited=LimitedPriorityLevelConfiguration(
                nominal_concurrency_shares=shares,
                lendable_percent=lendable_percent,
                borrowing_limit_percent=borrowing_limit_percent,
                limit_response=LimitResponse(
                    type="Queue" if queuing else "Reject", queuing=queuing
                ),
            ),
        ),
    )


def flow_schema(
    name: str,
    level: str,
    subject: Subject,
    *,
    uid: str = "",
    precedence: int = 100,
    distinguish_by: str | None = "ByUser",
    resource_rule: ResourcePolicyRule = EVERY_RESOURCE,
    non_resource_rule: NonResourcePolicyRule = EVERY_URL,
) -> FlowSchema:
    return FlowSchema(
        metadata=ObjectMeta(name=name, uid=uid),
        spec=FlowSchemaSpec(
            priority_level_configuration=PriorityLevelConfigurationReference(name=level),
            matching_precedence=precedence,
            distinguisher_method=FlowDistinguisherMethod(type=distinguish_by)
            if distinguish_by
            else None,
            rules=(
                PolicyRulesWithSubjects(
                    subjects=(subject,),
                    resource_rules=(resource_rule,),
                    non_resource_rules=(non_resource_rule,),
                ),
            ),
        ),
    )


def as_text(*objects: PriorityLevelConfiguration | FlowSchema) -> str:
    """A file of objects, each a document of JSON."""
    documents = []
    for each in objects:
        kind = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": type(each).__name__}
        documents.append(f"---\n{json.dumps(kind | msgspec.to_builtins(each))}\n")
    return "".join(documents)
