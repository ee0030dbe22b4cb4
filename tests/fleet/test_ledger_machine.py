"""The limit of a fleet is kept over any history of its members and their store."""

from __future__ import annotations

from random import Random

import pytest

from tests.fleet import walks
from tests.fleet.world import World


@pytest.mark.parametrize("seed", range(12))
def test_wild_walks(seed: int) -> None:
    """Anything may happen to any member, and to the store."""
    walks.wild_walk(seed, 1500)


@pytest.mark.parametrize("seed", range(8))
def test_prompt_walks(seed: int) -> None:
    """No member has more than the record says, nor all together more than the limit."""
    walks.prompt_walk(seed, 400)


@pytest.mark.parametrize("seed", range(12))
def test_walks_to_rest(seed: int) -> None:
    walks.resting_walk(seed, 200)


def test_a_lower_limit_is_kept_after_a_refresh_of_each() -> None:
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
