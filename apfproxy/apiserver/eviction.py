"""Evictions: deletions of pods that disruption budgets may forbid.

The decision and the count in the budget's status are one synchronous step of the registry.  Between
that and the deletion the pod may change; a pod that was let go for being unhealthy is therefore
deleted only as it was seen.

Source: Kubernetes 1.36, `pkg/registry/core/pod/storage/eviction.go`.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

from apfproxy.apiserver.core.kinds import POD
from apfproxy.apiserver.errors import StatusError, bad_request, forbidden, success, unknown_error
from apfproxy.apiserver.outcomes import check_preconditions
from apfproxy.apiserver.policy.eviction_rules import (
    SEVERAL_BUDGETS,
    VIOLATION,
    Refusal,
    budgets_of,
    charge,
    ignores_budgets,
    mark_target,
    may_start,
    spares_unhealthy,
    unprocessed,
)
from apfproxy.apiserver.policy.kinds import GROUP, POD_DISRUPTION_BUDGET
from apfproxy.apiserver.registry import WriteOptions
from apfproxy.objects.go_text import rfc3339

if TYPE_CHECKING:
    from apfproxy.apiserver.registry import DeleteOptions, Registry
    from apfproxy.objects.types import Object

MANAGER = "kube-apiserver"
"""Field manager of the writes to budgets and pods."""
ATTEMPTS = 20
"""How often a deletion is tried while the pod keeps changing: Kubernetes' number."""


async def evict(
    registry: Registry, namespace: str, name: str, eviction: Object, options: DeleteOptions
) -> Object:
    """Delete a pod if its disruption budgets allow it.

    The options are the eviction's `deleteOptions`, and `dryRun` of the request.  Returns the Status
    of a success, to be answered with 201.

    Raises:
        StatusError: The pod may not be deleted, is not there, or is not the one that is meant.
    """
    if eviction["metadata"].get("name", "") != name:
        raise bad_request("name in URL does not match name in Eviction object")
    pod = await delete_unprotected(registry, namespace, name, options)
    if pod is None:
        return success(code=201)
    budgets = budgets_of(pod, registry.objects(POD_DISRUPTION_BUDGET, namespace))
    if len(budgets) > 1:
        raise unknown_error(SEVERAL_BUDGETS)
    if not budgets:
        await delete(registry, namespace, name, options)
    elif spares_unhealthy(budgets[0], pod):
        await delete_unhealthy(registry, pod, budgets[0], options)
    else:
        await count(registry, budgets[0], name, is_dry_run=options.is_dry_run)
        await delete(registry, namespace, name, options)
    return success(code=201)


async def delete_unprotected(
    registry: Registry, namespace: str, name: str, options: DeleteOptions
) -> Object | None:
    """Delete the pod if no budget can protect it; else return it, for its budgets to be asked."""
    for attempt in itertools.count(1):
        pod = registry.get(POD, namespace, name)
        if not ignores_budgets(pod):
            return pod
        as_seen = options
        if may_start(pod) and options.resource_version is None:
            as_seen = only_as_seen(pod, options)
        try:
            await delete(registry, namespace, name, as_seen)
        except StatusError as error:
            is_exact = options.resource_version is not None
            if is_exact or not is_conflict(error) or attempt == ATTEMPTS:
                raise
        else:
            break
    return None


async def delete_unhealthy(
    registry: Registry, pod: Object, budget: Object, options: DeleteOptions
) -> None:
    """Delete a pod that is not healthy, unless it has changed since."""
    metadata = pod["metadata"]
    try:
        await delete(registry, metadata["namespace"], metadata["name"], only_as_seen(pod, options))
    except StatusError as error:
        if is_conflict(error) and options.resource_version is None:
            raise refused(budget, unprocessed(budget["metadata"]["name"])) from error
        raise


async def count(registry: Registry, budget: Object, pod_name: str, *, is_dry_run: bool) -> None:
    """Count the eviction in the budget's status; StatusError if it does not allow it."""
    now = rfc3339(registry.clock())

    def counted(current: Object) -> Object:
        refusal = charge(current, pod_name, now)
        if refusal is not None:
            raise refused(current, refusal)
        return current

    metadata = budget["metadata"]
    options = WriteOptions(MANAGER, is_dry_run, subresource="status")
    namespace, name = metadata["namespace"], metadata["name"]
    await registry.update(POD_DISRUPTION_BUDGET, namespace, name, counted, options)


async def delete(registry: Registry, namespace: str, name: str, options: DeleteOptions) -> None:
    """Note in the pod's status why it ends, and delete it."""
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
            options = only_as_seen(written.obj, options)
    await registry.delete(POD, namespace, name, options)


def only_as_seen(pod: Object, options: DeleteOptions) -> DeleteOptions:
    """The options to delete the pod with only if it has not changed."""
    return dataclasses.replace(options, resource_version=pod["metadata"]["resourceVersion"])


def is_conflict(error: StatusError) -> bool:
    """Whether an object was not as it was believed to be."""
    return error.reason == "Conflict"


def refused(budget: Object, refusal: Refusal) -> StatusError:
    """403 or 429: what a client is told that may not evict."""
    if refusal.is_final:
        name = budget["metadata"]["name"]
        return forbidden(GROUP, POD_DISRUPTION_BUDGET.singular, name, refusal.message)
    cause = {"reason": "DisruptionBudget", "message": refusal.message}
    return StatusError(
        429, "TooManyRequests", VIOLATION, {"causes": [cause]}, retry_after_s=refusal.retry_after_s
    )
