"""Structure of ResourceSlices in the versions v1 and v1beta1.

v1beta1 puts all that describes a device into `basic`, and has no difference between an empty and an
absent `nodeName`, nor between `allNodes: false` and none.

Sources: Kubernetes API reference, "ResourceSlice"; `api/resource/*/generated.proto` of 1.36.
"""

from __future__ import annotations

import msgspec

from apfproxy.apiserver.core.node_selector import NODE_SELECTOR
from apfproxy.apiserver.schema.shared_structs import object_struct
from apfproxy.apiserver.schema.types import (
    Field,
    List,
    Map,
    Scalar,
    Struct,
    changed,
    pointer,
    required,
)

V1 = "io.k8s.api.resource.v1"
V1BETA1 = "io.k8s.api.resource.v1beta1"

BOOLEAN, INT64 = Scalar.BOOLEAN, Scalar.INT64
QUANTITY, STRING = Scalar.QUANTITY, Scalar.STRING
STRINGS = List(STRING)
EFFECTS = ("NoExecute", "NoSchedule", "None")


def slice_structs(package: str) -> tuple[Struct, tuple[Field, ...]]:
    """What the versions have in common, but for the package.

    Returns:
        The specification in the form of v1, and the fields of `BasicDevice` in v1beta1.
    """

    def struct(name: str, description: str, *fields: Field) -> Struct:
        return Struct(name, fields, package, description)

    counter = struct(
        "Counter",
        "An amount of something that devices share.",
        required("value", QUANTITY, "The amount.", number=1),
    )
    counter_set = struct(
        "CounterSet",
        "Counters that devices of a pool consume together.",
        required("name", STRING, "Unique in the pool; a DNS label.", number=1),
        Field("counters", Map(counter), "By DNS label; at most 32.", is_required=True, number=2),
    )
    consumption = struct(
        "DeviceCounterConsumption",
        "What a device takes from a set of counters.",
        required("counterSet", STRING, "Name of the set.", number=1),
        Field("counters", Map(counter), "Amounts; at most 32.", is_required=True, number=2),
    )
    attribute = struct(
        "DeviceAttribute",
        "A property of a device: exactly one of the fields.",
        pointer("int", INT64, "A number.", number=2),
        pointer("bool", BOOLEAN, "True or false.", number=3),
        pointer("string", STRING, "A text of at most 64 bytes.", number=4),
        pointer("version", STRING, "A semantic version of at most 64 bytes.", number=5),
        Field("ints", List(INT64), "Numbers; dropped, as its feature gate is off.", number=6),
        Field("bools", List(BOOLEAN), "Booleans; dropped, as its feature gate is off.", number=7),
        Field("strings", STRINGS, "Texts; dropped, as its feature gate is off.", number=8),
        Field("versions", STRINGS, "Versions; dropped, as its feature gate is off.", number=9),
    )
    value_range = struct(
        "CapacityRequestPolicyRange",
        "Amounts that may be requested: from a minimum, in steps.",
        Field("min", QUANTITY, "The smallest amount.", is_pointer=True, is_required=True, number=1),
        pointer("max", QUANTITY, "The largest amount; at most the capacity.", number=2),
        pointer("step", QUANTITY, "Between two amounts that may be requested.", number=3),
    )
    policy = struct(
        "CapacityRequestPolicy",
        "Which amounts of a capacity may be requested.",
        Field(
            "default",
            QUANTITY,
            "Asked by default.",
            is_pointer=True,
            is_always_written=True,
            number=1,
        ),
        Field("validValues", List(QUANTITY), "The amounts, ascending; at most 10.", number=3),
        pointer("validRange", value_range, "A range of amounts.", number=4),
    )
    capacity = struct(
        "DeviceCapacity",
        "How much of something a device has.",
        required("value", QUANTITY, "The amount.", number=1),
        pointer("requestPolicy", policy, "How it is shared by several allocations.", number=2),
    )
    taint = struct(
        "DeviceTaint",
        "Keeps claims that do not tolerate it away from a device.",
        required("key", STRING, "A label's key.", number=1),
        Field("value", STRING, "A label's value.", number=2),
        msgspec.structs.replace(
            required("effect", STRING, "What it does to pods.", number=3), enum=EFFECTS
        ),
        pointer("timeAdded", Scalar.TIME, "When it was added; now if absent.", number=4),
    )
    mapping = struct(
        "NodeAllocatableResourceMapping",
        "How a device counts as a resource of its node.",
        pointer("capacityKey", STRING, "The capacity that counts; else the device.", number=1),
        pointer("allocationMultiplier", QUANTITY, "Of the resource, for each unit.", number=2),
    )
    device_fields = (
        Field("attributes", Map(attribute), "Its properties by name.", number=1),
        Field("capacity", Map(capacity), "What it has of something, by name.", number=2),
        Field("consumesCounters", List(consumption), "From shared counters; at most 2.", number=3),
        pointer("nodeName", STRING, "The node that has it.", number=4),
        pointer("nodeSelector", NODE_SELECTOR, "The nodes that reach it.", number=5),
        pointer("allNodes", BOOLEAN, "True if all nodes reach it.", number=6),
        Field("taints", List(taint), "What keeps claims away; at most 16.", number=7),
        pointer("bindsToNode", BOOLEAN, "Whether it is used by the chosen node only.", number=8),
        Field("bindingConditions", STRINGS, "To be true before binding; at most 4.", number=9),
        Field("bindingFailureConditions", STRINGS, "Binding fails; at most 4.", number=10),
        pointer("allowMultipleAllocations", BOOLEAN, "Whether requests may share it.", number=11),
        Field("nodeAllocatableResourceMappings", Map(mapping), "Dropped, as `ints`.", number=12),
    )
    pool = struct(
        "ResourcePool",
        "Slices that belong together.",
        required("name", STRING, "Subdomains with slashes between; immutable.", number=1),
        required("generation", INT64, "Counted up with every change of the pool.", number=2),
        required("resourceSliceCount", INT64, "Slices of the pool, of this generation.", number=3),
    )
    device = struct(
        "Device",
        "One device.",
        required("name", STRING, "Unique in the pool; a DNS label.", number=1),
        *(msgspec.structs.replace(field, number=field.number + 1) for field in device_fields),
    )
    spec = struct(
        "ResourceSliceSpec",
        "Devices of a pool, and where they are.",
        required("driver", STRING, "The driver that offers them; immutable.", number=1),
        required("pool", pool, "The pool that the slice is a part of.", number=2),
        pointer("nodeName", STRING, "The node that has them; immutable.", number=3),
        pointer("nodeSelector", NODE_SELECTOR, "The nodes that reach them; one term.", number=4),
        pointer("allNodes", BOOLEAN, "True if all nodes reach the devices.", number=5),
        Field("devices", List(device), "At most 128, or 64 with taints or counters.", number=6),
        pointer("perDeviceNodeSelection", BOOLEAN, "True if each device has nodes.", number=7),
        Field("sharedCounters", List(counter_set), "At most 8, and no devices.", number=8),
    )
    return spec, device_fields


