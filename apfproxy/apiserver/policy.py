"""The kinds of the group `policy`: disruption budgets, their arithmetic, and evictions as sent.

Kubernetes judges the content of a new budget first and its metadata only if there is nothing wrong
with that; at an update it judges both.  It asks of a budget's name no more than that a path can
hold it.  The disruption controller then works out what a budget allows:

1. With `minAvailable` as a number, all pods that the selector matches are expected.
2. With `maxUnavailable`, or a percentage, the pods are expected that the controllers of the matched
   pods want: Kubernetes asks those controllers for their scale.  A pod without a controller is not
   expected, though it counts as healthy.
3. `disruptionsAllowed` is the number of healthy pods beyond those desired, and 0 where no pods are
   expected.

One deviation: of a controller of a kind that is not served, as many pods are expected as there are
that name it, where Kubernetes would fail the budget (`SyncFailed`).

Sources: Kubernetes API reference, `policy/v1` and `policy/v1beta1`; of Kubernetes 1.36,
`generated.proto`, `pkg/apis/policy/validation`, `pkg/registry/policy/poddisruptionbudget`,
`pkg/controller/disruption` and apimachinery's `util/intstr`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from apfproxy.apiserver.kind import Kind, Rules, Version, by_path, not_negative, one_of, starts
from apfproxy.apiserver.metadata import (
    FALSE,
    TRUE,
    find_condition,
    is_true,
    keep_spec,
    keep_status,
    set_condition,
    validate_conditions,
    validate_named,
)
from apfproxy.apiserver.schema.language import structs
from apfproxy.apiserver.schema.shared_structs import SHARED
from apfproxy.apiserver.selectors import validate_label_selector
from apfproxy.apiserver.tables import AGE, NAME, Column
from apfproxy.objects.field_errors import FieldError, invalid
from apfproxy.objects.go_text import parse_time, rfc3339

if TYPE_CHECKING:
    from apfproxy.apiserver.tables import Cell
    from apfproxy.objects.types import Object

DISRUPTION_ALLOWED = "DisruptionAllowed"
SYNC_FAILED = "SyncFailed"
STATUS_NUMBERS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
"""The fields of the status that count pods."""
DELETION_TIMEOUT_S = 120
"""How long an evicted pod counts as gone before it is: Kubernetes' number."""
PERCENT = re.compile("[0-9]+%")
PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or"
    f" '93%', regex used for validation is '{PERCENT.pattern}')"
)
LONGEST_PERCENT = 19
"""Characters: Kubernetes cannot read a number that has more."""

GROUP = "policy"
ALWAYS_ALLOW = "AlwaysAllow"
HIGHEST_PERCENTAGE = 100

DECLARED = """
PodDisruptionBudget +object: Limits how many pods of a set may be disrupted at once.
PodDisruptionBudgetSpec: What a disruption budget asks for; one of minAvailable and maxUnavailable
        at most.
  1 minAvailable                *intOrString  How many pods stay: 3 or 50%.
  2 selector  *LabelSelector +replaced  The pods whose evictions the budget limits: all of the
        namespace for an empty selector, none for an absent one.
  3 maxUnavailable              *intOrString  How many pods may be away at once.
  4 unhealthyPodEvictionPolicy  *string +enum=AlwaysAllow|IfHealthyBudget
        +go=UnhealthyPodEvictionPolicyType  When running pods that are not ready may be evicted:
        IfHealthyBudget, the default, if enough others are healthy; AlwaysAllow at any time.
PodDisruptionBudgetStatus: What a disruption budget allows at the moment.
  1 observedGeneration  int64           The one that this is about.
  2 disruptedPods  map[string]time  Pods whose eviction is allowed and not yet seen, by name, with
        the time of it.
  3 disruptionsAllowed  int32 +written  How many pods may be disrupted now.
  4 currentHealthy      int32 +written  How many pods are healthy.
  5 desiredHealthy      int32 +written  How many pods have to be healthy at least.
  6 expectedPods        int32 +written  How many pods the budget counts on.
  7 conditions  []Condition +keys=type  DisruptionAllowed: whether, and why not.
Eviction +typed: Asks to delete a pod as far as disruption budgets allow it.
  1 metadata       ObjectMeta      Name and namespace of the pod to evict.
  2 deleteOptions  *DeleteOptions  How to delete the pod.
"""
STRUCTS = structs("io.k8s.api.policy.v1", DECLARED, SHARED)
BETA_STRUCTS = structs("io.k8s.api.policy.v1beta1", DECLARED, SHARED)
EVICTION = STRUCTS["Eviction"]
EVICTIONS = {"policy/v1": EVICTION, "policy/v1beta1": BETA_STRUCTS["Eviction"]}
"""The forms in which evictions may be sent, by `apiVersion`."""


