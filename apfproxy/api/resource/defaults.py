"""What ResourceSlices get that drivers leave out, and what is taken from them.

Sources: Kubernetes API reference, "DeviceTaint"; `dropDisabledFields` of Kubernetes'
`pkg/registry/resource/resourceslice`, with the feature gates that 1.36 has by default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apfproxy.api.kind import Object

LIST_VALUES = ("ints", "bools", "strings", "versions")
"""Of the feature gate DRAListTypeAttributes, which is off."""


def stamp_taints(obj: Object, now: str) -> None:
    """Say of taints that do not say it when they were added.

    Args:
        obj: A slice in the form of v1; changed in place.
        now: RFC 3339.
    """
    for device in obj["spec"].get("devices", ()):
        for taint in device.get("taints", ()):
            if not taint.get("timeAdded"):
                taint["timeAdded"] = now


def drop_disabled_fields(obj: Object) -> None:
    """Remove the fields whose feature gates are off: lists as attributes, mappings of resources.

    They can be in no stored object, so there is none to be considered.
    """
    for device in obj["spec"].get("devices", ()):
        device.pop("nodeAllocatableResourceMappings", None)
        for attribute in device.get("attributes", {}).values():
            for name in LIST_VALUES:
                attribute.pop(name, None)
