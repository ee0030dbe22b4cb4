"""Requests and limits: sums over the containers of a pod, defaults, and classes of service.

Sources: Kubernetes documentation, "Resource Management for Pods and Containers", "Sidecar
Containers", "Pod Quality of Service Classes"; KEP-2837 (resources of a pod as a whole).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.api.quantity import Quantity, of_nano, parse

if TYPE_CHECKING:
    from apfproxy.api.kind import Object

COMPUTE = ("cpu", "memory")
HUGE_PAGES = "hugepages-"
NANO_PER_MILLI = 10**6

Amounts = dict[str, str]
"""Resource name to quantity."""


def is_huge_pages(name: str) -> bool:
    """Whether a resource is huge pages of some size."""
    return name.startswith(HUGE_PAGES)


def is_native(name: str) -> bool:
    """Whether a resource is one of Kubernetes itself."""
    return "/" not in name or "kubernetes.io/" in name


def is_overcommit_allowed(name: str) -> bool:
    """Whether requests of a resource may be less than its limits."""
    return is_native(name) and not is_huge_pages(name)


def containers_of(spec: Object, field: str = "containers") -> list[dict[str, Any]]:
    """The containers in a field of a pod's specification, which may be null."""
    return spec.get(field) or []


def round_up(amounts: Amounts) -> None:
    """Round quantities that are finer than a thousandth up, in place."""
    for name, text in amounts.items():
        # Looking at the text spares nearly all quantities the arithmetic.
        if text[-1] in "nu" or "." in text or "e" in text or "E" in text:
            nano = parse(text).nano
            milli = -(-nano // NANO_PER_MILLI)
            if milli * NANO_PER_MILLI != nano:
                amounts[name] = str(of_nano(milli * NANO_PER_MILLI))


def default_requests(resources: Object) -> None:
    """Request what is the limit, of each resource that is only limited."""
    limits = resources.get("limits")
    if limits:
        resources["requests"] = {**limits, **resources.get("requests", {})}


def total(spec: Object, which: str) -> dict[str, Quantity]:
    """What the containers of a pod need together, by resource.

    Init containers run one after the other, beside the sidecars that were started before them.

    Args:
        spec: Of the pod.
        which: `requests` or `limits`.
    """
    running: dict[str, Quantity] = {}
    for container in containers_of(spec):
        add(running, container["resources"].get(which, {}))
    sidecars: dict[str, Quantity] = {}
    most: dict[str, Quantity] = {}
    for container in containers_of(spec, "initContainers"):
        amounts = container["resources"].get(which, {})
        if container.get("restartPolicy") == "Always":
            add(running, amounts)
            add(sidecars, amounts)
            raise_to(most, sidecars)
        else:
            at_once = dict(sidecars)
            add(at_once, amounts)
            raise_to(most, at_once)
    raise_to(running, most)
    return running


def add(sums: dict[str, Quantity], amounts: Amounts) -> None:
    """Add quantities to sums, in place."""
    for name, text in amounts.items():
        amount = parse(text)
        sums[name] = sums[name] + amount if name in sums else amount


def raise_to(most: dict[str, Quantity], sums: dict[str, Quantity]) -> None:
    """Raise maxima to sums where those are larger, in place."""
    for name, amount in sums.items():
        most[name] = max(most.get(name, amount), amount)


def default_pod_resources(spec: Object) -> None:
    """Complete the resources of a pod as a whole, if it has any, by those of its containers."""
    resources = spec.get("resources")
    if resources is None:
        return
    limits = dict(resources.get("limits", {}))
    for name, amount in total(spec, "limits").items():
        if is_huge_pages(name) and name not in limits:
            limits[name] = str(amount)
    if not limits:
        return
    resources["limits"] = limits
    requests = dict(resources.get("requests", {}))
    for name, amount in total(spec, "requests").items():
        if name in COMPUTE and name not in requests:
            requests[name] = str(amount)
    for name, text in limits.items():
        if name in COMPUTE or is_huge_pages(name):
            requests.setdefault(name, text)
    if requests:
        resources["requests"] = requests


def qos_class(spec: Object) -> str:
    """How late a pod is ended when its node runs out of a resource.

    `Guaranteed` if all containers limit CPU and memory and the limits are what is requested,
    `BestEffort` if none says anything of either, else `Burstable`.
    """
    if spec.get("resources") is not None:
        parts = [spec["resources"]]
    else:
        parts = [
            container["resources"]
            for field in ("containers", "initContainers")
            for container in containers_of(spec, field)
        ]
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    are_all_limited = True
    for part in parts:
        add(requests, compute(part.get("requests", {})))
        limited = compute(part.get("limits", {}))
        add(limits, limited)
        are_all_limited = are_all_limited and len(limited) == len(COMPUTE)
    if not requests and not limits:
        return "BestEffort"
    if are_all_limited and requests == limits:
        return "Guaranteed"
    return "Burstable"


def compute(amounts: Amounts) -> Amounts:
    """The quantities of CPU and memory that are more than nothing."""
    return {
        name: amounts[name] for name in COMPUTE if name in amounts and parse(amounts[name]).nano > 0
    }
