"""A fleet as one member sees it, on the wire."""

from __future__ import annotations

import msgspec

from apfproxy.fleet.view import FleetView
from tests.fleet.views import fleet


def test_json() -> None:
    """It is JSON with names as JavaScript has them, and is read back as it was."""
    view = fleet(lost=1, lost_age_s=7.0)
    text = msgspec.json.encode(view)
    found = msgspec.json.decode(text)

    assert view == msgspec.json.decode(text, type=FleetView)
    assert {"inForce", "safeShare", "ageS", "lostAgeS"} <= found.keys()
    assert {"isSelf", "isAlike", "leaseS"} <= found["members"][0].keys()
