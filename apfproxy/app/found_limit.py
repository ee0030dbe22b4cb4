"""The server limit of a cluster that is found from what its requests meet."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from apfproxy.base.faults import Part
from apfproxy.base.tasks import Recurring
from apfproxy.fleet.ledger import LeaseState
from apfproxy.flowcontrol.limit_finder import FinderSettings, LimitFinder, Load
from apfproxy.flowcontrol.limit_view import limit_view
from apfproxy.flowcontrol.load_meter import LoadMeter
from apfproxy.settings import OBSERVE
from apfproxy.upstream.counters import UpstreamFailure

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from apfproxy.fleet.ledger import Ledger
    from apfproxy.fleet.record import Member
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.limit_view import LimitView
    from apfproxy.settings import Settings
    from apfproxy.upstream.counters import PoolCounters

LOOK_S = 0.1
STALE_S = 5.0
ABSENCE = (UpstreamFailure.CONNECT, UpstreamFailure.TLS)
"""Failures of a server that is not there, or not to be used: no limit changes that."""


class FoundLimit:
    """Looks at the load ten times a second, and calls `on_change` when it finds another limit.

    Of a fleet one member alone tries other limits, and the others follow it: two that try at a time
    would each take for its own what the other does.  A leader names its limit in the record, and
    the others name the most that they allow.  All see by the same record who is to lead: a member
    that has requests rather than one that has none, then that of the least key.  So two that lead
    are one after the next write, and who leads changes only when the leader goes or has no
    requests; the next one begins at the limit of the last one.  This is why members cannot drive
    each other to and fro.  A leader seeks no more than the others allow, such as one with a fixed
    limit, since more is never in force.  Without the store the limit stays as it is.

    `limit` is where it begins, if not as the settings say.
    """

    def __init__(
        self,
        settings: Settings,
        controller: Controller,
        counters: PoolCounters,
        loop: asyncio.AbstractEventLoop,
        ledger: Callable[[], Ledger | None],
        on_change: Callable[[], None],
        limit: int | None = None,
    ) -> None:
        auto = settings.flow_control.auto_limit
        lag_s = settings.fleet.refresh_interval_s if settings.fleet.store else 0.0
        least = min(max(auto.min, settings.fleet.replicas or 1), auto.max)  # a seat each
        initial = min(max(auto.first if limit is None else limit, least), auto.max)
        self.meter = LoadMeter()
        self.finder = LimitFinder(
            FinderSettings(least, auto.max, initial, auto.target / 100, lag_s),
            is_observing=settings.flow_control.enforcement == OBSERVE,
        )
        self._settings = settings.flow_control
        self._controller = controller
        self._counters = counters
        self._loop = loop
        self._ledger = ledger
        self._on_change = on_change
        self.is_leading = not settings.fleet.store
        self._least, self._most = least, auto.max
        self._endpoints = 0
        self._looked_s = loop.time()
        self._distress = self._all_distress()
        self._looks = Recurring(Part.LIMITS, loop, LOOK_S, STALE_S, self._look)
        self._assume(self.finder.limit)

    @property
    def limit(self) -> int:
        """The limit to report: where others share it, the most there may be, or less."""
        if self._ledger() is None:
            return self.finder.limit
        if not self.is_leading:
            return self._most
        return min(self.finder.limit, max(1, self._most - 1))

    def is_by(self, settings: Settings) -> bool:
        """Whether these settings want the limit to be found as it is here."""
        now, before = settings.flow_control, self._settings
        return (now.is_auto, now.auto_limit, now.enforcement) == (
            before.is_auto,
            before.auto_limit,
            before.enforcement,
        )

    def start(self) -> None:
        self._looks.start()

    def stop(self) -> None:
        self._assume(None)
        self._looks.stop()

    def problem(self) -> str | None:
        return self._looks.problem()

    def view(self) -> LimitView:
        now_s = self._loop.time()
        view = limit_view(self.finder, now_s, time.time(), is_leading=self.is_leading)
        auto = self._settings.auto_limit
        return replace(view, initial=auto.initial, max=auto.max)

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
        if ledger is None or self._leads(ledger):
            self.finder.look(now_s, load)
        self._assume(self.finder.limit)
        if self.limit != limit:
            self._on_change()

    def _load(self, duration_s: float, distress: int) -> Load:
        responses = self.meter.take()
        seats, is_waiting = self._controller.limited_use()
        if self.finder.is_observing:  # where requests go on that have no seats
            seats = sum(taken_s for _, taken_s in responses.values()) / max(duration_s, LOOK_S)
        ledger, part = self._ledger(), 1.0
        if ledger is not None:  # what one sees is like what all see
            part = max(ledger.in_force(), 1) / max(ledger.limit, 1)
        return Load(duration_s, seats / part, is_waiting, responses, distress, part)

    def _assume(self, limit: int | None) -> None:
        ledger = self._ledger()
        if ledger is not None:
            ledger.assumed = limit

    def _leads(self, ledger: Ledger) -> bool:
        """Lead or follow by the record; whether this member is to look for the limit."""
        own = ledger.entry
        if ledger.state is not LeaseState.HELD or own is None:
            return False
        # Those whose leases are over are not there any more.
        others = {key: each.entry for key, each in ledger.others.items() if each.is_present}
        rank = _rank(ledger.key, own)
        most = self._most
        leaders = [_rank(key, entry) for key, entry in others.items() if entry.limit < most]
        if leaders and not self.is_leading:
            self.finder.adopt(self._loop.time(), ledger.limit)
        if self.is_leading:
            self.is_leading = all(rank < each for each in leaders)
        elif all(rank < _rank(key, entry) for key, entry in others.items()):
            is_idle, _ = rank
            self.is_leading = not leaders or (not is_idle and all(idle for idle, _ in leaders))
        if self.is_leading:
            self._stay_within(min((each.limit for each in others.values()), default=most))
        return self.is_leading

    def _stay_within(self, allowed: int) -> None:
        """Seek no more than the others of the fleet allow."""
        finder = self.finder
        most = min(self._most, max(allowed, 1))
        least = min(self._least, most)
        if most != finder.settings.most:
            finder.settings = dataclasses.replace(finder.settings, most=most, least=least)
        finder.adopt(self._loop.time(), min(max(finder.limit, least), most))

    def _all_distress(self) -> int:
        return self.meter.distress + sum(
            each.telling - sum(each.failures[failure] for failure in ABSENCE)
            for each in (self._counters.unattributed, *self._counters.endpoints.values())
        )


def _rank(key: str, entry: Member) -> tuple[bool, str]:
    """The member that is to lead comes first: one that has requests, then the least key."""
    return not entry.demand, key
