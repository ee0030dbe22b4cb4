"""The containers of a pod, and its class of service.

Source: Kubernetes documentation, "Pod Quality of Service Classes".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.apiserver.schema.quantity import parse

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

COMPUTE = ("cpu", "memory")
"""The resources that the class of service depends on."""


def containers_of(spec: Object, field: str = "containers") -> list[dict[str, Any]]:
    """The containers in a field of a pod's specification, which may be null."""
    return spec.get(field) or []


def qos_class(spec: Object) -> str:
    """How late a pod is ended when its node runs out of a resource.

    `Guaranteed` if all containers limit CPU and memory and the limits are what is requested,
    `BestEffort` if none says anything of either, else `Burstable`.
    """
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    are_all_limited = True
    for container in (*containers_of(spec), *containers_of(spec, "initContainers")):
        add_compute(requests, container["resources"].get("requests", {}))
        count = add_compute(limits, container["resources"].get("limits", {}))
        are_all_limited = are_all_limited and count == len(COMPUTE)
    if not requests and not limits:
        return "BestEffort"
    if are_all_limited and requests == limits:
        return "Guaranteed"
    return "Burstable"


def add_compute(sums: dict[str, int], amounts: dict[str, str]) -> int:
    """Add amounts of CPU and memory to sums in units of 1e-9, in place.

    Returns:
        How many of the two are more than nothing; only those are added.
    """
    added = {name: parse(amounts[name]).nano for name in COMPUTE if name in amounts}
    added = {name: amount for name, amount in added.items() if amount > 0}
    for name, amount in added.items():
        sums[name] = sums.get(name, 0) + amount
    return len(added)
