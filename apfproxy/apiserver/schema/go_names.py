"""Names that Go has for types and values, which messages about values of wrong types show.

Source: the types of Kubernetes' API, as the documentation of its packages names them.
"""

from __future__ import annotations

from apfproxy.apiserver.schema.types import List, Map, Scalar, Struct, Type

GO_SCALARS = {
    Scalar.STRING: "string",
    Scalar.BOOLEAN: "bool",
    Scalar.INT32: "int32",
    Scalar.INT64: "int64",
    Scalar.QUANTITY: "resource.Quantity",
    Scalar.TIME: "v1.Time",
    Scalar.MICRO_TIME: "v1.MicroTime",
    Scalar.BASE64: "[]uint8",
    Scalar.INT_OR_STRING: "intstr.IntOrString",
    Scalar.ANY: "runtime.RawExtension",
}
"""Names of Go's types, which messages show."""

TYPES: dict[str, dict[str, str]] = {
    "BasicDevice": {
        "attributes": "map[{}.QualifiedName]{}.DeviceAttribute",
        "capacity": "map[{}.QualifiedName]{}.DeviceCapacity",
        "nodeAllocatableResourceMappings": "map[v1.ResourceName]{}.NodeAllocatableResourceMapping",
    },
    "Condition": {"status": "{}.ConditionStatus"},
    "Container": {
        "imagePullPolicy": "{}.PullPolicy",
        "restartPolicy": "{}.ContainerRestartPolicy",
        "terminationMessagePolicy": "{}.TerminationMessagePolicy",
    },
    "ContainerPort": {"protocol": "{}.Protocol"},
    "DeleteOptions": {"propagationPolicy": "{}.DeletionPropagation"},
    "Device": {
        "attributes": "map[{}.QualifiedName]{}.DeviceAttribute",
        "capacity": "map[{}.QualifiedName]{}.DeviceCapacity",
        "nodeAllocatableResourceMappings": "map[v1.ResourceName]{}.NodeAllocatableResourceMapping",
    },
    "DeviceTaint": {"effect": "{}.DeviceTaintEffect"},
    "FlowDistinguisherMethod": {"type": "{}.FlowDistinguisherMethodType"},
    "FlowSchemaCondition": {"status": "{}.ConditionStatus", "type": "{}.FlowSchemaConditionType"},
    "LabelSelectorRequirement": {"operator": "{}.LabelSelectorOperator"},
    "LimitResponse": {"type": "{}.LimitResponseType"},
    "ManagedFieldsEntry": {"fieldsV1": "{}.FieldsV1", "operation": "{}.ManagedFieldsOperationType"},
    "NamespaceCondition": {"status": "{}.ConditionStatus", "type": "{}.NamespaceConditionType"},
    "NamespaceSpec": {"finalizers": "[]{}.FinalizerName"},
    "NamespaceStatus": {"phase": "{}.NamespacePhase"},
    "NodeAllocatableResourceMapping": {"capacityKey": "{}.QualifiedName"},
    "NodeSelectorRequirement": {"operator": "{}.NodeSelectorOperator"},
    "ObjectMeta": {"uid": "types.UID"},
    "OwnerReference": {"uid": "types.UID"},
    "PodCondition": {"status": "{}.ConditionStatus", "type": "{}.PodConditionType"},
    "PodDisruptionBudgetSpec": {"unhealthyPodEvictionPolicy": "{}.UnhealthyPodEvictionPolicyType"},
    "PodReadinessGate": {"conditionType": "{}.PodConditionType"},
    "PodSpec": {
        "dnsPolicy": "{}.DNSPolicy",
        "preemptionPolicy": "{}.PreemptionPolicy",
        "restartPolicy": "{}.RestartPolicy",
    },
    "PodStatus": {"phase": "{}.PodPhase", "qosClass": "{}.PodQOSClass"},
    "Preconditions": {"uid": "types.UID"},
    "PriorityLevelConfigurationCondition": {
        "status": "{}.ConditionStatus",
        "type": "{}.PriorityLevelConfigurationConditionType",
    },
    "PriorityLevelConfigurationSpec": {"type": "{}.PriorityLevelEnablement"},
    "ResourceRequirements": {"limits": "v1.ResourceList", "requests": "v1.ResourceList"},
    "Subject": {"kind": "{}.SubjectKind"},
    "Toleration": {"effect": "{}.TaintEffect", "operator": "{}.TolerationOperator"},
}
"""Struct to field to the name of its type, where that is not the schema's; `{}` stands for the
package of the struct."""


def go_name(kind: Type) -> str:
    """What Go's messages call a type."""
    if isinstance(kind, Struct):
        return f"{kind.package.rpartition('.')[2]}.{kind.name}"
    if isinstance(kind, List):
        return f"[]{go_name(kind.item)}"
    if isinstance(kind, Map):
        return f"map[string]{go_name(kind.value)}"
    return GO_SCALARS[kind]


def field_type_name(schema: Struct, field: str, kind: Type) -> str:
    """What Go calls a field's type, or that of what the field holds; "" for its usual name."""
    package = schema.package.rpartition(".")[2]
    name = TYPES.get(schema.name, {}).get(field, "").replace("{}", package)
    return name if isinstance(kind, List | Map) else name.rpartition("]")[2]


def value_name(value: object) -> str:
    """What Go's messages call a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    return "string" if isinstance(value, str) else "number"


def no_type(value: object) -> str:
    """What Go says of a value that has neither kind nor version, since it is no object."""
    fields = ("APIVersion", "apiVersion"), ("Kind", "kind")
    listed = "; ".join(f'{name} string "json:\\"{tag},omitempty\\""' for name, tag in fields)
    return f"json: cannot unmarshal {value_name(value)} into Go value of type struct {{ {listed} }}"
