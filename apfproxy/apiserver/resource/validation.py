"""The rules of ResourceSlices.

Sources: Kubernetes API reference, "ResourceSlice"; the cases that kube-apiserver 1.36 refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.apiserver.core.node_selector import validate_node_selector
from apfproxy.apiserver.metadata import IMMUTABLE_DETAIL, validate_core_update, validate_stored
from apfproxy.apiserver.resource.devices import (
    validate_choice,
    validate_counter_sets,
    validate_device,
    validate_node_name,
)
from apfproxy.apiserver.resource.names import validate_driver, validate_pool_name
from apfproxy.objects.field_errors import FieldError, invalid, repeated, too_many

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.objects.types import Object

MOST_DEVICES = 128
MOST_ADVANCED_DEVICES = 64
"""If any device has taints or consumes counters."""
MOST_COUNTER_SETS = 8

CHOICE_RULE = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)
MANY_CHOICES_RULE = f"{CHOICE_RULE}, but multiple fields are set"


def validate_slice(obj: Object) -> list[FieldError]:
    """All errors of a ResourceSlice in the form of v1."""
    return [*validate_stored(obj["metadata"], is_namespaced=False), *validate_spec(obj["spec"])]


def validate_slice_update(new: Object, old: Object) -> list[FieldError]:
    """All errors of a ResourceSlice that replaces another: it stays in its pool."""
    spec, old_spec = new["spec"], old["spec"]
    pool, old_pool = spec.get("pool", {}), old_spec.get("pool", {})
    fixed = (
        ("spec.pool.name", pool.get("name", ""), old_pool.get("name", "")),
        ("spec.driver", spec.get("driver", ""), old_spec.get("driver", "")),
        ("spec.nodeName", spec.get("nodeName"), old_spec.get("nodeName")),
    )
    changes = [invalid(path, value, IMMUTABLE_DETAIL) for path, value, was in fixed if value != was]
    return validate_core_update(new["metadata"], old["metadata"]) + validate_spec(spec, changes)


def validate_spec(spec: Object, changes: Sequence[FieldError] = ()) -> list[FieldError]:
    """All errors of a specification; those of changes come where Kubernetes tells them."""
    errors = validate_driver(spec.get("driver", ""), "spec.driver")
    errors += validate_pool(spec.get("pool", {}))
    errors += changes
    errors += validate_nodes(spec)
    devices, counter_sets = spec.get("devices", []), spec.get("sharedCounters", [])
    if devices and counter_sets:
        errors.append(invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    errors += validate_devices(devices, chooses_nodes=bool(spec.get("perDeviceNodeSelection")))
    path, count = "spec.sharedCounters", len(counter_sets)
    if count > MOST_COUNTER_SETS:
        return [*errors, too_many(path, count, MOST_COUNTER_SETS)]
    return errors + validate_counter_sets(counter_sets, "name", path)


def validate_pool(pool: Object) -> list[FieldError]:
    """All errors of the pool that a slice is a part of."""
    errors = validate_pool_name(pool.get("name", ""), "spec.pool.name")
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if count <= 0:
        errors.append(invalid("spec.pool.resourceSliceCount", count, "must be greater than zero"))
    if generation < 0:
        detail = "must be greater than or equal to zero"
        errors.append(invalid("spec.pool.generation", generation, detail))
    return errors


def validate_nodes(spec: Object) -> list[FieldError]:
    """All errors of what a slice says about the nodes that reach its devices."""
    empty = "must be either unset or set to a non-empty string"
    errors = validate_node_name(spec.get("nodeName"), "spec.nodeName", empty)
    if "nodeSelector" in spec:
        errors += validate_node_selector(spec["nodeSelector"], "spec.nodeSelector")
        terms = spec["nodeSelector"].get("nodeSelectorTerms") or []
        if len(terms) != 1:
            path = "spec.nodeSelector.nodeSelectorTerms"
            errors.append(invalid(path, terms, "must have exactly one node selector term"))
    flags = ("allNodes", "perDeviceNodeSelection")
    return errors + validate_choice(spec, flags, "spec", CHOICE_RULE, MANY_CHOICES_RULE)


def validate_devices(devices: list[Any], *, chooses_nodes: bool) -> list[FieldError]:
    """All errors of a slice's devices."""
    is_advanced = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    most = MOST_ADVANCED_DEVICES if is_advanced else MOST_DEVICES
    if len(devices) > most:
        return [too_many("spec.devices", len(devices), most)]
    errors: list[FieldError] = []
    for index, device in enumerate(devices):
        errors += validate_device(device, f"spec.devices[{index}]", chooses_nodes=chooses_nodes)
    return errors + repeated([device.get("name", "") for device in devices], "spec.devices")
