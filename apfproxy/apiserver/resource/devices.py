"""The rules of the devices in a ResourceSlice.

Sources: Kubernetes API reference, "Device"; the cases that kube-apiserver 1.36 refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.apiserver.core.node_selector import validate_node_selector
from apfproxy.apiserver.resource.capacity import validate_capacity
from apfproxy.apiserver.resource.names import shortened, validate_key
from apfproxy.apiserver.resource.schema import EFFECTS
from apfproxy.apiserver.semver import SEMVER_RULE, is_semver
from apfproxy.objects.field_errors import (
    FieldError,
    checked,
    checked_name,
    invalid,
    limited,
    not_supported,
    repeated,
    required,
    too_many,
)
from apfproxy.objects.names import (
    check_dns_label,
    check_dns_subdomain,
    check_label_value,
    check_qualified_name,
)

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

MOST_ATTRIBUTES_AND_CAPACITIES = 32
LONGEST_VALUE = 64
MOST_TAINTS = 16
MOST_CONSUMPTIONS = 2
MOST_COUNTERS = 32
"""Of a set, and of what a device consumes of one."""
MOST_CONDITIONS = 4

ATTRIBUTE_RULE = "exactly one value must be specified"
ONE_CHOICE_RULE = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when"
    " `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
)
NO_CHOICE_RULE = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set"
    " to true in the ResourceSlice spec"
)
NOT_FALSE_RULE = "must be either unset or set to true"


def validate_device(device: Object, path: str, *, chooses_nodes: bool) -> list[FieldError]:
    """All errors of a device, which says which nodes reach it if the slice asks for that."""
    errors = checked(f"{path}.name", device.get("name", ""), check_dns_label)
    attributes, capacities = device.get("attributes", {}), device.get("capacity", {})
    count = len(attributes) + len(capacities)
    if count > MOST_ATTRIBUTES_AND_CAPACITIES:
        detail = (
            "the total number of attributes and capacities must not exceed"
            f" {MOST_ATTRIBUTES_AND_CAPACITIES}"
        )
        errors.append(invalid(path, count, detail))
    for key, attribute in attributes.items():
        errors += validate_key(key, f"{path}.attributes")
        errors += validate_attribute(attribute, f"{path}.attributes[{shortened(key)}]")
    is_shared = bool(device.get("allowMultipleAllocations"))
    for key, capacity in capacities.items():
        errors += validate_key(key, f"{path}.capacity")
        at = f"{path}.capacity[{shortened(key)}]"
        errors += validate_capacity(capacity, at, is_shared=is_shared)
    errors += validate_taints(device.get("taints", []), f"{path}.taints")
    errors += validate_consumptions(device.get("consumesCounters", []), f"{path}.consumesCounters")
    errors += validate_nodes(device, path, chooses_nodes=chooses_nodes)
    return errors + validate_conditions(device, path)


def validate_attribute(attribute: Object, path: str) -> list[FieldError]:
    """All errors of an attribute."""
    version = attribute.get("version")
    errors = limited(f"{path}.string", attribute.get("string", ""), LONGEST_VALUE)
    if version is not None and not is_semver(version):
        errors.append(invalid(f"{path}.version", version, SEMVER_RULE))
    errors += limited(f"{path}.version", version or "", LONGEST_VALUE)
    if len(attribute) != 1:
        errors.append(invalid(path, attribute or "", ATTRIBUTE_RULE))
    return errors


def validate_taints(taints: list[Any], path: str) -> list[FieldError]:
    """All errors of a device's taints."""
    if len(taints) > MOST_TAINTS:
        return [too_many(path, len(taints), MOST_TAINTS)]
    errors: list[FieldError] = []
    for index, taint in enumerate(taints):
        at, effect = f"{path}[{index}]", taint.get("effect", "")
        errors += checked(f"{at}.key", taint.get("key", ""), check_qualified_name)
        errors += checked(f"{at}.value", taint.get("value", ""), check_label_value)
        if not effect:
            errors.append(required(f"{at}.effect"))
        elif effect not in EFFECTS:
            errors.append(not_supported(f"{at}.effect", effect, EFFECTS))
    return errors


