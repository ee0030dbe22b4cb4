"""ResourceSlices, the kind of `resource.k8s.io` that the server knows, in v1 and v1beta1.

v1beta1 puts all that describes a device into `basic`, and has no difference between an empty and an
absent `nodeName`, nor between `allNodes: false` and none.

Sources: Kubernetes API reference, "ResourceSlice", "Device" and "CapacityRequestPolicy"; the cases
that kube-apiserver 1.36 refuses with its default feature gates; `api/resource/*/generated.proto`,
`pkg/apis/resource/v1beta1/conversion.go`, `pkg/registry/resource/resourceslice` and
`pkg/printers/internalversion` of 1.36; semver.org, specification 2.0.0, items 2, 9 and 10.
"""

from __future__ import annotations

import math
import re
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from apfproxy.apiserver import metadata
from apfproxy.apiserver.core.cluster import validate_node_selector
from apfproxy.apiserver.core.structs import CORE
from apfproxy.apiserver.kind import Kind, Rules, Version, by_path, deprecated_since, one_of, within
from apfproxy.apiserver.schema.quantity import NANO, Quantity, parse
from apfproxy.apiserver.schema.shared_structs import SHARED
from apfproxy.apiserver.schema.types import structs
from apfproxy.apiserver.tables import AGE, NAME_IN_CLUSTER, Column, at
from apfproxy.objects import field_errors, names
from apfproxy.objects.field_errors import checked, forbidden, invalid, limited, repeated, required
from apfproxy.objects.names import check_dns_label, check_dns_subdomain, check_qualified_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apfproxy.objects.field_errors import FieldError
    from apfproxy.objects.types import Object

LIST_VALUES = ("ints", "bools", "strings", "versions")
"""They need the feature gate DRAListTypeAttributes, which is off."""

