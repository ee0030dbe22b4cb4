"""Structure of namespaces."""

from __future__ import annotations

from apfproxy.api.core.structs import PACKAGE, STRING, STRINGS, keyed, struct, time_field
from apfproxy.api.schema.meta import object_struct
from apfproxy.api.schema.types import Field, required

NAMESPACE_CONDITION = struct(
    "NamespaceCondition",
    "One aspect of how the end of a namespace is going.",
    required("type", STRING, "Which aspect."),
    required("status", STRING, "True, False or Unknown."),
    time_field("lastTransitionTime", "When the status changed last."),
    Field("reason", STRING, "Why, in one word."),
    Field("message", STRING, "Why, for people."),
)

NAMESPACE_SPEC = struct(
    "NamespaceSpec",
    "What has to happen before a namespace is gone.",
    Field("finalizers", STRINGS, "Who still has something to remove from it."),
)

NAMESPACE_STATUS = struct(
    "NamespaceStatus",
    "How a namespace is doing.",
    Field("phase", STRING, "Active or Terminating.", enum=("Active", "Terminating")),
    Field("conditions", keyed(NAMESPACE_CONDITION, "type"), "What keeps it from ending."),
)

NAMESPACE_OBJECT = object_struct(
    "Namespace",
    PACKAGE,
    NAMESPACE_SPEC,
    NAMESPACE_STATUS,
    "A scope for the names of objects, and for rights.",
)
