"""The simulator's clock, moved by a test."""

from __future__ import annotations

from apfproxy.simulation import virtual_clock

LAST_RANK = 1 << 62
"""Comes after whatever else is to happen at the same time."""


class VirtualClock(virtual_clock.VirtualClock):
    """A clock that moves only when a test moves it."""

    def run_until(self, end_ns: int) -> None:
        """Let every event due by `end_ns` happen, each at its own time, then stand at `end_ns`."""
        self.arm_ranked(end_ns, LAST_RANK, self._stop_at_end, None)
        self.run()

    def _stop_at_end(self, _: None) -> None:
        self.stop()