BASIC_DEVICE = """
  1 attributes  map[string]DeviceAttribute +go=map[QualifiedName]DeviceAttribute  Its properties by
        name.
  2 capacity  map[string]DeviceCapacity +go=map[QualifiedName]DeviceCapacity  What it has of
        something, by name.
  3 consumesCounters  []DeviceCounterConsumption  From shared counters; at most 2.
  4 nodeName                  *string             The node that has it.
  5 nodeSelector              *NodeSelector       The nodes that reach it.
  6 allNodes                  *bool               True if all nodes reach it.
  7 taints                    []DeviceTaint       What keeps claims away; at most 16.
  8 bindsToNode               *bool               Whether it is used by the chosen node only.
  9 bindingConditions         []string            To be true before binding; at most 4.
  10 bindingFailureConditions  []string           Binding fails; at most 4.
  11 allowMultipleAllocations  *bool              Whether requests may share it.
  12 nodeAllocatableResourceMappings  map[string]NodeAllocatableResourceMapping
        +go=map[v1.ResourceName]NodeAllocatableResourceMapping  Dropped, as `ints`.
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
  3 effect  string +required +enum=NoExecute|NoSchedule|None +go=DeviceTaintEffect  What it does to
        pods.
  4 timeAdded  *time             When it was added; now if absent.
NodeAllocatableResourceMapping: How a device counts as a resource of its node.
  1 capacityKey           *string +go=QualifiedName  The capacity that counts; else the device.
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
V1_SLICE, V1BETA1_SLICE = (
    structs(f"io.k8s.api.resource.{version}", SLICE + more, SHARED, CORE)["ResourceSlice"]
    for version, more in (("v1", V1), ("v1beta1", V1BETA1))
)

MOST_DEVICES, MOST_ADVANCED_DEVICES = 128, 64
"""The second counts if any device has taints or consumes counters."""
MOST_PROPERTIES, MOST_TAINTS, MOST_CONDITIONS, MOST_VALUES = 32, 16, 4, 10
MOST_COUNTER_SETS, MOST_CONSUMPTIONS, MOST_COUNTERS = 8, 2, 32
LONGEST_VALUE = 64
LONGEST_JUDGED = 64 * 1024
"""Characters of a version that is compared with its pattern: megabytes would take too long."""
LONGEST_DRIVER, LONGEST_IDENTIFIER = 63, 32
"""In bytes: an attribute's name has a driver's, as its domain, and an identifier."""
LONGEST_KEY = LONGEST_DRIVER + 1 + LONGEST_IDENTIFIER
"""Paths show a longer name without its middle."""
FIXED = {path: at(path, None) for path in ("spec.pool.name", "spec.driver", "spec.nodeName")}
check_effect = one_of("NoExecute", "NoSchedule", "None")

CHOICE_RULE = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)
MANY_CHOICES_RULE = f"{CHOICE_RULE}, but multiple fields are set"
ONE_CHOICE_RULE = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when"
    " `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
)
NO_CHOICE_RULE = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set"
    " to true in the ResourceSlice spec"
)
ONE_POLICY_RULE = (
    'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same'
    " time"
)
IDENTIFIER = re.compile("[A-Za-z_][A-Za-z0-9_]*")
IDENTIFIER_RULE = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of"
    " alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for"
    f" validation is '{IDENTIFIER.pattern}')"
)

SEMVER_RULE = "must be a string compatible with semver.org spec 2.0.0"
NUMBER = "(?:0|[1-9][0-9]*+)"
WORD = "[0-9A-Za-z-]++"
# A pre-release's identifier of digits only has no leading zero.
PRE_RELEASE = rf"(?!0[0-9]++(?:[.+]|$)){WORD}"
# Groups are not possessive: Python 3.11.2 matches them wrongly.
SEMVER = re.compile(
    rf"{NUMBER}\.{NUMBER}\.{NUMBER}(?:-{PRE_RELEASE}(?:\.{PRE_RELEASE})*)?(?:\+{WORD}(?:\.{WORD})*)?"
)


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
    optional = ("nodeName", "allNodes")
    spec = {name: value for name, value in obj["spec"].items() if value or name not in optional}
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
    metadata.count_generation(new, old)
    _drop_disabled_fields(new)


def _warnings(new: Object, _old: Object | None) -> list[str]:
    driver, rule = new["spec"].get("driver", ""), "driver names should be lowercase"
    is_lower = driver == driver.lower()
    return [] if is_lower else [f'spec.driver: {rule}; "{driver}" contains uppercase characters']


def validate_slice(obj: Object) -> list[FieldError]:
    return [
        *metadata.validate_stored(obj["metadata"], is_namespaced=False),
        *_validate_spec(obj["spec"]),
    ]


def validate_slice_update(new: Object, old: Object) -> list[FieldError]:
    changes = [
        invalid(path, value(new), metadata.IMMUTABLE_DETAIL)
        for path, value in FIXED.items()
        if value(new) != value(old)
    ]
    errors = metadata.validate_core_update(new["metadata"], old["metadata"])
    return errors + _validate_spec(new["spec"], changes)


def _validate_spec(spec: Object, changes: Sequence[FieldError] = ()) -> list[FieldError]:
    """Find the errors of a specification; those of changes come where Kubernetes tells them."""
    errors = [*check_origin(spec, "spec."), *changes]
    empty = "must be either unset or set to a non-empty string"
    errors += _validate_node_name(spec.get("nodeName"), "spec.nodeName", empty)
    if "nodeSelector" in spec:
        errors += validate_node_selector(spec["nodeSelector"], "spec.nodeSelector")
        terms = spec["nodeSelector"].get("nodeSelectorTerms") or []
        if len(terms) != 1:
            path = "spec.nodeSelector.nodeSelectorTerms"
            errors.append(invalid(path, terms, "must have exactly one node selector term"))
    flags = ("allNodes", "perDeviceNodeSelection")
    errors += _validate_choice(spec, flags, "spec", CHOICE_RULE, MANY_CHOICES_RULE)
    devices, counter_sets = spec.get("devices", []), spec.get("sharedCounters", [])
    if devices and counter_sets:
        errors.append(invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    is_advanced = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    most = MOST_ADVANCED_DEVICES if is_advanced else MOST_DEVICES
    check = partial(validate_device, chooses_nodes=bool(spec.get("perDeviceNodeSelection")))
    errors += _each(devices, "spec.devices", most, check, "name")
    at, most = "spec.sharedCounters", MOST_COUNTER_SETS
    return errors + _validate_counter_sets(counter_sets, at, most, "name")


def _validate_pool_name(path: str, name: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    errors = limited(path, name, names.LONGEST_SUBDOMAIN)
    return errors + [
        error for part in name.split("/") for error in checked(path, part, check_dns_subdomain)
    ]


def _validate_driver(path: str, name: str) -> list[FieldError]:
    """Judge a driver's name, or the domain of an attribute; case does not matter."""
    if not name:
        return [required(path)]
    errors = limited(path, name, LONGEST_DRIVER)
    return errors + checked(path, name, lambda name: check_dns_subdomain(name.lower()))


