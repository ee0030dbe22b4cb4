"""Names that Go has for types of fields, where they are not those of the schema.

Messages about values of wrong types show them.  `{}` stands for the package of the struct.

Source: the types of Kubernetes' API, as the documentation of its packages names them.
"""

from __future__ import annotations

TYPES: dict[str, dict[str, str]] = {
    "AppArmorProfile": {
        "type": "{}.AppArmorProfileType",
    },
    "AzureDiskVolumeSource": {
        "cachingMode": "{}.AzureDataDiskCachingMode",
        "kind": "{}.AzureDataDiskKind",
    },
    "BasicDevice": {
        "attributes": "map[{}.QualifiedName]{}.DeviceAttribute",
        "capacity": "map[{}.QualifiedName]{}.DeviceCapacity",
        "nodeAllocatableResourceMappings": "map[v1.ResourceName]{}.NodeAllocatableResourceMapping",
    },
    "Capabilities": {
        "add": "[]{}.Capability",
        "drop": "[]{}.Capability",
    },
    "Condition": {
        "status": "{}.ConditionStatus",
    },
    "Container": {
        "imagePullPolicy": "{}.PullPolicy",
        "restartPolicy": "{}.ContainerRestartPolicy",
        "terminationMessagePolicy": "{}.TerminationMessagePolicy",
    },
    "ContainerPort": {
        "protocol": "{}.Protocol",
    },
    "ContainerResizePolicy": {
        "resourceName": "v1.ResourceName",
        "restartPolicy": "{}.ResourceResizeRestartPolicy",
    },
    "ContainerRestartRule": {
        "action": "{}.ContainerRestartRuleAction",
    },
    "ContainerRestartRuleOnExitCodes": {
        "operator": "{}.ContainerRestartRuleOnExitCodesOperator",
    },
    "ContainerStatus": {
        "allocatedResources": "v1.ResourceList",
        "stopSignal": "{}.Signal",
    },
    "DeleteOptions": {
        "propagationPolicy": "{}.DeletionPropagation",
    },
    "Device": {
        "attributes": "map[{}.QualifiedName]{}.DeviceAttribute",
        "capacity": "map[{}.QualifiedName]{}.DeviceCapacity",
        "nodeAllocatableResourceMappings": "map[v1.ResourceName]{}.NodeAllocatableResourceMapping",
    },
    "DeviceTaint": {
        "effect": "{}.DeviceTaintEffect",
    },
    "EmptyDirVolumeSource": {
        "medium": "{}.StorageMedium",
    },
    "EphemeralContainer": {
        "imagePullPolicy": "{}.PullPolicy",
        "restartPolicy": "{}.ContainerRestartPolicy",
        "terminationMessagePolicy": "{}.TerminationMessagePolicy",
    },
    "FlowDistinguisherMethod": {
        "type": "{}.FlowDistinguisherMethodType",
    },
    "FlowSchemaCondition": {
        "status": "{}.ConditionStatus",
        "type": "{}.FlowSchemaConditionType",
    },
    "HTTPGetAction": {
        "scheme": "{}.URIScheme",
    },
    "HostPathVolumeSource": {
        "type": "{}.HostPathType",
    },
    "ImageVolumeSource": {
        "pullPolicy": "{}.PullPolicy",
    },
    "LabelSelectorRequirement": {
        "operator": "{}.LabelSelectorOperator",
    },
    "Lifecycle": {
        "stopSignal": "{}.Signal",
    },
    "LimitResponse": {
        "type": "{}.LimitResponseType",
    },
    "ManagedFieldsEntry": {
        "fieldsV1": "{}.FieldsV1",
        "operation": "{}.ManagedFieldsOperationType",
    },
    "NamespaceCondition": {
        "status": "{}.ConditionStatus",
        "type": "{}.NamespaceConditionType",
    },
    "NamespaceSpec": {
        "finalizers": "[]{}.FinalizerName",
    },
    "NamespaceStatus": {
        "phase": "{}.NamespacePhase",
    },
    "NodeAllocatableResourceClaimStatus": {
        "resources": "map[v1.ResourceName]resource.Quantity",
    },
    "NodeAllocatableResourceMapping": {
        "capacityKey": "{}.QualifiedName",
    },
    "NodeSelectorRequirement": {
        "operator": "{}.NodeSelectorOperator",
    },
    "ObjectMeta": {
        "uid": "types.UID",
    },
    "OwnerReference": {
        "uid": "types.UID",
    },
    "PersistentVolumeClaimSpec": {
        "accessModes": "[]{}.PersistentVolumeAccessMode",
        "volumeMode": "{}.PersistentVolumeMode",
    },
    "PodCondition": {
        "status": "{}.ConditionStatus",
        "type": "{}.PodConditionType",
    },
    "PodDisruptionBudgetSpec": {
        "unhealthyPodEvictionPolicy": "{}.UnhealthyPodEvictionPolicyType",
    },
    "PodOS": {
        "name": "{}.OSName",
    },
    "PodReadinessGate": {
        "conditionType": "{}.PodConditionType",
    },
    "PodSecurityContext": {
        "fsGroupChangePolicy": "{}.PodFSGroupChangePolicy",
        "seLinuxChangePolicy": "{}.PodSELinuxChangePolicy",
        "supplementalGroupsPolicy": "{}.SupplementalGroupsPolicy",
    },
    "PodSpec": {
        "dnsPolicy": "{}.DNSPolicy",
        "overhead": "v1.ResourceList",
        "preemptionPolicy": "{}.PreemptionPolicy",
        "restartPolicy": "{}.RestartPolicy",
    },
    "PodStatus": {
        "allocatedResources": "v1.ResourceList",
        "phase": "{}.PodPhase",
        "qosClass": "{}.PodQOSClass",
        "resize": "{}.PodResizeStatus",
    },
    "Preconditions": {
        "uid": "types.UID",
    },
    "PriorityLevelConfigurationCondition": {
        "status": "{}.ConditionStatus",
        "type": "{}.PriorityLevelConfigurationConditionType",
    },
    "PriorityLevelConfigurationSpec": {
        "type": "{}.PriorityLevelEnablement",
    },
    "ResourceHealth": {
        "health": "{}.ResourceHealthStatus",
        "resourceID": "{}.ResourceID",
    },
    "ResourceRequirements": {
        "limits": "v1.ResourceList",
        "requests": "v1.ResourceList",
    },
    "ResourceStatus": {
        "name": "v1.ResourceName",
    },
    "SeccompProfile": {
        "type": "{}.SeccompProfileType",
    },
    "SecurityContext": {
        "procMount": "{}.ProcMountType",
    },
    "Subject": {
        "kind": "{}.SubjectKind",
    },
    "Toleration": {
        "effect": "{}.TaintEffect",
        "operator": "{}.TolerationOperator",
    },
    "TopologySpreadConstraint": {
        "nodeAffinityPolicy": "{}.NodeInclusionPolicy",
        "nodeTaintsPolicy": "{}.NodeInclusionPolicy",
        "whenUnsatisfiable": "{}.UnsatisfiableConstraintAction",
    },
    "VolumeMount": {
        "mountPropagation": "{}.MountPropagationMode",
        "recursiveReadOnly": "{}.RecursiveReadOnlyMode",
    },
    "VolumeMountStatus": {
        "recursiveReadOnly": "{}.RecursiveReadOnlyMode",
    },
    "VolumeResourceRequirements": {
        "limits": "v1.ResourceList",
        "requests": "v1.ResourceList",
    },
}
"""Struct to field to the name of its type."""

