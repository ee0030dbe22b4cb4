"""Small kinds for tests of discovery and OpenAPI."""

from __future__ import annotations

from apfproxy.api.kind import Kind, Rules, Version
from apfproxy.api.schema.types import Field, List, ListType, Map, Scalar, Struct, pointer, required

META = "io.k8s.apimachinery.pkg.apis.meta.v1"

OBJECT_META = Struct(
    "ObjectMeta",
    (
        Field("name", Scalar.STRING, "Name of the object."),
        Field("labels", Map(Scalar.STRING)),
        Field("creationTimestamp", Scalar.TIME, is_always_written=True),
        Field("finalizers", List(Scalar.STRING, ListType.SET, is_merged=True)),
    ),
    META,
    "What every object has.",
)
LIST_META = Struct(
    "ListMeta", (Field("resourceVersion", Scalar.STRING),), META, "What every list has."
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
        Field("at", Scalar.MICRO_TIME),
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


def widget(package: str) -> Struct:
    """A widget of a Go package."""
    return Struct(
        "Widget",
        (
            Field("apiVersion", Scalar.STRING, "The version."),
            Field("kind", Scalar.STRING, "The kind."),
            Field("metadata", OBJECT_META, "Of every object."),
            required("spec", SPEC, "What is wanted."),
            Field("status", STATUS, "What there is."),
        ),
        package,
        "Something with a use.",
    )


def no_cells(_obj: object, _now_s: float) -> tuple[object, ...]:
    """Show nothing."""
    return ()


WIDGET = Kind(
    group="widgets.example.com",
    name="Widget",
    plural="widgets",
    singular="widget",
    is_namespaced=False,
    versions=(
        Version("v1", widget("io.k8s.api.widgets.v1")),
        Version("v1beta3", widget("io.k8s.api.widgets.v1beta3")),
    ),
    rules=Rules(),
    columns=(),
    cells=no_cells,
)
"""In two versions, in no namespace, with a status."""

POD = Kind(
    group="",
    name="Pod",
    plural="pods",
    singular="pod",
    is_namespaced=True,
    versions=(
        Version("v1", Struct("Pod", widget("").fields, "io.k8s.api.core.v1", "Runs things.")),
    ),
    rules=Rules(),
    columns=(),
    cells=no_cells,
    short_names=("po",),
    categories=("all",),
)
"""In a namespace, with a status and evictions."""

NAMESPACE = Kind(
    group="",
    name="Namespace",
    plural="namespaces",
    singular="namespace",
    is_namespaced=False,
    versions=(
        Version("v1", Struct("Namespace", widget("").fields, "io.k8s.api.core.v1", "Has names.")),
    ),
    rules=Rules(),
    columns=(),
    cells=no_cells,
    short_names=("ns",),
    has_status=False,
)
"""Without deletion of all together, and, here, without a status."""

KINDS = (WIDGET, POD, NAMESPACE)