check_origin = by_path(
    {
        "driver": _validate_driver,
        "pool.name": _validate_pool_name,
        "pool.resourceSliceCount": within(1, math.inf, "must be greater than zero"),
        "pool.generation": within(0, math.inf, "must be greater than or equal to zero"),
    }
)


def _validate_node_name(name: str | None, field: str, empty: str) -> list[FieldError]:
    if name:
        return checked(field, name, check_dns_subdomain)
    return [] if name is None else [invalid(field, name, empty)]


def _validate_choice(
    obj: Object, flags: tuple[str, ...], path: str, none: str, several: str
) -> list[FieldError]:
    """Judge which fields of a device or a slice choose the nodes; flags are never false."""
    errors = [
        invalid(f"{path}.{flag}", obj[flag], "must be either unset or set to true")
        for flag in flags
        if obj.get(flag) is False
    ]
    fields = ("nodeName", "nodeSelector", *flags)
    choices = [f"`{field}`" for field in fields if obj.get(field) not in (None, "", False)]
    if not choices:
        errors.append(required(path, none))
    elif len(choices) > 1:
        errors.append(invalid(path, f"{{{', '.join(choices)}}}", several))
    return errors


def _each(
    items: list[Any], path: str, most: int, check: Callable[[Any, str], list[FieldError]], name: str
) -> list[FieldError]:
    """Judge the items of a list, if there are not too many, then their names, if they have any."""
    if len(items) > most:
        return [field_errors.too_many(path, len(items), most)]
    errors = [
        error for index, item in enumerate(items) for error in check(item, f"{path}[{index}]")
    ]
    return errors + repeated([item.get(name, "") for item in items], path) if name else errors


def _validate_counter_sets(sets: list[Any], path: str, most: int, name: str) -> list[FieldError]:
    def check(counter_set: Object, path: str) -> list[FieldError]:
        at, counters = f"{path}.counters", counter_set.get("counters", {})
        errors = field_errors.checked_name(
            f"{path}.{name}", counter_set.get(name, ""), check_dns_label
        )
        if not counters:
            return [*errors, required(at)]
        if len(counters) > MOST_COUNTERS:
            return [*errors, field_errors.too_many(at, len(counters), MOST_COUNTERS)]
        return errors + [error for key in counters for error in checked(at, key, check_dns_label)]

    return _each(sets, path, most, check, name)


def validate_device(device: Object, path: str, *, chooses_nodes: bool) -> list[FieldError]:
    errors = checked(f"{path}.name", device.get("name", ""), check_dns_label)
    attributes, capacities = device.get("attributes", {}), device.get("capacity", {})
    if (count := len(attributes) + len(capacities)) > MOST_PROPERTIES:
        detail = f"the total number of attributes and capacities must not exceed {MOST_PROPERTIES}"
        errors.append(invalid(path, count, detail))
    for key, attribute in attributes.items():
        errors += _validate_key(key, f"{path}.attributes")
        errors += _validate_attribute(attribute, f"{path}.attributes[{_shortened(key)}]")
    is_shared = bool(device.get("allowMultipleAllocations"))
    for key, capacity in capacities.items():
        errors += _validate_key(key, f"{path}.capacity")
        at = f"{path}.capacity[{_shortened(key)}]"
        errors += _validate_capacity(capacity, at, is_shared=is_shared)
    errors += _each(device.get("taints", []), f"{path}.taints", MOST_TAINTS, _validate_taint, "")
    consumptions, at = device.get("consumesCounters", []), f"{path}.consumesCounters"
    errors += _validate_counter_sets(consumptions, at, MOST_CONSUMPTIONS, "counterSet")
    errors += _validate_nodes(device, path, chooses_nodes=chooses_nodes)
    return errors + _validate_conditions(device, path)


