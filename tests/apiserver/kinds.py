"""Small kinds for tests of discovery and OpenAPI."""

from __future__ import annotations

from apfproxy.apiserver.kind import Kind, Version
from apfproxy.apiserver.schema.language import structs
from apfproxy.apiserver.schema.shared_structs import META, SHARED
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
            List(CONDITION, ListType.MAP, ("type",), "type", is_merged=True, retains_keys=True),
            "What is the case.",
        ),
    ),
    "io.k8s.api.widgets.v1",
    "What there is.",
)
PARTS = {"WidgetSpec": SPEC, "WidgetStatus": STATUS, "PodSpec": SPEC, "PodStatus": STATUS}

WIDGET_V1 = structs(
    "io.k8s.api.widgets.v1",
    """
Widget +object: Something with a use.
  2 spec  WidgetSpec +required +omitempty  Desired state of the Widget.
""",
    SHARED,
    PARTS,
)["Widget"]
V1BETA3 = structs("io.k8s.api.widgets.v1beta3", "Widget +object: A beta.", SHARED, PARTS)["Widget"]
CORE = structs(
    "io.k8s.api.core.v1", "Pod +object: Runs things.\nNamespace +object: A space.", SHARED, PARTS
)

WIDGET = Kind(
    "widgets.example.com",
    "Widget",
    (Version("v1", WIDGET_V1), Version("v1beta3", V1BETA3)),
    is_namespaced=False,
)
"""In two versions, in no namespace, with a status."""

POD = Kind(
    "",
    "Pod",
    (Version("v1", CORE["Pod"]),),
    short_names=("po",),
    storage_hash="xPOwRZ+Yhw8=",
    categories=("all",),
)
"""In a namespace, with a status and evictions."""

NAMESPACE = Kind(
    "",
    "Namespace",
    (Version("v1", CORE["Namespace"]),),
    is_namespaced=False,
    short_names=("ns",),
    storage_hash="Q3oi5N2YM8M=",
)
"""Without deletion of all together, and, here, without a status."""

KINDS = (WIDGET, POD, NAMESPACE)
