"""The numbers that the fields of ResourceSlices have in Kubernetes' protobuf.

Source: Kubernetes 1.36, `api/resource/{v1,v1beta1}/generated.proto`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apfproxy.api.schema.types import Numbers

COMMON: dict[str, Numbers] = {
    "CapacityRequestPolicy": {"default": 1, "validValues": 3, "validRange": 4},
    "CapacityRequestPolicyRange": {"min": 1, "max": 2, "step": 3},
    "Counter": {"value": 1},
    "CounterSet": {"name": 1, "counters": 2},
    "DeviceAttribute": {
        "int": 2,
        "bool": 3,
        "string": 4,
        "version": 5,
        "ints": 6,
        "bools": 7,
        "strings": 8,
        "versions": 9,
    },
    "DeviceCapacity": {"value": 1, "requestPolicy": 2},
    "DeviceCounterConsumption": {"counterSet": 1, "counters": 2},
    "DeviceTaint": {"key": 1, "value": 2, "effect": 3, "timeAdded": 4},
    "NodeAllocatableResourceMapping": {"capacityKey": 1, "allocationMultiplier": 2},
    "ResourcePool": {"name": 1, "generation": 2, "resourceSliceCount": 3},
    "ResourceSlice": {"metadata": 1, "spec": 2},
    "ResourceSliceSpec": {
        "driver": 1,
        "pool": 2,
        "nodeName": 3,
        "nodeSelector": 4,
        "allNodes": 5,
        "devices": 6,
        "perDeviceNodeSelection": 7,
        "sharedCounters": 8,
    },
}

RESOURCE_V1: dict[str, Numbers] = {
    **COMMON,
    "Device": {
        "name": 1,
        "attributes": 2,
        "capacity": 3,
        "consumesCounters": 4,
        "nodeName": 5,
        "nodeSelector": 6,
        "allNodes": 7,
        "taints": 8,
        "bindsToNode": 9,
        "bindingConditions": 10,
        "bindingFailureConditions": 11,
        "allowMultipleAllocations": 12,
        "nodeAllocatableResourceMappings": 13,
    },
}

RESOURCE_V1BETA1: dict[str, Numbers] = {
    **COMMON,
    "BasicDevice": {
        "attributes": 1,
        "capacity": 2,
        "consumesCounters": 3,
        "nodeName": 4,
        "nodeSelector": 5,
        "allNodes": 6,
        "taints": 7,
        "bindsToNode": 8,
        "bindingConditions": 9,
        "bindingFailureConditions": 10,
        "allowMultipleAllocations": 11,
        "nodeAllocatableResourceMappings": 12,
    },
    "Device": {"name": 1, "basic": 2},
}
