"""What a server adds to pods, and keeps their writers from changing.

Sources: Kubernetes documentation, "Taints and Tolerations" (tolerations that pods get), "Pod
Priority and Preemption", "Pod Scheduling Readiness", "Pod Lifecycle" (termination).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.apiserver.core.resources import qos_class
from apfproxy.apiserver.metadata import copy_field, count_generation
from apfproxy.objects.names import check_dns_label

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

TOLERATED_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
LEAVE = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
"""How long pods stay on a node that is not ready or not reachable, unless they say otherwise."""
PRIORITIES = {"": 0, "system-cluster-critical": 2 * 10**9, "system-node-critical": 2 * 10**9 + 1000}
"""The priority classes that every cluster has, and none."""

ENDED = frozenset({"Failed", "Succeeded"})
"""Phases of pods that run no more."""

GATED = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "lastTransitionTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}

PREEMPTION_POLICY = "PreemptLowerPriority"
"""Of all priority classes that there are, and of pods without one."""


def admit_create(obj: Object) -> str:
    """Add what admission does, tolerations and a priority, or say why the pod is not created."""
    spec: dict[str, Any] = obj["spec"]
    class_name = spec.get("priorityClassName", "")
    priority = PRIORITIES.get(class_name)
    if priority is None:
        return f"no PriorityClass with name {class_name} was found"
    for field, what, value in (
        ("priority", "integer value of priority", priority),
        ("preemptionPolicy", "string value of PreemptionPolicy", PREEMPTION_POLICY),
    ):
        if spec.setdefault(field, value) != value:
            return (
                f"the {what} ({spec[field]}) must not be provided in pod spec; priority admission"
                f" controller computed {value} from the given PriorityClass name"
            )
    add_tolerations(spec)
    return ""


def add_tolerations(spec: Object) -> None:
    """Let the pod leave nodes in trouble after some minutes, unless it says otherwise."""
    for key in TOLERATED_TAINTS:
        if not is_tolerated(spec, key):
            spec["tolerations"] = [*spec.get("tolerations", ()), {"key": key, **LEAVE}]


def is_tolerated(spec: Object, key: str) -> bool:
    """Whether the pod says itself what it does when a node gets a taint of this key."""
    return any(
        toleration.get("key", "") in {"", key} and toleration.get("effect", "") in {"", "NoExecute"}
        for toleration in spec.get("tolerations", ())
    )


def prepare_create(obj: Object) -> None:
    """Start at generation 1, and pending."""
    spec = obj["spec"]
    obj["metadata"]["generation"] = 1
    status: dict[str, Any] = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        status["conditions"] = [dict(GATED)]
    status["qosClass"] = qos_class(spec)
    obj["status"] = status


def prepare_update(new: Object, old: Object) -> None:
    """Keep the status and what admission added; count the generation up if the spec differs."""
    spec, old_spec = new["spec"], old["spec"]
    for field in ("priority", "preemptionPolicy"):
        if field in old_spec:
            spec.setdefault(field, old_spec[field])
    add_tolerations(spec)
    new["status"] = old["status"]
    count_generation(new, old)


def prepare_status(new: Object, old: Object) -> None:
    """Keep the specification, and who owns the pod; the class of service has to stay if given."""
    new["spec"] = old["spec"]
    for field in ("generation", "deletionTimestamp", "ownerReferences"):
        copy_field(field, new["metadata"], old["metadata"])
    if not new["status"].get("qosClass") and old["status"].get("qosClass"):
        new["status"]["qosClass"] = old["status"]["qosClass"]


def grace_s(obj: Object, asked_s: int | None) -> int:
    """Seconds that a deleted pod gets to end: none if it runs nowhere, or runs no more."""
    spec = obj["spec"]
    seconds = spec.get("terminationGracePeriodSeconds", 0) if asked_s is None else asked_s
    if not spec.get("nodeName") or obj["status"].get("phase") in ENDED:
        return 0
    return seconds if seconds >= 0 else 1


def warnings(new: Object, old: Object | None) -> list[str]:
    """Warn of a new pod's name that is none for a host."""
    wrong = check_dns_label(new["metadata"]["name"]) if old is None else []
    if not wrong:
        return []
    surprise = "this is used in the Pod's hostname, which can result in surprising behavior"
    return [f"metadata.name: {surprise}; a DNS label is recommended: [{' '.join(wrong)}]"]
