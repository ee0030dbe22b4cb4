"""How the seats of a server are divided: among priority levels, then each level's among members.

Among levels they are divided as one proxy does for what waits (`flowcontrol.prompt_limits`),
by what all members want together, so that what is idle on one member can be borrowed on another.
Each level's seats are then divided among the members by max-min: none gets more than it wants
while another one lacks some, and what is left goes to all in equal parts.

All is in whole seats, and the sums never exceed the limit: what rounding gives too much is taken
from levels that want less than they have, and what is left over goes to the largest remainders, of
equal ones in an order that differs between levels.  A level that has fewer seats than members that
want one leaves some of them without.

Every member divides by itself.  With the same record all find the same.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

from apfproxy.flowcontrol.allocation import Item, allocate
from apfproxy.flowcontrol.limits import LevelDemand, LevelLimits, level_limits, nominal_limits
from apfproxy.flowcontrol.prompt_limits import divide

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

NEARLY = 1e-6
"""Amounts so near to a whole number are meant to be one: bounds are whole seats."""
ROUNDING_DIGITS = 6
"""Digits of remainders, so that equal ones are equal."""


@dataclass(frozen=True, slots=True)
class LevelRules:
    shares: int
    lendable_percent: int
    borrowing_percent: int | None
    is_exempt: bool
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class LevelSeats:
    """Holds what the fleet gives to a level.

    Attributes:
        limits: Its bounds, of the whole server.
        seats: What all members together may use now; an exempt level's are not limited.
    """

    limits: LevelLimits
    seats: int


def part_of(
    key: str,
    limit: int,
    levels: Mapping[str, LevelRules],
    demand: Mapping[str, Mapping[str, int]],
) -> dict[str, LevelLimits]:
    """The part of one member, by level; of an exempt level, what others may borrow of.

    The parts of all members sum to the whole level's: seats, and what may be lent and borrowed.
    `demand` has the seats that each member uses and waits for, by its key and the level.
    """
    total: Counter[str] = Counter()
    for of_member in demand.values():
        total.update({name: seats for name, seats in of_member.items() if name in levels})
    members = sorted(demand)
    rank, count = members.index(key), len(members)
    found: dict[str, LevelLimits] = {}
    for name, level in divide_among_levels(limit, levels, total).items():
        whole, seats = level.limits, level.seats
        if levels[name].is_exempt:
            seats = whole.nominal
            shares = {each: piece(seats, place, 1, count) for place, each in enumerate(members)}
        else:
            wanted = {each: of_member.get(name, 0) for each, of_member in demand.items()}
            shares = divide_among_members(name, seats, wanted)
        own, before = shares[key], sum(shares[each] for each in members[:rank])
        found[name] = LevelLimits(
            own,
            min(piece(whole.lower, before, own, seats), own) if seats else 0,
            own + piece(max(0, whole.upper - seats), rank, 1, count),
        )
    return found


def divide_among_levels(
    limit: int, levels: Mapping[str, LevelRules], demand: Mapping[str, int]
) -> dict[str, LevelSeats]:
    """Divide the server's seats among its priority levels, by what all members together want.

    The seats of all levels that are limited sum to `limit` at most.
    """
    nominal = nominal_limits(limit, {name: rules.shares for name, rules in levels.items()})
    bounds = {
        name: level_limits(nominal[name], limit, rules.lendable_percent, rules.borrowing_percent)
        for name, rules in levels.items()
    }
    names = sorted(levels)
    wanted = [
        LevelDemand(
            bounds[name],
            levels[name].is_exempt,
            demand.get(name, 0),
            float(demand.get(name, 0)),
            bounds[name].nominal,
            levels[name].priority,
            levels[name].shares,
        )
        for name in names
    ]
    current = dict(zip(names, divide(wanted, limit).current, strict=True))
    limited = {name: current[name] for name in names if not levels[name].is_exempt}
    _trim(limited, limit, demand)
    for name in [name for name, seats in limited.items() if not seats and nominal[name]]:
        if demand.get(name):
            _feed(limited, name, demand)
    current |= limited
    return {name: LevelSeats(bounds[name], current[name]) for name in names}


def _trim(seats: dict[str, int], limit: int, demand: Mapping[str, int]) -> None:
    """Take away what exceeds the limit, first from levels with more than they want."""
    excess = sum(seats.values()) - limit
    nothing: Mapping[str, int] = {}
    for floors in (demand, nothing):
        while excess > 0:
            rich = [name for name in seats if seats[name] > floors.get(name, 0)]
            if not rich:
                break
            rich.sort(key=lambda name: (seats[name] == 1, -seats[name], name))
            for name in rich[:excess]:
                seats[name] -= 1
                excess -= 1


def _feed(seats: dict[str, int], lacking: str, demand: Mapping[str, int]) -> None:
    """Give a level its first seat, of one that has some to spare, or else of the richest."""
    givers = [name for name in seats if seats[name] > (demand.get(name, 0) > 0)]
    if givers:
        seats[
            max(givers, key=lambda name: (seats[name] > demand.get(name, 0), seats[name], name))
        ] -= 1
        seats[lacking] = 1


def divide_among_members(level: str, seats: int, demand: Mapping[str, int]) -> dict[str, int]:
    def place(key: str) -> tuple[int, str]:
        return crc32(f"{level}\0{key}".encode()), key

    wanted = sum(demand.values())
    if wanted <= seats:
        every, rest = divmod(seats - wanted, len(demand))
        first = frozenset(sorted(demand, key=place)[:rest] if rest else ())
        return {key: own + every + (key in first) for key, own in demand.items()}
    amounts = allocate(seats, [Item(1.0, 0.0, float(own)) for own in demand.values()]).amounts
    return rounded(dict(zip(demand, amounts, strict=True)), seats, place)


def scaled(
    by_level: Mapping[str, LevelLimits], levels: Mapping[str, LevelRules], seats: int
) -> dict[str, LevelLimits]:
    """A like part of each level in both, so that limited levels have `seats` at most."""
    found = {name: each for name, each in by_level.items() if name in levels}
    limited = {name: each for name, each in found.items() if not levels[name].is_exempt}
    total = sum(each.nominal for each in limited.values())
    if seats >= total:
        return found
    amounts = {name: each.nominal * seats / total for name, each in limited.items()}
    whole = rounded(amounts, seats, lambda name: (-limited[name].nominal, name))
    for name, each in limited.items():
        own = whole[name]
        found[name] = LevelLimits(own, min(each.lower, own), own + each.upper - each.nominal)
    return found


def seats_of(by_level: Mapping[str, LevelLimits], levels: Mapping[str, LevelRules]) -> int:
    return sum(each.nominal for name, each in by_level.items() if not levels[name].is_exempt)


def piece(amount: int, before: int, own: int, whole: int) -> int:
    """The part of an amount for `own` of a whole, after `before` of it: all parts sum to it."""
    return amount * (before + own) // whole - amount * before // whole


def rounded(
    amounts: Mapping[str, float], total: int, place: Callable[[str], tuple[int, str]]
) -> dict[str, int]:
    """Whole amounts that sum to `total`, by the largest remainders; of equal ones by `place`."""
    whole = {key: int(amount + NEARLY) for key, amount in amounts.items()}
    rest = total - sum(whole.values())
    order: Sequence[str] = sorted(
        amounts, key=lambda key: (-round(amounts[key] - whole[key], ROUNDING_DIGITS), place(key))
    )
    for key in order[: max(rest, 0)]:
        whole[key] += 1
    return whole
