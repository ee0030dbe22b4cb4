"""How the seats of a server are divided: among priority levels, then each level's among members.

Among levels they are divided as one proxy does for what waits (`flowcontrol.prompt_limits`),
by what all members want together, so that what is idle on one member can be borrowed on another.
Each level's seats are then divided among the members by max-min: nobody gets more than it wants
while another one lacks some, and what nobody wants goes to all in equal parts.

All is in whole seats, and the sums never exceed the limit: what rounding gives too much is taken
from levels that want less than they have, and what is left over goes to the largest remainders.
Where there are fewer seats than members, they have them in turn: who has a seat keeps it for
`TURN`, then those come first who have wanted one in vain for longest, and nobody starves.  Of
equals the order is another one for each level.

Every member divides by itself.  With the same record all find the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from zlib import crc32

from apfproxy.flowcontrol.allocation import Item, allocate
from apfproxy.flowcontrol.limits import LevelDemand, LevelLimits, level_limits, nominal_limits
from apfproxy.flowcontrol.prompt_limits import divide

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

NEARLY = 1e-6
"""Amounts are within this of a whole number if they were to be one: bounds are whole seats."""
TURN: Final = 3
"""Writes of everybody for which a member keeps a seat while others want one in vain.  For about one
it is idle as it changes hands: until what runs on it has ended, and that is written."""
ROUNDING_DIGITS = 6
"""Of remainders, so that equal ones are."""


@dataclass(frozen=True, slots=True)
class LevelRules:
    """What the division needs of a level's configuration, see `priority_level.level_shares`."""

    shares: int
    lendable_percent: int
    borrowing_percent: int | None
    is_exempt: bool
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class LevelSeats:
    """What the fleet gives to a level.

    Attributes:
        limits: Its bounds, of the whole server.
        seats: What all members together may use now; an exempt level's are not limited.
    """

    limits: LevelLimits
    seats: int


def divide_among_levels(
    limit: int,
    levels: Mapping[str, LevelRules],
    demand: Mapping[str, int],
    hungry: Mapping[str, int],
) -> dict[str, LevelSeats]:
    """Divide the server's seats among its priority levels.

    Args:
        limit: Seats of the server.
        levels: All levels, by name.
        demand: Seats that all members together use and wait for, by level.
        hungry: Since which write some member has wanted a seat of a level in vain, by level.

    Returns:
        By name; the seats of all levels that are limited sum to `limit` at most.
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
    _trim(limited, limit, demand, hungry)
    _feed(limited, [name for name in limited if nominal[name]], demand, hungry)
    current |= limited
    return {name: LevelSeats(bounds[name], current[name]) for name in names}


def _trim(
    seats: dict[str, int], limit: int, demand: Mapping[str, int], hungry: Mapping[str, int]
) -> None:
    """Take away what exceeds the limit: less than a seat for each level, where no limit is tiny.

    First from those that have more than they want; the last seats of levels go last, and of these
    those last that have been hungry for longest.
    """
    excess = sum(seats.values()) - limit
    if excess <= 0:
        return

    def place(name: str) -> tuple[bool, float, str]:
        if seats[name] > 1:
            return False, -seats[name], name
        return True, -hungry.get(name, math.inf), name

    nothing: Mapping[str, int] = {}
    for floors in (demand, nothing):
        while excess > 0:
            rich = [name for name in seats if seats[name] > floors.get(name, 0)]
            if not rich:
                break
            for name in sorted(rich, key=place)[:excess]:
                seats[name] -= 1
                excess -= 1


def _feed(
    seats: dict[str, int],
    names: Sequence[str],
    demand: Mapping[str, int],
    hungry: Mapping[str, int],
) -> None:
    """Give a seat to each level that has none and is hungry, of one that has not been for so long.

    Where seats are so few, what some levels never lend would be all that there is.
    """
    lacking = [name for name in names if name in hungry and demand.get(name) and not seats[name]]
    for lacker in sorted(lacking, key=lambda name: (hungry[name], name)):
        givers = [
            name for name in seats if seats[name] and hungry.get(name, math.inf) > hungry[lacker]
        ]
        if givers:
            seats[max(givers, key=lambda name: (seats[name], name))] -= 1
            seats[lacker] += 1


def shares_of(
    level: str,
    seats: int,
    members: Sequence[str],
    demand: Mapping[str, int],
    hungry: Mapping[str, int],
    now: int,
) -> dict[str, int]:
    """The seats of the members at a level, by key; they sum to `seats`, and zeros may be left out.

    Args:
        level: The level's name.
        seats: Of all members together.
        members: Their keys, in any order.
        demand: Seats that each wants, by key; zeros may be left out.
        hungry: Since which write each has wanted in vain; who does not is left out.
        now: Which write it is.
    """
    wanted = sum(demand.values())
    keys = [key for key, amount in demand.items() if amount]
    lacking = len(keys) - seats
    # Where everybody has one, nobody's hunger moves the odd seat.
    waited = hungry if lacking > 0 else {}
    # Who has one keeps it until others have waited for so long that they are due.
    due = now - TURN * len(members) * math.ceil(lacking / max(1, seats))

    def place(key: str) -> tuple[int, int, str]:
        return waited.get(key, due), crc32(f"{level}\0{key}".encode()), key

    if wanted <= seats:
        every, rest = divmod(seats - wanted, len(members))
        first = frozenset(sorted(members, key=place)[:rest] if rest else ())
        return {key: demand.get(key, 0) + every + (key in first) for key in members}
    items = [Item(1.0, 0.0, float(demand[key])) for key in keys]
    return rounded(dict(zip(keys, allocate(seats, items).amounts, strict=True)), seats, place)


def rounded(
    amounts: Mapping[str, float], total: int, place: Callable[[str], tuple[float, int, str]]
) -> dict[str, int]:
    """Whole amounts that sum to `total`, by the largest remainders; of equal ones by `place`."""
    whole = {key: int(amount + NEARLY) for key, amount in amounts.items()}
    rest = total - sum(whole.values())
    order = sorted(
        amounts, key=lambda key: (-round(amounts[key] - whole[key], ROUNDING_DIGITS), place(key))
    )
    for key in order[: max(rest, 0)]:
        whole[key] += 1
    return whole
