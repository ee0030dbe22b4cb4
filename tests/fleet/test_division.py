"""Tests of apfproxy.fleet.division."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from apfproxy.fleet.division import (
    TURN,
    LevelRules,
    divide_among_levels,
    rounded,
    shares_of,
)

LIMITED = LevelRules(1, 0, None, is_exempt=False)
LENDING = LevelRules(1, 100, None, is_exempt=False)
NOW = 1000

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


def seats(
    limit: int,
    levels: dict[str, LevelRules],
    demand: dict[str, int],
    hungry: dict[str, int] | None = None,
) -> dict[str, int]:
    """What levels get."""
    divided = divide_among_levels(limit, levels, demand, hungry or {})
    return {name: each.seats for name, each in divided.items()}


def shares(
    total: int, demand: dict[str, int], hungry: dict[str, int] | None = None
) -> dict[str, int]:
    """What members get of a level."""
    found = shares_of("a", total, list(demand), demand, hungry or {}, NOW)
    return {key: found.get(key, 0) for key in demand}


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


def test_fewer_seats_than_levels() -> None:
    """Whoever has been hungry for longest is first."""
    levels = dict.fromkeys("ab", LIMITED)

    assert {"a": 0, "b": 1} == seats(1, levels, {"a": 1, "b": 1}, {"b": 7})
    assert {"a": 1, "b": 0} == seats(1, levels, {"a": 1, "b": 1}, {"a": 5, "b": 7})


def test_the_hungry_do_not_have_the_last_seat_of_another_level() -> None:
    """Somebody may be hungry at a level that has several."""
    levels = dict.fromkeys("abc", LENDING)

    for hungry in "abc":
        assert {"a": 1, "b": 1, "c": 1} == seats(3, levels, dict.fromkeys("abc", 9), {hungry: 3})
    assert {"a": 0, "b": 1, "c": 1} == seats(2, levels, dict.fromkeys("abc", 9), {"b": 3, "c": 4})


def test_the_last_seats_of_levels_go_last() -> None:
    """Whoever is hungry at a level that has several may lose one of them."""
    levels = {"a": LevelRules(2, 0, None, is_exempt=False), "b": LIMITED}

    assert {"a": 1, "b": 1} == seats(2, levels, {"a": 1}, {"a": 6})


def test_hunger_somewhere_does_not_move_the_odd_seat_of_a_level() -> None:
    """A level that has several loses one by rounding, whoever is hungry there on the way."""
    levels = dict.fromkeys("abc", LIMITED)
    demand = dict.fromkeys("abc", 9)
    found = seats(10, levels, demand)

    assert [3, 3, 4] == sorted(found.values())
    for hungry in "abc":
        assert found == seats(10, levels, demand, {hungry: 3})


def test_what_a_level_never_lends_may_be_all_that_there_is() -> None:
    """The other one has it in turn all the same."""
    levels = {"a": LENDING, "b": LIMITED}

    assert {"a": 0, "b": 1} == seats(1, levels, {"a": 1, "b": 1})
    assert {"a": 1, "b": 0} == seats(1, levels, {"a": 1, "b": 1}, {"a": 5})
    assert {"a": 0, "b": 1} == seats(1, levels, {"a": 1, "b": 1}, {"a": 5, "b": 4})


def test_an_exempt_level_takes_none_from_the_others() -> None:
    """What is not limited is not divided."""
    levels = {"a": LIMITED, "exempt": LevelRules(0, 0, None, is_exempt=True)}

    assert 10 == seats(10, levels, {"a": 10})["a"]


@given(
    limit=st.integers(0, 200),
    levels=st.dictionaries(st.sampled_from("abcdefgh"), rules | exempt, min_size=1),
    demand=st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 100)),
    hungry=st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 9)),
)
def test_any_division_among_levels(
    limit: int,
    levels: dict[str, LevelRules],
    demand: dict[str, int],
    hungry: dict[str, int],
) -> None:
    """The sum keeps the limit; nobody pays for rounding while another one has a seat to spare."""
    divided = divide_among_levels(limit, levels, demand, hungry)
    limited = {name: each for name, each in divided.items() if not levels[name].is_exempt}

    assert divided.keys() == levels.keys()
    assert sum(each.seats for each in limited.values()) <= limit
    assert all(0 <= each.seats for each in limited.values())
    assert all(each.seats <= each.limits.upper for each in limited.values())


def test_everybody_has_what_it_wants() -> None:
    """The rest goes to all in equal parts."""
    assert {"m#1": 6, "m#2": 3, "n#1": 3} == shares(12, {"m#1": 3, "m#2": 0, "n#1": 0})


def test_too_few_seats_are_divided_by_max_min() -> None:
    """Who wants little has it; the others have equal parts."""
    found = shares(10, {"m#1": 1, "m#2": 8, "n#1": 9})

    assert 1 == found["m#1"]
    assert {4, 5} == {found["m#2"], found["n#1"]}


def test_fewer_seats_than_members() -> None:
    """Whoever has been hungry for longest is first."""
    demand = {"m#1": 2, "m#2": 2, "n#1": 2}

    assert {"m#1": 0, "m#2": 1, "n#1": 0} == shares(1, demand, {"m#1": 8, "m#2": 3})
    assert {"m#1": 1, "m#2": 1, "n#1": 0} == shares(2, demand, {"m#1": 8, "m#2": 3})


def test_who_has_a_seat_keeps_it_for_a_turn() -> None:
    """However often the record is looked at meanwhile; who waited is due then."""
    for one, other in ("mn", "nm"):
        demand = {one: 1, other: 1}
        turn = TURN * len(demand)
        assert {one: 1, other: 0} == shares(1, demand, {other: NOW - turn + 1})
        assert {one: 0, other: 1} == shares(1, demand, {other: NOW - turn - 1})
    five = dict.fromkeys("mnopq", 1)
    two_turns = 2 * TURN * len(five)
    for key in five:
        others = {other: NOW - two_turns + 1 for other in five if other != key}
        assert 1 == shares(2, five, others)[key]
        assert 0 == shares(2, five, dict.fromkeys(others, NOW - two_turns - 1))[key]


def test_hunger_does_not_move_the_odd_seat_where_everybody_has_one() -> None:
    """A newcomer, hungry until it has its part, does not have one more for that."""
    demand = {"m": 9, "n": 9, "o": 9}
    found = shares_of("a", 10, list("mno"), demand, {}, NOW)

    assert [3, 3, 4] == sorted(found.values())
    for hungry in "mno":
        assert found == shares_of("a", 10, list("mno"), demand, {hungry: 3}, NOW)


def test_who_is_first_differs_between_levels() -> None:
    """So that the first member does not have the odd seat of all levels."""
    demand = {"m#1": 1, "m#2": 1}
    first = {
        key
        for level in "abcdefgh"
        for key in demand
        if shares_of(level, 1, list(demand), demand, {}, NOW).get(key)
    }

    assert set(demand) == first


@given(
    total=st.integers(0, 60),
    demand=st.dictionaries(members, st.integers(0, 30), min_size=1),
    hungry=st.dictionaries(members, st.integers(0, 9)),
)
def test_any_division_among_members(
    total: int, demand: dict[str, int], hungry: dict[str, int]
) -> None:
    """It is max-min, and gives away all that there is."""
    found = shares(total, demand, hungry)

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
    total=st.integers(0, 20),
    demand=st.dictionaries(members, st.integers(1, 9), min_size=2),
    hungry=st.dictionaries(members, st.integers(0, 9)),
)
def test_the_hungrier_are_not_behind(
    total: int, demand: dict[str, int], hungry: dict[str, int]
) -> None:
    """Nobody has its first seat while one that waits for longer has none."""
    found = shares(total, demand, hungry)
    without = [hungry[key] for key in demand if key in hungry and not found[key]]

    for key in demand:
        if found[key] and without:
            assert hungry.get(key, 10) <= min(without) or total >= len(demand)


def test_rounded() -> None:
    """The largest remainders have what is left, of equal ones by their place."""
    assert {"x": 2, "y": 1} == rounded({"x": 1.5, "y": 1.5}, 3, lambda key: (0, 0, key))
    assert {"x": 1, "y": 2} == rounded({"x": 1.4, "y": 1.6}, 3, lambda key: (0, 0, key))
    assert {"x": 2, "y": 1} == rounded({"x": 1.999999999, "y": 1.0}, 3, lambda key: (0, 0, key))
