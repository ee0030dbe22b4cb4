"""ResourceSlices, the kind of `resource.k8s.io` that the server knows, in v1 and v1beta1.

v1beta1 puts all that describes a device into `basic`, and has no difference between an empty and an
absent `nodeName`, nor between `allNodes: false` and none.

Sources: Kubernetes API reference, "ResourceSlice"; `api/resource/*/generated.proto` of 1.36;
`pkg/apis/resource/v1beta1/conversion.go`, `pkg/registry/resource/resourceslice`, with the feature
gates that 1.36 has by default, and `pkg/printers/internalversion`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from apfproxy.apiserver.core.structs import CORE
from apfproxy.apiserver.kind import Kind, Rules, Version
from apfproxy.apiserver.metadata import count_generation
from apfproxy.apiserver.resource.validation import validate_slice, validate_slice_update
from apfproxy.apiserver.schema.language import structs
from apfproxy.apiserver.schema.shared_structs import SHARED
from apfproxy.apiserver.tables import AGE, NAME_IN_CLUSTER, Column

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.apiserver.schema.types import Struct
    from apfproxy.objects.types import Object

GROUP = "resource.k8s.io"
BETA_DEPRECATION = (
    "resource.k8s.io/v1beta1 ResourceSlice is deprecated in v1.35+, unavailable in v1.38+"
)
LIST_VALUES = ("ints", "bools", "strings", "versions")
"""Of the feature gate DRAListTypeAttributes, which is off."""

BASIC_DEVICE = """
  1 attributes        map[string]DeviceAttribute  Its properties by name.
  2 capacity          map[string]DeviceCapacity   What it has of something, by name.
  3 consumesCounters  []DeviceCounterConsumption  From shared counters; at most 2.
  4 nodeName                  *string             The node that has it.
  5 nodeSelector              *NodeSelector       The nodes that reach it.
  6 allNodes                  *bool               True if all nodes reach it.
  7 taints                    []DeviceTaint       What keeps claims away; at most 16.
  8 bindsToNode               *bool               Whether it is used by the chosen node only.
  9 bindingConditions         []string            To be true before binding; at most 4.
  10 bindingFailureConditions  []string           Binding fails; at most 4.
  11 allowMultipleAllocations  *bool              Whether requests may share it.
  12 nodeAllocatableResourceMappings  map[string]NodeAllocatableResourceMapping  Dropped, as `ints`.
"""
SLICE = """
Counter: An amount of something that devices share.
  1 value  quantity +required  The amount.
CounterSet: Counters that devices of a pool consume together.
  1 name      string +required                           Unique in the pool; a DNS label.
  2 counters  map[string]Counter +required +omitempty  By DNS label; at most 32.
DeviceCounterConsumption: What a device takes from a set of counters.
  1 counterSet  string +required                           Name of the set.
  2 counters    map[string]Counter +required +omitempty  Amounts; at most 32.
DeviceAttribute: A property of a device: exactly one of the fields.
  2 int       *int64    A number.
  3 bool      *bool     True or false.
  4 string    *string   A text of at most 64 bytes.
  5 version   *string   A semantic version of at most 64 bytes.
  6 ints      []int64   Numbers; dropped, as its feature gate is off.
  7 bools     []bool    Booleans; dropped, as its feature gate is off.
  8 strings   []string  Texts; dropped, as its feature gate is off.
  9 versions  []string  Versions; dropped, as its feature gate is off.
DeviceCapacity: How much of something a device has.
  1 value          quantity +required      The amount.
  2 requestPolicy  *CapacityRequestPolicy  How it is shared by several allocations.
CapacityRequestPolicy: Which amounts of a capacity may be requested.
  1 default      *quantity +written           Asked by default.
  3 validValues  []quantity                   The amounts, ascending; at most 10.
  4 validRange   *CapacityRequestPolicyRange  A range of amounts.
CapacityRequestPolicyRange: Amounts that may be requested: from a minimum, in steps.
  1 min   *quantity +required +omitempty  The smallest amount.
  2 max   *quantity                       The largest amount; at most the capacity.
  3 step  *quantity                       Between two amounts that may be requested.
DeviceTaint: Keeps claims that do not tolerate it away from a device.
  1 key        string +required  A label's key.
  2 value      string            A label's value.
  3 effect     string +required +enum=NoExecute|NoSchedule|None  What it does to pods.
  4 timeAdded  *time             When it was added; now if absent.
NodeAllocatableResourceMapping: How a device counts as a resource of its node.
  1 capacityKey           *string    The capacity that counts; else the device.
  2 allocationMultiplier  *quantity  Of the resource, for each unit.
ResourcePool: Slices that belong together.
  1 name                string +required  Subdomains with slashes between; immutable.
  2 generation          int64 +required   Counted up with every change of the pool.
  3 resourceSliceCount  int64 +required   Slices of the pool, of this generation.
