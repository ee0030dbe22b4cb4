"""A machine plays whole lives of exchanges: whatever happens in whatever order, all end well."""

from __future__ import annotations

import gc
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.proxy.machine.mutations import MUTATIONS, mutated
from tests.proxy.machine.play import (
    SETTINGS_BYTES,
    STEP_BYTES,
    Program,
    explained,
    run,
    search,
    smallest,
)
from tests.proxy.machine.world import World

STEPS = 20_000
MOST_STEPS = 100_000
"""Within which each error is found."""

programs = st.builds(
    Program,
    st.binary(min_size=SETTINGS_BYTES, max_size=SETTINGS_BYTES),
    st.lists(st.binary(min_size=STEP_BYTES, max_size=STEP_BYTES), max_size=60).map(tuple),
)


@settings(max_examples=100, deadline=None)
@given(programs)
def test_any_life_ends_well(program: Program) -> None:
    assert "" == run(program).finding, program.to_hex()


def test_many_lives_end_well() -> None:
    found, _ = search(random.Random(1), STEPS)  # noqa: S311  programs, not secrets

    assert found is None, explained(run(smallest(found), is_traced=True))


def test_nothing_is_kept_of_a_life() -> None:
    search(random.Random(1), 1000)  # noqa: S311  programs, not secrets
    gc.collect()

    assert not [each for each in gc.get_objects() if type(each) is World]


@pytest.mark.interpreted
@pytest.mark.parametrize("name", MUTATIONS)
def test_machine_finds_errors(name: str) -> None:
    seed = MUTATIONS[name].seed
    with mutated(name):
        found, _ = search(random.Random(seed), MOST_STEPS)  # noqa: S311  programs, not secrets
        assert found is not None
        # An error of the mutation itself would be found whatever the machine sees.
        assert "mutated()" not in run(found).finding


def test_programs_as_text() -> None:
    program = Program.drawn(random.Random(1))  # noqa: S311  as above

    assert program == Program.from_hex(program.to_hex())
