"""The two kinds of events, of the core and of events.k8s.io: one collection in two forms.

Source: Kubernetes 1.36, `api/events/v1/generated.proto`, `pkg/registry/core/event`,
`pkg/apis/core/validation/events.go`, `pkg/printers/internalversion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from apfproxy.apiserver.core.structs import CORE
from apfproxy.apiserver.kind import Kind, Rules, Version, with_checks
from apfproxy.apiserver.schema.reading import canonical
from apfproxy.apiserver.schema.shared_structs import SHARED
from apfproxy.apiserver.schema.types import structs
from apfproxy.apiserver.tables import Column, age, wide
from apfproxy.objects.field_errors import invalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.apiserver.schema.types import Struct
    from apfproxy.objects.field_errors import FieldError
    from apfproxy.objects.types import Object

EVENT = CORE["Event"]
EVENT_V1 = structs(
    "io.k8s.api.events.v1",
    """
Event +object: Something that happened to an object; kept for a while.
   2 eventTime                 microtime +required  When it happened first.
   3 series                    *EventSeries         Its repetitions.
   4 reportingController       string               What reported it.
   5 reportingInstance         string               Which of its replicas.
   6 action                    string               What was done.
   7 reason                    string               Why, in one word.
   8 regarding                 ObjectReference      What it happened to.
   9 related                   *ObjectReference     What else it is about.
  10 note                      string               What happened, for people.
  11 type                      string               Normal or Warning.
  12 deprecatedSource          EventSource          `source` of the core.
  13 deprecatedFirstTimestamp  time                 `firstTimestamp` of the core.
  14 deprecatedLastTimestamp   time                 `lastTimestamp` of the core.
  15 deprecatedCount           int32                `count` of the core.
EventSeries: How often an event has happened in a row.
  1 count             int32 +written  How often.
  2 lastObservedTime  microtime       When it happened last.
""",
    SHARED,
    {name: CORE[name] for name in ("EventSource", "ObjectReference")},
)["Event"]

CORE_NAMES = {
    "reportingController": "reportingComponent",
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""Holds what the core calls fields of events.k8s.io; the others have one name."""
NAMES = {core: name for name, core in CORE_NAMES.items()}

FREE_NAMESPACES = frozenset({"default", "kube-system"})
"""Namespaces of events about objects without one."""
REFERENCE_FIELDS = tuple(CORE["ObjectReference"].by_name)


def _check_event(obj: Object) -> list[FieldError]:
    namespace, regarded = obj["metadata"].get("namespace", ""), obj["involvedObject"]
    about = regarded.get("namespace", "")
    if about == namespace or (not about and namespace in FREE_NAMESPACES):
        return []
    return [invalid("involvedObject.namespace", about, "does not match event.namespace")]


def _event_fields(obj: Object) -> dict[str, str]:
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


def _cells(obj: Object, now_s: float) -> Sequence[object]:
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


def _renamed(obj: Object, names: dict[str, str], struct: Struct) -> Object:
    return canonical(struct, {names.get(field, field): value for field, value in obj.items()})


RULES = with_checks(Rules(is_created_by_update=True, has_dependents=False), _check_event)
COLUMNS = (
    Column("Last Seen", "", "When it happened last."),
    Column("Type", "", "Normal or Warning."),
    Column("Reason", "", "Why, in one word."),
    Column("Object", "", "What it happened to."),
    wide("Subobject", "", "Which part of that."),
    wide("Source", "", "What reported it."),
    Column("Message", "", "What happened, for people."),
    wide("First Seen", "", "When it happened first."),
    wide("Count", "", "How often it has happened."),
    wide("Name", "", "Unique within the namespace.", format="name"),
)
NEW_FIELDS = ("reportingController", *(f"regarding.{field}" for field in REFERENCE_FIELDS))
ALL_FIELDS = _event_fields({"involvedObject": {}, "source": {}})
CORE_FIELDS = tuple(field for field in ALL_FIELDS if field not in NEW_FIELDS)

EVENT_OF_CORE = Kind(
    "",
    "Event",
    (Version("v1", EVENT),),
    RULES,
    COLUMNS,
    row=_cells,
    selectable_fields=CORE_FIELDS,
    selectable_values=_event_fields,
    short_names=("ev",),
    storage_hash="r2yiGXH7wu8=",
)
NEW_VERSION = Version(
    "v1",
    EVENT_V1,
    to_storage=lambda obj: _renamed(obj, CORE_NAMES, EVENT),
    from_storage=lambda obj: _renamed(obj, NAMES, EVENT_V1),
)
EVENT_OF_EVENTS = msgspec.structs.replace(
    EVENT_OF_CORE,
    group="events.k8s.io",
    versions=(NEW_VERSION,),
    selectable_fields=("reason", "type", *NEW_FIELDS),
    stored_as=EVENT_OF_CORE,
)
