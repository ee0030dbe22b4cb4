"""What a proxy wants of a limit that others share: its demand by level, as a member reports it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from apfproxy.fleet.division import LevelRules
from apfproxy.fleet.ledger import Report
from apfproxy.flowcontrol.priority_level import level_shares

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apfproxy.flowcontrol.controller import Controller


class Wants:
    """What a controller's levels use and lack."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._rejected: dict[str, int] = {}  # seats, by level
        self._rules: Mapping[str, LevelRules] = {}
        self._configuration = ""

    def on_rejection(self, level: str, seats: int) -> None:
        """A level is about to reject a request of so many seats; no level's name is ""."""
        if level:
            self._rejected[level] = self._rejected.get(level, 0) + seats

    def forget_rejections(self) -> None:
        """They are reported."""
        self._rejected.clear()

    def report(self, limit: int, *, is_sample: bool = False) -> Report:
        """What is wanted: the most at a time since the last sample.

        Args:
            limit: Seats of the server.
            is_sample: Whether this is one.
        """
        controller = self._controller
        demand: dict[str, int] = {}
        used = 0
        for name, level in controller.levels.items():
            if level.is_exempt:
                continue
            used += level.queue_set.seats_in_use
            demand[name] = level.demand.take_peak() if is_sample else level.demand.peak
            if rejected := self._rejected.get(name, 0):
                # How many would run at once is not known: up to twice as many as do, for now.
                demand[name] += min(rejected, max(1, level.queue_set.seats_in_use))
        return Report(
            limit=limit,
            levels=self._levels(),
            configuration=self._configuration,
            demand=demand,
            used=used,
        )

    def _levels(self) -> Mapping[str, LevelRules]:
        """The rules of the levels; their digest is made when they change."""
        levels = {
            name: LevelRules(
                *level_shares(level.configuration),
                is_exempt=level.is_exempt,
                priority=level.additions.priority,
            )
            for name, level in self._controller.levels.items()
        }
        if levels != self._rules:
            self._rules = levels
            text = repr(sorted((name, repr(rules)) for name, rules in levels.items()))
            self._configuration = f"{crc32(text.encode()):08x}"
        return self._rules

    def __repr__(self) -> str:
        return f"<Wants of {len(self._rules)} levels>"
