"""Fleets as one member sees them, made up."""

from __future__ import annotations

from typing import Any

from apfproxy.fleet.view import FleetView, MemberView

LIMIT = 600


def member(name: str, claim: int = 200, used: int = 150, **changes: Any) -> MemberView:  # noqa: ANN401 - any field
    return MemberView(
        **{
            "key": f"{name}#00000001",
            "name": name,
            "is_self": False,
            "limit": LIMIT,
            "claim": claim,
            "used": used,
            "demand": {"batch": used - used // 2, "users": used // 2},
            "age_s": 0.4,
            "is_alike": True,
            "lease_s": 5.0,
            **changes,
        }
    )


def fleet(*members: MemberView, **changes: Any) -> FleetView:  # noqa: ANN401 - any field
    """The fleet of these members, by default of three, of which the first one says this."""
    found = members or (member("a", is_self=True), member("b"), member("c", 100, 40))
    own = next((each for each in found if each.is_self), None)
    claim = own.claim if own else 0
    return FleetView(
        **{
            "store": "redis://10.0.0.5:6379",
            "name": "apfproxy",
            "state": "held",
            "problem": "",
            "age_s": 0.4,
            "limit": LIMIT,
            "claims": sum(each.claim for each in found),
            "claim": claim,
            "in_force": claim,
            "safe_share": LIMIT // len(found),
            "refreshes": 90,
            "conflicts": 4,
            "failures": 0,
            "lost": 0,
            "members": found,
            **changes,
        }
    )
