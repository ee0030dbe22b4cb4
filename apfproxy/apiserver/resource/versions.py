"""ResourceSlices of v1beta1 as those of v1 and back, and what the server adds or takes away.

Sources: Kubernetes, `pkg/apis/resource/v1beta1/conversion.go`; `dropDisabledFields` of
`pkg/registry/resource/resourceslice`, with the feature gates that 1.36 has by default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.objects.types import Object

LIST_VALUES = ("ints", "bools", "strings", "versions")
"""Of the feature gate DRAListTypeAttributes, which is off."""


def to_v1(obj: Object) -> Object:
    """A slice of v1beta1 in the form of v1; the argument is not changed."""
    return converted(obj, lambda device: {"name": device["name"], **device.get("basic", {})})


def from_v1(obj: Object) -> Object:
    """A slice of v1 in the form of v1beta1; the argument is not changed."""

    def nested(device: Object) -> Object:
        basic = {name: value for name, value in device.items() if name != "name"}
        return {"name": device["name"], "basic": basic}

    return converted(obj, nested)


def converted(obj: Object, convert: Callable[[Object], Object]) -> Object:
    """A slice with its devices converted.

    An empty `nodeName` and `allNodes: false` mean nothing in v1beta1, but are errors in v1.
    """
    spec = dict(obj["spec"])
    for field in ("nodeName", "allNodes"):
        if not spec.get(field):
            spec.pop(field, None)
    if "devices" in spec:
        spec["devices"] = [convert(device) for device in spec["devices"]]
    return {**obj, "spec": spec}


def stamp_taints(obj: Object, now: str) -> None:
    """Say of taints of a slice of v1 when they were added, unless they say it; in place."""
    for device in obj["spec"].get("devices", ()):
        for taint in device.get("taints", ()):
            taint.setdefault("timeAdded", now)


def drop_disabled_fields(obj: Object) -> None:
    """Remove the fields whose feature gates are off; no stored object has them."""
    for device in obj["spec"].get("devices", ()):
        device.pop("nodeAllocatableResourceMappings", None)
        for attribute in device.get("attributes", {}).values():
            for name in LIST_VALUES:
                attribute.pop(name, None)
