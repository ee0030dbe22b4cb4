"""What a report says of a fleet."""

from __future__ import annotations

from apfproxy.simulation.fleet_report import fleet_report
from tests.simulation.test_fleet_simulation import fleet


def test_fleet_report() -> None:
    """Each replica that ever was has a row; times are in seconds."""
    report = fleet_report(fleet("10s die 1", "20s join 1", "30s store-away"))
    rows = report["replicas"]

    assert ["10s die 1", "20s join 1", "30s store-away"] == report["events"]
    assert [(0, 0.0), (1, 0.0), (2, 0.0), (1, 20.0)] == [
        (row["replica"], row["from"]) for row in rows
    ]
    assert 10.0 == rows[1]["to"]
    assert rows[1]["lost"] > 0 == rows[0]["lost"]
    assert rows[0]["secondsAway"] > 1 > rows[1]["secondsAway"]
    assert report["storeWrites"] >= sum(row["writes"] for row in rows)
    assert 0 == report["secondsAboveLimit"]
