"""FlowSchema and PriorityLevelConfiguration with the fields of v1, the version used inside."""

from __future__ import annotations

import msgspec

from apfproxy.api.meta import ObjectMeta

GROUP = "flowcontrol.apiserver.k8s.io"


class Model(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all objects here: immutable, camelCase on the wire, absent fields left out."""


class PriorityLevelConfigurationReference(Model):
    """Names the priority level that a FlowSchema uses."""

    name: str = ""


class FlowDistinguisherMethod(Model):
    """How the flows of a FlowSchema are told apart: `ByUser` or `ByNamespace`."""

    type: str = ""


class UserSubject(Model):
    """Matches one user name, or all with `*`."""

    name: str = ""


class GroupSubject(Model):
    """Matches one group name, or all with `*`."""

    name: str = ""


class ServiceAccountSubject(Model):
    """Matches one service account, or all of a namespace with name `*`."""

    namespace: str = ""
    name: str = ""


class Subject(Model):
    """A tagged union over `kind`: User, Group or ServiceAccount."""

    kind: str = ""
    user: UserSubject | None = None
    group: GroupSubject | None = None
    service_account: ServiceAccountSubject | None = None


class ResourcePolicyRule(Model):
    """Matches requests for resources by verb, group, resource and scope."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    cluster_scope: bool = False
    namespaces: tuple[str, ...] = ()


class NonResourcePolicyRule(Model):
    """Matches requests for other URLs by verb and path."""

    verbs: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")


class PolicyRulesWithSubjects(Model):
    """Matches when any subject and any rule do."""

    subjects: tuple[Subject, ...] = ()
    resource_rules: tuple[ResourcePolicyRule, ...] = ()
    non_resource_rules: tuple[NonResourcePolicyRule, ...] = ()


class FlowSchemaSpec(Model):
    """What a FlowSchema matches, in which order, and where it sends what it matches."""

    priority_level_configuration: PriorityLevelConfigurationReference = (
        PriorityLevelConfigurationReference()
    )
    matching_precedence: int = 0
    distinguisher_method: FlowDistinguisherMethod | None = None
    rules: tuple[PolicyRulesWithSubjects, ...] = ()


class FlowSchema(Model):
    """Classifies requests into flows of a priority level."""

    metadata: ObjectMeta = ObjectMeta()
    spec: FlowSchemaSpec = FlowSchemaSpec()


class QueuingConfiguration(Model):
    """Queues of a level: how many, how many cards a flow is dealt, requests per queue."""

    queues: int = 0
    hand_size: int = 0
    queue_length_limit: int = 0


class LimitResponse(Model):
    """What becomes of a request that does not fit: `Queue` or `Reject`."""

    type: str = ""
    queuing: QueuingConfiguration | None = None


class LimitedPriorityLevelConfiguration(Model):
    """Shares and limits of a level whose requests are limited; percentages are 0 to 100."""

    nominal_concurrency_shares: int | None = None
    limit_response: LimitResponse = LimitResponse()
    lendable_percent: int | None = None
    borrowing_limit_percent: int | None = None


class ExemptPriorityLevelConfiguration(Model):
    """Shares that an exempt level takes part with in the division of seats."""

    nominal_concurrency_shares: int | None = None
    lendable_percent: int | None = None


class PriorityLevelConfigurationSpec(Model):
    """A tagged union over `type`: Limited or Exempt."""

    type: str = ""
    limited: LimitedPriorityLevelConfiguration | None = None
    exempt: ExemptPriorityLevelConfiguration | None = None


class PriorityLevelConfiguration(Model):
    """A priority level: its share of the server's seats and how it queues."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PriorityLevelConfigurationSpec = PriorityLevelConfigurationSpec()


FlowControlObject = FlowSchema | PriorityLevelConfiguration
