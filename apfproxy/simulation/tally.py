"""What became of requests: one tally for each client at each flow, summed up afterwards."""

from __future__ import annotations

from apfproxy.simulation.durations import Durations


class Tally:
    """What became of some requests; all numbers only grow, but for `clear`.

    Attributes:
        executed: They had seats; those cut off included.
        queued: They had to wait, whatever became of them.
        rejected: By reason; those who gave up waiting are `time-out`.
        cut_off: Their time was over before they were served.
        without_seats: Long-running ones, which flow control lets pass.
        seat_ns: Seats held, times how long.
        service_ns: Execution of all that executed.
        waits: Of those that executed after waiting.
    """

    __slots__ = (
        "cut_off",
        "executed",
        "queued",
        "rejected",
        "seat_ns",
        "service_ns",
        "waits",
        "without_seats",
    )

    def __init__(self) -> None:
        self.rejected: dict[str, int]
        self.clear()

    def clear(self) -> None:
        """Forget all of them."""
        self.executed = 0
        self.queued = 0
        self.rejected = {}
        self.cut_off = 0
        self.without_seats = 0
        self.seat_ns = 0
        self.service_ns = 0
        self.waits = Durations()

    def reject(self, reason: str) -> None:
        """Count a request that got no seats."""
        self.rejected[reason] = self.rejected.get(reason, 0) + 1

    def merge(self, other: Tally) -> None:
        """Count all of another tally here, too."""
        self.executed += other.executed
        self.queued += other.queued
        for reason, count in other.rejected.items():
            self.rejected[reason] = self.rejected.get(reason, 0) + count
        self.cut_off += other.cut_off
        self.without_seats += other.without_seats
        self.seat_ns += other.seat_ns
        self.service_ns += other.service_ns
        self.waits.merge(other.waits)

    @property
    def rejected_total(self) -> int:
        """Requests that got no seats, for whatever reason."""
        return sum(self.rejected.values())

    @property
    def requests(self) -> int:
        """All of them."""
        return self.executed + self.rejected_total + self.without_seats
