"""A store of a fleet's record on the virtual clock: it can be away, and members cut off from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.fleet.record import Record
    from apfproxy.simulation.virtual_clock import VirtualClock


class Seen(NamedTuple):
    """What the store has, and which writing of it that is."""

    record: Record | None
    version: int


class SimulatedStore:
    """The store.

    Args:
        clock: The run's.
        latency_ns: To it and back.

    Attributes:
        half_ns: To it, or back.
        is_away: Whether nobody reaches it.
        cut_off: Who does not reach it.
        reads, writes: How often it was asked, and written.
    """

    def __init__(self, clock: VirtualClock, latency_ns: int) -> None:
        self._clock = clock
        self.half_ns = latency_ns // 2
        self.is_away = False
        self.cut_off: set[int] = set()
        self.reads = 0
        self.writes = 0
        self._seen = Seen(None, 0)
        self._listeners: dict[int, Callable[[None], None]] = {}

    def is_reached_by(self, replica: int) -> bool:
        """Whether a replica reaches it now."""
        return not self.is_away and replica not in self.cut_off

    def read(self) -> Seen:
        """What it has."""
        self.reads += 1
        return self._seen

    def swap(self, record: Record, version: int, writer: int, *, is_urgent: bool) -> Seen | None:
        """Write if nobody has since a version; otherwise what somebody else wrote."""
        if version != self._seen.version:
            return self._seen
        self.writes += 1
        self._seen = Seen(record, version + 1)
        if is_urgent:
            due_ns = self._clock.time_ns + self.half_ns
            for replica, tell in self._listeners.items():
                if replica != writer and self.is_reached_by(replica):
                    self._clock.arm(due_ns, tell, None)
        return None

    def listen(self, replica: int, on_urgent: Callable[[None], None]) -> None:
        """Call `on_urgent` when another one wrote something urgent."""
        self._listeners[replica] = on_urgent

    def forget(self) -> None:
        """Have nothing any more."""
        self._seen = Seen(None, self._seen.version + 1)

    def __repr__(self) -> str:
        return f"<SimulatedStore: {self.writes} writes>"
