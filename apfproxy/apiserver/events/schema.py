"""How events are structured: in core/v1, in which they are stored, and in events.k8s.io/v1.

Source: Kubernetes 1.36, `api/{core,events}/v1/generated.proto`, `pkg/apis/{core,events}/v1`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.core.structs import (
    INT32,
    OBJECT_REFERENCE,
    PACKAGE,
    STRING,
    struct,
    time_field,
)
from apfproxy.apiserver.plain import plain_struct
from apfproxy.apiserver.schema.types import Field, Scalar, Struct, pointer, written

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

EVENTS_PACKAGE = "io.k8s.api.events.v1"

SOURCE = struct(
    "EventSource",
    "What reported an event.",
    Field("component", STRING, "The program.", number=1),
    Field("host", STRING, "The node that it runs on.", number=2),
)


def micro_time(name: str, description: str, number: int) -> Field:
    """A time with microseconds, which Go writes as null where it is not set."""
    return Field(name, Scalar.MICRO_TIME, description, is_always_written=True, number=number)


def series(package: str, *, is_always_written: bool) -> Struct:
    """How often an event has happened in a row, in a group's form."""
    return Struct(
        "EventSeries",
        (
            Field("count", INT32, "How often.", is_always_written=is_always_written, number=1),
            micro_time("lastObservedTime", "When it happened last.", number=2),
        ),
        package,
        "How often an event has happened in a row.",
    )


TYPE = "Normal or Warning."
EVENT = plain_struct(
    "Event",
    PACKAGE,
    "Something that happened to an object; kept for a while.",
    Field("involvedObject", OBJECT_REFERENCE, "What it happened to.", is_required=True, number=2),
    Field("reason", STRING, "Why, in one word.", number=3),
    Field("message", STRING, "What happened, for people.", number=4),
    Field("source", SOURCE, "What reported it.", number=5),
    time_field("firstTimestamp", "When it happened first.", number=6),
    time_field("lastTimestamp", "When it happened last.", number=7),
    Field("count", INT32, "How often it has happened.", number=8),
    Field("type", STRING, TYPE, number=9),
    micro_time("eventTime", "When it happened first.", number=10),
    pointer("series", series(PACKAGE, is_always_written=False), "Its repetitions.", number=11),
    Field("action", STRING, "What was done.", number=12),
    pointer("related", OBJECT_REFERENCE, "What else it is about.", number=13),
    written("reportingComponent", STRING, "What reported it.", number=14),
    written("reportingInstance", STRING, "Which of its replicas.", number=15),
)

EVENT_V1 = plain_struct(
    "Event",
    EVENTS_PACKAGE,
    "Something that happened to an object; kept for a while.",
    Field(
        "eventTime",
        Scalar.MICRO_TIME,
        "When it happened first.",
        is_required=True,
        is_always_written=True,
        number=2,
    ),
    pointer("series", series(EVENTS_PACKAGE, is_always_written=True), "Its repetitions.", number=3),
    Field("reportingController", STRING, "What reported it.", number=4),
    Field("reportingInstance", STRING, "Which of its replicas.", number=5),
    Field("action", STRING, "What was done.", number=6),
    Field("reason", STRING, "Why, in one word.", number=7),
    Field("regarding", OBJECT_REFERENCE, "What it happened to.", number=8),
    pointer("related", OBJECT_REFERENCE, "What else it is about.", number=9),
    Field("note", STRING, "What happened, for people.", number=10),
    Field("type", STRING, TYPE, number=11),
    Field("deprecatedSource", SOURCE, "`source` of the core.", number=12),
    time_field("deprecatedFirstTimestamp", "`firstTimestamp` of the core.", number=13),
    time_field("deprecatedLastTimestamp", "`lastTimestamp` of the core.", number=14),
    Field("deprecatedCount", INT32, "`count` of the core.", number=15),
)

CORE_NAMES = {
    "reportingController": "reportingComponent",
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""What the core calls fields of events.k8s.io; the others have one name."""
NAMES = {core: name for name, core in CORE_NAMES.items()}


def to_core(obj: Object) -> Object:
    """An event of events.k8s.io in the form of the core."""
    return {CORE_NAMES.get(field, field): value for field, value in obj.items()}


def from_core(obj: Object) -> Object:
    """An event of the core in the form of events.k8s.io."""
    return {NAMES.get(field, field): value for field, value in obj.items()}
