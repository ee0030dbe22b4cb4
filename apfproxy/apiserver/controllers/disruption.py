"""Keeps the status of disruption budgets.

Of a pod only what a count needs is kept, and only by the budgets that select it.

The controller also removes the mark of a disruption that does not happen.

Source: Kubernetes, `pkg/controller/disruption`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from apfproxy.apiserver.apps import CONTROLLERS, DEPLOYMENT, REPLICA_SET
from apfproxy.apiserver.controllers.runner import Controller
from apfproxy.apiserver.core.pods import ENDED, POD
from apfproxy.apiserver.eviction import DISRUPTION_TARGET
from apfproxy.apiserver.metadata import FALSE, TRUE, find_condition
from apfproxy.apiserver.policy import (
    POD_DISRUPTION_BUDGET,
    NoControllerError,
    SelectedPods,
    assess,
    controller_of,
    failed_status,
    is_up_to_date,
    pod_state,
)
from apfproxy.apiserver.policy import Controller as PodController
from apfproxy.apiserver.selectors import NOTHING, selector_of
from apfproxy.apiserver.store.entries import ChangeType
from apfproxy.objects.go_text import parse_time, rfc3339
from apfproxy.objects.selectors import SelectorError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.apiserver.controllers.runner import Key
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.registry import Registry
    from apfproxy.apiserver.store.entries import Change, Entry
    from apfproxy.objects.types import Object

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


class Budget:
    """A budget's selector, and the pods that it selects; `error` if it means nothing."""

    def __init__(self, described: Object | None, pods: Iterable[Entry]) -> None:
        self.described = described
        self._selector, self.error = NOTHING, ""
        try:
            self._selector = selector_of(described)
        except SelectorError as error:
            self.error = str(error)
        self.pods = SelectedPods()
        for pod in pods:
            self.note(pod.name, pod)

    def note(self, name: str, pod: Entry | None) -> bool:
        """Note the state of a pod, None if it is gone; returns whether the counts may change."""
        if pod is None or not self._selector.matches(pod.labels):
            return self.pods.note(name, None)
        return self.pods.note(name, pod_state(msgspec.json.decode(pod.data)))


class Disruption(Controller):
    name = "disruption"
    kinds = (POD, POD_DISRUPTION_BUDGET, *CONTROLLERS)

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self._pods = registry.store.collection(POD.collection)
        self._budgets: dict[str, dict[str, Budget]] = {}

    def __repr__(self) -> str:
        return f"<Disruption in {len(self._budgets)} namespaces>"

    def notice(self, kind: Kind, change: Change) -> Iterable[Key]:
        entry, namespace, name = change.entry, change.entry.namespace, change.entry.name
        if kind is POD:
            return self._note_pod(namespace, name)
        if kind is not POD_DISRUPTION_BUDGET:
            return [(namespace, each) for each in self._budgets.get(namespace, ())]
        budgets = self._budgets.setdefault(namespace, {})
        if change.type is ChangeType.DELETED:
            budgets.pop(name, None)
            if not budgets:
                del self._budgets[namespace]
            return ()
        described = msgspec.json.decode(entry.data)["spec"].get("selector")
        if name not in budgets or budgets[name].described != described:
            budgets[name] = Budget(described, self._pods.snapshot(namespace))
        return [(namespace, name)]

    def _note_pod(self, namespace: str, name: str) -> list[Key]:
        """The keys of the budgets that a change of a pod concerns, and of the pod if it is marked.

        The pod is noted as it is now: a new budget may have read a later state than the change's.
        """
        pod = self._pods.get(namespace, name)
        concerned: list[Key] = []
        if pod is not None and MARK in pod.data and _disrupted_at(msgspec.json.decode(pod.data)):
            concerned.append((namespace, name, STALE))
        for each, budget in self._budgets.get(namespace, {}).items():
            if budget.note(name, pod):
                concerned.append((namespace, each))
        return concerned

    async def look(self, key: Key) -> float | None:
        if key[2:]:
            return await self._undisrupt(*key[:2])
        namespace, name = place = key[0], key[1]
        known = self._budgets.get(namespace, {}).get(name)
        if known is None:
            return None
        budget = self._registry.get(POD_DISRUPTION_BUDGET, namespace, name)
        status, recheck_s = self._status(budget, known)
        if not is_up_to_date(budget, status):
            await self._update(
                POD_DISRUPTION_BUDGET, place, lambda each: {**each, "status": status}, "status"
            )
        return recheck_s

    def _status(self, budget: Object, known: Budget) -> tuple[Object, float | None]:
        """The right status of a budget, and when it may change without an event."""
        now_s = self._registry.clock()
        if known.error:
            return failed_status(budget, known.error, now_s), None
        scale_of = partial(self._scale_of, budget["metadata"]["namespace"])
        try:
            return assess(budget, known.pods, now_s, scale_of)
        except ValueError as error:
            return failed_status(budget, str(error), now_s), None

    def _scale_of(self, namespace: str, controller: PodController) -> tuple[str, int] | None:
        """The number of pods that a controller wants, or that its own controller does."""
        kind = SCALED.get((controller.group, controller.kind))
        if kind is None:
            return None
        entry = self._head(kind, namespace, controller.name)
        if entry is None or entry.uid != controller.uid:
            raise NoControllerError(controller.name)
        obj = msgspec.json.decode(entry.data)
        above = controller_of(obj["metadata"])
        if kind is REPLICA_SET and above is not None and above.kind == DEPLOYMENT.name:
            return self._scale_of(namespace, above)
        return entry.uid, obj["spec"]["replicas"]

    async def _undisrupt(self, namespace: str, name: str) -> float | None:
        since = _disrupted_at(self._registry.get(POD, namespace, name))
        if not since:
            return None
        now_s = self._registry.clock()
        if (until_s := parse_time(since) + STALE_S) > now_s:
            return until_s
        time = rfc3339(now_s)
        condition = {"type": DISRUPTION_TARGET, "status": FALSE, "lastTransitionTime": time}
        await self._apply_condition(POD, (namespace, name), condition, POD_MANAGER)
        return None


def _disrupted_at(pod: Object) -> str:
    """When a pod was marked for disruption, RFC 3339; "" if it is not marked, or by its kubelet.

    A pod that is being deleted, or has ended, does not count.
    """
    if "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") in ENDED:
        return ""
    condition = find_condition(pod["status"], DISRUPTION_TARGET)
    if condition is None or condition["status"] != TRUE:
        return ""
    is_by_kubelet = condition.get("reason") == ENDED_BY_KUBELET
    return "" if is_by_kubelet else condition["lastTransitionTime"] or ""
