"""The structure of FlowSchemas and PriorityLevelConfigurations, in v1 and v1beta3.

What both have of `apfproxy.objects.types` is derived; here is what only a server has to know.

Sources: Kubernetes API reference, flowcontrol.apiserver.k8s.io/v1 and v1beta3; for the numbers,
Kubernetes 1.36, `api/flowcontrol/{v1,v1beta3}/generated.proto`.
"""

from __future__ import annotations

from apfproxy.apiserver.schema.derived import struct_of
from apfproxy.apiserver.schema.shared_structs import object_struct
from apfproxy.apiserver.schema.types import (
    Field,
    List,
    ListType,
    Scalar,
    Struct,
    Union,
    changed,
    in_package,
    written,
)
from apfproxy.objects.reading import SHARES
from apfproxy.objects.types import (
    FlowSchema,
    FlowSchemaSpec,
    LimitedPriorityLevelConfiguration,
    PriorityLevelConfiguration,
    PriorityLevelConfigurationSpec,
)

V1_PACKAGE = "io.k8s.api.flowcontrol.v1"
V1BETA3_PACKAGE = "io.k8s.api.flowcontrol.v1beta3"

STRING = Scalar.STRING

UNIONS = {
    "Subject": Union(("group", "serviceAccount", "user"), "kind"),
    "LimitResponse": Union(("queuing",), "type"),
    "PriorityLevelConfigurationSpec": Union(("exempt", "limited"), "type"),
}
"""By the struct that has it."""


def status_struct(kind: str) -> Struct:
    """The struct of a kind's status, whose conditions have a struct of their own."""
    condition = Struct(
        f"{kind}Condition",
        (
            Field("type", STRING, "What the condition is about.", number=1),
            Field("status", STRING, "True, False or Unknown.", number=2),
            written("lastTransitionTime", Scalar.TIME, "When the status changed.", number=3),
            Field("reason", STRING, "Why it changed, as a word for programs.", number=4),
            Field("message", STRING, "Why it changed, for people.", number=5),
        ),
        V1_PACKAGE,
        "One aspect of the current state.",
    )
    conditions = List(condition, ListType.MAP, ("type",), "type", is_merged=True)
    field = Field("conditions", conditions, "Aspects of the current state.", number=1)
    return Struct(f"{kind}Status", (field,), V1_PACKAGE, "How the object is.")


def kind_struct(model: type[FlowSchema | PriorityLevelConfiguration], spec: Struct) -> Struct:
    """The struct of a kind's objects."""
    kind, description = model.__name__, model.__doc__ or ""
    return object_struct(kind, V1_PACKAGE, spec, status_struct(kind), description)


LEVEL_SPEC = struct_of(PriorityLevelConfigurationSpec, V1_PACKAGE, UNIONS)
LIMITED = struct_of(LimitedPriorityLevelConfiguration, V1_PACKAGE, UNIONS)
V1BETA3_SHARES = "The level's share in the division of seats. 30 if absent or 0."
V1BETA3_LIMITED = changed(LIMITED, written(SHARES, Scalar.INT32, V1BETA3_SHARES, number=1))
V1BETA3_LEVEL_SPEC = changed(
    LEVEL_SPEC,
    Field("limited", V1BETA3_LIMITED, "Limits, if the type is Limited.", is_pointer=True, number=2),
)

FLOW_SCHEMA_V1 = kind_struct(FlowSchema, struct_of(FlowSchemaSpec, V1_PACKAGE, UNIONS))
FLOW_SCHEMA_V1BETA3 = in_package(FLOW_SCHEMA_V1, V1BETA3_PACKAGE)
PRIORITY_LEVEL_V1 = kind_struct(PriorityLevelConfiguration, LEVEL_SPEC)
PRIORITY_LEVEL_V1BETA3 = in_package(
    kind_struct(PriorityLevelConfiguration, V1BETA3_LEVEL_SPEC), V1BETA3_PACKAGE
)
