"""What is wrong with what decides where a pod runs.

Source: Kubernetes documentation, "Assigning Pods to Nodes", "Taints and Tolerations" and "Pod
Topology Spread Constraints"; the cases that kube-apiserver refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.api.core.checks import NOT_POSITIVE, one_of
from apfproxy.api.core.node_selector import validate_node_selector, validate_node_selector_term
from apfproxy.api.core.scheduling_schema import INCLUSION_POLICIES, TAINT_EFFECTS
from apfproxy.api.field_errors import (
    FieldError,
    checked,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from apfproxy.api.names import check_dns_label, check_label_value, check_qualified_name
from apfproxy.api.selectors.labels import validate_label_selector

if TYPE_CHECKING:
    from apfproxy.api.kind import Object

HIGHEST_WEIGHT = 100
NEEDED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Objects = list[dict[str, Any]] | tuple[()]


def validate_affinity(affinity: Object, path: str) -> list[FieldError]:
    """All errors of an affinity."""
    errors: list[FieldError] = []
    nodes = affinity.get("nodeAffinity", {})
    at = f"{path}.nodeAffinity"
    if NEEDED in nodes:
        errors += validate_node_selector(nodes[NEEDED], f"{at}.{NEEDED}")
    for index, term in enumerate(nodes.get(PREFERRED, ())):
        field = f"{at}.{PREFERRED}[{index}]"
        errors += validate_weight(term, field)
        errors += validate_node_selector_term(
            term["preference"], f"{field}.preference", checks_values=False
        )
    for name in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(name, {})
        for index, term in enumerate(pods.get(NEEDED, ())):
            errors += validate_pod_term(term, f"{path}.{name}.{NEEDED}[{index}]")
        for index, term in enumerate(pods.get(PREFERRED, ())):
            field = f"{path}.{name}.{PREFERRED}[{index}]"
            errors += validate_weight(term, field)
            errors += validate_pod_term(term["podAffinityTerm"], f"{field}.podAffinityTerm")
    return errors


def validate_weight(term: dict[str, Any], path: str) -> list[FieldError]:
    """The error of how much a wish counts."""
    if 1 <= term["weight"] <= HIGHEST_WEIGHT:
        return []
    return [invalid(f"{path}.weight", term["weight"], "must be in the range 1-100")]


def validate_pod_term(term: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of pods to be near to, or away from."""
    errors: list[FieldError] = []
    for name in ("labelSelector", "namespaceSelector"):
        errors += validate_label_selector(term.get(name), f"{path}.{name}")
    for namespace in term.get("namespaces", ()):
        errors += checked(f"{path}.namespace", namespace, check_dns_label)
    mismatched = term.get("mismatchLabelKeys", ())
    for name in ("matchLabelKeys", "mismatchLabelKeys"):
        errors += validate_label_keys(term, name, path)
    errors += [
        invalid(
            f"{path}.matchLabelKeys[{index}]",
            key,
            "exists in both matchLabelKeys and mismatchLabelKeys",
        )
        for index, key in enumerate(term.get("matchLabelKeys", ()))
        if key in mismatched
    ]
    key = term.get("topologyKey", "")
    if not key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    return errors + checked(f"{path}.topologyKey", key, check_qualified_name)


def validate_label_keys(term: dict[str, Any], name: str, path: str) -> list[FieldError]:
    """All errors of keys of labels that become part of a selector."""
    keys = term.get(name, ())
    field = f"{path}.{name}"
    if not keys:
        return []
    if "labelSelector" not in term:
        return [forbidden(field, "must not be specified when labelSelector is not set")]
    return [
        error
        for index, key in enumerate(keys)
        for error in checked(f"{field}[{index}]", key, check_qualified_name)
    ]


def validate_tolerations(tolerations: Objects, path: str) -> list[FieldError]:
    """All errors of tolerations."""
    errors: list[FieldError] = []
    for index, toleration in enumerate(tolerations):
        at = f"{path}[{index}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        effect, value = toleration.get("effect", ""), toleration.get("value", "")
        if key:
            errors += checked(f"{at}.key", key, check_qualified_name)
        elif operator != "Exists":
            detail = (
                "operator must be Exists when `key` is empty, which means"
                ' "match all values and all keys"'
            )
            errors.append(invalid(f"{at}.operator", operator, detail))
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid(f"{at}.effect", effect, detail))
        if operator in {"", "Equal"}:
            wrong = check_label_value(value)
            if wrong:
                errors.append(invalid(f"{at}.operator", value, ";".join(wrong)))
        elif operator != "Exists":
            errors.append(not_supported(f"{at}.operator", operator, ("Equal", "Exists")))
        elif value:
            detail = "value must be empty when `operator` is 'Exists'"
            errors.append(invalid(f"{at}.operator", value, detail))
        if effect and effect not in TAINT_EFFECTS:
            errors.append(not_supported(f"{at}.effect", effect, TAINT_EFFECTS))
    return errors


def validate_spreading(constraints: Objects, path: str) -> list[FieldError]:
    """All errors of constraints of how evenly pods are spread."""
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(constraints):
        at = f"{path}[{index}]"
        key, action = constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")
        if constraint["maxSkew"] <= 0:
            errors.append(invalid(f"{at}.maxSkew", constraint["maxSkew"], NOT_POSITIVE))
        if not key:
            errors.append(required(f"{at}.topologyKey", "can not be empty"))
        if action not in {"DoNotSchedule", "ScheduleAnyway"}:
            choices = ("DoNotSchedule", "ScheduleAnyway")
            errors.append(not_supported(f"{at}.whenUnsatisfiable", action, choices))
        if (key, action) in seen:
            field = f"{at}.{{topologyKey, whenUnsatisfiable}}"
            errors.append(duplicate(field, f"{{{key}, {action}}}"))
        seen.add((key, action))
        errors += validate_domains(constraint, action, f"{at}.minDomains")
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            errors += one_of(constraint, name, at, INCLUSION_POLICIES)
        errors += validate_label_keys(constraint, "matchLabelKeys", at)
        errors += validate_label_selector(constraint.get("labelSelector"), f"{at}.labelSelector")
    return errors


def validate_domains(constraint: dict[str, Any], action: str, field: str) -> list[FieldError]:
    """All errors of how many domains there should be."""
    count = constraint.get("minDomains")
    if count is None:
        return []
    errors: list[FieldError] = []
    if count <= 0:
        errors.append(invalid(field, count, NOT_POSITIVE))
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(invalid(field, count, detail))
    return errors
