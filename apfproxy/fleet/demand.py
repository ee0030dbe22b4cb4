"""Demand of a member for a limit that others share by level, as it reports it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from apfproxy.fleet.division import LevelRules
from apfproxy.fleet.ledger import Report
from apfproxy.flowcontrol.priority_level import level_shares

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apfproxy.flowcontrol.controller import Controller


class MemberDemand:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._rejected: dict[str, int] = {}  # seats, by level
        self._rules: Mapping[str, LevelRules] = {}
        self._configuration = ""

    def on_rejection(self, level: str, seats: int) -> None:
        """A level is about to reject a request of so many seats; "" names no level."""
        if level:
            self._rejected[level] = self._rejected.get(level, 0) + seats

    def forget_rejections(self) -> None:
        self._rejected.clear()

    def peak(self) -> dict[str, int]:
        """The most seats used and waited for at a time since the last `sample`, by level."""
        return self._measured(is_sample=False)

    def sample(self) -> dict[str, int]:
        return self._measured(is_sample=True)

    def _measured(self, *, is_sample: bool) -> dict[str, int]:
        demand: dict[str, int] = {}
        for name, level in self._controller.levels.items():
            if level.is_exempt:
                continue
            demand[name] = level.demand.take_peak() if is_sample else level.demand.peak
            if rejected := self._rejected.get(name, 0):
                # How many would run at once is not known: up to twice as many as do, for now.
                demand[name] += min(rejected, max(1, level.queue_set.seats_in_use))
        return demand

    def report(self, limit: int, demand: Mapping[str, int]) -> Report:
        """The report of a member with this demand; `limit` has the seats of the server."""
        levels = self._controller.levels
        rules = {
            name: LevelRules(
                *level_shares(level.configuration),
                is_exempt=level.is_exempt,
                priority=level.additions.priority,
            )
            for name, level in levels.items()
        }
        if rules != self._rules:
            self._rules = rules
            text = repr(sorted((name, repr(each)) for name, each in rules.items()))
            self._configuration = f"{crc32(text.encode()):08x}"
        used = sum(each.queue_set.seats_in_use for each in levels.values() if not each.is_exempt)
        return Report(
            limit=limit,
            levels=self._rules,
            configuration=self._configuration,
            demand=demand,
            used=used,
        )
