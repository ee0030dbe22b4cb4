"""Seats of priority levels: the nominal division, its bounds, and the adjustment by demand.

A level's shares buy it a nominal limit.  Of that it can lend a part to others while it does not
need it, and beyond it, up to a bound, it can borrow what others lend.  Every `ADJUSTMENT_PERIOD_S`
the current limits are set from the seat demand of the period that ended: no one goes below what
it used of its own, and the rest is divided in proportion to smoothed demand.

Everything here is a function of its arguments.

Source: KEP-1040, "Dispatching"; kubernetes/apiserver pkg/util/flowcontrol/apf_controller.go.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.flowcontrol.allocation import InfeasibleError, Item, allocate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

ADJUSTMENT_PERIOD_S = 10
"""As Kubernetes has it."""
NEARLY = 1e-6

MAX_SEATS_FRACTION = 0.15
"""The part of a level's nominal limit that one work estimate may ask for; Kubernetes' own."""


@dataclass(frozen=True, slots=True)
class LevelLimits:
    """Bounds of a level's current limit, in seats."""

    nominal: int
    lower: int
    upper: int


def nominal_limits(server_limit: int, shares: Mapping[str, int]) -> dict[str, int]:
    """Divide the server's seats among priority levels, by name, in proportion to their shares.

    Each limit is rounded up, so the sum can exceed `server_limit`, by less than a seat per level.
    """
    total = sum(shares.values())
    if total == 0:
        return dict.fromkeys(shares, 0)
    return {name: -(-server_limit * share // total) for name, share in shares.items()}


def levelled(
    server_limit: int, shares: Mapping[str, int], compared: Collection[str]
) -> Iterator[tuple[tuple[str, ...], int, int]]:
    """Levels, of those compared, with the same nominal limit, not 0, though their shares differ.

    Yields their names, the most shares first; their limit; and the least server limit from which
    on all of them differ whose shares do.
    """
    total = sum(shares.values())
    alike: dict[int, list[str]] = {}
    for name, seats in nominal_limits(server_limit, shares).items():
        if name in compared:
            alike.setdefault(seats, []).append(name)
    for seats, names in sorted(alike.items()):
        distinct = sorted({shares[name] for name in names}, reverse=True)
        if seats and len(distinct) > 1:
            least = min(more - less for more, less in itertools.pairwise(distinct))
            ordered = sorted(names, key=lambda name: (-shares[name], name))
            yield tuple(ordered), seats, -(-total // least)


def enough_for_a_seat(shares: int, total_shares: int, lendable_percent: int = 0) -> int | None:
    """The least server limit at which a level keeps a seat whatever it lends; None if none is."""
    if lendable_percent >= 100:  # noqa: PLR2004  percent
        return None
    nominal = 1
    while _percent(nominal, lendable_percent) == nominal:
        nominal += 1
    return (nominal - 1) * total_shares // shares + 1


def level_limits(
    nominal: int, server_limit: int, lendable_percent: int, borrowing_limit_percent: int | None
) -> LevelLimits:
    """The bounds of a level's limit, in seats, by percent of `nominal`.

    `server_limit` bounds a level that may borrow all (`borrowing_limit_percent` None).
    """
    borrowing = server_limit
    if borrowing_limit_percent is not None:
        borrowing = _percent(nominal, borrowing_limit_percent)
    return LevelLimits(nominal, nominal - _percent(nominal, lendable_percent), nominal + borrowing)


def max_seats(nominal: int, hand_size: int) -> int:
    """The most seats that a work estimate may ask for at a level with queues; >= 1.

    A request as wide as its level would wait for the whole level to drain, and one wider than the
    limit divided by the hand could fill the hand of its flow alone.
    """
    return max(1, min(math.ceil(nominal * MAX_SEATS_FRACTION), nominal // hand_size))


@dataclass(frozen=True, slots=True)
class LevelDemand:
    """Holds what the adjustment needs to know of one level, in seats.

    Attributes:
        is_exempt: Exempt levels take what they use; the others divide what that leaves.
        high_watermark, smoothed: The largest seat demand of the period, and its envelope.
        current: The current limit so far, kept where no division is possible.
        priority: Of levels that have one the greatest gets first what they have together.
        shares: What such a level is sure of, as a part of all shares of theirs.
    """

    limits: LevelLimits
    is_exempt: bool
    high_watermark: int
    smoothed: float
    current: int
    priority: int | None = None
    shares: int = 0


@dataclass(frozen=True, slots=True)
class Adjustment:
    """Current limits for the next period, in seats and in the order of the levels.

    `targets` is what each was to have by itself; `fair_proportion` the seats per seat of target, 0
    where there is too little to divide.
    """

    current: tuple[int, ...]
    targets: tuple[float, ...]
    fair_proportion: float


def adjust(levels: Sequence[LevelDemand], seats: int | None = None) -> Adjustment:
    """Set every level's current limit from its demand in the period that ended.

    `seats` is what is divided; by default, as in Kubernetes, the sum of all nominal limits.

    1. An exempt level gets what it used at most, and at least its lower limit.
    2. Another level is guaranteed what it used at most, within its lower and nominal limits.
    3. If the exempt levels leave less than all guarantees, the guarantees shrink in proportion,
       but not below the lower limits.
    4. Else the seats are divided among the others in proportion to smoothed demand, between
       guarantee and upper limit.  (They are not reduced by what exempt levels use; so Kubernetes
       has it.)
    5. If no division within the bounds exists, all keep their current limits.
    6. What levels with a priority have by this together they divide again, see `by_priority`: more
       or less by what rounded limits lack of the sum.  Kubernetes has no priorities.
    """
    lowers = [level.limits.lower for level in levels]
    guarantees = [
        max(
            level.limits.lower,
            level.high_watermark
            if level.is_exempt
            else min(level.high_watermark, level.limits.nominal),
        )
        for level in levels
    ]
    targets = tuple(
        max(float(guarantee), level.smoothed)
        for level, guarantee in zip(levels, guarantees, strict=True)
    )
    limited = [index for index, level in enumerate(levels) if not level.is_exempt]
    lower_sum = sum(lowers[index] for index in limited)
    guaranteed_sum = sum(guarantees[index] for index in limited)
    total = sum(level.limits.nominal for level in levels) if seats is None else seats
    remaining = total - (sum(guarantees) - guaranteed_sum)

    fair_proportion = 0.0
    if remaining <= lower_sum:
        divided = lowers
    elif remaining <= guaranteed_sum:
        part = (remaining - lower_sum) / (guaranteed_sum - lower_sum)
        divided = [
            lower + round_half_up((guarantee - lower) * part)
            for lower, guarantee in zip(lowers, guarantees, strict=True)
        ]
    else:
        divided = [level.current for level in levels]
        items = [Item(targets[i], guarantees[i], levels[i].limits.upper) for i in limited]
        try:
            allocation = allocate(total, items)
        except InfeasibleError:
            pass
        else:
            fair_proportion = allocation.fair_proportion
            for index, amount in zip(limited, allocation.amounts, strict=True):
                divided[index] = round_half_up(amount)

    prior = [index for index, level in enumerate(levels) if level.priority is not None]
    if prior:
        limited_sum = sum(divided[index] for index in limited)
        excess = limited_sum - (total if remaining > guaranteed_sum else max(remaining, lower_sum))
        together = sum(divided[index] for index in prior) - excess
        parts = by_priority([levels[index] for index in prior], together)
        for index, own in zip(prior, parts, strict=True):
            divided[index] = own
    current = tuple(
        guarantee if level.is_exempt else seats
        for level, guarantee, seats in zip(levels, guarantees, divided, strict=True)
    )
    return Adjustment(current, targets, fair_proportion)


def by_priority(levels: Sequence[LevelDemand], seats: int) -> tuple[int, ...]:
    """Divide seats among levels that all have a priority; the limits sum up to `seats` if they can.

    1. A level has its lower limit, and is sure of what its shares are of all shares, as far as it
       wants that.
    2. What is left goes to the greatest priority as far as it wants it, then to the next one.
       Levels of the same priority divide it in proportion to their shares.
    3. What no one wants is divided in proportion to shares, too.
    """
    uppers = [float(level.limits.upper) for level in levels]
    wanted = [
        min(max(level.high_watermark, level.smoothed), upper)
        for level, upper in zip(levels, uppers, strict=True)
    ]
    total = sum(level.shares for level in levels) or 1
    amounts = [float(level.limits.lower) for level in levels]
    sure = [
        min(want, seats * level.shares / total) for level, want in zip(levels, wanted, strict=True)
    ]
    everybody = list(range(len(levels)))
    left = _fill(amounts, seats - sum(amounts), levels, everybody, sure)
    for priority in sorted({level.priority or 0 for level in levels}, reverse=True):
        equals = [index for index in everybody if levels[index].priority == priority]
        left = _fill(amounts, left, levels, equals, wanted)
    _fill(amounts, left, levels, everybody, uppers)
    whole = [int(amount + NEARLY) for amount in amounts]
    first = sorted(
        everybody,
        key=lambda index: (round(whole[index] - amounts[index], 6), -(levels[index].priority or 0)),
    )
    for index in first[: round(sum(amounts)) - sum(whole)]:
        whole[index] += 1
    return tuple(whole)


def _fill(
    amounts: list[float],
    left: float,
    levels: Sequence[LevelDemand],
    indices: list[int],
    bounds: Sequence[float],
) -> float:
    """Raise some amounts to their bounds in proportion to shares; what is left of `left`."""
    weights = [max(level.shares, NEARLY) for level in levels]
    rising = [index for index in indices if amounts[index] < bounds[index]]
    while rising and left > NEARLY:
        unit = left / sum(weights[index] for index in rising)
        more = {
            index: min(unit * weights[index], bounds[index] - amounts[index]) for index in rising
        }
        for index, amount in more.items():
            amounts[index] += amount
        left -= sum(more.values())
        rising = [index for index in rising if bounds[index] - amounts[index] > NEARLY]
    return left


def within(current: Sequence[int], used: Sequence[int], seats: int) -> tuple[int, ...]:
    """Cut limits down so that no more than `seats` are in use, or no more than are now.

    Limits that are rounded can sum to more, and a level that lost seats goes on using them until
    its requests end.  What a level may add to what it uses is cut in proportion.
    """
    room = max(0, seats - sum(used))
    gaps = [max(0, limit - own) for limit, own in zip(current, used, strict=True)]
    total = sum(gaps)
    if total <= room:
        return tuple(current)
    added = [gap * room // total for gap in gaps]
    rest = room - sum(added)
    for index in sorted(range(len(gaps)), key=lambda each: (-(gaps[each] * room % total), each)):
        if rest and added[index] < gaps[index]:
            added[index] += 1
            rest -= 1
    return tuple(
        own + more if gap else limit
        for limit, own, gap, more in zip(current, used, gaps, added, strict=True)
    )


def round_half_up(value: float) -> int:
    """The nearest integer to a value >= 0; halves go up (Python's `round` sends them to even)."""
    floor = math.floor(value)
    return floor + (value - floor >= 0.5)  # noqa: PLR2004  a half is a half


def _percent(seats: int, percent: int) -> int:
    """Rounded to the nearest seat, halves up."""
    return (2 * seats * percent + 100) // 200
