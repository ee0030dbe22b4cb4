"""Structure of ResourceSlices in the versions v1 and v1beta1.

v1beta1 puts all that describes a device into `basic`, and has no difference between an empty and an
absent `nodeName`, nor between `allNodes: false` and none.

Source: Kubernetes API reference, "ResourceSlice".
"""

from __future__ import annotations

from apfproxy.api.core.scheduling_schema import NODE_SELECTOR
from apfproxy.api.schema.meta import object_struct
from apfproxy.api.schema.types import Field, List, Map, Scalar, Struct, changed, pointer, required

V1 = "io.k8s.api.resource.v1"
V1BETA1 = "io.k8s.api.resource.v1beta1"

BOOLEAN, INT64, QUANTITY, STRING = (
    Scalar.BOOLEAN,
    Scalar.INT64,
    Scalar.QUANTITY,
    Scalar.STRING,
)
STRINGS = List(STRING)

EFFECTS = ("NoExecute", "NoSchedule", "None")


def slice_structs(package: str) -> tuple[Struct, tuple[Field, ...]]:
    """What the versions have in common, but for the package.

    Returns:
        The specification in the form of v1, and the fields of a device after its name.
    """

    def struct(name: str, description: str, *fields: Field) -> Struct:
        return Struct(name, fields, package, description)

    counter = struct(
        "Counter",
        "An amount of something that devices share.",
        required("value", QUANTITY, "The amount."),
    )
    counter_set = struct(
        "CounterSet",
        "Counters that devices of a pool consume together.",
        required("name", STRING, "Unique in the pool; a DNS label."),
        Field(
            "counters",
            Map(counter),
            "The counters by name, which is a DNS label; at most 32.",
            is_required=True,
        ),
    )
    consumption = struct(
        "DeviceCounterConsumption",
        "What a device takes from a set of counters.",
        required("counterSet", STRING, "Name of the set."),
        Field(
            "counters",
            Map(counter),
            "The amounts by name of the counter; at most 32.",
            is_required=True,
        ),
    )
    attribute = struct(
        "DeviceAttribute",
        "A property of a device: exactly one of the fields.",
        pointer("int", INT64, "A number."),
        pointer("bool", BOOLEAN, "True or false."),
        pointer("string", STRING, "A text of at most 64 bytes."),
        pointer("version", STRING, "A semantic version of at most 64 bytes."),
        Field("ints", List(INT64), "Numbers; dropped, as its feature gate is off."),
        Field("bools", List(BOOLEAN), "Truth values; dropped, as its feature gate is off."),
        Field("strings", STRINGS, "Texts; dropped, as its feature gate is off."),
        Field("versions", STRINGS, "Semantic versions; dropped, as its feature gate is off."),
    )
    value_range = struct(
        "CapacityRequestPolicyRange",
        "Amounts that may be requested: from a minimum, in steps.",
        Field("min", QUANTITY, "The smallest amount.", is_pointer=True, is_required=True),
        pointer("max", QUANTITY, "The largest amount; at most the capacity."),
        pointer("step", QUANTITY, "Between two amounts that may be requested."),
    )
    policy = struct(
        "CapacityRequestPolicy",
        "Which amounts of a capacity may be requested.",
        Field(
            "default",
            QUANTITY,
            "The amount if a request names none.",
            is_pointer=True,
            is_always_written=True,
        ),
        Field("validValues", List(QUANTITY), "The amounts, ascending; at most 10."),
        pointer("validRange", value_range, "A range of amounts."),
    )
    capacity = struct(
        "DeviceCapacity",
        "How much of something a device has.",
        required("value", QUANTITY, "The amount."),
        pointer("requestPolicy", policy, "How it is shared by several allocations."),
    )
    taint = struct(
        "DeviceTaint",
        "Keeps claims that do not tolerate it away from a device.",
        required("key", STRING, "A label's key."),
        Field("value", STRING, "A label's value."),
        Field(
            "effect",
            STRING,
            "What it does to pods whose claims do not tolerate it.",
            is_required=True,
            is_always_written=True,
            enum=EFFECTS,
        ),
        pointer("timeAdded", Scalar.TIME, "When it was added; set by the server if absent."),
    )
    mapping = struct(
        "NodeAllocatableResourceMapping",
        "How a device counts as a resource of its node.",
        pointer("capacityKey", STRING, "The capacity that counts; the device itself if absent."),
        pointer("allocationMultiplier", QUANTITY, "Amount of the resource for each unit."),
    )
    device_fields = (
        Field("attributes", Map(attribute), "Its properties by name."),
        Field("capacity", Map(capacity), "What it has of something, by name."),
        Field("consumesCounters", List(consumption), "What it takes from counters; at most 2."),
        pointer("nodeName", STRING, "The node that has it."),
        pointer("nodeSelector", NODE_SELECTOR, "The nodes that reach it."),
        pointer("allNodes", BOOLEAN, "True if all nodes reach it."),
        Field("taints", List(taint), "What keeps claims away; at most 16."),
        pointer("bindsToNode", BOOLEAN, "Whether an allocation is limited to the chosen node."),
        Field("bindingConditions", STRINGS, "Conditions to be true before binding; at most 4."),
        Field(
            "bindingFailureConditions",
            STRINGS,
            "Conditions of which each makes binding fail; at most 4.",
        ),
        pointer(
            "allowMultipleAllocations", BOOLEAN, "Whether several requests may share the device."
        ),
        Field(
            "nodeAllocatableResourceMappings",
            Map(mapping),
            "Resources of the node, by name; dropped, as its feature gate is off.",
        ),
    )
    pool = struct(
        "ResourcePool",
        "Slices that belong together.",
        required("name", STRING, "DNS subdomains with slashes between; cannot be changed."),
        required("generation", INT64, "Counted up with every change of the pool."),
        required("resourceSliceCount", INT64, "Slices of the pool, of this generation."),
    )
    device = struct(
        "Device",
        "One device.",
        required("name", STRING, "Unique in the pool; a DNS label."),
        *device_fields,
    )
    spec = struct(
        "ResourceSliceSpec",
        "Devices of a pool, and where they are.",
        required("driver", STRING, "The driver that offers them; cannot be changed."),
        required("pool", pool, "The pool that the slice is a part of."),
        pointer("nodeName", STRING, "The node that has the devices; cannot be changed."),
        pointer("nodeSelector", NODE_SELECTOR, "The nodes that reach the devices; one term."),
        pointer("allNodes", BOOLEAN, "True if all nodes reach the devices."),
        Field("devices", List(device), "The devices: at most 128, or 64 with taints or counters."),
        pointer(
            "perDeviceNodeSelection", BOOLEAN, "True if each device says which nodes reach it."
        ),
        Field("sharedCounters", List(counter_set), "Sets of counters; at most 8, and no devices."),
    )
    return spec, device_fields


