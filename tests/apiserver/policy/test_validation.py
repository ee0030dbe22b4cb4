"""Tests of `apfproxy.apiserver.policy.validation`."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.policy.validation import (
    validate_budget,
    validate_budget_status,
    validate_budget_update,
)
from tests.apiserver.policy.objects import budget


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"minAvailable": 0},
        {"minAvailable": "0%"},
        {"maxUnavailable": "100%", "selector": {}},
        {"maxUnavailable": "9" * 5000 + "%"},
        {"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        {"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "IfHealthyBudget"},
    ],
)
def test_good_budgets(spec: dict[str, Any]) -> None:
    """Every field may be missing."""
    assert [] == validate_budget(budget(**spec))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"minAvailable": -1}, "spec.minAvailable: Invalid value: -1: must be greater than or"),
        ({"maxUnavailable": "5"}, 'spec.maxUnavailable: Invalid value: "5": a valid percent'),
        ({"minAvailable": "101%"}, 'spec.minAvailable: Invalid value: "101%": must not be gr'),
        (
            {"minAvailable": 1, "maxUnavailable": 1, "selector": {}},
            (
                'spec: Invalid value: {"MinAvailable":1,"Selector":{},"MaxUnavailable":1,'
                '"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both'
            ),
        ),
        (
            {"unhealthyPodEvictionPolicy": "Never"},
            (
                'spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: '
                '"AlwaysAllow", "IfHealthyBudget"'
            ),
        ),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            "spec.selector.matchExpressions[0].operator: Invalid value",
        ),
    ],
)
def test_specifications_are_judged(spec: dict[str, Any], message: str) -> None:
    """One error for each wrong field, in Kubernetes' words."""
    (wrong,) = validate_budget(budget(**spec))

    assert str(wrong).startswith(message)


def test_metadata_is_judged_last() -> None:
    """A new budget's metadata counts only if its specification is right."""
    new = budget(minAvailable=-1)
    new["metadata"]["labels"] = {"-": ""}

    assert ["spec.minAvailable"] == [wrong.field for wrong in validate_budget(new)]
    new["spec"] = {}
    assert ["metadata.labels"] == [wrong.field for wrong in validate_budget(new)]
    new["spec"] = {"minAvailable": -1}
    assert ["spec.minAvailable"] == [wrong.field for wrong in validate_budget_update(new, budget())]


def test_finalizers_need_no_domain() -> None:
    """A budget's finalizers may be of any name, but have to be names."""
    for name, expected in (("mine", []), ("no name", ["metadata.finalizers"])):
        new = budget()
        new["metadata"].update(resourceVersion="1", finalizers=[name])
        assert expected == [error.field for error in validate_budget(new)]


def test_specifications_may_change() -> None:
    """Nothing in it is fixed."""
    assert [] == validate_budget_update(budget(maxUnavailable=1), budget(minAvailable=1))


def test_statuses_are_judged() -> None:
    """No number of pods is negative, and conditions are whole."""
    condition = {"type": "A", "status": "True", "lastTransitionTime": None, "reason": "R"}
    status = {
        "disruptionsAllowed": -1,
        "currentHealthy": -1,
        "desiredHealthy": -1,
        "expectedPods": -1,
        "conditions": [{**condition, "message": ""}],
    }

    assert [
        "status.conditions[0].lastTransitionTime",
        "status.disruptionsAllowed",
        "status.currentHealthy",
        "status.desiredHealthy",
        "status.expectedPods",
    ] == [wrong.field for wrong in validate_budget_status(budget(status=status), budget())]
    assert [] == validate_budget_status(budget(), budget())
