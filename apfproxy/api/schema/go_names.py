"""Names that Go has for types of fields, where they are not those of the schema.

Messages about values of wrong types show them.  `{}` stands for the package of the struct.

Source: the types of Kubernetes' API, as the documentation of its packages names them.
"""

from __future__ import annotations

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
"""Struct to field to the name of its type."""


def type_of(struct: str, package: str, field: str) -> str:
    """The name of a field's type; "" where it is that of the schema."""
    return TYPES.get(struct, {}).get(field, "").replace("{}", package)
