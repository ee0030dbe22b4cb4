"""Small kinds for tests of discovery and OpenAPI."""

from __future__ import annotations

from apfproxy.apiserver.kind import Kind, Version
from apfproxy.apiserver.schema.shared_structs import META, SHARED
from apfproxy.apiserver.schema.types import structs

SELECTOR = structs(
    META, "Selector +atomic: Chooses.\n  1 matchLabels map[string]string What labels have."
)["Selector"]
PARTS = structs(
    "io.k8s.api.widgets.v1",
    """
WidgetSpec: What is wanted.
  1 count     *int32                    How many.
  2 total     int64                     How many there may be.
  3 size      quantity                  How large.
  4 sizes     map[string]quantity       How large, by part.
  5 limit     intOrString               How much of it.
  6 is        bool                      Whether it is.
  7 at        time +omitempty           When it is.
  8 mode      string +enum=Slow|Fast    How fast it is.
  9 options   map[string]string +atomic  How else it is.
 10 names     []string                  How it is called.
 11 selector  *Selector                 What belongs to it.
WidgetStatus: What there is.
  1 conditions  []WidgetCondition +keys=type +retainkeys  What is the case.
WidgetCondition: One condition.
  1 type                string +required  What the condition is about.
  2 lastTransitionTime  time +omitempty   When it changed.
  3 raw                 any               What it comes from.
""",
    {"Selector": SELECTOR},
)
SPEC, STATUS = PARTS["WidgetSpec"], PARTS["WidgetStatus"]
PARTS |= {"PodSpec": SPEC, "PodStatus": STATUS}

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
