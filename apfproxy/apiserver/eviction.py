"""Evictions: deletions of pods that disruption budgets may forbid.

The decision and the count in the budget's status are one synchronous step of the registry.  Between
that and the deletion the pod may change; a pod that was let go for being unhealthy is therefore
deleted only as it was seen.

Sources: Kubernetes 1.36, `pkg/registry/core/pod/storage/eviction.go`; Kubernetes documentation,
"API-initiated Eviction".
"""

from __future__ import annotations

import dataclasses
import itertools
from functools import partial
from typing import TYPE_CHECKING

from apfproxy.apiserver.core.pods import ENDED, POD
from apfproxy.apiserver.errors import StatusError, bad_request, forbidden, success, unknown_error
from apfproxy.apiserver.metadata import FALSE, TRUE, find_condition, is_true, set_condition
from apfproxy.apiserver.outcomes import WriteOptions, check_preconditions
from apfproxy.apiserver.policy import (
    ALWAYS_ALLOW,
    DISRUPTION_ALLOWED,
    GROUP,
    POD_DISRUPTION_BUDGET,
    SYNC_FAILED,
    set_disruption_allowed,
)
from apfproxy.apiserver.selectors import selector_of
from apfproxy.objects.go_text import rfc3339
from apfproxy.objects.selectors import SelectorError

if TYPE_CHECKING:
    from apfproxy.apiserver.registry import DeleteOptions, Registry
    from apfproxy.objects.types import Object

MANAGER = "kube-apiserver"
"""Field manager of the writes to budgets and pods."""
ATTEMPTS = 20
"""How often a deletion is tried while the pod keeps changing: Kubernetes' number."""
MOST_DISRUPTED_PODS = 2000
"""Evictions that the disruption controller may be behind: Kubernetes' number."""
RETRY_AFTER_S = 10
"""When to try again if a budget has not been looked at: Kubernetes' number."""

UNSTARTED = "Pending"
DISRUPTION_TARGET = "DisruptionTarget"
VIOLATION = "Cannot evict pod as it would violate the pod's disruption budget."
TOO_MANY_DISRUPTED = (
    "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
)


async def evict(
    registry: Registry, namespace: str, name: str, eviction: Object, options: DeleteOptions
) -> Object:
    """Delete a pod if its disruption budgets allow it; or StatusError.

    The options are the eviction's `deleteOptions`, and `dryRun` of the request.  Returns the Status
    of a success.
    """
    if eviction["metadata"].get("name", "") != name:
        raise bad_request("name in URL does not match name in Eviction object")
    is_exact = options.resource_version is not None
    for attempt in itertools.count(1):
        pod = registry.get(POD, namespace, name)
        if not ignores_budgets(pod):
            await _delete_protected(registry, pod, options)
            break
        as_seen = _only_as_seen(pod, options) if may_start(pod) and not is_exact else options
        try:
            await _delete(registry, namespace, name, as_seen)
        except StatusError as error:
            if is_exact or error.reason != "Conflict" or attempt == ATTEMPTS:
                raise
        else:
            break
    return success(code=201)


