"""The last 15 minutes of several workers as those of one proxy, second by second.

Workers take their samples at moments of their own.  A merged sample has of each worker the one that
is nearest to it, so that rates are sums over seconds that differ by half a second at most.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from apfproxy.admin.live_history import FIELDS, MAX_LEVELS, SAMPLES, Sample, columns_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NEAR_S: Final = 1.0
"""A worker without a sample so near has none of that second: it was not there, or was stopped."""

Values = dict[str, tuple[float, ...]]
"""Of `FIELDS`, by level."""


class WorkerSeconds:
    """The samples of one worker, as its server-sent events have them."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=SAMPLES)
        self._values: deque[Values] = deque(maxlen=SAMPLES)

    @property
    def times(self) -> Sequence[float]:
        """When they were taken, in seconds since 1970."""
        return self._times

    def begin(self, columns: Mapping[str, Any]) -> None:
        """Take the history that a worker has, instead of what is known of it."""
        self._times.clear()
        self._values.clear()
        self.add(columns)

    def add(self, columns: Mapping[str, Any]) -> None:
        """Take further samples."""
        levels = columns["levels"]
        for place, time in enumerate(columns["times"]):
            if self._times and time < self._times[-1] - NEAR_S:  # the clock was put back
                self._times.clear()
                self._values.clear()
            elif self._times and time <= self._times[-1]:
                continue  # it is known
            self._times.append(float(time))
            self._values.append(
                {
                    name: tuple(number(fields[field][place]) for field in FIELDS)
                    for name, fields in levels.items()
                    if fields[FIELDS[0]][place] is not None
                }
            )

    def near(self, time: float) -> Values | None:
        """The sample of about a time; None if there is none."""
        times = self._times
        place = bisect_left(times, time)
        near = min(
            (each for each in (place - 1, place) if 0 <= each < len(times)),
            key=lambda each: abs(times[each] - time),
            default=None,
        )
        return None if near is None or abs(times[near] - time) > NEAR_S else self._values[near]


class MergedHistory:
    """A ring of samples of all workers together.

    Attributes:
        taken: Samples so far, those no longer kept too.
    """

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=SAMPLES)
        self.taken = 0

    def begin(self, workers: Iterable[WorkerSeconds]) -> None:
        """Make it anew of what the workers have."""
        known = [each for each in workers if each.times]
        self._samples.clear()
        longest = max(known, key=lambda each: len(each.times), default=None)
        for time in () if longest is None else tuple(longest.times):
            self._take(time, known)

    def sample(self, workers: Iterable[WorkerSeconds], time: float) -> None:
        """Add the second before a time, in seconds since 1970; none if no worker has it."""
        if self._samples and time < self._samples[-1].unix_s - 2 * NEAR_S:
            self._samples.clear()  # the clock was put back
        if not self._samples or time > self._samples[-1].unix_s:
            self._take(time, [each for each in workers if each.times])

    def columns(self, since: int = 0) -> dict[str, Any]:
        """The samples as columns, as `LiveHistory` has them, without those taken first."""
        first_taken = self.taken - len(self._samples)
        return columns_of(list(self._samples)[max(0, since - first_taken) :])

    def _take(self, time: float, workers: Sequence[WorkerSeconds]) -> None:
        found = [values for each in workers if (values := each.near(time)) is not None]
        if not found:
            return
        names = tuple(sorted({name for values in found for name in values})[:MAX_LEVELS])
        if self._samples and self._samples[-1].names == names:
            names = self._samples[-1].names
        merged = array("d")
        for name in names:
            merged.extend(merged_values([values[name] for values in found if name in values]))
        self._samples.append(Sample(round(time, 3), names, merged))
        self.taken += 1


def merged_values(found: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """The `FIELDS` of a level of several workers; there is at least one.

    The mean wait is weighted by the requests that got seats; the bound that 99 % kept within is the
    largest of the workers' bounds, which it does not exceed.
    """
    served, failed, rejected, _, _, waiting, seats = map(sum, zip(*found, strict=True))
    weights = [(each[3], each[0] + each[1]) for each in found if not math.isnan(each[3])]
    all_weights = sum(weight for _, weight in weights)
    mean_s = math.nan
    if all_weights:
        mean_s = round(sum(wait * weight for wait, weight in weights) / all_weights, 4)
    bounds = [each[4] for each in found if not math.isnan(each[4])]
    return (
        round(served, 1),
        round(failed, 1),
        round(rejected, 1),
        mean_s,
        max(bounds, default=math.nan),
        waiting,
        seats,
    )


def number(value: float | None) -> float:
    """What JSON writes as null is no number."""
    return math.nan if value is None else value
