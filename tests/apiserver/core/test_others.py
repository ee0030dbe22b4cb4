"""Namespaces, nodes and node selectors; `tests/conformance` has what Kubernetes responds."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.core.cluster import NAMESPACE, validate_node_selector
from apfproxy.objects.field_errors import Reason

Spec = dict[str, Any]


def namespace(phase: str = "Active", **metadata: object) -> Spec:
    """A namespace as the store has it."""
    return {
        "metadata": {"name": "a", "resourceVersion": "1", **metadata},
        "spec": {},
        "status": {"phase": phase},
    }


def test_phases_of_namespaces() -> None:
    """The phase says whether the namespace is deleted."""
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    for metadata, wrong, right in (
        ({}, "Terminating", "Active"),
        (deleted, "Active", "Terminating"),
    ):
        for phase, expected in ((wrong, ["status.Phase"]), (right, [])):
            new, old = namespace(phase, **metadata), namespace(**metadata)
            found = NAMESPACE.rules.validate_status(new, old)
            assert expected == [error.field for error in found]


@pytest.mark.parametrize(
    ("by", "key", "operator", "values", "expected"),
    [
        ("matchExpressions", "zone", "In", ["a"], []),
        ("matchExpressions", "zone", "In", [], [("values", Reason.REQUIRED)]),
        ("matchExpressions", "zone", "DoesNotExist", ["a"], [("values", Reason.FORBIDDEN)]),
        ("matchExpressions", "zone", "Gt", ["1"], []),
        ("matchExpressions", "zone", "Lt", ["1", "2"], [("values", Reason.REQUIRED)]),
        ("matchExpressions", "zone", "Is", ["a"], [("operator", Reason.INVALID)]),
        ("matchExpressions", "zone", "In", ["a", "b c"], [("values[1]", Reason.INVALID)]),
        ("matchFields", "metadata.name", "In", ["node-1"], []),
        ("matchFields", "metadata.name", "In", ["a", "b"], [("values", Reason.REQUIRED)]),
        ("matchFields", "metadata.name", "Exists", [], [("operator", Reason.INVALID)]),
        ("matchFields", "metadata.uid", "In", ["a"], [("key", Reason.INVALID)]),
        ("matchFields", "metadata.name", "NotIn", ["A_"], [("values[0]", Reason.INVALID)]),
    ],
)
def test_node_selectors(
    by: str, key: str, operator: str, values: list[str], expected: list[tuple[str, Reason]]
) -> None:
    """Each operator says how many values there are; fields are selected by the name alone."""
    one = {"key": key, "operator": operator, "values": values}
    errors = validate_node_selector({"nodeSelectorTerms": [{by: [one]}]}, "s")

    assert expected == [
        (error.field.removeprefix(f"s.nodeSelectorTerms[0].{by}[0]."), error.reason)
        for error in errors
    ]
    assert [Reason.REQUIRED] == [error.reason for error in validate_node_selector({}, "s")]
