"""Tests of apfproxy.flowcontrol.tournament."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.flowcontrol.tournament import NEVER, Tournament

keys_and_start = st.lists(st.sampled_from([1, 2, 3, NEVER]), min_size=1, max_size=20).flatmap(
    lambda keys: st.tuples(st.just(keys), st.integers(-1, len(keys) - 1))
)


@given(keys_and_start)
def test_first_after_takes_turns(case: tuple[list[int], int]) -> None:
    """The first holder of the least key wins, going around from the one after the start."""
    keys, start = case
    visited = [(start + 1 + step) % len(keys) for step in range(len(keys))]

    assert min(visited, key=lambda index: keys[index]) == Tournament(keys).first_after(start)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=20),
    st.lists(st.tuples(st.integers(0, 19), st.integers(0, 9))),
)
def test_set_keeps_every_node(keys: list[int], changes: list[tuple[int, int]]) -> None:
    """Changing keys one by one leads to the same tree as building it of the last ones."""
    tournament = Tournament(keys)
    for index, key in changes:
        tournament.set(index % len(keys), key)
        keys[index % len(keys)] = key

    assert Tournament(keys).nodes == tournament.nodes
    assert keys == tournament.keys()


@pytest.mark.parametrize(("length", "size"), [(0, 1), (1, 1), (2, 2), (3, 4), (512, 512)])
def test_size_is_a_power_of_two(length: int, size: int) -> None:
    """The tree has no more levels than it needs."""
    assert size == Tournament([5] * length).size
