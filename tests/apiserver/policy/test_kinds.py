"""Tests of `apfproxy.apiserver.policy.kinds`."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.policy.kinds import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.schema.reading import read
from tests.apiserver.policy.objects import budget

RULES = POD_DISRUPTION_BUDGET.rules


def test_creation_starts_afresh() -> None:
    """What a client says about the status is dropped."""
    new = budget(generation=7, status={"currentHealthy": 3}, minAvailable=1)

    RULES.prepare_create(new)

    zeros = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    assert zeros == new["status"]
    assert new["metadata"]["generation"] == 1


@pytest.mark.parametrize(("minimum", "generation"), [(1, 1), (2, 2)])
def test_updates_keep_the_status(minimum: int, generation: int) -> None:
    """The generation counts changes of the specification."""
    old = budget(status={"currentHealthy": 3}, minAvailable=1)
    new = budget(minAvailable=minimum)

    RULES.prepare_update(new, old)

    assert old["status"] == new["status"]
    assert generation == new["metadata"]["generation"]


def test_status_updates_keep_the_specification() -> None:
    """Whatever a client sends."""
    old, new = budget(minAvailable=1), budget(minAvailable=2)

    POD_DISRUPTION_BUDGET.rules.prepare_status(new, old)

    assert {"minAvailable": 1} == new["spec"]


@pytest.mark.parametrize(
    ("spec", "shown"),
    [({"minAvailable": 1}, ("1", "N/A")), ({"maxUnavailable": "50%"}, ("N/A", "50%"))],
)
def test_cells(spec: dict[str, Any], shown: tuple[str, str]) -> None:
    """A row shows what the budget asks for, and what it allows."""
    obj = budget(status={"disruptionsAllowed": 2}, **spec)
    obj["metadata"]["creationTimestamp"] = "1970-01-01T00:00:00Z"

    assert ["b", *shown, 2, "60s"] == list(POD_DISRUPTION_BUDGET.cells(obj, 60))


def test_canonical_form() -> None:
    """Numbers of the status are always written, and an empty selector stays."""
    raw = {"metadata": {"name": "b"}, "spec": {"selector": {}, "maxUnavailable": "5%"}}

    obj = read(POD_DISRUPTION_BUDGET.storage.schema, raw).obj

    assert {"selector": {}, "maxUnavailable": "5%"} == obj["spec"]
    zeros = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    assert zeros == obj["status"]
