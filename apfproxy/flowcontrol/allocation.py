"""Bounded proportional allocation: divide a sum among items, each within its own bounds.

Each item has a target and bounds.  There is one proportion p such that giving every item
`p * target`, or the bound that this runs into, gives exactly the required sum.  It is fair in the
max-min sense: no one gets less of its target than p for anything but its upper bound, no one more
but for its lower bound.

The sum as a function of p is piecewise linear and never falls.  It bends where an item leaves its
lower bound and where it reaches its upper bound.  A sweep over these 2 n places, upwards, finds the
two that p lies between, in O(n log n).

Floats: the operations and their order are Kubernetes', so that an amount which is rounded to a
whole seat later is rounded the same way if it is about halfway between two.

Source: KEP-1040, "Dispatching"; kubernetes/apiserver pkg/util/flowcontrol/conc_alloc.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MIN_TARGET = 0.001
"""Smaller targets count as this, so that a proportion always has something to multiply."""
EPSILON = 1e-7
"""Sums that differ by no more are equal: bounds are seats, whole numbers far above it."""


class InfeasibleError(ValueError):
    """No allocation can satisfy the bounds; the message says why."""


@dataclass(frozen=True, slots=True)
class Item:
    """Holds what one participant wants and may get, in any one unit.

    Needs 0 <= `lower_bound` <= `target` and `lower_bound` <= `upper_bound`; the target may exceed
    the upper bound.
    """

    target: float
    lower_bound: float
    upper_bound: float


@dataclass(frozen=True, slots=True)
class Allocation:
    amounts: tuple[float, ...]
    fair_proportion: float


def allocate(required_sum: int, items: Sequence[Item]) -> Allocation:
    """Divide `required_sum` among the items in proportion to their targets, within their bounds.

    The amounts sum to `required_sum`, to rounding; each is `fair_proportion * target` where its
    bounds allow that.  Where all items stand at their lower bounds the proportion is the least
    ratio of bound to target, at their upper bounds the largest; it is 0 when nothing is divided.

    InfeasibleError: The sum is negative or cannot be reached, or an item contradicts itself.
    """
    if required_sum < 0:
        raise InfeasibleError(f"the required sum is {required_sum}, must not be negative")
    for index, item in enumerate(items):
        _check(index, item)
    low_sum = sum(item.lower_bound for item in items)
    high_sum = sum(item.upper_bound for item in items)
    if low_sum - required_sum > EPSILON:
        raise InfeasibleError(f"the lower bounds sum to {low_sum}, more than {required_sum}")
    if required_sum - high_sum > EPSILON:
        raise InfeasibleError(f"the upper bounds sum to {high_sum}, less than {required_sum}")
    if required_sum == 0:
        return Allocation((0.0,) * len(items), 0.0)
    targets = [max(item.target, MIN_TARGET) for item in items]
    lows = [item.lower_bound / target for item, target in zip(items, targets, strict=True)]
    highs = [item.upper_bound / target for item, target in zip(items, targets, strict=True)]
    if low_sum - required_sum > -EPSILON:
        return Allocation(tuple(item.lower_bound for item in items), min(lows))
    if required_sum - high_sum > -EPSILON:
        return Allocation(tuple(item.upper_bound for item in items), max(highs))
    proportion = required_sum / sum(targets)
    if not max(lows) <= proportion <= min(highs):
        proportion = _bounded_proportion(required_sum, low_sum, targets, lows, highs)
    amounts = tuple(
        min(max(proportion * target, item.lower_bound), item.upper_bound)
        for item, target in zip(items, targets, strict=True)
    )
    return Allocation(amounts, proportion)


def _check(index: int, item: Item) -> None:
    if item.lower_bound < 0:
        raise InfeasibleError(f"the lower bound of item {index} is {item.lower_bound}, negative")
    if item.target < item.lower_bound:
        raise InfeasibleError(
            f"the target of item {index} is {item.target}, below its lower bound {item.lower_bound}"
        )
    if item.upper_bound < item.lower_bound:
        raise InfeasibleError(
            f"the upper bound of item {index} is {item.upper_bound}, below its lower bound"
            f" {item.lower_bound}"
        )


def _bounded_proportion(
    required_sum: int,
    low_sum: float,
    targets: list[float],
    lows: list[float],
    highs: list[float],
) -> float:
    """The least proportion that gives the required sum, where some bounds matter.

    `required_sum` is more than `low_sum`, that of the lower bounds, and less than that of the upper
    ones; no target is zero; each item leaves its bounds at the proportions `lows` and `highs`.
    """
    bends: list[tuple[float, float, int]] = []  # where, and what gets free there or is free no more
    for target, low, high in zip(targets, lows, highs, strict=True):
        bends += ((low, target, 1), (high, -target, -1))
    bends.sort(key=lambda bend: bend[0])
    proportion = bends[0][0]
    given = low_sum
    free_targets = 0.0
    free_items = 0  # says when nothing is free; the sum of targets may keep a rounding error
    for bend, target, count in bends[:-1]:
        if bend > proportion:
            if free_items:
                enough = proportion + (required_sum - given) / free_targets
                if enough <= bend:
                    return enough
                given += (bend - proportion) * free_targets
            proportion = bend
            if given >= required_sum:  # by a rounding error, or it would have been enough before
                return proportion
        free_targets += target
        free_items += count
    return min(proportion + (required_sum - given) / free_targets, bends[-1][0])
