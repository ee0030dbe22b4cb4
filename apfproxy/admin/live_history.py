"""The last 15 minutes of each priority level, second by second, for the plots of the live page.

A sample is taken once a second, also without listeners, so a new page shows the past.  It reads
existing counters, in 100 us with 8 levels; the 900 samples that are kept take 700 kB.
"""

from __future__ import annotations

import itertools
import math
from array import array
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from apfproxy.admin.recent_rates import RecentRates
from apfproxy.admin.recent_refusals import RecentRefusals
from apfproxy.flowcontrol.meters import DURATION_BOUNDS_NS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.proxy.counters import ProxyCounters

SAMPLE_S = 1.0
SAMPLES = 900
"""15 minutes of seconds."""

MAX_LEVELS = 64
"""Levels with a history: those with most seats.  A page cannot draw more in distinct colours."""

FIELDS = (
    "served",
    "failed",
    "rejected",
    "waitSeconds",
    "waitP99Seconds",
    "waiting",
    "seatsInUse",
)
"""Requests a second: that got seats and were not failed by the server, that it failed, that were
rejected; the mean wait of those that got seats, and the least bound of the metrics' buckets that
99 % of them kept within; now: requests that wait and seats in use."""

PERCENT = 99

NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Sample:
    """One second.

    Attributes:
        unix_s: Its end, in whole milliseconds.
        names: Of the levels; the same object as that of the sample before if they are the same.
        values: Of `FIELDS`, level by level.
    """

    unix_s: float
    names: tuple[str, ...]
    values: array[float]


@dataclass(slots=True)
class Totals:
    """Totals of a level since its start."""

    dispatched: int = 0
    failed: int = 0
    rejected: int = 0
    wait_ns: int = 0
    waits: list[int] = field(default_factory=lambda: [0] * (len(DURATION_BOUNDS_NS) + 1))


class LiveHistory:
    """A ring of samples of a controller's levels.

    Attributes:
        taken: Samples so far, those no longer kept too.
        rates: Those of the last seconds.
        refusals: Likewise, what the proxy itself refused.
    """

    def __init__(
        self, controller: Controller, now_ns: int, counters: ProxyCounters | None = None
    ) -> None:
        self._controller = controller
        self._samples: deque[Sample] = deque(maxlen=SAMPLES)
        self.taken = 0
        self.rates = RecentRates(controller, now_ns)
        self.refusals = RecentRefusals(counters, now_ns)
        self._last_ns = now_ns
        self._totals = self._count()

    def sample(self, now_ns: int, unix_s: float) -> None:
        """Take one sample of the time since the one before; none if no time passed.

        `unix_s` is the same moment as `now_ns`; where that clock was put back, the samples before
        follow it.
        """
        elapsed_s = (now_ns - self._last_ns) / NS_PER_S
        if elapsed_s <= 0:
            return
        self.rates.look(now_ns)
        self.refusals.look(now_ns)
        before, self._totals, self._last_ns = self._totals, self._count(), now_ns
        names = tuple(self._totals)
        if self._samples and self._samples[-1].names == names:
            names = self._samples[-1].names
        values = array("d")
        for name, total in self._totals.items():
            last = before.get(name) or Totals()
            queue_set = self._controller.levels[name].queue_set
            # A level that went and came back counts from 0 again.
            dispatched = max(0, total.dispatched - last.dispatched)
            failed = max(0, total.failed - last.failed)
            wait_ns = max(0, total.wait_ns - last.wait_ns)
            values.extend((
                round(max(0, dispatched - failed) / elapsed_s, 1),
                round(failed / elapsed_s, 1),
                round(max(0, total.rejected - last.rejected) / elapsed_s, 1),
                round(wait_ns / NS_PER_S / dispatched, 4) if dispatched else math.nan,
                wait_bound_s([max(0, a - b) for a, b in zip(total.waits, last.waits, strict=True)]),
                queue_set.requests_waiting,
                queue_set.seats_in_use,
            ))  # fmt: skip
        unix_s = round(unix_s, 3)
        if self._samples and unix_s <= self._samples[-1].unix_s:
            self._shift(unix_s - elapsed_s)
        self._samples.append(Sample(unix_s, names, values))
        self.taken += 1

    def columns(self, since: int = 0) -> dict[str, Any]:
        """The samples as columns, for JSON, without those taken first.

        Returns:
            `times`, seconds since 1970, and for each of the `levels` one list for each of
            `FIELDS`, as long as `times`; NaN where there is no value.  JSON writes NaN and what is
            infinite as null.
        """
        first_taken = self.taken - len(self._samples)
        return columns_of(list(self._samples)[max(0, since - first_taken) :])

    def _shift(self, last_s: float) -> None:
        """Move the samples as the wall clock was put back: the last one to a time, all as far."""
        by_s = last_s - self._samples[-1].unix_s
        for place, sample in enumerate(self._samples):
            self._samples[place] = replace(sample, unix_s=round(sample.unix_s + by_s, 3))

    def _count(self) -> dict[str, Totals]:
        """The totals of the levels with most seats, by name, in the order of their names."""
        levels = self._controller.levels
        kept = sorted(levels, key=lambda name: (-levels[name].nominal_limit, name))[:MAX_LEVELS]
        totals = {}
        for name in sorted(kept):
            level, queue_set = levels[name], levels[name].queue_set
            totals[name] = Totals(
                queue_set.dispatched_total, level.failed_total, queue_set.rejected_total
            )
        for counters in self._controller.flow_schema_counters():
            total = totals.get(counters.priority_level)
            if total is not None:
                waits = counters.wait_executed_ns
                total.wait_ns += waits.sum
                total.waits = [a + b for a, b in zip(total.waits, waits.counts, strict=True)]
        return totals


def columns_of(samples: Sequence[Sample]) -> dict[str, Any]:
    """Samples as columns, see `LiveHistory.columns`."""
    names = sorted({name for sample in samples for name in sample.names})
    levels: dict[str, dict[str, list[float]]] = {
        name: {field: [] for field in FIELDS} for name in names
    }
    # Samples of the same levels in one go: 15 minutes of 8 levels take 2 ms instead of 10.
    for known, run in itertools.groupby(samples, lambda sample: sample.names):
        flat: array[float] = array("d")
        length = 0
        for sample in run:
            flat.extend(sample.values)
            length += 1
        for name in names:
            first = known.index(name) * len(FIELDS) if name in known else None
            for place, column in enumerate(levels[name].values()):
                if first is None:
                    column.extend([math.nan] * length)
                else:
                    column.extend(flat[first + place :: len(known) * len(FIELDS)])
    return {"times": [sample.unix_s for sample in samples], "levels": levels}


def wait_bound_s(counts: Sequence[int]) -> float:
    """The least bound that `PERCENT` of the waits, which come by bucket, kept within.

    In seconds; infinite if only the last bucket has so many, NaN if there are none.
    """
    total = sum(counts)
    if not total:
        return math.nan
    seen = 0
    for bound_ns, count in zip(DURATION_BOUNDS_NS, counts, strict=False):
        seen += count
        if seen * 100 >= total * PERCENT:
            return bound_ns / NS_PER_S
    return math.inf