def validate_consumptions(consumptions: list[Any], path: str) -> list[FieldError]:
    """All errors of what a device takes from counters."""
    if len(consumptions) > MOST_CONSUMPTIONS:
        return [too_many(path, len(consumptions), MOST_CONSUMPTIONS)]
    return validate_counter_sets(consumptions, "counterSet", path)


def validate_counter_sets(sets: list[Any], name: str, path: str) -> list[FieldError]:
    """All errors of sets of counters, whose names are in a field; their amounts may be any."""
    errors: list[FieldError] = []
    for index, counter_set in enumerate(sets):
        at, counters = f"{path}[{index}].counters", counter_set.get("counters", {})
        errors += checked_name(
            f"{path}[{index}].{name}", counter_set.get(name, ""), check_dns_label
        )
        if not counters:
            errors.append(required(at))
        elif len(counters) > MOST_COUNTERS:
            errors.append(too_many(at, len(counters), MOST_COUNTERS))
        else:
            errors += [error for key in counters for error in checked(at, key, check_dns_label)]
    return errors + repeated([each.get(name, "") for each in sets], path)


def validate_nodes(device: Object, path: str, *, chooses_nodes: bool) -> list[FieldError]:
    """All errors of what a device says about the nodes that reach it."""
    if not chooses_nodes:
        is_silent = device.keys().isdisjoint(("nodeName", "nodeSelector", "allNodes"))
        return [] if is_silent else [invalid(path, None, NO_CHOICE_RULE)]
    errors = validate_node_name(device.get("nodeName"), f"{path}.nodeName", "must not be empty")
    if "nodeSelector" in device:
        errors += validate_node_selector(device["nodeSelector"], f"{path}.nodeSelector")
    flags = ("allNodes",)
    return errors + validate_choice(device, flags, path, ONE_CHOICE_RULE, ONE_CHOICE_RULE)


def validate_node_name(name: str | None, field: str, empty: str) -> list[FieldError]:
    """The errors of a node's name, which may be absent but not empty."""
    if name:
        return checked(field, name, check_dns_subdomain)
    return [] if name is None else [invalid(field, name, empty)]


def validate_choice(
    obj: Object, flags: tuple[str, ...], path: str, none: str, several: str
) -> list[FieldError]:
    """All errors of which fields of a device or a slice choose the nodes; flags are never false."""
    errors = [
        invalid(f"{path}.{flag}", obj[flag], NOT_FALSE_RULE)
        for flag in flags
        if obj.get(flag) is False
    ]
    names = ("nodeName", "nodeSelector", *flags)
    choices = [name for name in names if obj.get(name) not in (None, "", False)]
    if not choices:
        errors.append(required(path, none))
    elif len(choices) > 1:
        shown = ", ".join(f"`{name}`" for name in choices)
        errors.append(invalid(path, f"{{{shown}}}", several))
    return errors


def validate_conditions(device: Object, path: str) -> list[FieldError]:
    """All errors of a device's conditions for binding."""
    conditions = device.get("bindingConditions", [])
    failures = device.get("bindingFailureConditions", [])
    binding, failure = f"{path}.bindingConditions", f"{path}.bindingFailureConditions"
    errors: list[FieldError] = []
    for names, at in ((conditions, binding), (failures, failure)):
        if len(names) > MOST_CONDITIONS:
            errors.append(too_many(at, len(names), MOST_CONDITIONS))
            continue
        for index, name in enumerate(names):
            errors += checked(f"{at}[{index}]", name, check_qualified_name)
    errors += repeated(conditions, binding) + repeated(failures, failure)
    both = set(conditions)
    detail = "bindingFailureConditions must not overlap with bindingConditions"
    errors += [
        invalid(f"{failure}[{index}]", name, detail)
        for index, name in enumerate(failures)
        if name in both
    ]
    if failures and not conditions:
        detail = "bindingConditions are required to use bindingFailureConditions"
        errors.append(invalid(binding, None, detail))
    if conditions and not failures:
        detail = "bindingFailureConditions are required to use bindingConditions"
        errors.append(invalid(failure, None, detail))
    return errors