EMBEDDED: dict[str, tuple[str, frozenset[str]]] = {
    "ConfigMapEnvSource": ("LocalObjectReference", frozenset(["optional"])),
    "ConfigMapKeySelector": ("LocalObjectReference", frozenset(["key", "optional"])),
    "ConfigMapProjection": ("LocalObjectReference", frozenset(["items", "optional"])),
    "ConfigMapVolumeSource": (
        "LocalObjectReference",
        frozenset(["defaultMode", "items", "optional"]),
    ),
    "EphemeralContainer": ("EphemeralContainerCommon", frozenset(["targetContainerName"])),
    "Probe": (
        "ProbeHandler",
        frozenset(
            [
                "failureThreshold",
                "initialDelaySeconds",
                "periodSeconds",
                "successThreshold",
                "terminationGracePeriodSeconds",
                "timeoutSeconds",
            ]
        ),
    ),
    "SecretEnvSource": ("LocalObjectReference", frozenset(["optional"])),
    "SecretKeySelector": ("LocalObjectReference", frozenset(["key", "optional"])),
    "SecretProjection": ("LocalObjectReference", frozenset(["items", "optional"])),
    "Volume": ("VolumeSource", frozenset(["name"])),
}
"""Struct to the one that Go embeds in it, and the fields that are its own."""


def type_of(struct: str, package: str, field: str) -> str:
    """The name of a field's type; "" where it is that of the schema."""
    return TYPES.get(struct, {}).get(field, "").replace("{}", package)


def path_of(struct: str, field: str) -> list[str]:
    """The names that lead to a field: that of an embedded struct, too."""
    embedded, own = EMBEDDED.get(struct, ("", frozenset[str]()))
    return [embedded, field] if embedded and field not in own else [field]