def _validate_key(key: str, path: str) -> list[FieldError]:
    """Find the errors of the name of an attribute or a capacity; the map is blamed."""
    domain, slash, identifier = key.rpartition("/")
    if "/" in domain:
        return []  # Kubernetes 1.36 lets it through.
    errors = _validate_driver(path, domain) if domain else []
    if slash and not domain:
        errors.append(invalid(path, "", "the domain must not be empty"))
    if slash and not identifier:
        return [*errors, invalid(path, "", "the name must not be empty")]
    errors += limited(path, identifier, LONGEST_IDENTIFIER)
    if not IDENTIFIER.fullmatch(identifier):
        errors.append(invalid(path, identifier, IDENTIFIER_RULE))
    return errors


def _shortened(key: str) -> str:
    data = key.encode()
    if len(data) <= LONGEST_KEY:
        return key
    half = (LONGEST_KEY - len("...")) // 2
    return f"{data[: half + 1].decode(errors='replace')}...{data[-half:].decode(errors='replace')}"


def _validate_attribute(attribute: Object, path: str) -> list[FieldError]:
    version = attribute.get("version")
    errors = limited(f"{path}.string", attribute.get("string", ""), LONGEST_VALUE)
    is_judged = version is not None and len(version) <= LONGEST_JUDGED
    if is_judged and not SEMVER.fullmatch(version or ""):
        errors.append(invalid(f"{path}.version", version, SEMVER_RULE))
    errors += limited(f"{path}.version", version or "", LONGEST_VALUE)
    if len(attribute) != 1:
        errors.append(invalid(path, attribute or "", "exactly one value must be specified"))
    return errors


def _validate_taint(taint: Object, path: str) -> list[FieldError]:
    errors = checked(f"{path}.key", taint.get("key", ""), check_qualified_name)
    errors += checked(f"{path}.value", taint.get("value", ""), names.check_label_value)
    effect, path = taint.get("effect", ""), f"{path}.effect"
    return errors + (check_effect(path, effect) if effect else [required(path)])


def _validate_nodes(device: Object, path: str, *, chooses_nodes: bool) -> list[FieldError]:
    if not chooses_nodes:
        is_silent = device.keys().isdisjoint(("nodeName", "nodeSelector", "allNodes"))
        return [] if is_silent else [invalid(path, None, NO_CHOICE_RULE)]
    errors = _validate_node_name(device.get("nodeName"), f"{path}.nodeName", "must not be empty")
    if "nodeSelector" in device:
        errors += validate_node_selector(device["nodeSelector"], f"{path}.nodeSelector")
    return errors + _validate_choice(device, ("allNodes",), path, ONE_CHOICE_RULE, ONE_CHOICE_RULE)


def _validate_conditions(device: Object, path: str) -> list[FieldError]:
    def check(name: str, path: str) -> list[FieldError]:
        return checked(path, name, check_qualified_name)

    binding, failure = "bindingConditions", "bindingFailureConditions"
    given = {field: device.get(field, []) for field in (binding, failure)}
    errors: list[FieldError] = []
    for field, conditions in given.items():
        errors += _each(conditions, f"{path}.{field}", MOST_CONDITIONS, check, "")
    for field, conditions in given.items():
        errors += repeated(conditions, f"{path}.{field}")
    detail, forbidden_names = f"{failure} must not overlap with {binding}", set(given[binding])
    errors += [
        invalid(f"{path}.{failure}[{index}]", name, detail)
        for index, name in enumerate(given[failure])
        if name in forbidden_names
    ]
    for field, other in ((binding, failure), (failure, binding)):
        if given[other] and not given[field]:
            errors.append(invalid(f"{path}.{field}", None, f"{field} are required to use {other}"))
    return errors


