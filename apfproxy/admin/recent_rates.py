"""What FlowSchemas and priority levels did in the last seconds, as rates.

A look a second copies plain counters; rates are the difference of the newest look and the oldest
one that is kept.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

from apfproxy.flowcontrol.queue_set import RejectReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apfproxy.flowcontrol.controller import Controller

LOOKS = 6
"""A look a second, so rates are those of 5 s: long enough to read, short enough to be of now."""

NS_PER_S = 1_000_000_000

Key = tuple[str, str]
"""Names of a priority level and a FlowSchema."""

REASONS = tuple(RejectReason)
_counts = attrgetter(
    "dispatched",
    "cancelled",
    "inqueue_requests",
    *(f"rejected_{reason.name.lower()}" for reason in REASONS),
)


@dataclass(slots=True)
class Rates:
    """Requests per second.

    Attributes:
        matched: That came; those that take no seats are not counted.
        dispatched: That got their seats.
        rejected: That were rejected, by reason; without reasons that there were none of.
        failed: Of a level only: that had seats, and that the server failed.
        left: Whose clients left while they waited for seats.
    """

    matched: float = 0.0
    dispatched: float = 0.0
    rejected: dict[RejectReason, float] = field(default_factory=dict)
    failed: float = 0.0
    left: float = 0.0


@dataclass(frozen=True, slots=True)
class Look:
    """Counters as they were; `failed` is by level."""

    now_ns: int
    counts: Mapping[Key, tuple[int, ...]]
    failed: Mapping[str, int]


class RecentRates:
    """The last looks at a controller's counters."""

    def __init__(self, controller: Controller, now_ns: int) -> None:
        self._controller = controller
        self._looks: deque[Look] = deque(maxlen=LOOKS)
        self.look(now_ns)

    def look(self, now_ns: int) -> None:
        """Copy the counters; due once a second."""
        counters = self._controller.flow_schema_counters()
        counts = {(each.priority_level, each.flow_schema): _counts(each) for each in counters}
        failed = {name: level.failed_total for name, level in self._controller.levels.items()}
        self._looks.append(Look(now_ns, counts, failed))

    def flow_schemas(self) -> dict[Key, Rates]:
        """The rates of FlowSchemas at their levels, of former configurations too."""
        first, last = self._looks[0], self._looks[-1]
        elapsed_s = (last.now_ns - first.now_ns) / NS_PER_S
        if elapsed_s <= 0:
            return {}
        found = {}
        for key, counts in last.counts.items():
            old = first.counts.get(key, (0,) * len(counts))
            dispatched, cancelled, inqueue, *rejected = (
                (count - earlier) / elapsed_s for count, earlier in zip(counts, old, strict=True)
            )
            found[key] = Rates(
                max(0.0, dispatched + cancelled + inqueue + sum(rejected)),
                dispatched,
                {reason: rate for reason, rate in zip(REASONS, rejected, strict=True) if rate},
                left=cancelled,
            )
        return found

    def levels(self) -> dict[str, Rates]:
        """The rates of levels: the sums over their FlowSchemas, and what the server failed."""
        found = by_level(self.flow_schemas())
        first, last = self._looks[0], self._looks[-1]
        elapsed_s = (last.now_ns - first.now_ns) / NS_PER_S
        for name, rates in found.items():
            failed = last.failed.get(name, 0) - first.failed.get(name, 0)
            rates.failed = max(0, failed) / elapsed_s  # a level that came back counts anew
        return found


def by_level(flow_schemas: Mapping[Key, Rates]) -> dict[str, Rates]:
    """The sums over the FlowSchemas of each level, by the level's name."""
    levels: dict[str, Rates] = {}
    for (name, _), rates in flow_schemas.items():
        level = levels.setdefault(name, Rates())
        level.matched += rates.matched
        level.dispatched += rates.dispatched
        level.left += rates.left
        for reason, rate in rates.rejected.items():
            level.rejected[reason] = level.rejected.get(reason, 0.0) + rate
    return levels
