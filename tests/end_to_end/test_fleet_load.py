"""The load test of fleets, on a small scale: the server counts what it has at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import uvloop

from loadtest.fleet import measure_far
from loadtest.fleet_site import Fleet, FleetClients, FleetOrigin, Site
from loadtest.fleet_steps import Course, Step, judge
from tests.end_to_end.programs import installed

if TYPE_CHECKING:
    from pathlib import Path

FLEET = Fleet(members=3, limit=20, service_s=0.05, lease_s=2.0, refresh_s=0.3)


def nothing(step: Step) -> None:
    """Print nothing."""


async def run(directory: Path) -> list[Step]:
    with Site(directory, FLEET) as site:
        await site.start()
        course = Course(site, asyncio.sleep, nothing)
        await course.steady(0.5)
        for member in (0, 1, 2):
            await course.move("moved", member)
        await course.lose_store()
        await course.part()
        return course.steps


@pytest.mark.timeout(180)
def test_a_fleet_keeps_its_limit(tmp_path: Path) -> None:
    """Load moves, the store is killed and comes back, a member is cut off: never too many."""
    installed("redis-server")

    steps = uvloop.run(run(tmp_path))

    assert [] == judge(steps, FLEET.limit)
    assert FLEET.limit == max(step.peak for step in steps if not step.why)


@pytest.mark.timeout(120)
def test_a_far_fleet_keeps_its_limit(tmp_path: Path) -> None:
    """With a store that is far away every load is served, with no more at once than the limit."""
    installed("redis-server")
    fleet = Fleet(members=2, limit=12, service_s=0.05, lease_s=1.0, refresh_s=0.1)

    results, wrong = uvloop.run(measure_far(tmp_path, fleet, [20], 1.0))

    assert [] == wrong
    assert ["even", "random", "moves"] == [each["load"] for each in results]
    assert all(each["seats"] > 0 for each in results)


@pytest.mark.parametrize(
    ("peak", "permitted", "after_s", "message"),
    [
        pytest.param(10, 10, 0.1, "", id="good"),
        pytest.param(11, 10, 0.1, "11 requests at once, 10 are permitted", id="too-many"),
        pytest.param(11, 12, 0.1, "", id="documented"),
        pytest.param(10, 10, None, "what was to come did not", id="never"),
    ],
)
def test_what_is_wrong(peak: int, permitted: int, after_s: float | None, message: str) -> None:
    """More at once than is permitted, and seats that do not come."""
    step = Step("moved", permitted, peak=peak, is_awaited=True, after_s=after_s)

    wrong = judge([step], 10)

    assert [message in each for each in wrong] == ([True] if message else [])


def test_the_server_counts() -> None:
    """Requests at once, also of clients that are gone; others are answered without counting."""

    async def count() -> tuple[int, int, float | None]:
        upstream = FleetOrigin(limit=1, service_s=0.02)
        await upstream.start()
        clients = FleetClients([upstream.port, upstream.port], users=2)
        clients.aim({0: 1, 1: 2})
        came = await upstream.until(lambda: upstream.running == 3, within_s=10)
        peak = upstream.peak
        clients.stop()
        ended = await upstream.until(lambda: not upstream.running, within_s=10)
        upstream.stop()
        return peak, upstream.answered[1], None if came is None else ended

    peak, answered, ended = asyncio.run(count())

    assert 3 == peak
    assert answered >= 2
    assert ended is not None
