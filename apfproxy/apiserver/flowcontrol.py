"""The kinds of the group `flowcontrol.apiserver.k8s.io`, in v1 and v1beta3.

Their specifications have one description, in `apfproxy.objects.types`: here it becomes structs.

Sources: Kubernetes API reference, flowcontrol.apiserver.k8s.io/v1 and v1beta3; Kubernetes 1.36,
`api/flowcontrol/{v1,v1beta3}/generated.proto` for the numbers, `pkg/registry/flowcontrol`,
`pkg/apis/flowcontrol/validation` and `pkg/printers/internalversion`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from apfproxy.apiserver import metadata
from apfproxy.apiserver.kind import Kind, Rules, Version, deprecated_since, same, starts
from apfproxy.apiserver.schema.shared_structs import SHARED
from apfproxy.apiserver.schema.types import structs
from apfproxy.apiserver.tables import AGE, NAME, NONE, Column
from apfproxy.objects import reading
from apfproxy.objects.field_errors import required
from apfproxy.objects.reading import SHARES, V1, V1BETA3
from apfproxy.objects.types import DANGLING, GROUP, MODELS, Model, Object, members_of
from apfproxy.objects.validation import validate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.apiserver.kind import Change, Convert
    from apfproxy.apiserver.schema.types import Struct
    from apfproxy.objects.field_errors import FieldError
    from apfproxy.objects.types import FlowControlObject

SCALARS: dict[type, str] = {str: "string", bool: "bool", int: "int32"}
MARKS = {
    "Subject": " +union=kind:group,serviceAccount,user",
    "LimitResponse": " +union=type:queuing",
    "PriorityLevelConfigurationSpec": " +union=type:exempt,limited",
    "FlowDistinguisherMethod.type": " +go=FlowDistinguisherMethodType",
    "Subject.kind": " +go=SubjectKind",
    "LimitResponse.type": " +go=LimitResponseType",
    "PriorityLevelConfigurationSpec.type": " +go=PriorityLevelEnablement",
}
OBJECT = """
{0} +object: {1}
{0}Status: How the object is.
  1 conditions  []{0}Condition +keys=type  Aspects of the current state.
{0}Condition: One aspect of the current state.
  1 type                string +go={0}ConditionType  What the condition is about.
  2 status              string +go=ConditionStatus  True, False or Unknown.
  3 lastTransitionTime  time    When the status changed.
  4 reason              string  Why it changed, as a word for programs.
  5 message             string  Why it changed, for people.
"""
V1BETA3_FIELDS = {
    "LimitedPriorityLevelConfiguration": f"""
  1 {SHARES}  int32 +written  The level's share in the division of seats. 30 if absent or 0."""
}


def _models_in(model: type[Model]) -> Iterator[type[Model]]:
    yield model
    for member in members_of(model).values():
        if issubclass(member.type, Model):
            yield from _models_in(member.type)


def _declared(model: type[Model]) -> str:
    lines = [f"{model.__name__}{MARKS.get(model.__name__, '')}: {model.__doc__}"]
    for name, member in members_of(model).items():
        type_ = SCALARS.get(member.type, member.type.__name__)
        shown = f"{'*' * member.is_pointer}{'[]' * member.is_list}{type_}"
        wire = member.wire
        marks = " +required" * wire.is_required + " +set" * (shown == "[]string")
        marks += " +written" if wire.is_written else " +omitempty"
        marks += MARKS.get(f"{model.__name__}.{name}", "")
        lines.append(f"  {wire.number} {name} {shown}{marks} {wire.text}")
    return "\n".join(lines)


def _structs(version: str, fields: dict[str, str]) -> dict[str, Struct]:
    objects = [OBJECT.format(kind, model.__doc__) for kind, model in MODELS.items()]
    specs = [msgspec.structs.fields(model)[1].type for model in MODELS.values()]
    models = dict.fromkeys(each for spec in specs for each in _models_in(spec))
    parts = [_declared(model) + fields.get(model.__name__, "") for model in models]
    return structs(f"io.k8s.api.flowcontrol.{version}", "\n".join([*objects, *parts]), SHARED)


V1_STRUCTS, V1BETA3_STRUCTS = _structs(V1, {}), _structs(V1BETA3, V1BETA3_FIELDS)


def _typed(kind: str, obj: Object) -> FlowControlObject:
    content = {"metadata": obj["metadata"], "spec": obj["spec"]}
    return msgspec.convert(without_nulls(content), MODELS[kind])


