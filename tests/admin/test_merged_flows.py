"""The top flows of several workers as one list."""

from __future__ import annotations

from typing import Any

from apfproxy.admin.merged_flows import merged_flows, merged_top_flows


def flow(name: str, seats: float, rejected: float = 0.0) -> dict[str, Any]:
    """A flow as a worker has it."""
    names = {"flowSchema": "all", "priorityLevel": "wide", "flow": name}
    return {**names, "seatSeconds": seats, "waitSeconds": 0.0, "rejected": rejected, "kind": "user"}


FIRST = [flow("ann", 3.0), flow("bob", 2.0)]
SECOND = [flow("bob", 2.0), flow("eve", 0.5, rejected=9.0)]


def test_order() -> None:
    """Sums decide; flows that are large by another measure come after."""
    found = merged_flows([FIRST, SECOND], 2)

    assert [(each["flow"], each["seatSeconds"]) for each in found] == [
        ("bob", 4.0),
        ("ann", 3.0),
        ("eve", 0.5),
    ]
    assert found[0]["kind"] == "user"


def test_by_one_measure() -> None:
    """Only those count that have some of it."""
    assert [each["flow"] for each in merged_flows([FIRST, SECOND], 2, ("rejected",))] == ["eve"]


def test_page() -> None:
    """What is not known of the sums adds up, too."""
    measures = {
        name: {"total": 5.0, "maxOverestimate": 1.0}
        for name in ("seatSeconds", "waitSeconds", "rejected")
    }
    page = {"halfLifeSeconds": 300, "capacity": 10, "measures": measures}
    found = merged_top_flows(
        [{**page, "flows": FIRST}, {**page, "flows": SECOND}], 1, ("rejected",)
    )

    assert found["measures"]["rejected"] == {"total": 10.0, "maxOverestimate": 2.0}
    assert found["capacity"] == 10
    assert len(found["flows"]) == 1
