"""Metrics of the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.admin.fleet_metrics import fleet_families
from tests.fleet.views import fleet, member

if TYPE_CHECKING:
    from apfproxy.fleet.view import FleetView


def metrics(view: FleetView | None) -> dict[str, float]:
    """Each sample by its name, and its state where it has that label."""
    return {
        sample.name.removeprefix("apfproxy_fleet_") + sample.labels.get("state", ""): sample.value
        for family in fleet_families(lambda: view)
        for sample in family.samples
    }


def test_values() -> None:
    """Its own claim, and sums of what all said last."""
    found = metrics(
        fleet(
            member("a", is_self=True),
            member("b", is_alike=False, demand={"batch": 400}),
            member("c", 100, 40, age_s=9.0),
            lost=2,
        )
    )

    assert {
        "members": 3,
        "silent_members": 1,
        "unlike_members": 1,
        "limit_seats": 600,
        "claims_seats": 500,
        "used_seats": 340,
        "demand_seats": 590,
        "claim_seats": 200,
        "in_force_seats": 200,
        "safe_share_seats": 200,
        "record_age_seconds": 0.4,
        "refreshes_total": 90,
        "conflicts_total": 4,
        "failures_total": 0,
        "lost_members_total": 2,
        "statejoining": 0,
        "stateheld": 1,
        "stateexpired": 0,
        "statepartitioned": 0,
    } == found


def test_unknown() -> None:
    """What is not known has no series, and nothing has before there is anything to see."""
    found = metrics(fleet(state="joining", age_s=None))

    assert "record_age_seconds" not in found
    assert 1 == found["statejoining"]
    assert {} == metrics(None)


def test_families() -> None:
    """The same ones are there, in one order, whatever there is to see."""
    names = [family.name for family in fleet_families(lambda: None)]

    assert names == [family.name for family in fleet_families(fleet)]
    assert len(names) == 16 == len(set(names))
