"""Small kinds for tests of discovery and OpenAPI."""

from __future__ import annotations

from apfproxy.apiserver.kind import Kind, Version
from apfproxy.apiserver.schema.shared_structs import META, OBJECT_META, TYPE_META, object_struct
from apfproxy.apiserver.schema.types import (
    Field,
    List,
    ListType,
    Map,
    Scalar,
    Struct,
    pointer,
    required,
)

CONDITION = Struct(
    "WidgetCondition",
    (
        required("type", Scalar.STRING, "What the condition is about."),
        Field("lastTransitionTime", Scalar.TIME),
        Field("raw", Scalar.ANY),
    ),
    "io.k8s.api.widgets.v1",
    "One condition.",
)

SELECTOR = Struct(
    "Selector", (Field("matchLabels", Map(Scalar.STRING)),), META, "Chooses.", is_atomic=True
)

SPEC = Struct(
    "WidgetSpec",
    (
        pointer("count", Scalar.INT32, "How many."),
        Field("total", Scalar.INT64, default=7),
        Field("size", Scalar.QUANTITY),
        Field("sizes", Map(Scalar.QUANTITY)),
        Field("limit", Scalar.INT_OR_STRING),
        Field("is", Scalar.BOOLEAN),
        Field("at", Scalar.TIME),
        Field("mode", Scalar.STRING, enum=("Slow", "Fast")),
        Field("options", Map(Scalar.STRING, is_atomic=True)),
        Field("names", List(Scalar.STRING)),
        pointer("selector", SELECTOR, "What belongs to it."),
    ),
    "io.k8s.api.widgets.v1",
    "What is wanted.",
)

STATUS = Struct(
    "WidgetStatus",
    (
        Field(
            "conditions",
            List(
                CONDITION,
                ListType.MAP,
                list_keys=("type",),
                merge_key="type",
                is_merged=True,
                retains_keys=True,
            ),
            "What is the case.",
        ),
    ),
    "io.k8s.api.widgets.v1",
    "What there is.",
)


WIDGET_V1 = object_struct(
    "Widget",
    "io.k8s.api.widgets.v1",
    SPEC,
    STATUS,
    "Something with a use.",
    is_required=True,
)
CORE = "io.k8s.api.core.v1"


WIDGET = Kind(
    "widgets.example.com",
    "Widget",
    is_namespaced=False,
    versions=(
        Version("v1", WIDGET_V1),
        Version(
            "v1beta3",
            object_struct("Widget", "io.k8s.api.widgets.v1beta3", SPEC, STATUS, "A beta."),
        ),
    ),
)
"""In two versions, in no namespace, with a status."""

POD = Kind(
    "",
    "Pod",
    versions=(Version("v1", object_struct("Pod", CORE, SPEC, STATUS, "Runs things.")),),
    short_names=("po",),
    storage_hash="xPOwRZ+Yhw8=",
    categories=("all",),
)
"""In a namespace, with a status and evictions."""

NAMESPACE = Kind(
    "",
    "Namespace",
    is_namespaced=False,
    versions=(
        Version("v1", Struct("Namespace", (*TYPE_META, Field("metadata", OBJECT_META)), CORE)),
    ),
    short_names=("ns",),
    storage_hash="Q3oi5N2YM8M=",
    has_status=False,
)
"""Without deletion of all together, and, here, without a status."""

KINDS = (WIDGET, POD, NAMESPACE)
