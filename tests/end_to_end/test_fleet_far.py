"""Tests of the load test of a fleet whose store is far away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import uvloop

from loadtest.fleet_far import measure, parse_arguments
from tests.end_to_end.programs import installed

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = 12


@pytest.mark.timeout(120)
def test_a_far_fleet_keeps_its_limit(tmp_path: Path) -> None:
    """Every load is measured, and none has more requests at once than the limit."""
    installed("redis-server")
    options = parse_arguments(
        [
            *("--members", "2", "--round-trips-ms", "20", "--limit", f"{LIMIT}"),
            *("--lease", "1", "--refresh-ms", "100", "--seconds", "1"),
        ]
    )

    results = uvloop.run(measure(tmp_path, options))

    assert ["even", "random", "moves"] == [each.load for each in results]
    assert {(2, 20)} == {(each.members, each.round_trip_ms) for each in results}
    assert max(each.peak for each in results) <= LIMIT
    assert all(each.seats > 0 for each in results)
