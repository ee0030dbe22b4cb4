"""Structure and rules of node selectors, which say what nodes something is for.

Sources: Kubernetes API reference, "NodeSelector"; the cases that kube-apiserver refuses;
`api/core/v1/generated.proto` of Kubernetes 1.36 for the numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.apiserver.core.structs import STRING, STRINGS, struct
from apfproxy.apiserver.schema.types import Field, List
from apfproxy.apiserver.schema.types import required as required_field
from apfproxy.apiserver.selectors import WRONG_OPERATOR, validate_expression, validate_words
from apfproxy.objects.field_errors import FieldError, checked, invalid, required
from apfproxy.objects.names import check_dns_subdomain

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

LISTING = frozenset({"In", "NotIn"})
COMPARING = frozenset({"Gt", "Lt"})
OPERATORS = ("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn")

NODE_SELECTOR_REQUIREMENT = struct(
    "NodeSelectorRequirement",
    "What a label or field of a node has to be.",
    required_field("key", STRING, "Key of the label, or name of the field.", number=1),
    Field(
        "operator",
        STRING,
        "How the node's value is compared.",
        is_required=True,
        is_always_written=True,
        enum=OPERATORS,
        number=2,
    ),
    Field("values", STRINGS, "What it is compared with.", number=3),
)

NODE_SELECTOR_TERM = struct(
    "NodeSelectorTerm",
    "Requirements that a node has to meet all.",
    Field("matchExpressions", List(NODE_SELECTOR_REQUIREMENT), "By the node's labels.", number=1),
    Field("matchFields", List(NODE_SELECTOR_REQUIREMENT), "By the node's fields.", number=2),
    is_atomic=True,
)

NODE_SELECTOR = struct(
    "NodeSelector",
    "Terms of which a node has to meet one.",
    required_field("nodeSelectorTerms", List(NODE_SELECTOR_TERM), "The terms.", number=1),
    is_atomic=True,
)


def validate_node_selector(node_selector: Object, path: str) -> list[FieldError]:
    """All errors of a node selector; a term may have no requirements, and then selects nothing."""
    path = f"{path}.nodeSelectorTerms"
    terms = node_selector.get("nodeSelectorTerms")
    if not terms:
        return [required(path, "must have at least one node selector term")]
    errors: list[FieldError] = []
    for index, term in enumerate(terms):
        for number, one in enumerate(term.get("matchExpressions", ())):
            errors += label_requirement(one, f"{path}[{index}].matchExpressions[{number}]")
        for number, one in enumerate(term.get("matchFields", ())):
            errors += field_requirement(one, f"{path}[{index}].matchFields[{number}]")
    return errors


def label_requirement(requirement: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of a requirement of a node's labels, which may be compared as numbers, too."""
    if requirement.get("operator") not in COMPARING:
        return validate_expression(requirement, path)
    errors: list[FieldError] = []
    if len(requirement.get("values") or ()) != 1:
        detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        errors.append(required(f"{path}.values", detail))
    return errors + validate_words(requirement, path)


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
