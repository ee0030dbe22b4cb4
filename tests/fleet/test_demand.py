"""What a proxy reports to its fleet: demand by level, with what it rejects."""

from __future__ import annotations

from apfproxy.fleet.demand import MemberDemand
from tests.flowcontrol.scene import Scene, level_object, schema_object


def scene_of(queues: int = 1, seats: int = 4, shares: int = 95) -> Scene:
    level = level_object("a", shares, queues, borrowing=0, length=10)
    return Scene(level, schema_object("s", "a"), seats=seats)


def test_what_is_there() -> None:
    """Requests that run and those that wait are wanted; exempt levels want nothing."""
    scene = scene_of()
    scene.arrive(count=7)
    reported = MemberDemand(scene.controller)
    demand = reported.peak()
    found = reported.report(9, demand)

    assert {"a": 7, "catch-all": 0} == demand
    assert (9, 4, demand) == (found.limit, found.used, found.demand)
    assert {"a", "catch-all", "exempt"} == set(found.levels)
    rules = found.levels["a"]
    assert (95, 0, 0) == (rules.shares, rules.lendable_percent, rules.borrowing_percent)
    assert [False, True] == [found.levels[name].is_exempt for name in ("a", "exempt")]


def test_the_most_since_the_last_sample() -> None:
    """What came and went in between counts; to see the peak begins no sample."""
    scene = scene_of()
    demand = MemberDemand(scene.controller)
    scene.finish("a", scene.arrive(count=4))
    scene.arrive()

    assert [4, 4] == [each["a"] for each in (demand.peak(), demand.sample())]
    assert [1, 1] == [each["a"] for each in (demand.peak(), demand.sample())]


def test_what_is_rejected() -> None:
    """It counts until it was reported, up to as much as is used, and as one at least."""
    scene = scene_of(queues=0)
    demand = MemberDemand(scene.controller)
    demand.on_rejection("a", 3)
    demand.on_rejection("", 0)
    assert 1 == demand.sample()["a"]
    scene.arrive(count=2)
    assert 4 == demand.sample()["a"]
    demand.forget_rejections()

    assert 2 == demand.peak()["a"]


def test_the_digest_of_a_configuration() -> None:
    """It is the same for the same levels, whatever else differs, and another one for others."""
    one, other, third = (
        MemberDemand(scene.controller).report(limit, {}).configuration
        for scene, limit in ((scene_of(), 9), (scene_of(seats=9), 4), (scene_of(shares=7), 9))
    )

    assert one == other != third
