"""What is wrong with disruption budgets.

Kubernetes judges the content of a new budget first and its metadata only if there is nothing wrong
with that; at an update it judges both.  It asks of a budget's name no more than that a path can
hold it.

Source: Kubernetes, `pkg/apis/policy/validation` and `pkg/registry/policy/poddisruptionbudget`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.metadata import check_path_segment, validate_conditions, validate_stored
from apfproxy.apiserver.policy.percent import PERCENT, PERCENT_RULE, percentage
from apfproxy.apiserver.policy.schema import (
    BUDGET_SPEC,
    STATUS_NUMBERS,
    UNHEALTHY_POD_EVICTION_POLICIES,
)
from apfproxy.apiserver.selectors import validate_label_selector
from apfproxy.objects.field_errors import NOT_NEGATIVE, FieldError, invalid, not_supported

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

HIGHEST_PERCENTAGE = 100
AMOUNTS = ("minAvailable", "maxUnavailable")


def validate_budget(obj: Object) -> list[FieldError]:
    """All errors of a new budget."""
    return validate_spec(obj["spec"]) or validate_stored(
        obj["metadata"],
        is_namespaced=True,
        check_name=check_path_segment,
        allows_bare_finalizers=True,
    )


def validate_budget_update(new: Object, _old: Object) -> list[FieldError]:
    """All errors of a budget that replaces another, its metadata apart."""
    return validate_spec(new["spec"])


def validate_spec(spec: Object) -> list[FieldError]:
    """The errors of `spec`."""
    wrong = []
    given = [name for name in AMOUNTS if name in spec]
    if len(given) > 1:
        # As Kubernetes shows the whole of it.
        shown = {name[0].upper() + name[1:]: spec.get(name) for name in BUDGET_SPEC.by_name}
        detail = "minAvailable and maxUnavailable cannot be both set"
        wrong.append(invalid("spec", shown, detail))
    for name in given:
        wrong += validate_amount(spec[name], f"spec.{name}")
    wrong += validate_label_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in UNHEALTHY_POD_EVICTION_POLICIES:
        field = "spec.unhealthyPodEvictionPolicy"
        wrong.append(not_supported(field, policy, UNHEALTHY_POD_EVICTION_POLICIES))
    return wrong


def validate_amount(value: int | str, field: str) -> list[FieldError]:
    """The errors of a number of pods or a percentage of them."""
    if isinstance(value, int):
        return [invalid(field, value, NOT_NEGATIVE)] if value < 0 else []
    if not PERCENT.fullmatch(value):
        return [invalid(field, value, PERCENT_RULE)]
    if (percentage(value) or 0) > HIGHEST_PERCENTAGE:
        return [invalid(field, value, "must not be greater than 100%")]
    return []


def validate_budget_status(new: Object, _old: Object) -> list[FieldError]:
    """All errors of a budget whose status is replaced, its metadata apart."""
    status = new["status"]
    wrong = validate_conditions(status)
    wrong += [
        invalid(f"status.{name}", status[name], NOT_NEGATIVE)
        for name in STATUS_NUMBERS
        if status[name] < 0
    ]
    return wrong
