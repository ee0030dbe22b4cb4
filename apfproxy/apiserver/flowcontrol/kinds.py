"""The kinds of the group `flowcontrol.apiserver.k8s.io`.

Source: Kubernetes, `pkg/registry/flowcontrol`, `pkg/apis/flowcontrol/validation` and
`pkg/printers/internalversion`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from apfproxy.apiserver.flowcontrol.schema import (
    FLOW_SCHEMA_V1,
    FLOW_SCHEMA_V1BETA3,
    PRIORITY_LEVEL_V1,
    PRIORITY_LEVEL_V1BETA3,
)
from apfproxy.apiserver.kind import Kind, Rules, Version, starts
from apfproxy.apiserver.metadata import find_condition, keep_metadata, keep_status, validate_stored
from apfproxy.apiserver.tables import AGE, NAME, NONE, Column
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


def missing_level(obj: Object, _now_s: float) -> str:
    """Whether a FlowSchema's priority level does not exist: the status of the condition."""
    missing = find_condition(obj["status"], DANGLING)
    return "?" if missing is None else str(missing.get("status", ""))


def by_precedence(obj: Object) -> tuple[int, str]:
    """What FlowSchemas are sorted by: the order in which requests are matched with them."""
    return obj["spec"]["matchingPrecedence"], obj["metadata"]["name"]


def deprecation(kind: str) -> str:
    """The warning that answers in v1beta3 carry."""
    return f"{GROUP}/{V1BETA3} {kind} is deprecated in v1.29+, unavailable in v1.32+"


def rules(kind: str) -> Rules:
    """What happens to objects of either kind on the way to the store."""
    return Rules(
        prepare_create=starts(),
        prepare_update=keep_status,
        validate=partial(validate_object, kind),
        validate_update=partial(validate_object, kind),
        prepare_status=prepare_status,
        validate_status=validate_status,
        warnings=partial(warn_of_additions, kind),
        reset_status_fields=(("metadata",), ("spec",)),
    )


UNIQUE_NAME = msgspec.structs.replace(NAME, description="Unique among the objects of the kind.")
QUEUING = "spec.limited.limitResponse.queuing"

FLOW_SCHEMA = Kind(
    GROUP,
    "FlowSchema",
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
        UNIQUE_NAME,
        Column(
            "PriorityLevel",
            "spec.priorityLevelConfiguration.name",
            "Where requests go that match.",
        ),
        Column(
            "MatchingPrecedence",
            "spec.matchingPrecedence",
            "Of the FlowSchemas that match a request, the one with the lowest is used.",
        ),
        Column(
            "DistinguisherMethod",
            "spec.distinguisherMethod.type",
            "How flows are told apart.",
            absent=NONE,
        ),
        AGE,
        Column("MissingPL", missing_level, "Whether the priority level does not exist."),
    ),
    is_namespaced=False,
    row_order=by_precedence,
    storage_hash="GJVAJZSZBIw=",
)

PRIORITY_LEVEL_CONFIGURATION = Kind(
    GROUP,
    "PriorityLevelConfiguration",
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
        UNIQUE_NAME,
        Column("Type", "spec.type", "Limited or Exempt."),
        Column(
            SHARES[0].upper() + SHARES[1:],
            f"spec.limited.{SHARES}",
            "The level's share of the seats.",
            absent=NONE,
        ),
        Column("Queues", f"{QUEUING}.queues", "Number of queues.", absent=NONE),
        Column("HandSize", f"{QUEUING}.handSize", "How many queues a flow may use.", absent=NONE),
        Column(
            "QueueLengthLimit",
            f"{QUEUING}.queueLengthLimit",
            "How many requests may wait in a queue.",
            absent=NONE,
        ),
        AGE,
    ),
    is_namespaced=False,
    storage_hash="Kir5PVfvNeI=",
)
