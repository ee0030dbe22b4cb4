"""FlowSchema and PriorityLevelConfiguration as typed objects of v1, the version used inside.

They are made from the canonical form of an object, which is valid and has its defaults.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from apfproxy.objects.schema.types import Object

GROUP = "flowcontrol.apiserver.k8s.io"

UID_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://flowcontrol.apiserver.k8s.io/apfproxy")
"""Fixed, so that an object without a uid gets the same one in every process."""


class Model(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all objects here: immutable, camelCase on the wire, absent fields left out."""


class ObjectMeta(Model, frozen=True):
    """What of an object's metadata makes a difference to requests."""

    name: str = ""
    uid: str = ""
    annotations: dict[str, str] = {}


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
    matching_precedence: int = 0
    distinguisher_method: FlowDistinguisherMethod | None = None
    rules: tuple[PolicyRulesWithSubjects, ...] = ()


class FlowSchema(Model, frozen=True):
    """Classifies requests into flows of a priority level."""

    metadata: ObjectMeta = ObjectMeta()
    spec: FlowSchemaSpec = FlowSchemaSpec()


class QueuingConfiguration(Model, frozen=True):
    """Queues of a level: how many, how many cards a flow is dealt, requests per queue."""

    queues: int = 0
    hand_size: int = 0
    queue_length_limit: int = 0


class LimitResponse(Model, frozen=True):
    """What becomes of a request that does not fit: `Queue` or `Reject`."""

    type: str = ""
    queuing: QueuingConfiguration | None = None


class LimitedPriorityLevelConfiguration(Model, frozen=True):
    """Shares and limits of a level whose requests are limited; percentages are 0 to 100."""

    nominal_concurrency_shares: int | None = None
    limit_response: LimitResponse = LimitResponse()
    lendable_percent: int | None = None
    borrowing_limit_percent: int | None = None


class ExemptPriorityLevelConfiguration(Model, frozen=True):
    """Shares that an exempt level takes part with in the division of seats."""

    nominal_concurrency_shares: int | None = None
    lendable_percent: int | None = None


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

MODELS: dict[str, type[FlowSchema | PriorityLevelConfiguration]] = {
    "FlowSchema": FlowSchema,
    "PriorityLevelConfiguration": PriorityLevelConfiguration,
}


def typed_object(kind: str, obj: Object) -> FlowControlObject:
    """The typed object of an object of v1 in canonical form with its defaults."""
    metadata = {name: obj["metadata"].get(name) for name in ("name", "uid", "annotations")}
    content = without_nulls({"metadata": metadata, "spec": obj["spec"]})
    return msgspec.convert(content, MODELS[kind])


def without_nulls(value: Any) -> Any:  # noqa: ANN401  any JSON value
    """The value without members that are null, which msgspec takes for mismatches."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    return value


def kind_of(obj: FlowControlObject) -> str:
    """The object's kind."""
    return type(obj).__name__


def stable_uid(obj: FlowControlObject) -> str:
    """The object's uid, or if no server has given it one, a UUID made of its kind and name."""
    name = f"{kind_of(obj)}/{obj.metadata.name}"
    return obj.metadata.uid or str(uuid.uuid5(UID_NAMESPACE, name))
