"""The rules of disruption budgets."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.policy import POD_DISRUPTION_BUDGET
from tests.apiserver.policy.objects import budget

RULES = POD_DISRUPTION_BUDGET.rules
SELECTOR = {"matchExpressions": [{"key": "a", "operator": "Near"}]}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, ""),
        ({"minAvailable": 0}, ""),
        ({"maxUnavailable": "100%", "selector": {}}, ""),
        ({"maxUnavailable": "9" * 5000 + "%", "unhealthyPodEvictionPolicy": "AlwaysAllow"}, ""),
        ({"minAvailable": -1}, "minAvailable: Invalid value: -1: must be greater than or"),
        ({"maxUnavailable": "5"}, 'maxUnavailable: Invalid value: "5": a valid percent'),
        ({"minAvailable": "101%"}, 'minAvailable: Invalid value: "101%": must not be gr'),
        ({"minAvailable": 1, "maxUnavailable": 1}, ': Invalid value: {"MinAvailable":1,"Selector"'),
        ({"unhealthyPodEvictionPolicy": "No"}, 'unhealthyPodEvictionPolicy: Unsupported value: "'),
        ({"selector": SELECTOR}, "selector.matchExpressions[0].operator: Invalid value"),
    ],
)
def test_specifications(spec: dict[str, Any], message: str) -> None:
    """One error for each wrong field, in Kubernetes' words; every field may be missing."""
    found = [
        str(wrong).removeprefix("spec").removeprefix(".")
        for wrong in RULES.validate(budget(**spec))
    ]

    assert [message] * bool(message) == [each[: len(message)] for each in found]


def test_metadata_is_judged_last() -> None:
    """A new budget's metadata counts only if its specification is right."""
    new = budget(minAvailable=-1)
    new["metadata"].update(labels={"-": ""}, finalizers=["mine"])

    assert ["spec.minAvailable"] == [wrong.field for wrong in RULES.validate(new)]
    assert ["spec.minAvailable"] == [wrong.field for wrong in RULES.validate_update(new, budget())]
    new["spec"] = {}
    assert ["metadata.labels"] == [wrong.field for wrong in RULES.validate(new)]


def test_statuses() -> None:
    """No number of pods is negative, and conditions are whole."""
    condition = {"type": "A", "status": "True", "lastTransitionTime": None, "reason": "R"}
    new = budget(status={"currentHealthy": -1, "conditions": [{**condition, "message": ""}]})

    found = [wrong.field for wrong in RULES.validate_status(new, budget())]

    assert ["status.conditions[0].lastTransitionTime", "status.currentHealthy"] == found
