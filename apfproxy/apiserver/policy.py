"""The kinds of the group `policy`: disruption budgets, and evictions as sent.

Kubernetes judges the content of a new budget first and its metadata only if there is nothing wrong
with that; at an update it judges both.  It asks of a budget's name no more than that a path can
hold it.

Sources: Kubernetes API reference, `policy/v1` and `policy/v1beta1`; of Kubernetes 1.36,
`generated.proto`, `pkg/apis/policy/validation`, `pkg/registry/policy/poddisruptionbudget`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from apfproxy.apiserver.kind import Kind, Rules, Version, by_path, not_negative, one_of, starts
from apfproxy.apiserver.metadata import (
    FALSE,
    TRUE,
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

if TYPE_CHECKING:
    from apfproxy.apiserver.tables import Cell
    from apfproxy.objects.types import Object

DISRUPTION_ALLOWED = "DisruptionAllowed"
SYNC_FAILED = "SyncFailed"
STATUS_NUMBERS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
"""The fields of the status that count pods."""
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


def percentage(value: str) -> int | None:
    """Read a percentage, such as `50%`; None if the text is none."""
    is_readable = PERCENT.fullmatch(value) and len(value) <= LONGEST_PERCENT
    return int(value[:-1]) if is_readable else None


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


def set_disruption_allowed(status: Object, now: str, failure: str = "") -> None:
    """Let the condition say what `disruptionsAllowed` does, or a failure to tell; in place."""
    is_allowed = status["disruptionsAllowed"] > 0
    reason = SYNC_FAILED if failure else "SufficientPods" if is_allowed else "InsufficientPods"
    value = TRUE if is_allowed else FALSE
    condition = {"type": DISRUPTION_ALLOWED, "status": value, "reason": reason, "message": failure}
    if status.get("observedGeneration"):
        condition["observedGeneration"] = status["observedGeneration"]
    set_condition(status, condition, now)
