"""How seats are divided among levels and members."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.fleet.demand import MemberDemand
from apfproxy.fleet.division import (
    LevelRules,
    divide_among_levels,
    divide_among_members,
    part_of,
    rounded,
    scaled,
    seats_of,
)
from apfproxy.flowcontrol.limits import LevelLimits
from tests.flowcontrol.scene import Scene, level_object, schema_object

LIMITED = LevelRules(1, 0, None, is_exempt=False)
LENDING = LevelRules(1, 100, None, is_exempt=False)

members = st.sampled_from(["m#1", "m#2", "n#1", "o#1", "p#1"])
rules = st.builds(
    LevelRules,
    st.integers(0, 100),
    st.integers(0, 100),
    st.none() | st.integers(0, 300),
    is_exempt=st.just(value=False),
)
exempt = st.builds(
    LevelRules, st.integers(0, 50), st.integers(0, 100), st.none(), is_exempt=st.just(value=True)
)


def seats(limit: int, levels: dict[str, LevelRules], demand: dict[str, int]) -> dict[str, int]:
    divided = divide_among_levels(limit, levels, demand)
    return {name: each.seats for name, each in divided.items()}


def by_priority(name: str, shares: int, priority: int) -> dict[str, LevelRules]:
    return {name: LevelRules(shares, 100, None, is_exempt=False, priority=priority)}


PRIORITIES = by_priority("a", 80, 3) | by_priority("b", 12, 2) | by_priority("c", 8, 1)
LARGE = LevelRules(99, 0, None, is_exempt=False)
EXEMPT = LevelRules(0, 0, None, is_exempt=True)
ALL = dict.fromkeys("abc", 99)
CASES: dict[str, tuple[int, dict[str, LevelRules], dict[str, int], dict[str, int]]] = {
    "shares-of-the-idle": (
        *(12, {"a": LevelRules(3, 0, None, is_exempt=False), "b": LIMITED}),
        *({}, {"a": 9, "b": 3}),
    ),
    "what-is-lent": (12, {"a": LENDING, "b": LENDING}, {"a": 20}, {"a": 12, "b": 0}),
    # Nominal limits are 3 each, which is two too many: who is idle pays.
    "rounding": (
        *(10, dict.fromkeys("abcd", LIMITED), {"a": 9, "b": 9, "c": 9}),
        {"a": 3, "b": 3, "c": 3, "d": 1},
    ),
    "priority": (20, PRIORITIES, ALL | {"a": 2}, {"a": 2, "b": 16, "c": 2}),
    "greatest-priority": (20, PRIORITIES, ALL, {"a": 16, "b": 2, "c": 2}),
    "least-priority": (20, PRIORITIES, {"c": 99}, {"a": 0, "b": 0, "c": 20}),
    "the-only-seat": (1, {"a": LENDING, "b": LIMITED}, {"a": 1}, {"a": 1, "b": 0}),
    "a-seat-each": (2, {"a": LENDING, "b": LIMITED}, {"a": 9, "b": 9}, {"a": 1, "b": 1}),
    "a-seat-beside-many-shares": (
        *(2, {"a": LENDING, "b": LARGE}, {"a": 9, "b": 9}, {"a": 1, "b": 1}),
    ),
    "a-seat-of-three": (
        *(3, {"a": LENDING, "b": LARGE, "c": LENDING}, ALL, {"a": 1, "b": 1, "c": 1}),
    ),
    "exempt": (10, {"a": LIMITED, "e": EXEMPT}, {"a": 10}, {"a": 10, "e": 0}),
    **{
        f"three-levels-{limit}": (limit, dict.fromkeys("abc", LIMITED), ALL, {"": limit})
        for limit in range(1, 10)
    },
    "more-levels-than-seats": (2, dict.fromkeys("abc", LENDING), ALL, {"": 2}),
}
"""Seats, levels and demand, and what the levels have, or all together."""


@pytest.mark.parametrize("case", CASES)
def test_seats_of_levels(case: str) -> None:
    limit, levels, demand, expected = CASES[case]
    found = seats(limit, levels, demand)
    assert expected == ({"": sum(found.values())} if "" in expected else found)
    if case == "more-levels-than-seats":
        assert [0, 1, 1] == sorted(found.values())


@given(
    limit=st.integers(0, 200),
    levels=st.dictionaries(st.sampled_from("abcdefgh"), rules | exempt, min_size=1),
    demand=st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 100)),
)
def test_any_division_among_levels(
    limit: int, levels: dict[str, LevelRules], demand: dict[str, int]
) -> None:
    """The sum keeps the limit; no level pays for rounding while another one has a seat to spare."""
    divided = divide_among_levels(limit, levels, demand)
    limited = {name: each for name, each in divided.items() if not levels[name].is_exempt}
    assert divided.keys() == levels.keys()
    assert sum(each.seats for each in limited.values()) <= limit
    assert all(0 <= each.seats for each in limited.values())
    assert all(each.seats <= each.limits.upper for each in limited.values())


def test_who_is_first_differs_between_levels() -> None:
    """So that the first member does not have the odd seat of all levels."""
    demand = {"m#1": 1, "m#2": 1}
    first = {
        key for level in "abcdefgh" for key in demand if divide_among_members(level, 1, demand)[key]
    }
    assert set(demand) == first


@given(
    total=st.integers(0, 60),
    demand=st.dictionaries(members, st.integers(0, 30), min_size=1),
)
def test_any_division_among_members(total: int, demand: dict[str, int]) -> None:
    found = divide_among_members("a", total, demand)

    assert found == divide_among_members("a", total, dict(reversed(demand.items())))
    assert total == sum(found.values())
    if sum(demand.values()) <= total:
        assert all(found[key] >= demand[key] for key in demand)
        extras = [found[key] - demand[key] for key in demand]
        assert max(extras) - min(extras) <= 1
        return
    assert all(found[key] <= demand[key] for key in demand)
    short = [found[key] for key in demand if found[key] < demand[key]]
    assert max(found.values()) - min(short) <= 1


@given(
    limit=st.integers(0, 60),
    levels=st.dictionaries(st.sampled_from("abcd"), rules | exempt, min_size=1),
    demand=st.dictionaries(
        members, st.dictionaries(st.sampled_from("abcd"), st.integers(0, 30)), min_size=1
    ),
)
def test_the_parts_of_all_are_the_whole(
    limit: int, levels: dict[str, LevelRules], demand: dict[str, dict[str, int]]
) -> None:
    parts = [part_of(key, limit, levels, demand) for key in demand]
    total = {name: sum(each.get(name, 0) for each in demand.values()) for name in levels}

    for name, level in divide_among_levels(limit, levels, total).items():
        whole = level.limits.nominal if levels[name].is_exempt else level.seats
        assert whole == sum(each[name].nominal for each in parts)
        assert sum(each[name].lower for each in parts) <= level.limits.lower
        assert sum(each[name].upper for each in parts) == max(level.limits.upper, whole)


def test_rounded() -> None:
    assert {"x": 2, "y": 1} == rounded({"x": 1.5, "y": 1.5}, 3, lambda key: (0, key))
    assert {"x": 1, "y": 2} == rounded({"x": 1.4, "y": 1.6}, 3, lambda key: (0, key))
    assert {"x": 5, "y": 1} == rounded({"x": 5.1, "y": 0.9}, 6, lambda key: (0, key))
    assert {"x": 2, "y": 1} == rounded({"x": 1.999999999, "y": 1.0}, 3, lambda key: (0, key))


def test_scaled() -> None:
    levels = {"a": LIMITED, "b": LIMITED} | {"exempt": LevelRules(1, 50, None, is_exempt=True)}
    limits = {
        "a": LevelLimits(6, 3, 10),
        "b": LevelLimits(3, 2, 10),
        "exempt": LevelLimits(4, 2, 4),
        "gone": LevelLimits(5, 5, 5),
    }

    found = scaled(limits, levels, 4)
    assert 4 == seats_of(found, levels)
    assert {"a": LevelLimits(3, 3, 7), "b": LevelLimits(1, 1, 8)} == {
        name: found[name] for name in "ab"
    }
    assert limits["exempt"] == found["exempt"]
    assert "gone" not in found
    assert 9 == seats_of(scaled(limits, levels, 20), levels)


def scene_of(queues: int = 1, seats: int = 4, shares: int = 95) -> Scene:
    level = level_object("a", shares, queues, borrowing=0, length=10)
    return Scene(level, schema_object("s", "a"), seats=seats)


def test_what_is_there() -> None:
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
    one, other, third = (
        MemberDemand(scene.controller).report(limit, {}).configuration
        for scene, limit in ((scene_of(), 9), (scene_of(seats=9), 4), (scene_of(shares=7), 9))
    )
    assert one == other != third
