"""What is wrong with disruption budgets.

Kubernetes judges the content of a new budget first and its metadata only if there is nothing wrong
with that; at an update it judges both.  It asks of a budget's name no more than that a path can
hold it.

Source: Kubernetes, `pkg/apis/policy/validation` and `pkg/registry/policy/poddisruptionbudget`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.api.conditions import validate_conditions
from apfproxy.api.field_errors import NOT_NEGATIVE, FieldError, invalid, not_supported
from apfproxy.api.metadata import validate_metadata
from apfproxy.api.names import check_path_segment
from apfproxy.api.policy.percent import IntOrString, check_percent, percentage
from apfproxy.api.policy.schema import UNHEALTHY_POD_EVICTION_POLICIES
from apfproxy.api.selectors.labels import validate_label_selector

if TYPE_CHECKING:
    from apfproxy.api.kind import Object

HIGHEST_PERCENTAGE = 100


def validate_budget(obj: Object) -> list[FieldError]:
    """All errors of a new budget."""
    return validate_spec(obj["spec"]) or validate_budget_metadata(obj)


def validate_budget_update(new: Object, _old: Object) -> list[FieldError]:
    """All errors of a budget that replaces another, its metadata apart."""
    return validate_spec(new["spec"])


def validate_budget_status(new: Object, _old: Object) -> list[FieldError]:
    """All errors of a budget whose status is replaced, its metadata apart."""
    return validate_status(new["status"])


def validate_budget_metadata(obj: Object) -> list[FieldError]:
    """The errors of a budget's metadata alone."""
    return validate_metadata(
        obj["metadata"],
        is_namespaced=True,
        check_name=check_path_segment,
        allows_bare_finalizers=True,
    )


def validate_spec(spec: Object) -> list[FieldError]:
    """The errors of `spec`."""
    wrong = []
    minimum, maximum = spec.get("minAvailable"), spec.get("maxUnavailable")
    if minimum is not None and maximum is not None:
        detail = "minAvailable and maxUnavailable cannot be both set"
        wrong.append(invalid("spec", internal_spec(spec), detail))
    if minimum is not None:
        wrong += validate_amount(minimum, "spec.minAvailable")
    if maximum is not None:
        wrong += validate_amount(maximum, "spec.maxUnavailable")
    wrong += validate_label_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in UNHEALTHY_POD_EVICTION_POLICIES:
        field = "spec.unhealthyPodEvictionPolicy"
        wrong.append(not_supported(field, policy, UNHEALTHY_POD_EVICTION_POLICIES))
    return wrong


def internal_spec(spec: Object) -> dict[str, Any]:
    """The whole `spec` as messages of Kubernetes show it."""
    return {
        "MinAvailable": spec.get("minAvailable"),
        "Selector": spec.get("selector"),
        "MaxUnavailable": spec.get("maxUnavailable"),
        "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
    }


def validate_amount(value: IntOrString, field: str) -> list[FieldError]:
    """The errors of a number of pods or a percentage of them."""
    if isinstance(value, int):
        return [invalid(field, value, NOT_NEGATIVE)] if value < 0 else []
    wrong = [invalid(field, value, detail) for detail in check_percent(value)]
    percent = percentage(value)
    if percent is not None and percent > HIGHEST_PERCENTAGE:
        wrong.append(invalid(field, value, "must not be greater than 100%"))
    return wrong


def validate_status(status: Object) -> list[FieldError]:
    """The errors of `status`."""
    wrong = validate_conditions(status.get("conditions", []), "status.conditions")
    wrong += [
        invalid(f"status.{name}", status[name], NOT_NEGATIVE)
        for name in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
        if status[name] < 0
    ]
    return wrong
