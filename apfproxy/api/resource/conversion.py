"""ResourceSlices of v1beta1 as those of v1, and back.

Source: Kubernetes, `pkg/apis/resource/v1beta1/conversion.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apfproxy.api.kind import Object


def to_v1(obj: Object) -> Object:
    """A slice of v1beta1 in the form of v1; the argument is not changed."""
    spec = dict(obj.get("spec", {}))
    # An empty name and a false mean nothing in v1beta1, but would be errors in v1.
    for field in ("nodeName", "allNodes"):
        if not spec.get(field):
            spec.pop(field, None)
    if "devices" in spec:
        spec["devices"] = [
            {"name": device.get("name", ""), **(device.get("basic") or {})}
            for device in spec["devices"]
        ]
    return {**obj, "spec": spec}


def from_v1(obj: Object) -> Object:
    """A slice of v1 in the form of v1beta1; the argument is not changed."""
    spec = dict(obj.get("spec", {}))
    for field in ("nodeName", "allNodes"):
        if not spec.get(field):
            spec.pop(field, None)
    if "devices" in spec:
        spec["devices"] = [
            {
                "name": device.get("name", ""),
                "basic": {name: value for name, value in device.items() if name != "name"},
            }
            for device in spec["devices"]
        ]
    return {**obj, "spec": spec}
