"""Structure of namespaces.

Source of the numbers: Kubernetes 1.36, `api/core/v1/generated.proto`.
"""

from __future__ import annotations

from apfproxy.api.core.structs import PACKAGE, STRING, STRINGS, keyed, struct, time_field
from apfproxy.api.schema.shared_structs import object_struct
from apfproxy.api.schema.types import Field, required

NAMESPACE_CONDITION = struct(
    "NamespaceCondition",
    "One aspect of how the end of a namespace is going.",
    required("type", STRING, "Which aspect.", number=1),
    required("status", STRING, "True, False or Unknown.", number=2),
    time_field("lastTransitionTime", "When the status changed last.", number=4),
    Field("reason", STRING, "Why, in one word.", number=5),
    Field("message", STRING, "Why, for people.", number=6),
)

NAMESPACE_SPEC = struct(
    "NamespaceSpec",
    "What has to happen before a namespace is gone.",
    Field("finalizers", STRINGS, "Who still has something to remove from it.", number=1),
)

NAMESPACE_STATUS = struct(
    "NamespaceStatus",
    "How a namespace is doing.",
    Field("phase", STRING, "Active or Terminating.", enum=("Active", "Terminating"), number=1),
    Field("conditions", keyed(NAMESPACE_CONDITION, "type"), "What keeps it from ending.", number=2),
)

NAMESPACE_OBJECT = object_struct(
    "Namespace",
    PACKAGE,
    NAMESPACE_SPEC,
    NAMESPACE_STATUS,
    "A scope for the names of objects, and for rights.",
)
