"""The live states of several workers as the state of one proxy."""

from __future__ import annotations

import time
from typing import Any

import pytest

from apfproxy.admin.live_recent import recent
from apfproxy.admin.live_state import LiveInputs, live_state
from apfproxy.admin.merged_live import by_place, merged_fleet, merged_level, merged_state
from apfproxy.admin.recent_rates import RecentRates
from apfproxy.admin.verdict import verdict
from apfproxy.base.events import ConfigurationEvents
from apfproxy.base.health_checks import HealthRegistry
from tests.admin.scene import Scene
from tests.admin.several_workers import OBJECTS, SEATS, WIDE

FLOW = {
    "flowSchema": "all",
    "priorityLevel": "wide",
    "flow": "ann",
    "seatSeconds": 1.0,
    "waitSeconds": 0.0,
    "rejected": 0,
}


ALONE = {"state": "partitioned", "limit": 8, "claim": 1, "inForce": 1, "problem": "away"}
HOLDS = {"state": "held", "limit": 8, "claim": 5, "inForce": 4, "problem": ""}


def seen(name: str, used: int = 0, *, is_self: bool = False) -> dict[str, Any]:
    """A member of a fleet, as one says that sees it."""
    return {"name": name, "isSelf": is_self, "used": used}


def state(
    requests: int = 0,
    health: HealthRegistry | None = None,
    events: ConfigurationEvents | None = None,
) -> dict[str, Any]:
    """Of a worker with requests of one user."""
    scene = Scene(OBJECTS, SEATS)
    rates = RecentRates(scene.controller, scene.clock.now_ns())
    for _ in range(requests):
        scene.ticket("ann")
    scene.clock.run_until(1_000_000_000)
    rates.look(scene.clock.now_ns())
    inputs = LiveInputs(health=health, events=events or ConfigurationEvents())
    found = recent(scene.controller, rates, [FLOW], {"401": 0.5})
    return live_state(scene.controller, inputs, found)


def level(merged: dict[str, Any], name: str = "wide") -> dict[str, Any]:
    """A level of it."""
    return next(each for each in merged["levels"] if each["name"] == name)


def test_sums() -> None:
    """Seats, requests, rates and queues add up; the limit is that of all."""
    one, two = state(WIDE + 2), state(1)
    merged = merged_state([("1", one), ("2", two)], {})
    wide = level(merged)

    assert merged["serverConcurrencyLimit"] == 2 * SEATS
    assert (wide["executing"], wide["waiting"]) == (WIDE + 1, 2)
    assert wide["current"] == 2 * level(one)["current"]
    assert sum(wide["queues"]) == 2
    assert sum(wide["queueSeats"]) == WIDE + 1
    assert wide["queueCount"] == 8
    assert wide["condition"] == "waits"
    assert wide["dispatchedPerSecond"] == WIDE + 1
    assert wide["holder"]["seats"] == WIDE
    assert merged["topFlows"][0]["seatSeconds"] == 2.0
    assert merged["proxy"]["refusedPerSecond"] == {"401": 1.0}
    schema = next(each for each in merged["flowSchemas"] if each["name"] == "all")
    assert schema["matchedPerSecond"] == WIDE + 3
    assert [each["executing"] for each in merged["workers"]] == [WIDE, 1]
    assert verdict(merged, time.time())


def test_holder_of_several() -> None:
    """Who holds seats in two workers holds the sum."""
    merged = merged_level([level(state(WIDE + 1)), level(state(WIDE + 1))])

    assert merged["holder"]["seats"] == 2 * WIDE
    assert merged["holder"]["waitsFor"] == 2


def test_problems() -> None:
    """A problem that all have comes once; others say whose they are; silence is one."""
    first, second = HealthRegistry(), HealthRegistry()
    for health in (first, second):
        health.add("limits", problem="too few")
    second.add("upstream", problem="down", is_blocking=False)
    own = [
        {"check": "limits", "problem": "said already", "isBlocking": False},
        {"check": "workers", "problem": "few", "isBlocking": False},
    ]
    states = [("1", state(health=first)), ("2", state(health=second))]
    merged = merged_state(states, {"3": "no answer"}, own)

    assert [each["problem"] for each in merged["problems"]] == [
        "few",
        "too few",
        "worker 2: down",
        "worker 3 does not answer: no answer",
    ]
    assert merged["workers"][2] == {"name": "3", "problem": "no answer"}