def slice_object(spec: Struct, package: str) -> Struct:
    """The struct of a whole ResourceSlice."""
    description = "Devices that a driver offers, all of a pool or a part of it."
    return object_struct("ResourceSlice", package, spec, None, description, is_required=True)


SPEC, _ = slice_structs(V1)
RESOURCE_SLICE_OBJECT = slice_object(SPEC, V1)

BETA_SPEC_AS_V1, BETA_DEVICE_FIELDS = slice_structs(V1BETA1)
BASIC_DEVICE = Struct("BasicDevice", BETA_DEVICE_FIELDS, V1BETA1, "What describes a device.")
BETA_DEVICE = Struct(
    "Device",
    (
        required("name", STRING, "Unique in the pool; a DNS label.", number=1),
        pointer("basic", BASIC_DEVICE, "What describes the device.", number=2),
    ),
    V1BETA1,
    "One device.",
)
BETA_SPEC = changed(
    BETA_SPEC_AS_V1,
    Field("nodeName", STRING, "The node that has them; immutable.", number=3),
    Field("allNodes", BOOLEAN, "Whether all nodes reach the devices.", number=5),
    Field("devices", List(BETA_DEVICE), "At most 128, or 64 with taints or counters.", number=6),
)
BETA_RESOURCE_SLICE_OBJECT = slice_object(BETA_SPEC, V1BETA1)