def _validate_capacity(capacity: Object, path: str, *, is_shared: bool) -> list[FieldError]:
    policy = capacity.get("requestPolicy")
    if policy is None:
        return []
    path = f"{path}.requestPolicy"
    if not is_shared:
        return [forbidden(path, "allowMultipleAllocations must be true")]
    values, value_range = policy.get("validValues"), policy.get("validRange")
    if values and value_range is not None:
        return [forbidden(path, ONE_POLICY_RULE)]
    if not values and value_range is None:
        return []
    kind = "validValues" if values else "validRange"
    if policy.get("default") is None:
        return [required(f"{path}.default", f"required when {kind} is defined")]
    default, whole = parse(policy["default"]), parse(capacity["value"])
    if values:
        return _validate_values([parse(each) for each in values], default, whole, f"{path}.{kind}")
    return _validate_range(value_range, default, whole, f"{path}.{kind}")


def _validate_values(
    values: list[Quantity], default: Quantity, whole: Quantity, path: str
) -> list[FieldError]:
    errors = [
        invalid(f"{path}[{index}]", later.text, "values must be sorted in ascending order")
        for index, (earlier, later) in enumerate(pairwise(values), start=1)
        if earlier > later
    ]
    has_many = len(values) > MOST_VALUES
    if has_many:  # Nothing more is looked at, not even for the default.
        errors.append(field_errors.too_many(path, len(values), MOST_VALUES))
    else:
        detail = f"option is larger than capacity value: {whole}"
        errors += [
            invalid(f"{path}[{index}]", value.text, detail)
            for index, value in enumerate(values)
            if value > whole
        ]
        errors += repeated([str(_integer(value)) for value in values], path)
    if has_many or default not in values:
        detail = "default value is not valid according to the requestPolicy"
        errors.append(invalid(path, default.text, detail))
    return errors


def _validate_range(
    value_range: Object, default: Quantity, whole: Quantity, path: str
) -> list[FieldError]:
    if value_range.get("min") is None:
        return [required(f"{path}.min", "required when validRange is defined")]
    least = parse(value_range["min"])
    most = parse(value_range["max"]) if "max" in value_range else None
    rules = [
        ("min", least, least > whole, f"min is larger than capacity value: {whole}"),
        ("min", default, default < least, f"default is less than min: {least}"),
    ]
    if most is not None:
        rules += [
            ("max", least, least > most, f"min is larger than max: {most}"),
            ("max", most, most > whole, f"max is larger than capacity value: {whole}"),
            ("max", default, default > most, f"default is more than max: {most}"),
        ]
    if "step" in value_range:
        step = parse(value_range["step"])
        # Kubernetes 1.36 divides by it without a look.
        rules.append(("step", step, step.nano == 0, "must not be zero"))
        if step.nano:
            detail = f"one step {least + step} is larger than capacity value: {whole}"
            rules.append(("step", step, least + step > whole, detail))
            detail = f"value is not a multiple of a given step ({step}) from ({least})"
            for value in [default] if most is None else [default, most]:
                rest = (_integer(value) - _integer(least)) % _integer(step)
                rules.append(("step", value, rest != 0, detail))
    return [
        invalid(f"{path}.{name}", value.text, detail)
        for name, value, is_wrong, detail in rules
        if is_wrong
    ]


def _integer(quantity: Quantity) -> int:
    """Round the value away from zero, as Kubernetes does to compare amounts and steps."""
    whole = -(-abs(quantity.nano) // NANO)
    return whole if quantity.nano >= 0 else -whole


RESOURCE_SLICE = Kind(
    "resource.k8s.io",
    "ResourceSlice",
    versions=(
        Version("v1", V1_SLICE),
        Version(
            "v1beta1",
            V1BETA1_SLICE,
            to_storage=_to_v1,
            from_storage=_from_v1,
            deprecation=deprecated_since("resource.k8s.io/v1beta1 ResourceSlice", 35),
        ),
    ),
    rules=Rules(
        prepare_create=_prepare_create,
        prepare_update=_prepare_update,
        validate=validate_slice,
        validate_update=validate_slice_update,
        warnings=_warnings,
        stamp=_stamp_taints,
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
    answers_deleted=True,
    storage_hash="KsC072WgaEY=",
)
