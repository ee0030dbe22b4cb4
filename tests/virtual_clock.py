"""The simulator's clock, moved by a test."""

from __future__ import annotations

from apfproxy.simulation import virtual_clock


class VirtualClock(virtual_clock.VirtualClock):
    """A clock that moves only when a test moves it."""

    def run_until(self, end_ns: int) -> None:
        """Let every event due by `end_ns` happen, each at its own time, then stand at `end_ns`."""
        self._stop_at(end_ns)
        while self._events and self._events[0][0] <= end_ns:  # armed meanwhile for the same time
            self._stop_at(end_ns)

    def _stop_at(self, end_ns: int) -> None:
        self.arm(end_ns, lambda _: self.stop(), None)
        self.run()
