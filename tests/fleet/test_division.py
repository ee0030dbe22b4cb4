from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

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


def shares(total: int, demand: dict[str, int]) -> dict[str, int]:
    return divide_among_members("a", total, demand)


def test_idle_levels_have_their_shares() -> None:
    """As a proxy alone has them."""
    levels = {"a": LevelRules(3, 0, None, is_exempt=False), "b": LIMITED}

    assert {"a": 9, "b": 3} == seats(12, levels, {})


def test_levels_borrow() -> None:
    """What one lends, the other has."""
    assert {"a": 12, "b": 0} == seats(12, {"a": LENDING, "b": LENDING}, {"a": 20})


def test_rounding_gives_no_more_than_there_is() -> None:
    """Three levels of one share each, and limits that do not divide by three."""
    levels = dict.fromkeys("abc", LIMITED)

    for limit in range(10):
        assert limit == sum(seats(limit, levels, {"a": 3, "b": 3, "c": 3}).values())


def test_the_idle_pay_for_the_rounding() -> None:
    """Levels that want what they have keep it while another one has more than it wants."""
    levels = dict.fromkeys("abcd", LIMITED)

    # Nominal limits are 3 each, which is two too many.
    assert {"a": 3, "b": 3, "c": 3, "d": 1} == seats(10, levels, {"a": 9, "b": 9, "c": 9})


def test_priorities() -> None:
    """Across members, too, the greatest has what it wants, and the others what they are sure of."""
    levels = {
        name: LevelRules(shares, 100, None, is_exempt=False, priority=priority)
        for name, shares, priority in (("a", 80, 3), ("b", 12, 2), ("c", 8, 1))
    }

    assert {"a": 2, "b": 16, "c": 2} == seats(20, levels, {"a": 2, "b": 99, "c": 99})
    assert {"a": 16, "b": 2, "c": 2} == seats(20, levels, dict.fromkeys("abc", 99))
    assert {"a": 0, "b": 0, "c": 20} == seats(20, levels, {"c": 99})


def test_a_level_that_wants_a_seat_has_one_where_there_are_so_many() -> None:
    """Whatever the others keep for themselves, or would have more of."""
    levels = {"a": LENDING, "b": LIMITED}
    assert {"a": 1, "b": 0} == seats(1, levels, {"a": 1})
    assert {"a": 1, "b": 1} == seats(2, levels, {"a": 9, "b": 9})

    large = LevelRules(99, 0, None, is_exempt=False)
    assert {"a": 1, "b": 1} == seats(2, {"a": LENDING, "b": large}, {"a": 9, "b": 9})
    assert {"a": 1, "b": 1, "c": 1} == seats(
        3, {"a": LENDING, "b": large, "c": LENDING}, dict.fromkeys("abc", 9)
    )


def test_more_levels_than_seats() -> None:
    """Some go without, and the sum keeps the limit."""
    found = seats(2, dict.fromkeys("abc", LENDING), dict.fromkeys("abc", 9))

    assert [0, 1, 1] == sorted(found.values())


def test_an_exempt_level_takes_none_from_the_others() -> None:
    """What is not limited is not divided."""
    levels = {"a": LIMITED, "exempt": LevelRules(0, 0, None, is_exempt=True)}

    assert 10 == seats(10, levels, {"a": 10})["a"]


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
    """It is max-min, and gives away all that there is."""
    found = shares(total, demand)

    assert total == sum(found.values())
    if sum(demand.values()) <= total:
        assert all(found[key] >= demand[key] for key in demand)
        extras = [found[key] - demand[key] for key in demand]
        assert max(extras) - min(extras) <= 1
        return
    assert all(found[key] <= demand[key] for key in demand)
    short = [found[key] for key in demand if found[key] < demand[key]]
    assert max(found.values()) - min(short) <= 1


def test_fewer_seats_than_members() -> None:
    """Some have none; which ones they are does not depend on the order."""
    found = shares(2, {"m#1": 2, "m#2": 2, "n#1": 2})

    assert [0, 1, 1] == sorted(found.values())
    assert found == shares(2, {"n#1": 2, "m#2": 2, "m#1": 2})


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
    """Seats, what may be lent and what may be borrowed are divided without a rest."""
    parts = [part_of(key, limit, levels, demand) for key in demand]
    total = {name: sum(each.get(name, 0) for each in demand.values()) for name in levels}

    for name, level in divide_among_levels(limit, levels, total).items():
        whole = level.limits.nominal if levels[name].is_exempt else level.seats
        assert whole == sum(each[name].nominal for each in parts)
        assert sum(each[name].lower for each in parts) <= level.limits.lower
        assert sum(each[name].upper for each in parts) == max(level.limits.upper, whole)


def test_rounded() -> None:
    """The largest remainders have what is left, of equal ones by their place."""
    assert {"x": 2, "y": 1} == rounded({"x": 1.5, "y": 1.5}, 3, lambda key: (0, key))
    assert {"x": 1, "y": 2} == rounded({"x": 1.4, "y": 1.6}, 3, lambda key: (0, key))
    assert {"x": 2, "y": 1} == rounded({"x": 1.999999999, "y": 1.0}, 3, lambda key: (0, key))


def test_scaled() -> None:
    """The same part of each level, in whole seats; exempt levels as they are."""
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
