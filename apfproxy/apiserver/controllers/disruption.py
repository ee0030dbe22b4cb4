"""Keeps the status of disruption budgets.

A changed pod is compared with the selectors of its namespace's budgets; a budget that is concerned
walks the pods of its namespace.

The controller also removes the mark of a disruption that does not happen.

Source: Kubernetes, `pkg/controller/disruption`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from apfproxy.apiserver.apps import CONTROLLERS, DEPLOYMENT, REPLICA_SET
from apfproxy.apiserver.controllers.runner import Controller
from apfproxy.apiserver.core.pods import ENDED, POD
from apfproxy.apiserver.eviction import DISRUPTION_TARGET
from apfproxy.apiserver.metadata import FALSE, TRUE, find_condition
from apfproxy.apiserver.policy import (
    POD_DISRUPTION_BUDGET,
    NoControllerError,
    PodState,
    assess,
    controller_of,
    failed_status,
    is_up_to_date,
    pod_state,
)
from apfproxy.apiserver.policy import Controller as PodController
from apfproxy.apiserver.selectors import NOTHING, LabelSelector, selector_of
from apfproxy.apiserver.store.entries import ChangeType
from apfproxy.objects.go_text import parse_time, rfc3339
from apfproxy.objects.selectors import SelectorError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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


class Chosen(NamedTuple):
    """The pods that a budget selects; if its selector means nothing, why."""

    selector: LabelSelector
    error: str = ""


class Disruption(Controller):
    """Keeps the status of budgets."""

    name = "disruption"
    kinds = (POD, POD_DISRUPTION_BUDGET, *CONTROLLERS)

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self._chosen: dict[str, dict[str, Chosen]] = {}

    def __repr__(self) -> str:
        return f"<Disruption in {len(self._chosen)} namespaces>"

    def notice(self, kind: Kind, change: Change) -> Iterable[Key]:
        entry, is_gone = change.entry, change.type is ChangeType.DELETED
        namespace, name = entry.namespace, entry.name
        budgets = self._chosen.get(namespace, {})
        if kind is POD:
            return _concerned(change, budgets)
        if kind is not POD_DISRUPTION_BUDGET:
            return [(namespace, each) for each in budgets]
        if not is_gone:
            self._chosen.setdefault(namespace, {})[name] = _chosen(entry)
            return [(namespace, name)]
        budgets.pop(name, None)
        if not budgets:
            self._chosen.pop(namespace, None)
        return ()

    async def look(self, key: Key) -> float | None:
        if key[2:]:
            return await self._undisrupt(*key[:2])
        namespace, name = place = key[0], key[1]
        chosen = self._chosen.get(namespace, {}).get(name)
        if chosen is None:
            return None
        budget = self._registry.get(POD_DISRUPTION_BUDGET, namespace, name)
        status, recheck_s = self._status(budget, chosen)
        if not is_up_to_date(budget, status):
            await self._update(
                POD_DISRUPTION_BUDGET, place, lambda each: {**each, "status": status}, "status"
            )
        return recheck_s

    def _status(self, budget: Object, chosen: Chosen) -> tuple[Object, float | None]:
        """The right status of a budget, and when it may change without an event."""
        now_s, namespace = self._registry.clock(), budget["metadata"]["namespace"]
        if chosen.error:
            return failed_status(budget, chosen.error, now_s), None
        pods = self._registry.store.collection(POD.collection).snapshot(namespace)
        states = [_state_of(pod) for pod in pods if chosen.selector.matches(pod.labels)]
        try:
            return assess(budget, states, now_s, partial(self._scale_of, namespace))
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
        """Remove the mark of a disruption, if it is time."""
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


def _state_of(entry: Entry) -> PodState:
    return pod_state(msgspec.json.decode(entry.data))


def _concerned(change: Change, budgets: Mapping[str, Chosen]) -> list[Key]:
    """The keys of the budgets that a change of a pod concerns, and of the pod if it is marked."""
    entry, old = change.entry, change.old
    namespace, is_gone = entry.namespace, change.type is ChangeType.DELETED
    concerned: list[Key] = []
    if MARK in entry.data and not is_gone and _disrupted_at(msgspec.json.decode(entry.data)):
        concerned.append((namespace, entry.name, STALE))
    if not budgets:
        return concerned
    all_labels = [entry.labels]
    if old is not None and not is_gone:
        if old.labels != entry.labels:
            all_labels.append(old.labels)
        elif _state_of(old) == _state_of(entry):
            return concerned
    for name, chosen in budgets.items():
        if any(chosen.selector.matches(labels) for labels in all_labels):
            concerned.append((namespace, name))
    return concerned


def _chosen(entry: Entry) -> Chosen:
    try:
        return Chosen(selector_of(msgspec.json.decode(entry.data)["spec"].get("selector")))
    except SelectorError as error:
        return Chosen(NOTHING, str(error))


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
