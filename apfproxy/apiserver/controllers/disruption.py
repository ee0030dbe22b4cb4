"""Keeps the status of disruption budgets: works out what they allow.

1. With `minAvailable` as a number, all pods that the selector matches are expected.
2. With `maxUnavailable`, or a percentage, the pods are expected that the controllers of the matched
   pods want: Kubernetes asks those controllers for their scale.  A pod without a controller is not
   expected, though it counts as healthy.
3. `disruptionsAllowed` is the number of healthy pods beyond those desired, and 0 where no pods are
   expected.

One deviation: of a controller of a kind that is not served, as many pods are expected as there are
that name it, where Kubernetes would fail the budget (`SyncFailed`).

Of a pod only what a count needs is kept, and only by the budgets that select it.  The mark of a
disruption that does not happen is removed.

Source: Kubernetes 1.36, `pkg/controller/disruption` and apimachinery's `util/intstr`.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from apfproxy.apiserver.apps import CONTROLLERS, DEPLOYMENT, REPLICA_SET
from apfproxy.apiserver.controllers.runner import IN_A_ROW, Controller
from apfproxy.apiserver.core.pods import ENDED, POD
from apfproxy.apiserver.metadata import FALSE, TRUE, find_condition, is_true
from apfproxy.apiserver.policy import (
    DISRUPTION_ALLOWED,
    DISRUPTION_TARGET,
    POD_DISRUPTION_BUDGET,
    STATUS_NUMBERS,
    percentage,
    set_disruption_allowed,
)
from apfproxy.apiserver.selectors import NOTHING, selector_of
from apfproxy.apiserver.store.entries import ChangeType
from apfproxy.objects.go_text import parse_time, rfc3339
from apfproxy.objects.selectors import SelectorError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apfproxy.apiserver.controllers.runner import Key
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.registry import Registry
    from apfproxy.apiserver.store.entries import Change, Entry
    from apfproxy.objects.types import Object

POD_MANAGER = "DisruptionController"
DELETION_TIMEOUT_S = 120  # how long an evicted pod counts as gone before it is: Kubernetes' number
STALE_S = 120  # how long a pod may be marked for disruption without being deleted
MARK = DISRUPTION_TARGET.encode()
ENDED_BY_KUBELET = "TerminationByKubelet"  # the reason of disruptions that have no time limit
SCALED = {(kind.group, kind.name): kind for kind in CONTROLLERS}
"""The controllers that know how many pods they want, by group and kind."""
CONDITIONS_AT_ONCE = 10_000
"""Conditions of selectors that are judged before other tasks run: about 2 ms."""
STALE = "stale"  # third part of the keys that stand for pods; those for budgets have two


class PodController(NamedTuple):
    group: str
    kind: str
    name: str
    uid: str


Scale = tuple[str, int | None]
"""The uid of what keeps the number of pods, the controller or its own one, and that number.