def test_clients_that_are_not_told_apart() -> None:
    """What workers say of it comes once; one of an older version says nothing."""
    older = {key: value for key, value in state().items() if key != "clientProblems"}
    first, second = ({**state(), "clientProblems": [*each]} for each in ("ab", "bc"))

    assert ["a", "b", "c"] == merged_state([("1", first), ("2", second), ("3", older)], {})[
        "clientProblems"
    ]


def test_shutdown() -> None:
    """A worker that makes room for another one is no problem; it is if all end."""
    ending, going_on = HealthRegistry(), HealthRegistry()
    ending.add("shutdown", problem="ends")
    one, other = state(health=ending), state(health=going_on)

    assert merged_state([("1", one), ("2", other)], {})["problems"] == []
    assert len(merged_state([("1", one), ("2", one)], {})["problems"]) == 1


def test_problem_of_the_only_one_that_answers() -> None:
    """It is not known whether the others have it, too."""
    health = HealthRegistry()
    health.add("limits", problem="too few")
    merged = merged_state([("1", state(health=health))], {"2": "away"})

    assert merged["problems"][0]["problem"] == "worker 1: too few"


def test_events() -> None:
    """What all did comes once, what one did has its name, and all are in order."""
    first, second = ConfigurationEvents(), ConfigurationEvents()
    first.record(10.0, "Generation 1 is in force")
    second.record(11.0, "Generation 1 is in force")
    second.record(5.0, "Generation 1 is in force")
    second.record(99.0, "no file", is_error=True)
    merged = merged_state([("1", state(events=first)), ("2", state(events=second))], {})
    events = merged["configuration"]["events"]

    assert [(each["time"], each["message"]) for each in events] == [
        (5.0, "worker 2: Generation 1 is in force"),
        (10.0, "Generation 1 is in force"),
        (99.0, "worker 2: no file"),
    ]


@pytest.mark.parametrize(
    ("fleets", "expected"),
    [
        pytest.param([None, None], None, id="none"),
        pytest.param(
            [
                {**ALONE, "members": [seen("a", used=2, is_self=True), seen("b", used=9)]},
                {**HOLDS, "members": [seen("b", is_self=True), seen("a"), seen("c")]},
                None,
            ],
            {
                **HOLDS,
                "claim": 6,
                "inForce": 5,
                "problem": "away",
                "members": [
                    {**seen("b", is_self=True), "state": "held"},
                    {**seen("a", used=2, is_self=True), "state": "partitioned"},
                    seen("c"),
                ],
            },
            id="summed",
        ),
    ],
)
def test_merged_fleet(fleets: list[Any], expected: dict[str, Any] | None) -> None:
    """The fleet is as a worker says that has its claim, but each worker as it says itself."""
    assert merged_fleet(fleets) == expected


def test_shared_limit() -> None:
    """Where they share a limit, the server has that, and not the sum."""
    fleet = {**HOLDS, "limit": SEATS, "claim": 2, "inForce": 2, "members": []}
    merged = merged_state(
        [("1", {**state(), "fleet": fleet}), ("2", {**state(), "fleet": fleet})], {}
    )

    assert merged["serverConcurrencyLimit"] == SEATS
    assert merged["fleet"]["inForce"] == 4


def test_bounds_of_workers() -> None:
    """Levels have the bounds of the whole limit where only workers of this machine share it."""
    fleet = {**HOLDS, "limit": 2 * SEATS, "claim": 4, "inForce": 4, "members": []}
    whole = live_state(Scene(OBJECTS, 2 * SEATS).controller, LiveInputs())
    states = [("1", {**state(), "fleet": {**fleet, "isOfWorkers": True}})] * 2
    merged = merged_state(states, {})
    of_a_fleet = merged_state([("1", {**state(), "fleet": fleet})], {})
    states[0][1]["levels"][0].pop("shares")
    of_another_version = merged_state(states, {})

    for name in ("wide", "catch-all", "exempt"):
        bounds = [(each["nominal"], each["min"], each["max"]) for each in (
            level(whole, name), level(merged, name))]  # fmt: skip
        assert bounds[0] == bounds[1]
    assert level(of_a_fleet)["nominal"] == level(state())["nominal"]
    assert level(of_another_version)["nominal"] == 2 * level(state())["nominal"]


def test_by_place() -> None:
    """Lists of other lengths, from another configuration, add up as far as they go."""
    assert by_place([[1, 2], [1]]) == [2, 2]
    assert by_place([]) == []
