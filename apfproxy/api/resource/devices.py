"""The rules of the devices in a ResourceSlice.

Sources: Kubernetes API reference, "Device"; the cases that kube-apiserver 1.36 refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.api.core.node_selector import validate_node_selector
from apfproxy.api.field_errors import (
    FieldError,
    checked,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from apfproxy.api.names import (
    check_dns_label,
    check_dns_subdomain,
    check_label_value,
    check_qualified_name,
)
from apfproxy.api.resource.capacity import validate_capacity
from apfproxy.api.resource.names import shortened, validate_key
from apfproxy.api.resource.schema import EFFECTS
from apfproxy.api.semver import SEMVER_RULE, is_semver

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.api.kind import Object

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
    """All errors of a device.

    Args:
        device: Of the right types.
        path: Of it.
        chooses_nodes: Whether each device of the slice says which nodes reach it.
    """
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
        errors += validate_attribute(attribute, f"{path}.attributes", key)
    is_shared = bool(device.get("allowMultipleAllocations"))
    for key, capacity in capacities.items():
        errors += validate_key(key, f"{path}.capacity")
        if "requestPolicy" in capacity:
            at = f"{path}.capacity[{shortened(key)}]"
            errors += validate_capacity(capacity, at, is_shared=is_shared)
    if "taints" in device:
        errors += validate_taints(device["taints"], f"{path}.taints")
    if "consumesCounters" in device:
        errors += validate_consumptions(device["consumesCounters"], f"{path}.consumesCounters")
    errors += validate_nodes(device, path, chooses_nodes=chooses_nodes)
    if "bindingConditions" in device or "bindingFailureConditions" in device:
        errors += validate_conditions(device, path)
    return errors


def validate_attribute(attribute: Object, path: str, key: str) -> list[FieldError]:
    """All errors of an attribute.

    Args:
        attribute: Of the right types.
        path: Of the map that it is in.
        key: Its name.
    """
    errors: list[FieldError] = []
    text, version = attribute.get("string"), attribute.get("version")
    if text is not None and len(text.encode()) > LONGEST_VALUE:
        errors.append(too_long(f"{path}[{shortened(key)}].string", LONGEST_VALUE))
    if version is not None:
        if not is_semver(version):
            errors.append(invalid(f"{path}[{shortened(key)}].version", version, SEMVER_RULE))
        if len(version.encode()) > LONGEST_VALUE:
            errors.append(too_long(f"{path}[{shortened(key)}].version", LONGEST_VALUE))
    if len(attribute) != 1:
        errors.append(invalid(f"{path}[{shortened(key)}]", attribute or "", ATTRIBUTE_RULE))
    return errors


def validate_taints(taints: list[Any], path: str) -> list[FieldError]:
    """All errors of a device's taints."""
    if len(taints) > MOST_TAINTS:
        return [too_many(path, len(taints), MOST_TAINTS)]
    errors: list[FieldError] = []
    for index, taint in enumerate(taints):
        at = f"{path}[{index}]"
        errors += checked(f"{at}.key", taint.get("key", ""), check_qualified_name)
        errors += checked(f"{at}.value", taint.get("value", ""), check_label_value)
        effect = taint.get("effect", "")
        if not effect:
            errors.append(required(f"{at}.effect"))
        elif effect not in EFFECTS:
            errors.append(not_supported(f"{at}.effect", effect, EFFECTS))
    return errors


def validate_consumptions(consumptions: list[Any], path: str) -> list[FieldError]:
    """All errors of what a device takes from counters."""
    if len(consumptions) > MOST_CONSUMPTIONS:
        return [too_many(path, len(consumptions), MOST_CONSUMPTIONS)]
    errors: list[FieldError] = []
    for index, consumption in enumerate(consumptions):
        at = f"{path}[{index}]"
        errors += validate_set_name(consumption.get("counterSet", ""), f"{at}.counterSet")
        errors += validate_counters(consumption.get("counters", {}), f"{at}.counters")
    names = [consumption.get("counterSet", "") for consumption in consumptions]
    return errors + repeated(names, path)


def validate_set_name(name: str, path: str) -> list[FieldError]:
    """All errors of the name of a set of counters."""
    return checked(path, name, check_dns_label) if name else [required(path)]


def validate_counters(counters: Object, path: str) -> list[FieldError]:
    """All errors of counters; their amounts may be any."""
    if not counters:
        return [required(path)]
    if len(counters) > MOST_COUNTERS:
        return [too_many(path, len(counters), MOST_COUNTERS)]
    errors: list[FieldError] = []
    for name in counters:
        errors += checked(path, name, check_dns_label)
    return errors


def validate_nodes(device: Object, path: str, *, chooses_nodes: bool) -> list[FieldError]:
    """All errors of what a device says about the nodes that reach it."""
    name, selector = device.get("nodeName"), device.get("nodeSelector")
    all_nodes = device.get("allNodes")
    if not chooses_nodes:
        if name is None and selector is None and all_nodes is None:
            return []
        return [invalid(path, None, NO_CHOICE_RULE)]
    errors: list[FieldError] = []
    if name:
        errors += checked(f"{path}.nodeName", name, check_dns_subdomain)
    elif name is not None:
        errors.append(invalid(f"{path}.nodeName", name, "must not be empty"))
    if selector is not None:
        at = f"{path}.nodeSelector"
        errors += validate_node_selector(selector, at)
    if all_nodes is False:
        errors.append(invalid(f"{path}.allNodes", all_nodes, NOT_FALSE_RULE))
    choices = chosen({"nodeName": name, "nodeSelector": selector, "allNodes": all_nodes})
    if not choices:
        errors.append(required(path, ONE_CHOICE_RULE))
    elif len(choices) > 1:
        errors.append(invalid(path, braced(choices), ONE_CHOICE_RULE))
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


def repeated(names: Iterable[str], path: str) -> list[FieldError]:
    """The errors of names that are in a list already."""
    seen: set[str] = set()
    errors: list[FieldError] = []
    for index, name in enumerate(names):
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
    return errors


def chosen(values: dict[str, object]) -> list[str]:
    """The names of the fields that choose nodes: not absent, not empty, not false."""
    return [
        name
        for name, value in values.items()
        if value is not None and value is not False and value != ""
    ]


def braced(names: list[str]) -> str:
    """Names of fields as a message shows several of them."""
    return "{" + ", ".join(f"`{name}`" for name in names) + "}"