async def _delete_protected(registry: Registry, pod: Object, options: DeleteOptions) -> None:
    """Delete a pod that its budget allows to go; one that is not healthy only as it was seen."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    found = registry.objects(POD_DISRUPTION_BUDGET, namespace)
    budgets = [budget for budget in found if is_matched(budget, pod)]
    if len(budgets) > 1:
        raise unknown_error(
            "This pod has more than one PodDisruptionBudget,"
            " which the eviction subresource does not support."
        )
    is_spared = bool(budgets) and spares_unhealthy(budgets[0], pod)
    if budgets and not is_spared:
        counted = partial(charge, pod_name=name, now=rfc3339(registry.clock()))
        status = WriteOptions(MANAGER, options.is_dry_run, subresource="status")
        budget_name = budgets[0]["metadata"]["name"]
        await registry.update(POD_DISRUPTION_BUDGET, namespace, budget_name, counted, status)
    as_seen = _only_as_seen(pod, options) if is_spared else options
    try:
        await _delete(registry, namespace, name, as_seen)
    except StatusError as error:
        if is_spared and error.reason == "Conflict" and options.resource_version is None:
            raise _unprocessed(budgets[0]) from error
        raise


async def _delete(registry: Registry, namespace: str, name: str, options: DeleteOptions) -> None:
    if not options.is_dry_run:
        now = rfc3339(registry.clock())

        def marked(pod: Object) -> Object:
            entry = registry.store.head(POD.resource, namespace, name)
            assert entry is not None, "the pod was just read from it"
            check_preconditions(POD, entry, options.uid, options.resource_version)
            mark_target(pod, now)
            return pod

        status = WriteOptions(MANAGER, subresource="status")
        written = await registry.update(POD, namespace, name, marked, status)
        if options.resource_version is not None:
            options = _only_as_seen(written.obj, options)
    await registry.delete(POD, namespace, name, options)


def _only_as_seen(pod: Object, options: DeleteOptions) -> DeleteOptions:
    return dataclasses.replace(options, resource_version=pod["metadata"]["resourceVersion"])


def ignores_budgets(pod: Object) -> bool:
    """Whether a pod does not run any more, or not yet."""
    return not may_start(pod) or pod["status"].get("phase", "") == UNSTARTED


def may_start(pod: Object) -> bool:
    return (
        pod["status"].get("phase", "") not in ENDED and "deletionTimestamp" not in pod["metadata"]
    )


def is_matched(budget: Object, pod: Object) -> bool:
    try:
        selector = selector_of(budget["spec"].get("selector"))
    except SelectorError:
        return False
    return selector.matches(pod["metadata"].get("labels", {}))


def spares_unhealthy(budget: Object, pod: Object) -> bool:
    """Whether the pod may go without counting, since it is not healthy."""
    if is_true(pod["status"], "Ready"):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == ALWAYS_ALLOW:
        return True
    status = budget["status"]
    return bool(status["currentHealthy"] >= status["desiredHealthy"] > 0)


def charge(budget: Object, pod_name: str, now: str) -> Object:
    """Count the eviction of a pod in the only budget about it, in place.

    StatusError if the budget does not allow it: 429, or 403 where it is no use to try again.
    """
    status, metadata = budget["status"], budget["metadata"]
    allowed, disrupted = status["disruptionsAllowed"], status.get("disruptedPods", {})
    refused = partial(forbidden, GROUP, POD_DISRUPTION_BUDGET.singular, metadata["name"])
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        raise _unprocessed(budget)
    if allowed < 0:
        raise refused("pdb disruptions allowed is negative")
    if len(disrupted) > MOST_DISRUPTED_PODS:
        raise refused(TOO_MANY_DISRUPTED)
    if allowed == 0:
        raise _refused(_why_none(metadata["name"], status))
    status["disruptionsAllowed"] = allowed - 1
    if allowed == 1:
        set_disruption_allowed(status, now)
    status["disruptedPods"] = {**disrupted, pod_name: now}
    return budget


def _refused(message: str, retry_after_s: int = 0) -> StatusError:
    cause = {"reason": "DisruptionBudget", "message": message}
    return StatusError(
        429, "TooManyRequests", VIOLATION, {"causes": [cause]}, retry_after_s=retry_after_s
    )


def _unprocessed(budget: Object) -> StatusError:
    """The budget has changed since it was last looked at, or the pod has."""
    name = budget["metadata"]["name"]
    message = f"The disruption budget {name} is still being processed by the server."
    return _refused(message, RETRY_AFTER_S)


def _why_none(name: str, status: Object) -> str:
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
        "status": TRUE,
        "lastProbeTime": None,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    if generation := pod["metadata"].get("generation"):
        condition["observedGeneration"] = generation
    set_condition(pod["status"], condition, now)
