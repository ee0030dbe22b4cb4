"""The two kinds of events, of the core and of events.k8s.io: one collection in two forms.

Source: Kubernetes 1.36, `pkg/registry/core/event`, `pkg/apis/core/validation/events.go`,
`pkg/printers/internalversion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.ages import age
from apfproxy.apiserver.events.schema import EVENT, EVENT_V1, from_core, to_core
from apfproxy.apiserver.kind import Column, Kind, Rules, Version
from apfproxy.apiserver.plain import checks
from apfproxy.apiserver.schema.reading import canonical
from apfproxy.objects.field_errors import invalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.objects.field_errors import FieldError
    from apfproxy.objects.types import Object

FREE_NAMESPACES = frozenset({"default", "kube-system"})
"""Namespaces of events about objects without one."""

REFERENCE_FIELDS = (
    "kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath",
)  # fmt: skip


def check_event(obj: Object) -> list[FieldError]:
    """What is wrong with an event: it is about an object of its namespace."""
    namespace, regarded = obj["metadata"].get("namespace", ""), obj["involvedObject"]
    about = regarded.get("namespace", "")
    if about == namespace or (not about and namespace in FREE_NAMESPACES):
        return []
    return [invalid("involvedObject.namespace", about, "does not match event.namespace")]


def event_fields(obj: Object) -> dict[str, str]:
    """The values of the fields of an event that selectors may name, in either form."""
    involved, source = obj["involvedObject"], obj["source"]
    reporter = obj.get("reportingComponent", "")
    found = {
        "reason": obj.get("reason", ""),
        "type": obj.get("type", ""),
        "reportingComponent": reporter,
        "reportingController": reporter,
        "source": source.get("component") or reporter,
    }
    for field in REFERENCE_FIELDS:
        found[f"involvedObject.{field}"] = found[f"regarding.{field}"] = involved.get(field, "")
    return found


def cells(obj: Object, now_s: float) -> Sequence[object]:
    """The cells of an event's row."""
    series, source, involved = obj.get("series"), obj["source"], obj["involvedObject"]
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last, count = obj.get("lastTimestamp") or first, obj.get("count", 0) or 1
    if series is not None:
        last, count = series["lastObservedTime"], series.get("count", 0)
    component = source.get("component") or obj.get("reportingComponent", "")
    host = source.get("host") or obj.get("reportingInstance", "")
    kind, name = involved.get("kind", "").lower(), involved.get("name", "")
    return (
        age(last, now_s),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        involved.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        obj.get("message", "").strip(),
        age(first, now_s),
        count,
        obj["metadata"]["name"],
    )


def stored_form(obj: Object) -> Object:
    """An event of events.k8s.io as it is stored."""
    return canonical(EVENT, to_core(obj))


def shown_form(obj: Object) -> Object:
    """A stored event in the form of events.k8s.io."""
    return canonical(EVENT_V1, from_core(obj))


VALIDATE, VALIDATE_UPDATE = checks(check=check_event)
RULES = Rules(
    validate=VALIDATE, validate_update=VALIDATE_UPDATE, is_created_by_update=True, reset_fields=()
)
COLUMNS = (
    Column("Last Seen", "string", "When it happened last."),
    Column("Type", "string", "Normal or Warning."),
    Column("Reason", "string", "Why, in one word."),
    Column("Object", "string", "What it happened to."),
    Column("Subobject", "string", "Which part of that.", priority=1),
    Column("Source", "string", "What reported it.", priority=1),
    Column("Message", "string", "What happened, for people."),
    Column("First Seen", "string", "When it happened first.", priority=1),
    Column("Count", "string", "How often it has happened.", priority=1),
    Column("Name", "string", "Unique within the namespace.", format="name", priority=1),
)
ALL_FIELDS = tuple(event_fields({"involvedObject": {}, "source": {}}))
NEW_FIELDS = ("reportingController", *(f"regarding.{field}" for field in REFERENCE_FIELDS))
CORE_FIELDS = tuple(field for field in ALL_FIELDS if field not in NEW_FIELDS)

EVENT_OF_CORE = Kind(
    group="",
    name="Event",
    plural="events",
    singular="event",
    is_namespaced=True,
    versions=(Version("v1", EVENT),),
    rules=RULES,
    columns=COLUMNS,
    cells=cells,
    selectable=event_fields,
    selectable_fields=CORE_FIELDS,
    short_names=("ev",),
    has_status=False,
    storage_hash="r2yiGXH7wu8=",
)

EVENT_OF_EVENTS = Kind(
    group="events.k8s.io",
    name="Event",
    plural="events",
    singular="event",
    is_namespaced=True,
    versions=(Version("v1", EVENT_V1, to_storage=stored_form, from_storage=shown_form),),
    rules=RULES,
    columns=COLUMNS,
    cells=cells,
    selectable=event_fields,
    selectable_fields=("reason", "type", *NEW_FIELDS),
    short_names=("ev",),
    has_status=False,
    storage_hash="r2yiGXH7wu8=",
    stored_as=EVENT_OF_CORE,
)
