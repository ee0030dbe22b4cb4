"""FlowSchema and PriorityLevelConfiguration with the fields of v1, the version used inside."""

from __future__ import annotations

from typing import Annotated

import msgspec

from apfproxy.api.meta import ObjectMeta

GROUP = "flowcontrol.apiserver.k8s.io"

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""An integer with the range that the API gives it."""


class Model(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all objects here: immutable, camelCase on the wire, absent fields left out."""


class PriorityLevelConfigurationReference(Model, frozen=True):
    """Names the priority level that a FlowSchema uses."""

    name: str = ""


class FlowDistinguisherMethod(Model, frozen=True):
    """How the flows of a FlowSchema are told apart: `ByUser` or `ByNamespace`."""

    type: str = ""


class UserSubject(Model, frozen=True):
    """Matches one user name, or all with `*`."""

    name: str = ""


class GroupSubject(Model, frozen=True):
    """Matches one group name, or all with `*`."""

    name: str = ""


class ServiceAccountSubject(Model, frozen=True):
    """Matches one service account, or all of a namespace with name `*`."""

    namespace: str = ""
    name: str = ""


class Subject(Model, frozen=True):
    """A tagged union over `kind`: User, Group or ServiceAccount."""

    kind: str = ""
    user: UserSubject | None = None
    group: GroupSubject | None = None
    service_account: ServiceAccountSubject | None = None


class ResourcePolicyRule(Model, frozen=True):
    """Matches requests for resources by verb, group, resource and scope."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    cluster_scope: bool = False
    namespaces: tuple[str, ...] = ()


class NonResourcePolicyRule(Model, frozen=True):
    """Matches requests for other URLs by verb and path."""

    verbs: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")


class PolicyRulesWithSubjects(Model, frozen=True):
    """Matches when any subject and any rule do."""

    subjects: tuple[Subject, ...] = ()
    resource_rules: tuple[ResourcePolicyRule, ...] = ()
    non_resource_rules: tuple[NonResourcePolicyRule, ...] = ()


class FlowSchemaSpec(Model, frozen=True):
    """What a FlowSchema matches, in which order, and where it sends what it matches."""

    priority_level_configuration: PriorityLevelConfigurationReference = (
        PriorityLevelConfigurationReference()
    )
    matching_precedence: Int32 = 0
    distinguisher_method: FlowDistinguisherMethod | None = None
    rules: tuple[PolicyRulesWithSubjects, ...] = ()


class FlowSchema(Model, frozen=True):
    """Classifies requests into flows of a priority level."""

    metadata: ObjectMeta = ObjectMeta()
    spec: FlowSchemaSpec = FlowSchemaSpec()


class QueuingConfiguration(Model, frozen=True):
    """Queues of a level: how many, how many cards a flow is dealt, requests per queue."""

    queues: Int32 = 0
    hand_size: Int32 = 0
    queue_length_limit: Int32 = 0


class LimitResponse(Model, frozen=True):
    """What becomes of a request that does not fit: `Queue` or `Reject`."""

    type: str = ""
    queuing: QueuingConfiguration | None = None


class LimitedPriorityLevelConfiguration(Model, frozen=True):
    """Shares and limits of a level whose requests are limited; percentages are 0 to 100."""

    nominal_concurrency_shares: Int32 | None = None
    limit_response: LimitResponse = LimitResponse()
    lendable_percent: Int32 | None = None
    borrowing_limit_percent: Int32 | None = None


class ExemptPriorityLevelConfiguration(Model, frozen=True):
    """Shares that an exempt level takes part with in the division of seats."""

    nominal_concurrency_shares: Int32 | None = None
    lendable_percent: Int32 | None = None


class PriorityLevelConfigurationSpec(Model, frozen=True):
    """A tagged union over `type`: Limited or Exempt."""

    type: str = ""
    limited: LimitedPriorityLevelConfiguration | None = None
    exempt: ExemptPriorityLevelConfiguration | None = None


class PriorityLevelConfiguration(Model, frozen=True):
    """A priority level: its share of the server's seats and how it queues."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PriorityLevelConfigurationSpec = PriorityLevelConfigurationSpec()


FlowControlObject = FlowSchema | PriorityLevelConfiguration
