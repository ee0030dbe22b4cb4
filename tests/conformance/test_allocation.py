"""The bounded proportional allocation, against what Kubernetes gives."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.flowcontrol.allocation import InfeasibleError, Item, allocate
from tests.conformance import vectors


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=str(index)) for index, case in enumerate(vectors.load("allocation"))],
)
def test_allocation(case: dict[str, Any]) -> None:
    """Amounts and proportion agree to 1e-9, and what cannot be divided is refused."""
    items = [Item(**item) for item in case["items"]]

    if case.get("infeasible"):
        with pytest.raises(InfeasibleError):
            allocate(case["required_sum"], items)
        return
    allocation = allocate(case["required_sum"], items)

    assert pytest.approx(case["allocations"], rel=1e-9, abs=0) == list(allocation.amounts)
    assert pytest.approx(case["fair_proportion"], rel=1e-9, abs=0) == allocation.fair_proportion
