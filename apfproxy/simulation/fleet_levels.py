"""Priority levels over all replicas of a simulated fleet, as reports see those of one proxy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.simulation.series import LevelSeries

if TYPE_CHECKING:
    from apfproxy.flowcontrol.limits import LevelLimits
    from apfproxy.flowcontrol.priority_level import PriorityLevel


@dataclass(frozen=True, slots=True)
class WholeLevel:
    """A level's part of the whole limit."""

    name: str
    is_exempt: bool
    nominal_limit: int
    lower_limit: int
    upper_limit: int


class WholeMeter:
    """What a level used over all replicas, see `SeatMeter`."""

    __slots__ = ("borrowed_ns", "max_seats", "max_waiting", "seat_ns", "waiting_ns")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self.seat_ns = 0
        self.waiting_ns = 0
        self.borrowed_ns = 0
        self.max_seats = 0
        self.max_waiting = 0


class FleetLevel:
    """A level of all replicas.

    Args:
        level: Of one of them.
        limits: Its bounds of the whole limit.

    Attributes:
        level: Its part of the whole limit.
        meter: What it used, up to the last `note`.
        series: The same over time.
        max_limit: The most seats that replicas might use together, as seen at each bin.
    """

    def __init__(self, level: PriorityLevel, limits: LevelLimits) -> None:
        self.level = WholeLevel(
            level.name, level.is_exempt, limits.nominal, limits.lower, limits.upper
        )
        self.meter = WholeMeter()
        self.series = LevelSeries()
        self.max_limit = 0
        self._parts: list[PriorityLevel] = []
        self._ended = [0, 0]  # dispatched and rejected by replicas that are gone
        self._noted_ns = 0
        self._seats = 0
        self._waiting = 0
        self._before = (0, 0, 0, 0)

    def add(self, part: PriorityLevel) -> None:
        """A replica has it, too."""
        self._parts.append(part)

    def remove(self, part: PriorityLevel) -> None:
        """A replica is gone."""
        self._parts.remove(part)
        self._ended[0] += part.queue_set.dispatched_total
        self._ended[1] += part.queue_set.rejected_total

    def note(self, now_ns: int) -> None:
        """Something has changed now."""
        meter = self.meter
        elapsed_ns = now_ns - self._noted_ns
        self._noted_ns = now_ns
        meter.seat_ns += self._seats * elapsed_ns
        meter.waiting_ns += self._waiting * elapsed_ns
        meter.borrowed_ns += max(0, self._seats - self.level.nominal_limit) * elapsed_ns
        self._seats = sum(part.queue_set.seats_in_use for part in self._parts)
        self._waiting = sum(part.queue_set.requests_waiting for part in self._parts)
        meter.max_seats = max(meter.max_seats, self._seats)
        meter.max_waiting = max(meter.max_waiting, self._waiting)

    def clear(self, now_ns: int) -> None:
        """Begin anew to measure; the series go on."""
        self.note(now_ns)
        seat_ns, waiting_ns, dispatched, rejected = self._before
        self._before = (
            seat_ns - self.meter.seat_ns,
            waiting_ns - self.meter.waiting_ns,
            dispatched,
            rejected,
        )
        self.meter.clear()
        self.max_limit = 0

    def sample(self, now_ns: int, bin_ns: int) -> None:
        """End a bin of the series."""
        self.note(now_ns)
        now = (
            self.meter.seat_ns,
            self.meter.waiting_ns,
            self._ended[0] + sum(part.queue_set.dispatched_total for part in self._parts),
            self._ended[1] + sum(part.queue_set.rejected_total for part in self._parts),
        )
        seat_ns, waiting_ns, dispatched, rejected = (
            after - before for after, before in zip(now, self._before, strict=True)
        )
        self._before = now
        limit = sum(part.current_limit for part in self._parts)
        self.max_limit = max(self.max_limit, limit)
        self.series.add(seat_ns / bin_ns, waiting_ns / bin_ns, limit, dispatched, rejected)

    def __repr__(self) -> str:
        return f"<FleetLevel {self.level.name} of {len(self._parts)} replicas>"
