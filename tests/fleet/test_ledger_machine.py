"""The limit of a fleet is kept over any history of its members and their store."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.fleet import walks
from tests.fleet.world import PromptWorld, World

if TYPE_CHECKING:
    from collections.abc import Mapping

randoms = st.randoms(use_true_random=False)


class WildFleet(RuleBasedStateMachine):
    """Anything may happen to any member, and to the store."""

    weights: Mapping[str, float] = walks.CHAOS
    world: World

    @initialize(limit=st.integers(1, 12), levels=st.integers(1, 3), random=randoms)
    def start(self, limit: int, levels: int, random: Random) -> None:
        self.world = World(limit, levels, random.choice((None, None, 1, 3, 6)))
        self.world.join()
        self.world.join()

    @rule(random=randoms)
    def happen(self, random: Random) -> None:
        note(walks.happen(self.world, random, self.weights))


class PromptFleet(WildFleet):
    """No member is kept from the store longer than the others: nothing exceeds the limit."""

    weights = walks.BUSTLE

    @initialize(limit=st.integers(4, 12), levels=st.integers(1, 3), random=randoms)
    def start(self, limit: int, levels: int, random: Random) -> None:
        self.world = PromptWorld(limit, levels, Random(1), None)  # noqa: S311  no secret
        for _ in range(random.randint(2, 4)):
            walks.joins(self.world, random)
        self.world.wait(8.0)


WildFleet.TestCase.settings = settings(stateful_step_count=60)
TestWildFleet = WildFleet.TestCase
PromptFleet.TestCase.settings = settings(stateful_step_count=40)
TestPromptFleet = PromptFleet.TestCase


@pytest.mark.parametrize("seed", range(12))
def test_wild_walks(seed: int) -> None:
    """Longer ones than the machine's."""
    walks.wild_walk(seed, 1500)


@pytest.mark.parametrize("seed", range(8))
def test_prompt_walks(seed: int) -> None:
    """No member has more than the record says, nor all together more than the limit."""
    walks.prompt_walk(seed, 400)


@pytest.mark.parametrize("seed", range(12))
def test_walks_to_rest(seed: int) -> None:
    walks.resting_walk(seed, 200)


def test_a_lower_limit_is_kept_after_a_refresh_of_each() -> None:
    """Though demand changes all the time."""
    for seed in range(40):
        random = Random(seed)  # noqa: S311  no secret
        world = World(random.choice((6, 10, 17)), random.choice((1, 2)), walks.MOST)
        for _ in range(random.randint(2, 5)):
            world.join()
        for _ in range(12):
            go_round_busily(world, random)
        limit = max(len(world.members), world.limit // 2)
        world.members[0].limit = limit
        world.refresh(world.members[0])
        for _ in range(3):
            go_round_busily(world, random)
            assert world.in_force() <= limit


def go_round_busily(world: World, random: Random) -> None:
    world.wait(0.4)
    for each in random.sample(world.members, len(world.members)):
        for other in world.members:
            for name in other.running:
                other.waiting[name] = random.choice(walks.AMOUNTS)
                other.running[name] = random.randint(0, other.running[name])
            other.start()
        world.refresh(each)
        world.check()
