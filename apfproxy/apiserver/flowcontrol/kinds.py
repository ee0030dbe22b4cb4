"""The kinds of the group `flowcontrol.apiserver.k8s.io`.

Source: Kubernetes, `pkg/registry/flowcontrol`, `pkg/apis/flowcontrol/validation` and
`pkg/printers/internalversion`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from apfproxy.apiserver.ages import age
from apfproxy.apiserver.flowcontrol.schema import (
    FLOW_SCHEMA_V1,
    FLOW_SCHEMA_V1BETA3,
    PRIORITY_LEVEL_V1,
    PRIORITY_LEVEL_V1BETA3,
)
from apfproxy.apiserver.kind import Column, Kind, Rules, Version
from apfproxy.apiserver.metadata import find_condition, keep_metadata, keep_status, validate_stored
from apfproxy.objects.field_errors import duplicate, required
from apfproxy.objects.reading import (
    SHARES,
    V1,
    V1BETA3,
    default_flow_schema,
    default_priority_level,
    default_priority_level_v1beta3,
    level_to_v1,
    level_to_v1beta3,
)
from apfproxy.objects.types import DANGLING, GROUP, MODELS, FlowControlObject, Object
from apfproxy.objects.validation import validate

if TYPE_CHECKING:
    from apfproxy.objects.field_errors import FieldError

NONE = "<none>"


def typed_object(kind: str, obj: Object) -> FlowControlObject:
    """The typed object of an object of v1 in canonical form with its defaults."""
    content = {"metadata": obj["metadata"], "spec": obj["spec"]}
    return msgspec.convert(without_nulls(content), MODELS[kind])


def without_nulls(value: Any) -> Any:  # noqa: ANN401  any JSON value
    """The value without members that are null, which msgspec takes for mismatches."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    return value


def prepare_create(obj: Object) -> None:
    """Start at generation 1, without a status."""
    obj["status"] = {}
    obj["metadata"]["generation"] = 1


def prepare_status(new: Object, old: Object) -> None:
    """Keep all but the status and what says who wrote it."""
    keep_metadata(new, old)
    new["spec"] = old["spec"]


def validate_object(kind: str, obj: Object, _old: Object | None = None) -> list[FieldError]:
    """All that is wrong with an object, be it new or one that replaces an old one."""
    errors = validate_stored(obj["metadata"], is_namespaced=False)
    errors += validate(typed_object(kind, obj))
    return errors + validate_status(obj, obj)


def validate_status(new: Object, _old: Object) -> list[FieldError]:
    """What is wrong with the status: its conditions."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate(new["status"].get("conditions", ())):
        type_, field = condition.get("type", ""), f"status.conditions[{index}].type"
        if type_ in seen:
            errors.append(duplicate(field, type_))
        seen.add(type_)
        if not type_:
            errors.append(required(field))
    return errors


def warn_of_additions(kind: str, new: Object, _old: Object | None) -> list[str]:
    """Say which of the proxy's own annotations will not count, and why.

    Only a warning: to kube-apiserver they are annotations like any other.
    """
    return [f"{error}; without effect" for error in typed_object(kind, new).additions.errors]


def flow_schema_cells(obj: Object, now_s: float) -> tuple[object, ...]:
    """The cells of a FlowSchema's row."""
    metadata, spec = obj["metadata"], obj["spec"]
    method = spec.get("distinguisherMethod")
    missing = find_condition(obj["status"], DANGLING) or {"status": "?"}
    return (
        metadata["name"],
        spec["priorityLevelConfiguration"]["name"],
        spec["matchingPrecedence"],
        NONE if method is None else method["type"],
        age(metadata.get("creationTimestamp"), now_s),
        missing.get("status", ""),
    )


def by_precedence(obj: Object) -> tuple[int, str]:
    """What FlowSchemas are sorted by: the order in which requests are matched with them."""
    return obj["spec"]["matchingPrecedence"], obj["metadata"]["name"]


def priority_level_cells(obj: Object, now_s: float) -> tuple[object, ...]:
    """The cells of a PriorityLevelConfiguration's row."""
    metadata, spec = obj["metadata"], obj["spec"]
    limited = spec.get("limited") or {}
    queuing = limited.get("limitResponse", {}).get("queuing") or {}
    return (
        metadata["name"],
        spec["type"],
        limited.get(SHARES, NONE),
        queuing.get("queues", NONE),
        queuing.get("handSize", NONE),
        queuing.get("queueLengthLimit", NONE),
        age(metadata.get("creationTimestamp"), now_s),
    )


def deprecation(kind: str) -> str:
    """The warning that answers in v1beta3 carry."""
    return f"{GROUP}/{V1BETA3} {kind} is deprecated in v1.29+, unavailable in v1.32+"


def rules(kind: str) -> Rules:
    """What happens to objects of either kind on the way to the store."""
    return Rules(
        prepare_create=prepare_create,
        prepare_update=keep_status,
        validate=partial(validate_object, kind),
        validate_update=partial(validate_object, kind),
        prepare_status=prepare_status,
        validate_status=validate_status,
        warnings=partial(warn_of_additions, kind),
        reset_status_fields=(("metadata",), ("spec",)),
    )


NAME_COLUMN = Column("Name", "string", "Unique among the objects of the kind.", format="name")
AGE_COLUMN = Column("Age", "string", "Time since the server created the object.")

FLOW_SCHEMA = Kind(
    group=GROUP,
    name="FlowSchema",
    plural="flowschemas",
    singular="flowschema",
    is_namespaced=False,
    versions=(
        Version(V1, FLOW_SCHEMA_V1, set_defaults=default_flow_schema),
        Version(
            V1BETA3,
            FLOW_SCHEMA_V1BETA3,
            set_defaults=default_flow_schema,
            deprecation=deprecation("FlowSchema"),
        ),
    ),
    rules=rules("FlowSchema"),
    columns=(
        NAME_COLUMN,
        Column("PriorityLevel", "string", "Where requests go that match."),
        Column(
            "MatchingPrecedence",
            "string",
            "Of the FlowSchemas that match a request, the one with the lowest is used.",
        ),
        Column("DistinguisherMethod", "string", "How flows are told apart."),
        AGE_COLUMN,
        Column("MissingPL", "string", "Whether the priority level does not exist."),
    ),
    cells=flow_schema_cells,
    row_order=by_precedence,
    storage_hash="GJVAJZSZBIw=",
)

PRIORITY_LEVEL_CONFIGURATION = Kind(
    group=GROUP,
    name="PriorityLevelConfiguration",
    plural="prioritylevelconfigurations",
    singular="prioritylevelconfiguration",
    is_namespaced=False,
    versions=(
        Version(V1, PRIORITY_LEVEL_V1, set_defaults=default_priority_level),
        Version(
            V1BETA3,
            PRIORITY_LEVEL_V1BETA3,
            set_defaults=default_priority_level_v1beta3,
            to_storage=level_to_v1,
            from_storage=level_to_v1beta3,
            deprecation=deprecation("PriorityLevelConfiguration"),
        ),
    ),
    rules=rules("PriorityLevelConfiguration"),
    columns=(
        NAME_COLUMN,
        Column("Type", "string", "Limited or Exempt."),
        Column(SHARES[0].upper() + SHARES[1:], "string", "The level's share of the seats."),
        Column("Queues", "string", "Number of queues."),
        Column("HandSize", "string", "How many queues a flow may use."),
        Column("QueueLengthLimit", "string", "How many requests may wait in a queue."),
        AGE_COLUMN,
    ),
    cells=priority_level_cells,
    storage_hash="Kir5PVfvNeI=",
)