The number is None for a controller of a kind that is not served.
"""


class PodState(NamedTuple):
    """A pod as budgets see it: `is_ready` is its condition, `is_ending` that it is deleted."""

    is_ready: bool
    is_ending: bool
    controller: PodController | None

    @property
    def is_healthy(self) -> bool:
        return self.is_ready and not self.is_ending


def controller_of(metadata: Object) -> PodController | None:
    for owner in metadata.get("ownerReferences", ()):
        if owner.get("controller"):
            group = owner["apiVersion"].rpartition("/")[0]
            return PodController(group, owner["kind"], owner["name"], owner["uid"])
    return None


def pod_state(pod: Object) -> PodState:
    metadata = pod["metadata"]
    is_ready = is_true(pod.get("status", {}), "Ready")
    return PodState(is_ready, "deletionTimestamp" in metadata, controller_of(metadata))


class Budget:
    """A budget's selector, and the pods that it selects, counted as they come and go.

    `unread` has the names of pods that are yet to be noted: a namespace may have many.
    """

    def __init__(self, described: Object | None, pods: Iterable[Entry]) -> None:
        self.described = described
        self.unread = deque(pod.name for pod in pods)
        self._selector, self._error = NOTHING, ""
        try:
            self._selector = selector_of(described)
        except SelectorError as error:
            self._error = str(error)
        self._conditions = 1 + sum(1 + len(each.values) for each in self._selector.requirements)
        self.states: dict[str, PodState] = {}
        self.healthy = 0
        self.controllers: Counter[PodController | None] = Counter()

    @property
    def at_once(self) -> int:
        """How many pods are noted before other tasks run: a selector may have many conditions."""
        return max(1, min(IN_A_ROW, CONDITIONS_AT_ONCE // self._conditions))

    def state_of(self, pod: Entry | None) -> PodState | None:
        if pod is None or not self._selector.matches(pod.labels):
            return None
        return pod_state(msgspec.json.decode(pod.data))

    def note(self, name: str, state: PodState | None) -> bool:
        """Note the state of a pod, None if it is gone; returns whether it is another one."""
        former = self.states.pop(name, None)
        if former is not None:
            self.healthy -= former.is_healthy
            self.controllers[former.controller] -= 1
            if not self.controllers[former.controller]:
                del self.controllers[former.controller]
        if state is not None:
            self.states[name] = state
            self.healthy += state.is_healthy
            self.controllers[state.controller] += 1
        return state != former

    def assess(
        self, budget: Object, now_s: float, scale_of: Callable[[PodController], Scale | None]
    ) -> tuple[Object, float | None]:
        """Work out the status; `scale_of` returns None for a controller that is not there.

        Returns:
            The new status, canonical, and when it has to be worked out again even if nothing
            changes, in seconds since 1970; None for never.

        Raises:
            ValueError: The budget cannot be worked out.
        """
        if self._error:
            raise ValueError(self._error)
        old = budget["status"]
        expected, desired = self._expected_pods(budget["spec"], scale_of)
        disrupted, recheck_s = self._still_disrupted(old.get("disruptedPods", {}), now_s)
        healthy = self.healthy - sum(self.states[name].is_ready for name in disrupted)
        status: Object = {
            "observedGeneration": budget["metadata"].get("generation", 0),
            "disruptedPods": disrupted,
            "disruptionsAllowed": max(healthy - desired, 0) if expected > 0 else 0,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": old.get("conditions", []),
        }
        set_disruption_allowed(status, rfc3339(now_s))
        optional = ("observedGeneration", "disruptedPods")
        return {name: v for name, v in status.items() if v or name not in optional}, recheck_s

    def _expected_pods(
        self, spec: Object, scale_of: Callable[[PodController], Scale | None]
    ) -> tuple[int, int]:
        """Count the pods that there should be, and those of them that have to be healthy."""
        maximum, minimum = spec.get("maxUnavailable"), spec.get("minAvailable", 0)
        if maximum is None and isinstance(minimum, int):
            return len(self.states) if "minAvailable" in spec else 0, minimum
        numbers: dict[str, int] = {}
        for controller, number in self.controllers.items():
            if controller is None:
                continue
            scale = scale_of(controller)
            if scale is None:
                states = self.states.items()
                name = next(name for name, state in states if state.controller == controller)
                raise ValueError(f'found no controllers for pod "{name}"')
            uid, wanted = scale
            numbers[uid] = numbers.get(uid, 0) + number if wanted is None else wanted
        total = sum(numbers.values())
        if maximum is None:
            return total, scaled(minimum, total)
        return total, max(total - scaled(maximum, total), 0)

    def _still_disrupted(self, disrupted: Object, now_s: float) -> tuple[Object, float | None]:
        """Find the evicted pods that still count, and when the first no longer does."""
        deadlines = {
            name: parse_time(disrupted[name]) + DELETION_TIMEOUT_S
            for name in sorted(disrupted)
            if name in self.states and not self.states[name].is_ending
        }
        still = {name: until_s for name, until_s in deadlines.items() if until_s > now_s}
        return {name: disrupted[name] for name in still}, min(still.values(), default=None)


def decisive(status: Object) -> tuple[object, ...]:
    """The parts of a budget's status that something is decided by: no message, no generation."""
    condition = find_condition(status, DISRUPTION_ALLOWED) or {}
    return (
        *(status[name] for name in STATUS_NUMBERS),
        status.get("observedGeneration", 0),
        status.get("disruptedPods", {}),
        condition.get("status"),
        condition.get("reason"),
    )


def scaled(value: int | str, total: int) -> int:
    """Return the value, or a percentage of `total`, rounded up; ValueError for another text."""
    if isinstance(value, int):
        return value
    if (percent := percentage(value)) is None:
        raise ValueError("invalid value for IntOrString: invalid type: string is not a percentage")
    return -(-percent * total // 100)


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
        # As it is now: a new budget may have read a later state than the change's.
        pod = self._pods.get(namespace, name)
        is_marked = pod is not None and MARK in pod.data
        concerned: list[Key] = [(namespace, name, STALE)] if is_marked else []
        for each, budget in self._budgets.get(namespace, {}).items():
            if budget.note(name, budget.state_of(pod)):
                concerned.append((namespace, each))
        return concerned

    async def look(self, key: Key) -> float | None:
        if key[2:]:
            return await self._undisrupt(*key[:2])
        namespace, name = place = key[0], key[1]
        while (known := self._budgets.get(namespace, {}).get(name)) and known.unread:
            pod = known.unread.popleft()
            known.note(pod, known.state_of(self._pods.get(namespace, pod)))
            if len(known.unread) % known.at_once == 0:
                await asyncio.sleep(0)
        if known is None:
            return None
        budget = self._registry.get(POD_DISRUPTION_BUDGET, namespace, name)
        now_s = self._registry.clock()
        try:
            status, recheck_s = known.assess(budget, now_s, partial(self._scale_of, namespace))
        except ValueError as error:
            status, recheck_s = {**budget["status"], "disruptionsAllowed": 0}, None
            set_disruption_allowed(status, rfc3339(now_s), str(error))
        if decisive(status) != decisive(budget["status"]):
            await self._update(
                POD_DISRUPTION_BUDGET, place, lambda each: {**each, "status": status}, "status"
            )
        return recheck_s

    def _scale_of(self, namespace: str, controller: PodController) -> Scale | None:
        kind = SCALED.get((controller.group, controller.kind))
        if kind is None:
            return controller.uid, None
        entry = self._head(kind, namespace, controller.name)
        if entry is None or entry.uid != controller.uid:
            return None
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
