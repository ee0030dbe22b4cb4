"""The fleet as the live page has it."""

from __future__ import annotations

import pytest

from apfproxy.admin.fleet_state import MAX_MEMBERS, fleet_state, is_silent, shown
from apfproxy.settings.store_address import Kind, StoreAddress
from tests.fleet.views import fleet, member


def test_state() -> None:
    """Each member is there with its seats; what is sums is of all of them."""
    found = fleet_state(fleet())

    assert {"limit": 600, "claims": 500, "claim": 200, "inForce": 200, "used": 340} == {
        name: found[name] for name in ("limit", "claims", "claim", "inForce", "used")
    }
    assert (3, 340, False, None) == (
        found["memberCount"],
        found["demand"],
        found["isOfWorkers"],
        found["lostAge"],
    )
    assert [("a", True), ("b", False), ("c", False)] == [
        (each["name"], each["isSelf"]) for each in found["members"]
    ]


def test_workers() -> None:
    """Those of one machine are told by where they have their record."""
    address = str(StoreAddress(kind=Kind.PARENT, path="/run/apfproxy/ledger"))

    assert fleet_state(fleet(store=address))["isOfWorkers"]


def test_nothing_happens() -> None:
    """Times within a second make no other state, so that it is not sent again."""
    assert fleet_state(fleet(age_s=0.1)) == fleet_state(fleet(age_s=0.9))


def test_names_that_are_no_text() -> None:
    """A lone surrogate, which no encoder takes, is an escape."""
    assert "\\udc80" == fleet_state(fleet(member("\udc80")))["members"][0]["name"]


@pytest.mark.parametrize(
    ("age_s", "lease_s", "expected"),
    [
        pytest.param(3.5, 5.0, False, id="within"),
        pytest.param(3.6, 5.0, True, id="beyond"),
        pytest.param(4.0, 0.0, False, id="lease-unknown"),
        pytest.param(4.1, 0.0, True, id="long-without-lease"),
        pytest.param(40.0, 60.0, False, id="long-lease"),
    ],
)
def test_silent(age_s: float, lease_s: float, expected: bool) -> None:
    """A member is silent for most of its lease before it is given up."""
    assert expected == is_silent(member("a", age_s=age_s, lease_s=lease_s))


def test_oneself() -> None:
    """Nobody is silent to itself, however long the store is away."""
    assert not is_silent(member("a", age_s=60.0, is_self=True))


def test_very_many() -> None:
    """Itself and those that are silent or unlike come first; what is too many is left out."""
    members = [member(f"m{place:03}") for place in range(MAX_MEMBERS + 40)]
    members[70] = member("m070", is_self=True)
    members[81] = member("m081", is_alike=False)
    members[72] = member("m072", age_s=9.0)
    found = [each.name for each in shown(members)]

    assert len(found) == MAX_MEMBERS == len(fleet_state(fleet(*members))["members"])
    assert ["m070", "m072", "m081", "m000"] == found[:4]
