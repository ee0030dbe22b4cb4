"""Whether a pod may be evicted: what disruption budgets have to say.

Source: Kubernetes 1.36, `pkg/registry/core/pod/storage/eviction.go`; Kubernetes documentation,
"API-initiated Eviction".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.apiserver.core.pod_strategy import ENDED
from apfproxy.apiserver.metadata import FALSE, find_condition, is_true, set_condition
from apfproxy.apiserver.policy.budget import DISRUPTION_ALLOWED, SYNC_FAILED, set_disruption_allowed
from apfproxy.apiserver.policy.schema import ALWAYS_ALLOW
from apfproxy.apiserver.selectors import selector_of
from apfproxy.objects.selectors import SelectorError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.objects.types import Object

MOST_DISRUPTED_PODS = 2000
"""Evictions that the disruption controller may be behind: Kubernetes' number."""
RETRY_AFTER_S = 10
"""When to try again if a budget has not been looked at: Kubernetes' number."""

UNSTARTED = "Pending"
DISRUPTION_TARGET = "DisruptionTarget"

VIOLATION = "Cannot evict pod as it would violate the pod's disruption budget."
SEVERAL_BUDGETS = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not"
    " support."
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a budget does not allow an eviction.

    Attributes:
        is_final: Whether something is wrong with the budget, so that it is no use to try again.
        message: For people.
        retry_after_s: Seconds after which to try again; 0 if nobody knows.
    """

    is_final: bool
    message: str
    retry_after_s: int = 0


def ignores_budgets(pod: Object) -> bool:
    """Whether a pod may go whatever budgets say: it is not running any more, or not yet."""
    return not may_start(pod) or pod["status"].get("phase", "") == UNSTARTED


def may_start(pod: Object) -> bool:
    """Whether a pod that ignores budgets could become one that does not."""
    return (
        pod["status"].get("phase", "") not in ENDED and "deletionTimestamp" not in pod["metadata"]
    )


def is_matched(budget: Object, pod: Object) -> bool:
    """Whether a budget of the pod's namespace is about the pod."""
    try:
        selector = selector_of(budget["spec"].get("selector"))
        return selector.matches(pod["metadata"].get("labels", {}))
    except SelectorError:
        return False


def budgets_of(pod: Object, budgets: Iterable[Object]) -> list[Object]:
    """The budgets of the pod's namespace that are about the pod."""
    return [budget for budget in budgets if is_matched(budget, pod)]


def spares_unhealthy(budget: Object, pod: Object) -> bool:
    """Whether the pod may go without counting, since it is not healthy."""
    if is_true(pod["status"], "Ready"):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == ALWAYS_ALLOW:
        return True
    status = budget["status"]
    return bool(status["currentHealthy"] >= status["desiredHealthy"] > 0)


def unprocessed(name: str) -> Refusal:
    """The budget has changed since it was last looked at, or the pod has."""
    message = f"The disruption budget {name} is still being processed by the server."
    return Refusal(is_final=False, message=message, retry_after_s=RETRY_AFTER_S)


def charge(budget: Object, pod_name: str, now: str) -> Refusal | None:
    """Count the eviction of a pod in the only budget about it, in place unless that refuses.

    Returns:
        Why not; None if the pod may be evicted.
    """
    name, status = budget["metadata"]["name"], budget["status"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        return unprocessed(name)
    if status["disruptionsAllowed"] < 0:
        return Refusal(is_final=True, message="pdb disruptions allowed is negative")
    disrupted = status.get("disruptedPods", {})
    if len(disrupted) > MOST_DISRUPTED_PODS:
        message = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        return Refusal(is_final=True, message=message)
    if status["disruptionsAllowed"] == 0:
        return Refusal(is_final=False, message=why_none(name, status))
    status["disruptionsAllowed"] -= 1
    if status["disruptionsAllowed"] == 0:
        set_disruption_allowed(status, now)
    status["disruptedPods"] = {**disrupted, pod_name: now}
    return None


def why_none(name: str, status: Object) -> str:
    """Why a budget allows no disruption."""
    condition = find_condition(status, DISRUPTION_ALLOWED) or {}
    explanation = condition["message"] if condition.get("status") == FALSE else ""
    refused = f"The disruption budget {name} does not allow evicting pods currently"
    # The numbers mean nothing where they could not be worked out.
    if explanation and condition["reason"] == SYNC_FAILED:
        return f"{refused} because it failed sync: {explanation}"
    healthy, desired = status["currentHealthy"], status["desiredHealthy"]
    if healthy <= desired:
        return (
            f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    return f"{refused} ({condition['reason']}): {explanation}" if explanation else refused


def mark_target(pod: Object, now: str) -> None:
    """Note in a pod's status at a time, RFC 3339, that an eviction ends it; in place."""
    condition = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "lastProbeTime": None,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    if generation := pod["metadata"].get("generation"):
        condition["observedGeneration"] = generation
    set_condition(pod["status"], condition, now)
