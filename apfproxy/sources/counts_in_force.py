"""The reader of object counts in force, on the health pages, and replaced when settings change.

Its module is imported only by settings that name a page to read.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from apfproxy.base.faults import Part
from apfproxy.base.health_checks import READYZ
from apfproxy.base.tasks import Supervised
from apfproxy.settings.change import NO_CHANGE, Change

if TYPE_CHECKING:
    import asyncio

    from apfproxy.base.clock import Clock
    from apfproxy.base.health_checks import HealthChecks
    from apfproxy.flowcontrol.learned_costs import LearnedCosts
    from apfproxy.settings import Settings
    from apfproxy.sources.object_counts import ObjectCounts
    from apfproxy.sources.servers_behind import ServersBehind

OBJECT_COUNTS = "object-counts"
"""The health check."""


class CountsInForce:
    """Reads the numbers of stored objects, if a page is named.

    Attributes:
        current: The reader; None for none.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        costs: LearnedCosts,
        health: HealthChecks,
        behind: ServersBehind,
    ) -> None:
        self._clock = clock
        self._costs = costs
        self._health = health
        self._behind = behind
        self._task: asyncio.Task[None] | None = None
        self._is_started = False
        self._parts = parts_of(settings)
        self.current: ObjectCounts | None = None
        self._reading: Supervised | None = None
        self._make()

    def start(self) -> None:
        """Begin to read."""
        self._is_started = True
        if self._reading is not None:
            self._task = self._reading.start()

    async def prepare(self, settings: Settings) -> Change:
        """See whether other settings name another page."""
        parts = parts_of(settings)
        return NO_CHANGE if parts == self._parts else Change(lambda: self._put(parts))

    def _put(self, parts: tuple[str | None, float]) -> None:
        self.close()
        self._health.discard(OBJECT_COUNTS)
        if parts[0] != self._parts[0]:
            self._costs.set_object_counts({}, self._clock.now_ns())
        self._parts = parts
        self._make()
        if self._is_started:
            self.start()

    def _make(self) -> None:
        url, interval_s = self._parts
        self.current = self._reading = None
        if url is None:
            return
        from apfproxy.sources.object_counts import ObjectCounts  # noqa: PLC0415 - aiohttp

        self.current = counts = ObjectCounts(
            url,
            self._costs.set_object_counts,
            self._clock.now_ns,
            interval_s,
            others=partial(self._behind.like, url),
        )
        self._reading = reading = Supervised(
            Part.OBJECT_COUNTS, "reading object counts", lambda _beat: counts.run()
        )
        self._health.add(
            OBJECT_COUNTS,
            pages=(READYZ,),
            is_blocking=False,
            look=lambda: counts.problem or reading.problem(),
        )

    def close(self) -> None:
        """Read no more; harmless once done."""
        if self._task is not None:
            self._task.cancel()
            self._task = None


def parts_of(settings: Settings) -> tuple[str | None, float]:
    """All settings that the reader is made of."""
    flow_control = settings.flow_control
    return flow_control.object_counts_from, flow_control.object_counts_interval_s
