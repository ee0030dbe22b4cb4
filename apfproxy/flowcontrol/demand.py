"""How many seats a priority level could use, summed up once a period.

Seat demand is the seats of the requests that execute plus those of the requests that wait.  Its
time-weighted average, its standard deviation and its maximum over a period say what the level
wants of the next one (KEP-1040, "Dispatching").  An envelope, average plus one standard deviation,
rises at once and decays slowly, so that a level does not lose what it borrowed in a short lull.

The sums are exact integers of seats times nanoseconds; only `reset` turns them into floats.  Marks
and peaks, which change none of these, tell the maximum of the last moments between the ends of
periods.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

NS_PER_S: Final = 1_000_000_000

SMOOTHING_COEFFICIENT: Final = 0.977
"""The part of the smoothed envelope that outlives a period, as Kubernetes has it.

With a period of 10 s the envelope of a level that went quiet halves in five minutes.
"""


@dataclass(frozen=True, slots=True)
class DemandStats:
    """Seat demand over one period, in seats; mean and deviation are time-weighted.

    `high_watermark` is the maximum, the demand that the period began with included.
    """

    average: float = 0.0
    stddev: float = 0.0
    high_watermark: int = 0


class SeatDemand:
    """Integrates the seat demand of one priority level.

    Attributes:
        stats: Those of the period that ended last; zeros before.
        smoothed: The envelope of `average + stddev` over the periods so far, in seats.
    """

    def __init__(self, now_ns: int = 0) -> None:
        self.seats = 0
        self.stats = DemandStats()
        self.smoothed = 0.0
        self._start_ns = now_ns
        self._updated_ns = now_ns
        self._seat_ns = 0
        self._square_seat_ns = 0
        self._peak = 0  # since the last fold
        self._former_peak = 0  # since it was taken last, up to the last fold
        self._high_watermark = 0  # since the last mark, up to the last fold
        self._before_mark = 0  # between the last two marks
        self._period_watermark = 0  # of the period, up to the last mark

    def update(self, now_ns: int, seats: int) -> None:
        """Let the demand be `seats` from `now_ns` on; times must not go backwards."""
        before = self.seats
        if before:
            weighted = before * (now_ns - self._updated_ns)
            self._seat_ns += weighted
            self._square_seat_ns += before * weighted
        self._updated_ns = now_ns
        self.seats = seats
        if seats > self._peak:  # noqa: PLR1730  max() costs 60 ns more per request
            self._peak = seats

    def mark(self) -> None:
        """Begin anew to remember the maximum of the last moments, with the demand as it is now."""
        self._fold()
        watermark = self._high_watermark
        self._period_watermark = max(self._period_watermark, watermark)
        self._before_mark = watermark
        self._high_watermark = self.seats

    @property
    def recent_watermark(self) -> int:
        """The maximum since the mark before the last one; a period's end is a mark."""
        return max(self._before_mark, self._high_watermark, self._peak)

    @property
    def peak(self) -> int:
        return max(self._former_peak, self._peak)

    def take_peak(self) -> int:
        """The maximum since the last call, for whoever looks more often than marks are made."""
        self._fold()
        peak, self._former_peak = self._former_peak, 0
        return peak

    def _fold(self) -> None:
        peak, self._peak = self._peak, self.seats
        self._former_peak = max(self._former_peak, peak)
        self._high_watermark = max(self._high_watermark, peak)

    def reset(self, now_ns: int) -> DemandStats:
        """End the period, and begin the next with the demand as it is now.

        A period of no length says nothing but its high watermark: average, deviation and `smoothed`
        stay those of the period before.
        """
        self.update(now_ns, self.seats)
        self.mark()
        watermark, self._period_watermark = self._period_watermark, 0
        duration_ns = now_ns - self._start_ns
        average, stddev = self.stats.average, self.stats.stddev
        if duration_ns > 0:
            # The sums are exact; from here on the floating-point steps are those of Kubernetes
            # (fairqueuing/integrator.go), which decide what is left of a small deviation.
            duration_s = duration_ns / NS_PER_S
            average = self._seat_ns / NS_PER_S / duration_s
            variance = self._square_seat_ns / NS_PER_S / duration_s - average * average
            stddev = math.sqrt(variance) if variance > 0 else 0.0
            envelope = average + stddev
            self.smoothed = max(
                envelope,
                SMOOTHING_COEFFICIENT * self.smoothed + (1 - SMOOTHING_COEFFICIENT) * envelope,
            )
        self.stats = DemandStats(average, stddev, watermark)
        self._start_ns = now_ns
        self._seat_ns = 0
        self._square_seat_ns = 0
        return self.stats