def without_nulls(value: Any) -> Any:  # noqa: ANN401  any JSON value
    """Leave out members that are null, which msgspec takes for mismatches."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    return value


def _prepare_status(new: Object, old: Object) -> None:
    metadata.keep_metadata(new, old)
    metadata.keep_spec(new, old)


def _validate(kind: str, obj: Object, _old: Object | None = None) -> list[FieldError]:
    errors = metadata.validate_stored(obj["metadata"], is_namespaced=False)
    return errors + validate(_typed(kind, obj)) + _validate_status(obj)


def _validate_status(new: Object, _old: Object | None = None) -> list[FieldError]:
    def check(condition: Object, field: str) -> list[FieldError]:
        return [] if condition.get("type") else [required(f"{field}.type")]

    return metadata.validate_conditions(new["status"], check)


def _warnings(kind: str, new: Object, _old: Object | None) -> list[str]:
    """Say why annotations of the proxy will not count: to kube-apiserver they are like others."""
    return [f"{error}; without effect" for error in _typed(kind, new).additions.errors]


def _missing_level(obj: Object, _now_s: float) -> str:
    condition = metadata.find_condition(obj["status"], DANGLING) or {"status": "?"}
    return str(condition.get("status", ""))


def _rules(kind: str) -> Rules:
    return Rules(
        prepare_create=starts(),
        prepare_update=metadata.keep_status,
        validate=partial(_validate, kind),
        validate_update=partial(_validate, kind),
        prepare_status=_prepare_status,
        validate_status=_validate_status,
        warnings=partial(_warnings, kind),
        reset_status_fields=(("metadata",), ("spec",)),
    )


def _versions(
    kind: str, set_v1: Change, set_beta: Change, to_v1: Convert = same, from_v1: Convert = same
) -> tuple[Version, Version]:
    schema, deprecation = V1BETA3_STRUCTS[kind], deprecated_since(f"{GROUP}/{V1BETA3} {kind}", 29)
    beta = Version(V1BETA3, schema, set_beta, to_v1, from_v1, deprecation)
    return Version(V1, V1_STRUCTS[kind], set_v1), beta


UNIQUE_NAME = msgspec.structs.replace(NAME, description="Unique among the objects of the kind.")
LEVEL, METHOD = "spec.priorityLevelConfiguration.name", "spec.distinguisherMethod.type"
QUEUING = "spec.limited.limitResponse.queuing"

FLOW_SCHEMA = Kind(
    GROUP,
    "FlowSchema",
    _versions("FlowSchema", reading.default_flow_schema, reading.default_flow_schema),
    rules=_rules("FlowSchema"),
    columns=(
        UNIQUE_NAME,
        Column("PriorityLevel", LEVEL, "Where requests go that match."),
        Column(
            "MatchingPrecedence",
            "spec.matchingPrecedence",
            "Of the FlowSchemas that match a request, the one with the lowest is used.",
        ),
        Column("DistinguisherMethod", METHOD, "How flows are told apart.", absent=NONE),
        AGE,
        Column("MissingPL", _missing_level, "Whether the priority level does not exist."),
    ),
    is_namespaced=False,
    # The order in which requests are matched with them.
    row_order=lambda obj: (obj["spec"]["matchingPrecedence"], obj["metadata"]["name"]),
    storage_hash="GJVAJZSZBIw=",
)

PRIORITY_LEVEL_CONFIGURATION = Kind(
    GROUP,
    "PriorityLevelConfiguration",
    _versions(
        "PriorityLevelConfiguration",
        reading.default_priority_level,
        reading.default_priority_level_v1beta3,
        reading.level_to_v1,
        reading.level_to_v1beta3,
    ),
    rules=_rules("PriorityLevelConfiguration"),
    columns=(
        UNIQUE_NAME,
        Column("Type", "spec.type", "Limited or Exempt."),
        *(
            Column(f"{path[0].upper()}{path[1:]}", f"{parent}.{path}", description, absent=NONE)
            for parent, path, description in (
                ("spec.limited", SHARES, "The level's share of the seats."),
                (QUEUING, "queues", "Number of queues."),
                (QUEUING, "handSize", "How many queues a flow may use."),
                (QUEUING, "queueLengthLimit", "How many requests may wait in a queue."),
            )
        ),
        AGE,
    ),
    is_namespaced=False,
    storage_hash="Kir5PVfvNeI=",
)
