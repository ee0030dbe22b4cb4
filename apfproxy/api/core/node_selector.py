"""The rules of node selectors: which nodes a pod, or a slice of devices, is for.

Source: Kubernetes API reference, "NodeSelector"; the cases that kube-apiserver refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.api.field_errors import FieldError, checked, forbidden, invalid, required
from apfproxy.api.names import check_dns_subdomain, check_label_value, check_qualified_name

if TYPE_CHECKING:
    from apfproxy.api.kind import Object

LISTING = frozenset({"In", "NotIn"})
EXISTING = frozenset({"Exists", "DoesNotExist"})
COMPARING = frozenset({"Gt", "Lt"})

WRONG_OPERATOR = "not a valid selector operator"


def validate_node_selector(
    node_selector: Object, path: str, *, checks_values: bool = True
) -> list[FieldError]:
    """All errors of a node selector.

    Args:
        node_selector: Of the right types.
        path: Of the selector itself.
        checks_values: Whether values have to be label values.
    """
    path = f"{path}.nodeSelectorTerms"
    terms = node_selector.get("nodeSelectorTerms")
    if not terms:
        return [required(path, "must have at least one node selector term")]
    errors: list[FieldError] = []
    for index, term in enumerate(terms):
        errors += validate_node_selector_term(term, f"{path}[{index}]", checks_values=checks_values)
    return errors


def validate_node_selector_term(
    term: Object, path: str, *, checks_values: bool = True
) -> list[FieldError]:
    """All errors of one term; one without any requirement is allowed, and selects nothing."""
    errors: list[FieldError] = []
    for index, one in enumerate(term.get("matchExpressions", ())):
        errors += label_requirement(
            one, f"{path}.matchExpressions[{index}]", checks_values=checks_values
        )
    for index, one in enumerate(term.get("matchFields", ())):
        errors += field_requirement(one, f"{path}.matchFields[{index}]")
    return errors


def label_requirement(
    requirement: dict[str, Any], path: str, *, checks_values: bool
) -> list[FieldError]:
    """All errors of a requirement of a node's labels."""
    errors: list[FieldError] = []
    operator = requirement.get("operator", "")
    values: list[str] = requirement.get("values") or []
    if operator in LISTING:
        if not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            errors.append(required(f"{path}.values", detail))
    elif operator in EXISTING:
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{path}.values", detail))
    elif operator in COMPARING:
        if len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(required(f"{path}.values", detail))
    else:
        errors.append(invalid(f"{path}.operator", operator, WRONG_OPERATOR))
    errors += checked(f"{path}.key", requirement.get("key", ""), check_qualified_name)
    if checks_values:
        for index, value in enumerate(values):
            errors += checked(f"{path}.values[{index}]", value, check_label_value)
    return errors


def field_requirement(requirement: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of a requirement of a node's fields: its name is the only one there is."""
    errors: list[FieldError] = []
    operator = requirement.get("operator", "")
    values: list[str] = requirement.get("values") or []
    if operator not in LISTING:
        errors.append(invalid(f"{path}.operator", operator, WRONG_OPERATOR))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{path}.values", detail))
    key = requirement.get("key", "")
    if key != "metadata.name":
        errors.append(invalid(f"{path}.key", key, "not a valid field selector key"))
        return errors
    for index, value in enumerate(values):
        errors += checked(f"{path}.values[{index}]", value, check_dns_subdomain)
    return errors
