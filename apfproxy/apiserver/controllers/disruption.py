"""Keeps the status of disruption budgets.

Only what budgets need of each pod is kept.  A changed pod is compared with the budgets of its
namespace; a changed budget walks the pods that it matches.

The controller also removes the mark of a disruption that does not happen.

Source: Kubernetes, `pkg/controller/disruption`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from apfproxy.apiserver.apps import CONTROLLERS, DEPLOYMENT, REPLICA_SET
from apfproxy.apiserver.controllers.runner import Controller
from apfproxy.apiserver.core.pods import ENDED, POD
from apfproxy.apiserver.metadata import FALSE, TRUE, find_condition
from apfproxy.apiserver.policy.budget import Controller as PodController
from apfproxy.apiserver.policy.budget import (
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
from apfproxy.apiserver.selectors import NOTHING, LabelSelector, selector_of
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


class Namespace:
    """The pods and budgets of a namespace; a pod has its labels and its state."""

    def __init__(self) -> None:
        self.pods: dict[str, tuple[dict[str, str], PodState]] = {}
        self.budgets: dict[str, Budget] = {}


class Disruption(Controller):
    """Keeps the status of budgets."""

    name = "disruption"
    kinds = (POD, POD_DISRUPTION_BUDGET, *CONTROLLERS)

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self._namespaces: defaultdict[str, Namespace] = defaultdict(Namespace)

    def __repr__(self) -> str:
        return f"<Disruption in {len(self._namespaces)} namespaces>"

    def notice(self, kind: Kind, change: Change) -> Iterable[Key]:
        """Note what pods there are, and which budgets match them."""
        entry, is_gone = change.entry, change.type is ChangeType.DELETED
        found = self._namespaces[entry.namespace]
        if kind is POD:
            concerned = _lose_pod(found, entry) if is_gone else _note_pod(found, entry)
        elif kind is not POD_DISRUPTION_BUDGET:
            # Which of them count on the controller is seen later.
            concerned = [(entry.namespace, name) for name in found.budgets]
        elif is_gone:
            found.budgets.pop(entry.name, None)
            concerned = []
        else:
            _note_budget(found, entry)
            concerned = [(entry.namespace, entry.name)]
        if not found.pods and not found.budgets:
            del self._namespaces[entry.namespace]
        return concerned

    async def look(self, key: Key) -> float | None:
        """Correct the status of a budget, or of a pod with a stale mark."""
        if key[2:]:
            return await self._undisrupt(*key[:2])
        namespace, name = place = key[0], key[1]
        found = self._namespaces.get(namespace)
        if found is None or name not in found.budgets:
            return None
        budget = self._registry.get(POD_DISRUPTION_BUDGET, namespace, name)
        status, recheck_s = self._status(budget, found, found.budgets[name])
        if not is_up_to_date(budget, status):
            await self._update(
                POD_DISRUPTION_BUDGET, place, lambda each: {**each, "status": status}, "status"
            )
        return recheck_s

    def _status(
        self, budget: Object, found: Namespace, known: Budget
    ) -> tuple[Object, float | None]:
        """The right status of a budget, and when it may change without an event."""
        now_s = self._registry.clock()
        if known.error:
            return failed_status(budget, known.error, now_s), None
        states = [found.pods[name][1] for name in known.pods]
        scale_of = partial(self._scale_of, budget["metadata"]["namespace"])
        try:
            return assess(budget, states, now_s, scale_of)
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


def _note_pod(found: Namespace, entry: Entry) -> list[Key]:
    namespace, name = entry.namespace, entry.name
    pod = msgspec.json.decode(entry.data)
    state = pod_state(pod)
    concerned: list[Key] = []
    if MARK in entry.data and _disrupted_at(pod):
        concerned.append((namespace, name, STALE))
    if found.pods.get(name) == (entry.labels, state):
        return concerned
    found.pods[name] = entry.labels, state
    for budget_name, budget in found.budgets.items():
        if budget.selector.matches(entry.labels):
            budget.pods.add(name)
        elif name in budget.pods:
            budget.pods.discard(name)
        else:
            continue
        concerned.append((namespace, budget_name))
    return concerned


def _lose_pod(found: Namespace, entry: Entry) -> list[Key]:
    found.pods.pop(entry.name, None)
    concerned: list[Key] = []
    for name, budget in found.budgets.items():
        if entry.name in budget.pods:
            budget.pods.discard(entry.name)
            concerned.append((entry.namespace, name))
    return concerned


def _note_budget(found: Namespace, entry: Entry) -> None:
    described = msgspec.json.decode(entry.data)["spec"].get("selector")
    known = found.budgets.get(entry.name)
    if known is not None and known.described == described:
        return
    budget = found.budgets[entry.name] = Budget(described)
    try:
        budget.selector = selector_of(described)
    except SelectorError as error:
        budget.error = str(error)
    budget.pods = {name for name, pod in found.pods.items() if budget.selector.matches(pod[0])}


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
