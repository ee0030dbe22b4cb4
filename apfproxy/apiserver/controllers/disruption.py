"""Keeps the status of disruption budgets.

Only what budgets need of each pod is kept.  A changed pod is compared with the budgets of its
namespace; a changed budget walks the pods that it matches.

The controller also removes the mark of a disruption that does not happen.

Source: Kubernetes, `pkg/controller/disruption`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from apfproxy.apiserver.apps import CONTROLLERS, DEPLOYMENT, REPLICA_SET
from apfproxy.apiserver.core.pods import ENDED, POD
from apfproxy.apiserver.metadata import FALSE, TRUE, find_condition
from apfproxy.apiserver.policy.budget import (
    Controller,
    NoControllerError,
    PodState,
    assess,
    controller_of,
    failed_status,
    is_up_to_date,
    pod_state,
)
from apfproxy.apiserver.policy.eviction import DISRUPTION_TARGET
from apfproxy.apiserver.policy.kinds import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.registry import WriteOptions
from apfproxy.apiserver.selectors import NOTHING, LabelSelector, selector_of
from apfproxy.apiserver.store.entries import ChangeType
from apfproxy.objects.go_text import parse_time, rfc3339
from apfproxy.objects.selectors import SelectorError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.apiserver.controllers.queue import Key
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.registry import Registry
    from apfproxy.apiserver.store.entries import Change, Entry
    from apfproxy.objects.types import Object

MANAGER = "kube-controller-manager"
POD_MANAGER = "DisruptionController"
STALE_S = 120
"""How long a pod may be marked for disruption without being deleted."""
MARK = DISRUPTION_TARGET.encode()
ENDED_BY_KUBELET = "TerminationByKubelet"
"""The reason of disruptions that have no time limit."""
SCALED = {(kind.group, kind.name): kind for kind in CONTROLLERS}
"""The controllers that know how many pods they want, by group and kind."""
STALE = "stale"
"""Third part of the keys that stand for pods; those for budgets have two."""


@dataclass(slots=True)
class Budget:
    """What is known of a budget.

    Attributes:
        described: Its `spec.selector`.
        error: Why that means nothing; "" if it does.
        pods: Names of the pods that it matches.
    """

    described: Object | None
    selector: LabelSelector = NOTHING
    error: str = ""
    pods: set[str] = field(default_factory=set)


class Disruption:
    """Keeps the status of budgets."""

    name = "disruption"
    kinds = (POD, POD_DISRUPTION_BUDGET, *CONTROLLERS)

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._pods: dict[str, dict[str, tuple[dict[str, str], PodState]]] = {}
        self._budgets: dict[str, dict[str, Budget]] = {}

    def __repr__(self) -> str:
        return f"<Disruption in {len(self._budgets)} namespaces>"

    def notice(self, kind: Kind, change: Change) -> Iterable[Key]:
        """Note what pods there are, and which budgets match them."""
        is_gone = change.type is ChangeType.DELETED
        if kind is POD:
            return self._lose_pod(change.entry) if is_gone else self._note_pod(change.entry)
        if kind is not POD_DISRUPTION_BUDGET:
            return self._note_controller(change.entry)
        return self._lose_budget(change.entry) if is_gone else self._note_budget(change.entry)

    def _note_pod(self, entry: Entry) -> list[Key]:
        namespace, name = entry.namespace, entry.name
        pod = msgspec.json.decode(entry.data)
        state = pod_state(pod)
        concerned: list[Key] = []
        if MARK in entry.data and disrupted_at(pod):
            concerned.append((namespace, name, STALE))
        pods = self._pods.setdefault(namespace, {})
        if pods.get(name) == (entry.labels, state):
            return concerned
        pods[name] = entry.labels, state
        for budget_name, budget in self._budgets.get(namespace, {}).items():
            if budget.selector.matches(entry.labels):
                budget.pods.add(name)
            elif name in budget.pods:
                budget.pods.discard(name)
            else:
                continue
            concerned.append((namespace, budget_name))
        return concerned

    def _lose_pod(self, entry: Entry) -> list[Key]:
        namespace, name = entry.namespace, entry.name
        pods = self._pods.get(namespace, {})
        pods.pop(name, None)
        if not pods:
            self._pods.pop(namespace, None)
        concerned: list[Key] = []
        for budget_name, budget in self._budgets.get(namespace, {}).items():
            if name in budget.pods:
                budget.pods.discard(name)
                concerned.append((namespace, budget_name))
        return concerned

    def _note_controller(self, entry: Entry) -> list[Key]:
        """All budgets of the namespace: which of them count on the controller is seen later."""
        return [(entry.namespace, name) for name in self._budgets.get(entry.namespace, {})]

    def _note_budget(self, entry: Entry) -> list[Key]:
        namespace, name = entry.namespace, entry.name
        described = msgspec.json.decode(entry.data)["spec"].get("selector")
        budgets = self._budgets.setdefault(namespace, {})
        if name not in budgets or budgets[name].described != described:
            budget = budgets[name] = Budget(described)
            try:
                budget.selector = selector_of(described)
            except SelectorError as error:
                budget.error = str(error)
            pods = self._pods.get(namespace, {})
            budget.pods = {pod for pod in pods if budget.selector.matches(pods[pod][0])}
        return [(namespace, name)]

    def _lose_budget(self, entry: Entry) -> list[Key]:
        budgets = self._budgets.get(entry.namespace, {})
        budgets.pop(entry.name, None)
        if not budgets:
            self._budgets.pop(entry.namespace, None)
        return []

    async def look(self, key: Key) -> float | None:
        """Correct the status of a budget, or of a pod with a stale mark."""
        if key[2:]:
            return await self._undisrupt(*key[:2])
        namespace, name = key
        known = self._budgets.get(namespace, {}).get(name)
        if known is None:
            return None
        budget = self._registry.get(POD_DISRUPTION_BUDGET, namespace, name)
        status, recheck_s = self._status(budget, known)
        if not is_up_to_date(budget, status):
            options = WriteOptions(MANAGER, subresource="status")
            await self._registry.update(
                POD_DISRUPTION_BUDGET,
                namespace,
                name,
                lambda current: {**current, "status": status},
                options,
            )
        return recheck_s

    def _status(self, budget: Object, known: Budget) -> tuple[Object, float | None]:
        """The right status of a budget, and when it may change without an event."""
        now_s = self._registry.clock()
        namespace = budget["metadata"]["namespace"]
        pods = self._pods.get(namespace, {})
        if known.error:
            return failed_status(budget, known.error, now_s), None
        try:
            states = [pods[name][1] for name in known.pods]
            return assess(budget, states, now_s, partial(self._scale_of, namespace))
        except ValueError as error:
            return failed_status(budget, str(error), now_s), None

    def _scale_of(self, namespace: str, controller: Controller) -> tuple[str, int] | None:
        """The number of pods that a controller wants, or that its own controller does."""
        kind = SCALED.get((controller.group, controller.kind))
        if kind is None:
            return None
        entry = self._registry.store.head(kind.collection, namespace, controller.name)
        if entry is None or entry.uid != controller.uid:
            raise NoControllerError(controller.name)
        obj = msgspec.json.decode(entry.data)
        above = controller_of(obj["metadata"])
        if kind is REPLICA_SET and above is not None and above.kind == DEPLOYMENT.name:
            return self._scale_of(namespace, above)
        return entry.uid, obj["spec"]["replicas"]

    async def _undisrupt(self, namespace: str, name: str) -> float | None:
        """Remove the mark of a disruption, if it is time."""
        since = disrupted_at(self._registry.get(POD, namespace, name))
        now_s = self._registry.clock()
        if not since:
            return None
        if parse_time(since) + STALE_S > now_s:
            return parse_time(since) + STALE_S
        time = rfc3339(now_s)
        condition = {"type": DISRUPTION_TARGET, "status": FALSE, "lastTransitionTime": time}
        patch = {"metadata": {"name": name}, "status": {"conditions": [condition]}}
        options = WriteOptions(POD_MANAGER, subresource="status")
        await self._registry.apply(POD, namespace, name, patch, options, force=True)
        return None


def disrupted_at(pod: Object) -> str:
    """When a pod was marked for disruption, RFC 3339; "" if it is not marked, or by its kubelet.

    A pod that is being deleted, or has ended, does not count.
    """
    if "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") in ENDED:
        return ""
    condition = find_condition(pod["status"], DISRUPTION_TARGET)
    if condition is None or condition["status"] != TRUE:
        return ""
    return (
        "" if condition.get("reason") == ENDED_BY_KUBELET else condition["lastTransitionTime"] or ""
    )
