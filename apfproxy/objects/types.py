"""FlowSchema and PriorityLevelConfiguration, described once, as in v1.

Each field has its name, its type and, as `Wire`, what else Kubernetes says of it; a class's
docstring is its text in OpenAPI.  `reading` decodes by it, and the embedded API server derives
protobuf, OpenAPI, patches and server-side apply, with `schema.shared_structs` for metadata.

Sources: Kubernetes API reference, flowcontrol.apiserver.k8s.io/v1 and "Common Definitions"; for the
numbers, Kubernetes 1.36, `api/flowcontrol/v1/generated.proto`.
"""

from __future__ import annotations

import uuid
from functools import cache, cached_property, partial
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_origin

import msgspec

from apfproxy.objects.additions import (
    FlowSchemaAdditions,
    LevelAdditions,
    read_flow_schema_additions,
    read_level_additions,
)

if TYPE_CHECKING:
    from collections.abc import Container

Object = dict[str, Any]
Texts = tuple[str, ...]
Flag = bool | None
GROUP = "flowcontrol.apiserver.k8s.io"
DANGLING = "Dangling"
"""The type of a FlowSchema's condition that says whether its priority level is missing."""
UID_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://flowcontrol.apiserver.k8s.io/apfproxy")
"""Fixed, so that an object without a uid gets the same one in every process."""


class Wire(msgspec.Struct, frozen=True):
    """The description of a field, beside its name and its type.

    Attributes:
        number: In protobuf.
        text: For `kubectl explain`.
        is_required: Whether OpenAPI calls it _required.
        is_written: Whether Go writes it although it is empty: null for a missing list or pointer,
            else the zero value.
        format: `int64` of an integer that has not 32 bits.
    """

    number: int = 0
    text: str = ""
    is_required: bool = False
    is_written: bool = False
    format: str = ""


_written = partial(Wire, is_written=True)
_required = partial(_written, is_required=True)
RequiredText = Annotated[str, _required()]