def _amount(name: str) -> Cell:
    return lambda obj, _now_s: str(obj["spec"].get(name, "N/A"))


def _validate(obj: Object) -> list[FieldError]:
    return _validate_spec(obj["spec"]) or validate_named(obj["metadata"], is_namespaced=True)


def _validate_amount(field: str, value: int | str) -> list[FieldError]:
    if isinstance(value, int):
        return not_negative(field, value)
    if not PERCENT.fullmatch(value):
        return [invalid(field, value, PERCENT_RULE)]
    if (percentage(value) or 0) > HIGHEST_PERCENTAGE:
        return [invalid(field, value, "must not be greater than 100%")]
    return []


SPEC_FIELDS = STRUCTS["PodDisruptionBudgetSpec"].by_name
check_fields = by_path(
    {
        "minAvailable": _validate_amount,
        "maxUnavailable": _validate_amount,
        "selector": lambda field, selector: validate_label_selector(selector, field),
        "unhealthyPodEvictionPolicy": one_of(*SPEC_FIELDS["unhealthyPodEvictionPolicy"].enum),
    }
)
check_numbers = by_path({f"status.{name}": not_negative for name in STATUS_NUMBERS})


def _validate_spec(spec: Object) -> list[FieldError]:
    errors = check_fields(spec, "spec.")
    if "minAvailable" not in spec or "maxUnavailable" not in spec:
        return errors
    # As Kubernetes shows the whole of it.
    shown = {name[0].upper() + name[1:]: spec.get(name) for name in SPEC_FIELDS}
    return [invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"), *errors]


POD_DISRUPTION_BUDGET = Kind(
    GROUP,
    "PodDisruptionBudget",
    (Version("v1", STRUCTS["PodDisruptionBudget"]),),
    Rules(
        prepare_create=starts(**dict.fromkeys(STATUS_NUMBERS, 0)),
        prepare_update=keep_status,
        validate=_validate,
        validate_update=lambda new, _old: _validate_spec(new["spec"]),
        prepare_status=keep_spec,
        validate_status=lambda new, _old: validate_conditions(new["status"]) + check_numbers(new),
        allows_unconditional_update=False,
    ),
    columns=(
        NAME,
        Column("Min Available", _amount("minAvailable"), "How many pods have to be available."),
        Column("Max Unavailable", _amount("maxUnavailable"), "How many pods may be unavailable."),
        Column("Allowed Disruptions", "status.disruptionsAllowed", "Pods that may go.", "integer"),
        AGE,
    ),
    short_names=("pdb",),
    storage_hash="EVWiDmWqyJw=",
)


class Controller(NamedTuple):
    group: str
    kind: str
    name: str
    uid: str


class NoControllerError(LookupError):
    """A pod names a controller that is not there."""


ScaleOf = Callable[[Controller], "tuple[str, int] | None"]
"""The uid of what keeps the number of pods, the controller or its own one, and that number.

None for a controller of a kind that is not served; NoControllerError for one that is not there.
"""


class PodState(NamedTuple):
    """A pod as budgets see it: `is_ready` is its condition, `is_ending` that it is deleted."""

    is_ready: bool
    is_ending: bool
    controller: Controller | None

    @property
    def is_healthy(self) -> bool:
        return self.is_ready and not self.is_ending


class SelectedPods:
    """The pods that a budget selects, counted as they come and go.

    Attributes:
        states: By name.
        healthy: How many are.
        controllers: How many name each controller, or None.
    """

    def __init__(self) -> None:
        self.states: dict[str, PodState] = {}
        self.healthy = 0
        self.controllers: Counter[Controller | None] = Counter()

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


def controller_of(metadata: Object) -> Controller | None:
    for owner in metadata.get("ownerReferences", ()):
        if owner.get("controller"):
            group = owner["apiVersion"].rpartition("/")[0]
            return Controller(group, owner["kind"], owner["name"], owner["uid"])
    return None


def pod_state(pod: Object) -> PodState:
    metadata = pod["metadata"]
    return PodState(
        is_ready=is_true(pod.get("status", {}), "Ready"),
        is_ending="deletionTimestamp" in metadata,
        controller=controller_of(metadata),
    )


def assess(
    budget: Object, pods: SelectedPods, now_s: float, scale_of: ScaleOf
) -> tuple[Object, float | None]:
    """Work out the status of a budget from all pods that its selector matches.

    Returns:
        The new status, canonical, and when it has to be worked out again even if nothing changes,
        in seconds since 1970; None for never.

    Raises:
        ValueError: The budget cannot be worked out; see `failed_status`.
    """
    old = budget["status"]
    expected, desired = _expected_pods(budget["spec"], pods, scale_of)
    disrupted, recheck_s = _still_disrupted(old.get("disruptedPods", {}), pods, now_s)
    healthy = pods.healthy - sum(pods.states[name].is_ready for name in disrupted)
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
    return {name: each for name, each in status.items() if each or name not in optional}, recheck_s


def _expected_pods(spec: Object, pods: SelectedPods, scale_of: ScaleOf) -> tuple[int, int]:
    """Count the pods that there should be, and those of them that have to be healthy."""
    maximum, minimum = spec.get("maxUnavailable"), spec.get("minAvailable", 0)
    if maximum is None and isinstance(minimum, int):
        return len(pods.states) if "minAvailable" in spec else 0, minimum
    wanted = _wanted_pods(pods, scale_of)
    if maximum is None:
        return wanted, scaled(minimum, wanted)
    return wanted, max(wanted - scaled(maximum, wanted), 0)


def _wanted_pods(pods: SelectedPods, scale_of: ScaleOf) -> int:
    wanted: dict[str, int] = {}
    for controller, number in pods.controllers.items():
        if controller is None:
            continue
        try:
            scale = scale_of(controller)
        except NoControllerError:
            states = pods.states.items()
            name = next(name for name, state in states if state.controller == controller)
            raise ValueError(f'found no controllers for pod "{name}"') from None
        uid, wanted_here = scale or (controller.uid, wanted.get(controller.uid, 0) + number)
        wanted[uid] = wanted_here
    return sum(wanted.values())


def _still_disrupted(
    disrupted: Object, pods: SelectedPods, now_s: float
) -> tuple[Object, float | None]:
    """Find the evicted pods that still count as disrupted, and when the first no longer does."""
    deadlines = {
        name: parse_time(disrupted[name]) + DELETION_TIMEOUT_S
        for name in sorted(disrupted)
        if name in pods.states and not pods.states[name].is_ending
    }
    still = {name: until_s for name, until_s in deadlines.items() if until_s > now_s}
    return {name: disrupted[name] for name in still}, min(still.values(), default=None)


def set_disruption_allowed(status: Object, now: str, failure: str = "") -> None:
    """Let the condition say what `disruptionsAllowed` does, or a failure to tell; in place."""
    is_allowed = status["disruptionsAllowed"] > 0
    reason = SYNC_FAILED if failure else "SufficientPods" if is_allowed else "InsufficientPods"
    value = TRUE if is_allowed else FALSE
    condition = {"type": DISRUPTION_ALLOWED, "status": value, "reason": reason, "message": failure}
    if status.get("observedGeneration"):
        condition["observedGeneration"] = status["observedGeneration"]
    set_condition(status, condition, now)


def failed_status(budget: Object, message: str, now_s: float) -> Object:
    """Make the status of a budget that cannot be worked out: nothing is allowed."""
    status = {**budget["status"], "disruptionsAllowed": 0}
    set_disruption_allowed(status, rfc3339(now_s), message)
    return status


def is_up_to_date(budget: Object, status: Object) -> bool:
    """Tell whether the budget's status says what the other one does: no write is needed.

    The message and the generation of the condition do not count: nothing is decided by them.
    """
    one, other = (
        (
            *(each[name] for name in STATUS_NUMBERS),
            each.get("observedGeneration", 0),
            each.get("disruptedPods", {}),
            *map((find_condition(each, DISRUPTION_ALLOWED) or {}).get, ("status", "reason")),
        )
        for each in (budget["status"], status)
    )
    return one == other


def percentage(value: str) -> int | None:
    """Read a percentage, such as `50%`; None if the text is none."""
    is_readable = PERCENT.fullmatch(value) and len(value) <= LONGEST_PERCENT
    return int(value[:-1]) if is_readable else None


def scaled(value: int | str, total: int) -> int:
    """Return the number that a value stands for: itself, or a percentage of `total`, rounded up.

    Raises:
        ValueError: The value is a text but no percentage.
    """
    if isinstance(value, int):
        return value
    percent = percentage(value)
    if percent is None:
        raise ValueError("invalid value for IntOrString: invalid type: string is not a percentage")
    return -(-percent * total // 100)