def slice_object(spec: Struct, package: str) -> Struct:
    """The struct of a whole ResourceSlice."""
    description = "Devices that a driver offers, all of a pool or a part of it."
    return object_struct("ResourceSlice", package, spec, None, description, is_required=True)


SPEC, _ = slice_structs(V1)
RESOURCE_SLICE_OBJECT = slice_object(SPEC, V1)

BETA_SPEC_AS_V1, BETA_DEVICE_FIELDS = slice_structs(V1BETA1)
BETA_DEVICE = Struct(
    "Device",
    (
        required("name", STRING, "Unique in the pool; a DNS label."),
        pointer(
            "basic",
            Struct("BasicDevice", BETA_DEVICE_FIELDS, V1BETA1, "What describes a device."),
            "What describes the device.",
        ),
    ),
    V1BETA1,
    "One device.",
)
BETA_SPEC = changed(
    BETA_SPEC_AS_V1,
    Field("nodeName", STRING, "The node that has the devices; cannot be changed."),
    Field("allNodes", BOOLEAN, "Whether all nodes reach the devices."),
    Field("devices", List(BETA_DEVICE), "The devices: at most 128, or 64 with taints or counters."),
)
BETA_RESOURCE_SLICE_OBJECT = slice_object(BETA_SPEC, V1BETA1)