class Model(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all objects here: immutable, camelCase on the wire, absent fields left out."""


class OwnerReference(Model, frozen=True):
    api_version: RequiredText = ""
    kind: RequiredText = ""
    name: RequiredText = ""
    uid: RequiredText = ""
    controller: Flag = None
    block_owner_deletion: Flag = None


class ObjectMeta(Model, frozen=True):
    """The metadata that make a difference to requests."""

    name: str = ""
    uid: str = ""
    annotations: dict[str, str] = {}


class WrittenMeta(ObjectMeta, frozen=True):
    """The metadata that is read: of other fields, any value is let through."""

    generate_name: str = ""
    namespace: str = ""
    resource_version: str = ""
    generation: Annotated[int, Wire(format="int64")] = 0
    creation_timestamp: str = ""
    labels: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: Texts = ()


class PriorityLevelConfigurationReference(Model, frozen=True):
    """Names a PriorityLevelConfiguration."""

    name: Annotated[str, _required(1, "The name.")] = ""


class FlowDistinguisherMethod(Model, frozen=True):
    """How flows are told apart."""

    type: Annotated[str, _required(1, "ByUser or ByNamespace.")] = ""


class UserSubject(Model, frozen=True):
    """A user, or all of them with *."""

    name: Annotated[str, _required(1, "The name.")] = ""


class GroupSubject(Model, frozen=True):
    """A group of users, or all with *."""

    name: Annotated[str, _required(1, "The name.")] = ""


class ServiceAccountSubject(Model, frozen=True):
    """A service account."""

    namespace: Annotated[str, _required(1, "Its namespace.")] = ""
    name: Annotated[str, _required(2, "Its name, or * for all there.")] = ""


class Subject(Model, frozen=True):
    """Says who makes a request: a user, a group or a service account."""

    kind: Annotated[str, _required(1, "Which of the others is there.")] = ""
    user: Annotated[UserSubject | None, Wire(2, "The user that matches.")] = None
    group: Annotated[GroupSubject | None, Wire(3, "The group that matches.")] = None
    service_account: Annotated[
        ServiceAccountSubject | None, Wire(4, "The service account that matches.")
    ] = None


class ResourcePolicyRule(Model, frozen=True):
    """Matches requests for resources when all of its parts do."""

    verbs: Annotated[Texts, _required(1, "Verbs that match, or * alone.")] = ()
    api_groups: Annotated[Texts, _required(2, "API groups that match, or * alone.")] = ()
    resources: Annotated[
        Texts, _required(3, "Resources that match, with a subresource after a slash, or * alone.")
    ] = ()
    cluster_scope: Annotated[bool, Wire(4, "Whether requests match that name no namespace.")] = (
        False
    )
    namespaces: Annotated[
        Texts, _written(5, "Namespaces that match, or * alone; empty only with clusterScope.")
    ] = ()


class NonResourcePolicyRule(Model, frozen=True):
    """Matches requests for paths that are no resources."""

    verbs: Annotated[Texts, _required(1, "Verbs that match, or * alone.")] = ()
    non_resource_urls: Annotated[
        Texts, _required(6, "Paths that match; /* at the end matches all below; or * alone.")
    ] = msgspec.field(default=(), name="nonResourceURLs")


class PolicyRulesWithSubjects(Model, frozen=True):
    """Matches a request when one of the subjects and one of the rules do."""

    subjects: Annotated[
        tuple[Subject, ...], _required(1, "Who makes the request: at least one.")
    ] = ()
    resource_rules: Annotated[
        tuple[ResourcePolicyRule, ...], Wire(2, "Rules for requests for resources.")
    ] = ()
    non_resource_rules: Annotated[
        tuple[NonResourcePolicyRule, ...], Wire(3, "Rules for other requests.")
    ] = ()


class FlowSchemaSpec(Model, frozen=True):
    """Holds what a FlowSchema matches, in which order, and where it sends what it matches."""

    priority_level_configuration: Annotated[
        PriorityLevelConfigurationReference,
        Wire(1, "Where requests go that match.", is_required=True),
    ] = PriorityLevelConfigurationReference()
    matching_precedence: Annotated[
        int,
        _written(
            2,
            "From 1 to 10000: of the FlowSchemas that match, the one with the lowest is used."
            " 1000 if it is not there.",
        ),
    ] = 0
    distinguisher_method: Annotated[
        FlowDistinguisherMethod | None,
        Wire(3, "How the flows of the FlowSchema are told apart; without it they are one."),
    ] = None
    rules: Annotated[
        tuple[PolicyRulesWithSubjects, ...],
        Wire(4, "Which requests match: those that one of these matches."),
    ] = ()


class QueuingConfiguration(Model, frozen=True):
    """How requests wait."""

    queues: Annotated[int, _written(1, "Number of queues: 64 if it is not there.")] = 0
    hand_size: Annotated[
        int, _written(2, "How many queues a flow may use: 8 if it is not there.")
    ] = 0
    queue_length_limit: Annotated[
        int, _written(3, "How many requests may wait in a queue: 50 if it is not there.")
    ] = 0


class LimitResponse(Model, frozen=True):
    """Responses to requests that cannot be executed at once."""

    type: Annotated[str, _required(1, "Queue or Reject.")] = ""
    queuing: Annotated[
        QueuingConfiguration | None, Wire(2, "How requests wait, if the type is Queue.")
    ] = None


LENDABLE = "From 0 to 100: how much of the level's nominal limit others may borrow. 0 if absent."


class LimitedPriorityLevelConfiguration(Model, frozen=True):
    """Limits of a level, and what happens to requests beyond them."""

    nominal_concurrency_shares: Annotated[
        int | None,
        _written(
            1,
            "The level's share in the division of seats. 30 if absent; with 0 no request is"
            " executed but on borrowed seats.",
        ),
    ] = None
    limit_response: Annotated[
        LimitResponse, Wire(2, "What happens to requests that cannot be executed at once.")
    ] = LimitResponse()
    lendable_percent: Annotated[int | None, Wire(3, LENDABLE)] = None
    borrowing_limit_percent: Annotated[
        int | None,
        Wire(4, "How much the level may borrow, in percent of its nominal limit; absent for any."),
    ] = None


class ExemptPriorityLevelConfiguration(Model, frozen=True):
    """Says what can be chosen of a level whose requests are not limited."""

    nominal_concurrency_shares: Annotated[
        int | None,
        Wire(1, "The level's share in the division of seats, which it lends. 0 if absent."),
    ] = None
    lendable_percent: Annotated[int | None, Wire(2, LENDABLE)] = None


class PriorityLevelConfigurationSpec(Model, frozen=True):
    """How requests of a priority level are treated."""

    type: Annotated[str, _required(1, "Limited or Exempt.")] = ""
    limited: Annotated[
        LimitedPriorityLevelConfiguration | None, Wire(2, "Limits, if the type is Limited.")
    ] = None
    exempt: Annotated[
        ExemptPriorityLevelConfiguration | None,
        Wire(3, "What can be chosen, if the type is Exempt."),
    ] = None


class FlowSchema(Model, frozen=True, dict=True):
    """Sorts requests into the flows of a priority level."""

    metadata: ObjectMeta = ObjectMeta()
    spec: FlowSchemaSpec = FlowSchemaSpec()

    @cached_property
    def additions(self) -> FlowSchemaAdditions:
        return read_flow_schema_additions(self.metadata.name, self.metadata.annotations)


class PriorityLevelConfiguration(Model, frozen=True, dict=True):
    """A priority level: its share of the server, and how requests wait for it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PriorityLevelConfigurationSpec = PriorityLevelConfigurationSpec()

    @cached_property
    def additions(self) -> LevelAdditions:
        limited = self.spec.limited or LimitedPriorityLevelConfiguration()
        response, shares = limited.limit_response.type, limited.nominal_concurrency_shares
        return read_level_additions(
            self.metadata.annotations,
            has_queues=response == "Queue",
            is_closed=response == "Reject" and shares == 0,
        )


FlowControlObject = FlowSchema | PriorityLevelConfiguration

MODELS: dict[str, type[FlowSchema | PriorityLevelConfiguration]] = {
    "FlowSchema": FlowSchema,
    "PriorityLevelConfiguration": PriorityLevelConfiguration,
}


class Member(NamedTuple):
    """A field of a model; if it `is_pointer`, an absent value differs from a zero one."""

    type: type
    is_list: bool
    is_pointer: bool
    wire: Wire


@cache
def members_of(model: type[Model]) -> dict[str, Member]:
    """The members of a model by their names on the wire."""
    found = {}
    for field in msgspec.structs.fields(model):
        is_described = get_origin(field.type) is Annotated
        kind, wire = get_args(field.type) if is_described else (field.type, Wire())
        is_pointer = isinstance(kind, UnionType)
        kind = get_args(kind)[0] if is_pointer else kind
        is_list = get_origin(kind) is tuple
        kind = get_args(kind)[0] if is_list else get_origin(kind) or kind
        found[field.encode_name] = Member(kind, is_list, is_pointer, wire)
    return found


def kind_of(obj: FlowControlObject) -> str:
    return type(obj).__name__


def stable_uid(obj: FlowControlObject) -> str:
    """The object's uid; if it has none, a UUID made of its kind and name."""
    name = f"{kind_of(obj)}/{obj.metadata.name}"
    return obj.metadata.uid or str(uuid.uuid5(UID_NAMESPACE, name))


def due_condition(schema: Object, levels: Container[str], now: str) -> Object | None:
    """The condition `Dangling` that a schema should have at a time, or None if it has it."""
    level = schema["spec"]["priorityLevelConfiguration"]["name"]
    is_there = level in levels
    told = "and it exists" if is_there else "but there is no such object"
    condition = {
        "type": DANGLING,
        "status": "False" if is_there else "True",
        "reason": "Found" if is_there else "NotFound",
        "message": "This FlowSchema references the PriorityLevelConfiguration object named"
        f' "{level}" {told}',
    }
    conditions = (schema.get("status") or {}).get("conditions", ())
    old: Object = next((each for each in conditions if each["type"] == DANGLING), {})
    if condition.items() <= old.items():
        return None
    is_same = old.get("status") == condition["status"]
    changed_at = old.get("lastTransitionTime") if is_same else None
    return {**condition, "lastTransitionTime": changed_at or now}
