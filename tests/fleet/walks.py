"""Random histories of a fleet, as long as wanted, and whether it comes to rest after them."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

from apfproxy.fleet.division import divide_among_levels
from apfproxy.fleet.ledger import LeaseState
from tests.fleet.world import LEASE_S, PromptWorld, World

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.fleet.world import WorldMember

MOST = 6
"""Members at once."""
RATES = (1.0, 0.9, 1.1, 1.05)
OFFSETS_S = (0.0, 1000.0, 3.3)
LEASES_S = (LEASE_S, 1.5 * LEASE_S)
PAUSES_S = (0.01, 0.2, 0.5, 0.5, 1.0, 1.0, 3.0, 9.0)
AMOUNTS = (0, 0, 1, 3, 12)
OUTCOMES = ("heard", "heard", "heard", "heard", "unheard", "stray", "lost")
ROUNDS_TO_REST = 3
"""Refreshes of all until their wishes are divided: they say, give up, and claim."""
ROUNDS_FOR_USE = 1
"""The same, before what requests run on is given up."""

Wishes = dict[str, dict[str, int]]
"""Seats, by member and level."""

# Steps, each of what may happen to a member, or to all


def joins(world: World, random: Random) -> None:
    """One more comes, with any clock and lease; in a prompt world it has written at once."""
    is_prompt = isinstance(world, PromptWorld)
    if len(world.members) < MOST and not (is_prompt and world.is_away):
        newcomer = world.join(
            random.choice(RATES), random.choice(OFFSETS_S), random.choice(LEASES_S)
        )
        if is_prompt:
            world.refresh(newcomer)


def swaps(world: World, member: WorldMember, random: Random) -> None:
    is_new = member.ledger.state is LeaseState.JOINING
    world.swap(member, "heard" if is_new else random.choice(OUTCOMES))


def wants(_: World, member: WorldMember, random: Random) -> None:
    member.waiting[random.choice(list(member.waiting))] = random.choice(AMOUNTS)


def ends(_: World, member: WorldMember, random: Random) -> None:
    level = random.choice(list(member.running))
    member.running[level] = random.randint(0, member.running[level])


def stalls(_: World, member: WorldMember, __: Random) -> None:
    member.is_stalled = not member.is_stalled


def is_cut(_: World, member: WorldMember, __: Random) -> None:
    member.is_cut = not member.is_cut


def is_limited(world: World, member: WorldMember, random: Random) -> None:
    member.limit = random.choice((world.limit, max(1, world.limit // 2)))


def arrives(world: World, _: WorldMember, random: Random) -> None:
    if world.strays:
        world.arrive(random.choice(world.strays))


STEPS: dict[str, Callable[[World, WorldMember, Random], object]] = {
    "refresh": lambda world, member, _: world.refresh(member),
    "ask": lambda world, member, _: world.ask(member),
    "plan": lambda world, member, _: world.plan(member),
    "swap": swaps,
    "want": wants,
    "start": lambda _, member, __: member.start(),
    "end": ends,
    "wait": lambda world, _, random: world.wait(random.choice(PAUSES_S)),
    "join": lambda world, _, random: joins(world, random),
    "die": lambda world, member, _: world.die(member),
    "leave": lambda world, member, _: world.leave(member),
    "away": lambda world, _, __: world.turn(),
    "stray": arrives,
    "lose": lambda world, _, __: world.lose(),
    "roll-back": lambda world, _, random: world.roll_back(random.randint(1, 6)),
    "cut": is_cut,
    "stall": stalls,
    "limit": is_limited,
}
USUAL = {"refresh": 30, "ask": 10, "plan": 12, "swap": 14, "want": 8, "start": 6, "end": 6}
USUAL |= {"wait": 8, "stray": 1}
CHAOS = USUAL | {"join": 1, "die": 0.5, "leave": 0.5, "away": 1, "cut": 1, "stall": 1, "limit": 1}
CHAOS |= {"lose": 0.3, "roll-back": 0.3}
"""How often what happens where anything may go wrong for any member."""
BUSTLE = USUAL | {"away": 3}
COMINGS = {"join": 1, "die": 0.5, "leave": 0.5}
LOSSES = {"lose": 0.5, "roll-back": 0.5}


def happen(world: World, random: Random, weights: Mapping[str, float]) -> str:
    if not world.members:
        joins(world, random)
        return "join"
    (name,) = random.choices(list(weights), list(weights.values()))
    STEPS[name](world, random.choice(world.members), random)
    world.check()
    return name


# Coming to rest


def calm(world: World, random: Random) -> None:
    """All is well from now on, and for long enough that no member remembers the past."""
    world.is_away = False
    world.strays.clear()
    for each in world.members:
        each.is_stalled = each.is_cut = False
        each.answer = each.swap = None
        each.limit = world.limit
        each.waiting = dict.fromkeys(each.levels, 0)
        each.running = dict.fromkeys(each.levels, 0)
    for _ in range(24):
        go_round(world, random, {})


def go_round(world: World, random: Random, wishes: Wishes, *, is_idle: bool = False) -> None:
    """Everybody refreshes once; if seats are `is_idle`, the requests of before have just ended."""
    world.wait(0.4)
    members = list(world.members)
    random.shuffle(members)
    for each in members:
        if is_idle:
            each.waiting = dict.fromkeys(each.levels, 0) | wishes[each.key]
            each.running = dict.fromkeys(each.levels, 0)
        world.refresh(each)
        world.check()
        fill(each, wishes)


def fill(member: WorldMember, wishes: Wishes) -> None:
    seats = member.allotted()
    for name, amount in wishes.get(member.key, {}).items():
        member.running[name] = min(amount, seats.get(name, 0))
        member.waiting[name] = amount - member.running[name]


def wishes_of(world: World, random: Random) -> Wishes:
    names = [name for name, rules in world.levels.items() if not rules.is_exempt]
    return {
        each.key: {name: random.choice((0, 0, 1, 2, 5, 20)) for name in names}
        for each in world.members
    }


def unfairness(world: World, wishes: Wishes) -> str:
    """How what members have differs from max-min on their wishes; "" if it does not."""
    for name, (seats, wanted) in divided(world, wishes).items():
        has = {each.key: each.allotted()[name] for each in world.members}
        short = [has[key] for key in has if has[key] < wanted[key]]
        if sum(has.values()) != seats:
            return f"{name} has {has}, of {seats}"
        if sum(wanted.values()) <= seats and short:
            return f"{name} has {has}, though all could have {wanted}"
        if short and max(min(has[key], wanted[key]) for key in has) - min(short) > 1:
            return f"{name} has {has} for {wanted}"
    return ""


def divided(world: World, wishes: Wishes) -> Mapping[str, tuple[int, dict[str, int]]]:
    wanted: dict[str, dict[str, int]] = {
        name: {key: amounts[name] for key, amounts in wishes.items()}
        for name, rules in world.levels.items()
        if not rules.is_exempt
    }
    demand = {name: sum(amounts.values()) for name, amounts in wanted.items()}
    levels = divide_among_levels(world.limit, world.levels, demand)
    return {name: (levels[name].seats, amounts) for name, amounts in wanted.items()}


def rounds_to_rest(world: World, random: Random, wishes: Wishes, *, is_idle: bool) -> int:
    for each in world.members:
        fill(each, wishes)
    count = 0
    while unfairness(world, wishes) and count <= ROUNDS_TO_REST + ROUNDS_FOR_USE:
        go_round(world, random, wishes, is_idle=is_idle)
        count += 1
    return count


# Whole walks


def any_world(random: Random) -> World:
    return World(
        random.choice((1, 2, 3, 5, 10, 17)),
        random.choice((1, 1, 2, 3)),
        random.choice((None, None, 3, 6)),
    )


def wild_walk(seed: int, steps: int) -> Counter[str]:
    random = Random(seed)  # noqa: S311  no secret
    world = any_world(random)
    return Counter(happen(world, random, CHAOS) for _ in range(steps))


def prompt_walk(seed: int, steps: int) -> Counter[str]:
    random = Random(seed)  # noqa: S311  no secret
    is_fixed = bool(seed % 2)
    world = PromptWorld(
        random.choice((6, 7, 10, 17)), random.choice((1, 1, 2, 3)), random, None if is_fixed else 6
    )
    for _ in range(random.randint(2, MOST)):
        joins(world, random)
    world.wait(12.0)
    weights = BUSTLE | ({} if is_fixed else COMINGS) | ({} if seed % 3 else LOSSES)
    return Counter(happen(world, random, weights) for _ in range(steps))


def resting_walk(seed: int, steps: int) -> Counter[str]:
    random = Random(seed)  # noqa: S311  no secret
    world = any_world(random)
    for _ in range(steps):
        happen(world, random, CHAOS)
    while len(world.members) < 2:
        joins(world, random)
    calm(world, random)
    seen: Counter[str] = Counter()
    for _ in range(4):
        wishes = wishes_of(world, random)
        is_idle = random.random() < 0.5
        rounds = rounds_to_rest(world, random, wishes, is_idle=is_idle)
        bound = ROUNDS_TO_REST + (0 if is_idle else ROUNDS_FOR_USE)
        assert rounds <= bound, unfairness(world, wishes)
        seen[f"rest after {rounds} of {bound}"] += 1
    return seen