ResourceSlice +object: Devices that a driver offers, all of a pool or a part of it.
  2 spec  ResourceSliceSpec +required +omitempty  Desired state of the ResourceSlice.
ResourceSliceSpec: Devices of a pool, and where they are.
  1 driver        string +required        The driver that offers them; immutable.
  2 pool          ResourcePool +required  The pool that the slice is a part of.
  3 nodeName      *string                 The node that has them; immutable.
  4 nodeSelector  *NodeSelector           The nodes that reach them; one term.
  5 allNodes      *bool                   True if all nodes reach the devices.
  6 devices       []Device                At most 128, or 64 with taints or counters.
  7 perDeviceNodeSelection  *bool         True if each device has nodes.
  8 sharedCounters  []CounterSet          At most 8, and no devices.
"""
V1 = re.sub(r"(?m)^ +\d+", lambda number: f"  {int(number[0]) + 1}", BASIC_DEVICE)
V1 = f"Device: One device.\n  1 name  string +required  Unique in the pool; a DNS label.{V1}"
V1BETA1 = f"""\
  3 nodeName  string  The node that has them; immutable.
  5 allNodes  bool    Whether all nodes reach the devices.
Device: One device.
  1 name   string +required  Unique in the pool; a DNS label.
  2 basic  *BasicDevice      What describes the device.
BasicDevice: What describes a device.{BASIC_DEVICE}"""


def _struct(version: str, more: str) -> Struct:
    return structs(f"io.k8s.api.resource.{version}", SLICE + more, SHARED, CORE)["ResourceSlice"]


def _to_v1(obj: Object) -> Object:
    return _converted(obj, lambda device: {"name": device["name"], **device.get("basic", {})})


def _from_v1(obj: Object) -> Object:
    def nested(device: Object) -> Object:
        basic = {name: value for name, value in device.items() if name != "name"}
        return {"name": device["name"], "basic": basic}

    return _converted(obj, nested)


def _converted(obj: Object, convert: Callable[[Object], Object]) -> Object:
    """Copy a slice with its devices converted.

    An empty `nodeName` and `allNodes: false` mean nothing in v1beta1, but are errors in v1.
    """
    spec = dict(obj["spec"])
    for field in ("nodeName", "allNodes"):
        if not spec.get(field):
            spec.pop(field, None)
    if "devices" in spec:
        spec["devices"] = [convert(device) for device in spec["devices"]]
    return {**obj, "spec": spec}


def _stamp_taints(obj: Object, now: str) -> None:
    for device in obj["spec"].get("devices", ()):
        for taint in device.get("taints", ()):
            taint.setdefault("timeAdded", now)


def _drop_disabled_fields(obj: Object) -> None:
    for device in obj["spec"].get("devices", ()):
        device.pop("nodeAllocatableResourceMappings", None)
        for attribute in device.get("attributes", {}).values():
            for name in LIST_VALUES:
                attribute.pop(name, None)


def _prepare_create(obj: Object) -> None:
    obj["metadata"]["generation"] = 1
    _drop_disabled_fields(obj)


def _prepare_update(new: Object, old: Object) -> None:
    """Count the generation up if the specification differs, if only by fields not enabled."""
    count_generation(new, old)
    _drop_disabled_fields(new)


def _warnings(new: Object, _old: Object | None) -> list[str]:
    driver = new["spec"].get("driver", "")
    told = (
        f'spec.driver: driver names should be lowercase; "{driver}" contains uppercase characters'
    )
    return [] if driver == driver.lower() else [told]


RESOURCE_SLICE = Kind(
    GROUP,
    "ResourceSlice",
    versions=(
        Version("v1", _struct("v1", V1)),
        Version(
            "v1beta1",
            _struct("v1beta1", V1BETA1),
            to_storage=_to_v1,
            from_storage=_from_v1,
            deprecation=BETA_DEPRECATION,
        ),
    ),
    rules=Rules(
        prepare_create=_prepare_create,
        prepare_update=_prepare_update,
        validate=validate_slice,
        validate_update=validate_slice_update,
        warnings=_warnings,
        stamp=_stamp_taints,
        reset_fields=(),
        reset_status_fields=(),
    ),
    columns=(
        NAME_IN_CLUSTER,
        Column("Node", "spec.nodeName", "The node that has the devices."),
        Column("Driver", "spec.driver", "The driver that offers the devices."),
        Column("Pool", "spec.pool.name", "The pool that the slice is a part of."),
        AGE,
    ),
    is_namespaced=False,
    selectable_fields=("spec.nodeName", "spec.driver"),
    has_status=False,
    answers_deleted=True,
    storage_hash="KsC072WgaEY=",
)
