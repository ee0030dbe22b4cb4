"""The kinds of the group `policy`: disruption budgets, and evictions, which are not stored.

Kubernetes judges the content of a new budget first and its metadata only if there is nothing wrong
with that; at an update it judges both.  It asks of a budget's name no more than that a path can
hold it.

Sources: Kubernetes API reference, `policy/v1` and `policy/v1beta1`; `generated.proto` of 1.36;
`pkg/apis/policy/validation`, `pkg/registry/policy/poddisruptionbudget` and
`pkg/printers/internalversion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.kind import Kind, Rules, Version, starts
from apfproxy.apiserver.metadata import keep_spec, keep_status, validate_conditions, validate_named
from apfproxy.apiserver.policy.budget import PERCENT, PERCENT_RULE, STATUS_NUMBERS, percentage
from apfproxy.apiserver.schema.language import structs
from apfproxy.apiserver.schema.shared_structs import SHARED
from apfproxy.apiserver.selectors import validate_label_selector
from apfproxy.apiserver.tables import AGE, NAME, Column
from apfproxy.objects.field_errors import NOT_NEGATIVE, FieldError, invalid, not_supported

if TYPE_CHECKING:
    from apfproxy.apiserver.tables import Cell
    from apfproxy.objects.types import Object

GROUP = "policy"
AMOUNTS = ("minAvailable", "maxUnavailable")
ALWAYS_ALLOW = "AlwaysAllow"
UNHEALTHY_POD_EVICTION_POLICIES = (ALWAYS_ALLOW, "IfHealthyBudget")
HIGHEST_PERCENTAGE = 100

DECLARED = """
PodDisruptionBudget +object: Limits how many pods of a set may be disrupted at once.
PodDisruptionBudgetSpec: What a disruption budget asks for; one of minAvailable and maxUnavailable
        at most.
  1 minAvailable                *intOrString  How many pods stay: 3 or 50%.
  2 selector  *LabelSelector +replaced  The pods whose evictions the budget limits: all of the
        namespace for an empty selector, none for an absent one.
  3 maxUnavailable              *intOrString  How many pods may be away at once.
  4 unhealthyPodEvictionPolicy  *string +enum=AlwaysAllow|IfHealthyBudget  When running pods that
        are not ready may be evicted: IfHealthyBudget, the default, if enough others are healthy;
        AlwaysAllow at any time.
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


def _validate_spec(spec: Object) -> list[FieldError]:
    wrong = []
    given = [name for name in AMOUNTS if name in spec]
    if len(given) > 1:
        # As Kubernetes shows the whole of it.
        names = STRUCTS["PodDisruptionBudgetSpec"].by_name
        shown = {name[0].upper() + name[1:]: spec.get(name) for name in names}
        detail = "minAvailable and maxUnavailable cannot be both set"
        wrong.append(invalid("spec", shown, detail))
    for name in given:
        wrong += _validate_amount(spec[name], f"spec.{name}")
    wrong += validate_label_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in UNHEALTHY_POD_EVICTION_POLICIES:
        field = "spec.unhealthyPodEvictionPolicy"
        wrong.append(not_supported(field, policy, UNHEALTHY_POD_EVICTION_POLICIES))
    return wrong


def _validate_amount(value: int | str, field: str) -> list[FieldError]:
    if isinstance(value, int):
        return [invalid(field, value, NOT_NEGATIVE)] if value < 0 else []
    if not PERCENT.fullmatch(value):
        return [invalid(field, value, PERCENT_RULE)]
    if (percentage(value) or 0) > HIGHEST_PERCENTAGE:
        return [invalid(field, value, "must not be greater than 100%")]
    return []


def _validate_status(new: Object, _old: Object) -> list[FieldError]:
    status = new["status"]
    return validate_conditions(status) + [
        invalid(f"status.{name}", status[name], NOT_NEGATIVE)
        for name in STATUS_NUMBERS
        if status[name] < 0
    ]


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
        validate_status=_validate_status,
        allows_unconditional_update=False,
    ),
    columns=(
        NAME,
        Column("Min Available", _amount("minAvailable"), "How many pods have to be available."),
        Column("Max Unavailable", _amount("maxUnavailable"), "How many pods may be unavailable."),
        Column(
            "Allowed Disruptions",
            "status.disruptionsAllowed",
            "How many pods may be disrupted now.",
            "integer",
        ),
        AGE,
    ),
    short_names=("pdb",),
    storage_hash="EVWiDmWqyJw=",
)
