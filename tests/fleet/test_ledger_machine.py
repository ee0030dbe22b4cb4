"""The limit of a fleet is kept over any history of its members and their store."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from apfproxy.fleet.ledger import LeaseState
from tests.fleet import walks
from tests.fleet.world import PromptWorld, World, WorldMember

numbers = st.integers(0, 30)
rates = st.floats(0.9, 1.1)
offsets_s = st.sampled_from([0.0, 3.3, 1000.0])
limits = st.integers(1, 12)
levels = st.integers(1, 3)
amounts = st.sampled_from([0, 1, 3, 12])


class FleetMachine(RuleBasedStateMachine):
    """Members of a fleet that refresh step by step, with whatever may go wrong for one of them."""

    world: World

    @initialize(limit=limits, levels=levels, replicas=st.none() | st.integers(1, 6))
    def start(self, limit: int, levels: int, replicas: int | None) -> None:
        """A fleet with two members."""
        self.world = World(limit, levels, replicas)
        self.world.join()
        self.world.join()

    def one(self, number: int) -> WorldMember:
        """Some member."""
        return self.world.members[number % len(self.world.members)]

    @rule(number=numbers)
    def refresh(self, number: int) -> None:
        """One looks and writes."""
        self.world.refresh(self.one(number))

    @rule(number=numbers)
    def ask(self, number: int) -> None:
        """One looks."""
        self.world.ask(self.one(number))

    @rule(number=numbers)
    def plan(self, number: int) -> None:
        """One has its answer."""
        self.world.plan(self.one(number))

    @rule(number=numbers, outcome=st.sampled_from(["heard", "unheard", "stray", "lost"]))
    def swap(self, number: int, outcome: str) -> None:
        """One writes, and may not hear of it."""
        member = self.one(number)
        is_new = member.ledger.state is LeaseState.JOINING
        self.world.swap(member, "heard" if is_new else outcome)

    @rule(number=numbers, name=st.sampled_from("ab"), seats=amounts)
    def want(self, number: int, name: str, seats: int) -> None:
        """Requests wait."""
        member = self.one(number)
        if name in member.waiting:
            member.waiting[name] = seats

    @rule(number=numbers)
    def begin(self, number: int) -> None:
        """They begin."""
        self.one(number).start()

    @rule(number=numbers, name=st.sampled_from("ab"), seats=amounts)
    def end(self, number: int, name: str, seats: int) -> None:
        """They end."""
        member = self.one(number)
        if name in member.running:
            member.running[name] = max(0, member.running[name] - seats)

    @rule(duration_s=st.sampled_from([0.01, 0.2, 0.5, 1.0, 3.0, 9.0]))
    def wait(self, duration_s: float) -> None:
        """Time passes."""
        self.world.wait(duration_s)

    @precondition(lambda self: self.world.strays)
    @rule(number=numbers)
    def arrive(self, number: int) -> None:
        """A swap arrives that nobody waits for."""
        self.world.arrive(self.world.strays[number % len(self.world.strays)])

    @invariant()
    def is_kept(self) -> None:
        """What has to be true."""
        self.world.check()


class WildFleetMachine(FleetMachine):
    """Anything may happen to any member, and to the store."""

    @precondition(lambda self: len(self.world.members) < walks.MOST)
    @rule(rate=rates, offset_s=offsets_s)
    def join(self, rate: float, offset_s: float) -> None:
        """A member comes."""
        self.world.join(rate, offset_s)

    @precondition(lambda self: len(self.world.members) > 1)
    @rule(number=numbers, is_told=st.booleans())
    def end_member(self, number: int, is_told: bool) -> None:
        """A member dies, or leaves."""
        (self.world.leave if is_told else self.world.die)(self.one(number))

    @rule()
    def turn(self) -> None:
        """The store goes away, or comes back."""
        self.world.is_away = not self.world.is_away

    @rule(number=numbers)
    def cut(self, number: int) -> None:
        """One cannot reach the store, or can again."""
        self.one(number).is_cut ^= True

    @rule(number=numbers)
    def stall(self, number: int) -> None:
        """One does nothing, or goes on."""
        self.one(number).is_stalled ^= True

    @rule(number=numbers, limit=limits)
    def change_limit(self, number: int, limit: int) -> None:
        """One has another limit in its settings."""
        self.one(number).limit = limit

    @rule()
    def lose(self) -> None:
        """The store has no record any more."""
        self.world.lose()

    @rule(writes=st.integers(1, 6))
    def roll_back(self, writes: int) -> None:
        """The store has an older record."""
        self.world.roll_back(writes)


class PromptFleetMachine(FleetMachine):
    """No member is kept from the store longer than the others: nothing exceeds the limit."""

    world: PromptWorld

    @initialize(
        limit=st.integers(4, 12), levels=levels, rates=st.lists(rates, min_size=2, max_size=4)
    )
    def start(self, limit: int, levels: int, rates: list[float]) -> None:
        """A fleet whose members know each other."""
        self.world = PromptWorld(limit, levels, Random(1), None)  # noqa: S311  no secret
        for rate in rates:
            self.world.join(rate)
        self.world.wait(8.0)

    @rule()
    def turn(self) -> None:
        """The store goes away, or comes back."""
        self.world.turn()


WildFleetMachine.TestCase.settings = settings(stateful_step_count=60)
TestWildFleet = WildFleetMachine.TestCase
PromptFleetMachine.TestCase.settings = settings(stateful_step_count=40)
TestPromptFleet = PromptFleetMachine.TestCase


@pytest.mark.parametrize("seed", range(12))
def test_wild_walks(seed: int) -> None:
    """Longer ones than the machine's."""
    walks.wild_walk(seed, 1500)


@pytest.mark.parametrize("seed", range(8))
def test_prompt_walks(seed: int) -> None:
    """Nobody has more than the record says, nor all together more than the limit."""
    walks.prompt_walk(seed, 400)


@pytest.mark.parametrize("seed", range(12))
def test_walks_to_rest(seed: int) -> None:
    """What all want is divided by max-min soon after the demand stops changing."""
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
    """Everybody refreshes once, and wants something else each time."""
    world.wait(0.4)
    for each in random.sample(world.members, len(world.members)):
        for other in world.members:
            for name in other.running:
                other.waiting[name] = random.choice(walks.AMOUNTS)
                other.running[name] = random.randint(0, other.running[name])
            other.start()
        world.refresh(each)
        world.check()
