"""The server limit of a cluster that is found from what its requests meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.base.faults import Part
from apfproxy.base.tasks import Recurring
from apfproxy.flowcontrol.limit_finder import FinderSettings, LimitFinder, Load
from apfproxy.flowcontrol.load_meter import LoadMeter
from apfproxy.settings import OBSERVE

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from apfproxy.fleet.ledger import Ledger
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.settings import Settings
    from apfproxy.upstream.counters import PoolCounters

LOOK_S = 0.1
STALE_S = 5.0
DISTRESS = (429, 503, 504)


class FoundLimit:
    """Looks at the load ten times a second, and calls `on_change` when it finds another limit.

    Of a fleet one member alone tries other limits, and the others follow it: two that try at a time
    would each take for its own what the other does.  It leads as long as it has requests, or no
    one else has; which one does can be seen in the record, where the others name the greatest
    limit that they allow.
    """

    def __init__(
        self,
        settings: Settings,
        controller: Controller,
        counters: PoolCounters,
        loop: asyncio.AbstractEventLoop,
        ledger: Callable[[], Ledger | None],
        on_change: Callable[[], None],
    ) -> None:
        auto = settings.flow_control.auto_limit
        lag_s = settings.fleet.refresh_interval_s if settings.fleet.store else 0.0
        self.meter = LoadMeter()
        self.finder = LimitFinder(
            FinderSettings(auto.min, auto.max, auto.initial, auto.target / 100, lag_s),
            is_observing=settings.flow_control.enforcement == OBSERVE,
        )
        self._controller = controller
        self._counters = counters
        self._loop = loop
        self._ledger = ledger
        self._on_change = on_change
        self._is_leading = True
        self._endpoints = 0
        self._looked_s = loop.time()
        self._distress = self._all_distress()
        self._looks = Recurring(Part.LIMITS, loop, LOOK_S, STALE_S, self._look)

    @property
    def limit(self) -> int:
        """What this proxy reports: the most there may be unless it leads."""
        return self.finder.limit if self._is_leading else self.finder.settings.most

    def start(self) -> None:
        self._looks.start()

    def stop(self) -> None:
        self._looks.stop()

    def problem(self) -> str | None:
        return self._looks.problem()

    def has_endpoints(self, healthy: int) -> None:
        """Have the limit follow the number of endpoints that are well."""
        before, self._endpoints = self._endpoints, max(healthy, 1)
        if before and before != self._endpoints:
            self.finder.resize(self._endpoints / before)

    def _look(self) -> None:
        now_s = self._loop.time()
        duration_s, self._looked_s = now_s - self._looked_s, now_s
        distress, before = self._all_distress(), self._distress
        self._distress = distress
        load = self._load(duration_s, max(0, distress - before))
        ledger, limit = self._ledger(), self.limit
        if ledger is not None:
            self._is_leading = self._leads(ledger, now_s, is_busy=load.seats > 0)
            if not self._is_leading:
                self.finder.adopt(ledger.limit)
        if self._is_leading:
            self.finder.look(now_s, load)
        if self.limit != limit:
            self._on_change()

    def _load(self, duration_s: float, distress: int) -> Load:
        levels = [each for each in self._controller.levels.values() if not each.is_exempt]
        responses = self.meter.take()
        seats = float(sum(each.queue_set.seats_in_use for each in levels))
        if self.finder.is_observing:  # where requests go on that have no seats
            seats = sum(taken_s for _, taken_s in responses.values()) / max(duration_s, LOOK_S)
        ledger = self._ledger()
        if ledger is not None:  # what one sees is like what all see
            seats *= ledger.limit / max(ledger.in_force(), 1)
        is_waiting = any(each.queue_set.requests_waiting for each in levels)
        return Load(duration_s, seats, is_waiting, responses, distress)

    def _leads(self, ledger: Ledger, now_s: float, *, is_busy: bool) -> bool:
        leaders = {
            key: each.entry
            for key, each in ledger.others.items()
            if each.is_live(now_s) and each.entry.limit < self.finder.settings.most
        }
        if self._is_leading:
            return not any(key < ledger.key or not is_busy for key in leaders)
        return not leaders or (is_busy and not any(each.used for each in leaders.values()))

    def _all_distress(self) -> int:
        return sum(
            each.telling + sum(each.answers.get(status, 0) for status in DISTRESS)
            for each in (self._counters.unattributed, *self._counters.endpoints.values())
        )
