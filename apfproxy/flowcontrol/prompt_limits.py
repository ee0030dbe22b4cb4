"""Lends idle seats at once, and gives them back at once: for what waits, limits are adjusted early.

Kubernetes adjusts the current limits every 10 s.  A level that has lent all that it has, or that is
suddenly in demand, waits until then.  Here the arrival that has to wait, or to be rejected by a
level without queues, has the limits adjusted, by the same division of seats and these rules:

1. What counts is the demand of now, the seats in use and waited for: smoothed demand forgets in
   minutes that a level was busy.  Looking changes neither it nor the averages of the period, so
   that the adjustment at the period's end is what it would have been.
2. No one goes below what it used of its own in the last `MARK_NS` at least: a level whose requests
   come and go keeps the seats for the next one.
3. Nominal limits are rounded up, so that their sum can exceed the seats of the server.  What is
   divided does not: the seats of the server, and what levels that no one asks for keep all the
   same.
4. Seats that are left when every level has what it wants go to the levels that are short of seats,
   in proportion to their demand; by Kubernetes to all, so that a level that was idle until now
   would get few at its first look.  At a period's end, when no level may be short, they are divided
   as the nominal limits are: an idle proxy has these.
5. Limits change only where a level that is short gets more seats by it.
6. There are at most ten looks a second, fewer with more than a hundred levels, and none where
   nothing is short.
7. After an adjustment at a period's end, or for another configuration, what still waits is looked
   at like an arrival: smoothed demand may have given its seats to a level that is idle by now.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from apfproxy.flowcontrol.limits import adjust

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apfproxy.base.clock import Clock, Timer
    from apfproxy.flowcontrol.limits import Adjustment, LevelDemand
    from apfproxy.flowcontrol.priority_level import PriorityLevel

FIRST_PAUSES_S = (0.5, 0.5, 1.0, 3.0, 5.0)
"""Before the first adjustments by smoothed demand, which knows nothing at the start: they are at
0.5, 1, 2, 5 and 10 s."""
LOOK_NS = 100_000_000
"""Between two looks: short for people, long beside the time that an adjustment takes."""
LOOK_NS_PER_LEVEL = 1_000_000
"""Between two looks, for each level: one takes 30 us for each of 1 000, so 3 % of the time."""
MARK_NS = 500_000_000
"""Use is remembered for once or twice so long."""


class PromptLimits:
    def __init__(
        self,
        clock: Clock,
        levels: Callable[[], Sequence[PriorityLevel]],
        server_limit: Callable[[], int],
        impose: Callable[[Sequence[PriorityLevel], Adjustment], None],
    ) -> None:
        self._clock = clock
        self._levels = levels
        self._server_limit = server_limit
        self._impose = impose
        self._due_ns = clock.now_ns()
        self._mark_due_ns = clock.now_ns()
        self._timer: Timer | None = None

    def on_wait(self) -> None:
        """A request is about to wait: look now, or as soon as it is time for it."""
        if self._timer is not None:
            return
        now_ns = self._clock.now_ns()
        if now_ns >= self._due_ns:
            self._look(now_ns, {})
        else:
            self._timer = self._clock.call_at(self._due_ns, self._on_due)

    def on_rejection(self, name: str, seats: int) -> None:
        """Look, if it is time: a level without queues is about to reject a request."""
        now_ns = self._clock.now_ns()
        if self._timer is None and now_ns >= self._due_ns:
            self._look(now_ns, {name: seats})

    def on_adjustment(self) -> None:
        """Limits were adjusted by smoothed demand: look, if requests wait that may get more."""
        if any(_may_get_more(level) for level in self._levels()):
            self.on_wait()

    def mark(self, levels: Sequence[PriorityLevel]) -> None:
        """Forget what levels used before the last mark, if that is long enough ago."""
        now_ns = self._clock.now_ns()
        if now_ns >= self._mark_due_ns:
            self._mark_due_ns = now_ns + MARK_NS
            for level in levels:
                level.demand.mark()

    def foreseen_limits(self, level: PriorityLevel, seats: int) -> dict[str, int]:
        """The current limits by level if so many seats had to be waited for; changes nothing."""
        levels = self._levels()
        limits = {each.name: each.current_limit for each in levels}
        if self._timer is None and self._clock.now_ns() >= self._due_ns:
            adjustment = adjustment_for_waiting(levels, {level.name: seats}, self._server_limit())
            if adjustment is not None:
                limits = dict(zip(limits, adjustment.current, strict=True))
        return limits

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_due(self) -> None:
        self._timer = None
        self._look(self._clock.now_ns(), {})

    def _look(self, now_ns: int, arriving: dict[str, int]) -> None:
        """Adjust the limits if that helps, and look again later if anything waits."""
        levels = self._levels()
        self._due_ns = now_ns + max(LOOK_NS, LOOK_NS_PER_LEVEL * len(levels))
        if any(_may_get_more(level) for level in levels):
            # First, so that no error can end the looks.
            self._timer = self._clock.call_at(self._due_ns, self._on_due)
        elif not arriving:
            return
        adjustment = adjustment_for_waiting(levels, arriving, self._server_limit())
        self.mark(levels)
        if adjustment is not None:
            self._impose(levels, adjustment)


def adjustment_for_waiting(
    levels: Sequence[PriorityLevel], arriving: dict[str, int], server_limit: int
) -> Adjustment | None:
    """The adjustment by which a level that is short of seats gets more; None if none does.

    `arriving` has the seats of a request that is about to wait or to be rejected, by its level.
    """
    wanted = [level.demand.seats + arriving.get(level.name, 0) for level in levels]
    waiting = [_may_get_more(level, arriving.get(level.name, 0)) for level in levels]
    if not any(waiting) or not any(
        # A level has idle seats, or lent some of its own that it wants now.
        _has_idle_seats(level)
        or (is_waiting and level.current_limit < min(seats, level.nominal_limit))
        for level, is_waiting, seats in zip(levels, waiting, wanted, strict=True)
    ):
        return None
    demands = [
        level.level_demand(max(level.demand.recent_watermark, seats), float(seats))
        for level, seats in zip(levels, wanted, strict=True)
    ]
    weights = [
        float(seats) if is_waiting else 0.0
        for is_waiting, seats in zip(waiting, wanted, strict=True)
    ]
    adjustment = divide(demands, server_limit, weights)
    for level, is_waiting, seats in zip(levels, waiting, adjustment.current, strict=True):
        if is_waiting and seats > level.current_limit:
            return adjustment
    return None


def divide(
    demands: Sequence[LevelDemand], server_limit: int, weights: Sequence[float] | None = None
) -> Adjustment:
    """As `adjust`, but seats that no level wants are divided by `weights`, not by demand.

    By default these are what a level lacks of its nominal limit.
    """
    kept = sum(demand.limits.lower for demand in demands if not demand.high_watermark)
    seats = min(sum(demand.limits.nominal for demand in demands), server_limit + kept)
    adjustment = adjust(demands, seats)
    targets = adjustment.targets
    if weights is None:
        weights = [
            max(0.0, demand.limits.nominal - target)
            for demand, target in zip(demands, targets, strict=True)
        ]
    limited = [index for index, demand in enumerate(demands) if not demand.is_exempt]
    total = sum(weights[index] for index in limited)
    if adjustment.fair_proportion <= 1 or not total:
        return adjustment
    left = max(0.0, seats - sum(targets[index] for index in limited))
    changed = list(demands)
    for index in limited:
        wanted = targets[index] + left * weights[index] / total
        changed[index] = replace(demands[index], smoothed=wanted)
    return adjust(changed, seats)


def _may_get_more(level: PriorityLevel, arriving: int = 0) -> bool:
    """Whether requests want seats that the level may have, and lack them."""
    is_wanted = arriving > 0 or level.queue_set.requests_waiting > 0
    return is_wanted and level.current_limit < level.upper_limit


def _has_idle_seats(level: PriorityLevel) -> bool:
    """Whether others may have seats that the level does not use, and did not use lately."""
    used = level.demand.recent_watermark
    return not level.is_exempt and level.current_limit > max(level.lower_limit, used)
