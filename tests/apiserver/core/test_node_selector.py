"""Tests of the rules of node selectors."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.core.nodes import validate_node_selector
from apfproxy.objects.field_errors import Reason


def selector(**term: list[dict[str, Any]]) -> dict[str, Any]:
    """A node selector of one term."""
    return {"nodeSelectorTerms": [term]}


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ["a"], []),
        ("In", [], [("values", Reason.REQUIRED)]),
        ("NotIn", ["a", "b"], []),
        ("Exists", [], []),
        ("DoesNotExist", ["a"], [("values", Reason.FORBIDDEN)]),
        ("Gt", ["1"], []),
        ("Lt", ["1", "2"], [("values", Reason.REQUIRED)]),
        ("Is", ["a"], [("operator", Reason.INVALID)]),
        ("In", ["a", "b c"], [("values[1]", Reason.INVALID)]),
    ],
)
def test_operators_of_labels(
    operator: str, values: list[str], expected: list[tuple[str, Reason]]
) -> None:
    """Each operator says how many values there are, and each value is a label's."""
    one = {"key": "zone", "operator": operator, "values": values}
    errors = validate_node_selector(selector(matchExpressions=[one]), "spec.s")

    start = "spec.s.nodeSelectorTerms[0].matchExpressions[0]."
    assert [(start + field, reason) for field, reason in expected] == [
        (error.field, error.reason) for error in errors
    ]


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("metadata.name", "In", ["node-1"], []),
        ("metadata.name", "In", ["a", "b"], [("values", Reason.REQUIRED)]),
        ("metadata.name", "Exists", [], [("operator", Reason.INVALID)]),
        ("metadata.uid", "In", ["a"], [("key", Reason.INVALID)]),
        ("metadata.name", "NotIn", ["A_"], [("values[0]", Reason.INVALID)]),
    ],
)
def test_requirements_of_fields(
    key: str, operator: str, values: list[str], expected: list[tuple[str, Reason]]
) -> None:
    """Fields are selected by the node's name alone, one name at a time."""
    one = {"key": key, "operator": operator, "values": values}
    errors = validate_node_selector(selector(matchFields=[one]), "s")

    assert [(f"s.nodeSelectorTerms[0].matchFields[0].{f}", r) for f, r in expected] == [
        (error.field, error.reason) for error in errors
    ]


def test_a_selector_has_terms() -> None:
    """A selector without terms is refused, a term without requirements is not."""
    assert ["s.nodeSelectorTerms: Required value: must have at least one node selector term"] == [
        str(error) for error in validate_node_selector({}, "s")
    ]
    assert [] == validate_node_selector(selector(), "s")
