"""Watches, which last, come back into balance after an endpoint has come back.

A watch stays where it began: an endpoint that was away has none, and the others have too many.  So
a small share of those is ended each minute, as if they were through, and their clients resume them.
kube-apiserver's `--goaway-chance` is for the same.

1. An endpoint has too much if it has over a tenth more than its part by weight, and over one more.
   What is over its part is ended then, so that the next look does not find the same again.
2. Only what has lasted for `OLD_S` is ended: no client loses two in a row.  Nothing but watches is
   ended: a tunnel is a user's session, and no other response must end as if it were through.
3. Servers send each event of a watch as a chunk, so a watch ends between two of them.
4. While an endpoint starts slowly nothing is ended: most would come back to where it was.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from apfproxy.base.faults import Part
from apfproxy.base.tasks import Recurring

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from apfproxy.settings import UpstreamSettings
    from apfproxy.upstream.counters import PoolCounters
    from apfproxy.upstream.endpoint import Endpoint
    from apfproxy.upstream.pool import Pool
    from apfproxy.upstream.response_sink import ResponseSink

MINUTE_S = 60.0
PERIOD_S = 6.0  # so that a minute's share is ended bit by bit
STALE_S = 60.0
OLD_S = 60.0  # clients ask for watches of five to ten minutes
SLACK = 0.1  # an endpoint may have so much of its part beyond it: two random choices do no better


class Rebalancing:
    """Ends what is too much, for one pool; `is_steady` says that no endpoint starts slowly."""

    def __init__(
        self,
        settings: UpstreamSettings,
        pool: Pool,
        counters: PoolCounters,
        loop: asyncio.AbstractEventLoop,
        now_ns: Callable[[], int],
        is_steady: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._pool = pool
        self._counters = counters
        self._now_ns = now_ns
        self._is_steady = is_steady
        self._due = 0.0  # of watches to be ended, the part that was not a whole one yet
        self._random = random.Random()  # noqa: S311  nothing secret
        self._recurring = Recurring(Part.UPSTREAM, loop, PERIOD_S, STALE_S, self.look)

    def configure(self, settings: UpstreamSettings) -> None:
        self._settings = settings

    def start(self) -> None:
        self._recurring.start()

    def stop(self) -> None:
        self._recurring.stop()

    def look(self) -> None:
        percent = self._settings.rebalance.percent_per_minute
        is_due = percent and len(self._pool.endpoints) > 1 and self._is_steady()
        excess = excesses(self._pool.endpoints) if is_due else {}
        over = sum(excess.values())
        if not over:
            self._due = 0.0
            return
        self._due += max(1.0, over * percent / 100) * PERIOD_S / MINUTE_S
        count = math.floor(self._due)
        self._due -= count
        for watch in self._chosen(excess, count) if count else ():
            self._counters.rebalanced += 1
            try:
                watch.end_watch()
            except Exception as error:  # noqa: BLE001  it is of this one alone
                watch.fail(error)

    def _chosen(self, excess: dict[Endpoint, int], count: int) -> list[ResponseSink]:
        before_ns = self._now_ns() - round(OLD_S * 1e9)
        found: list[ResponseSink] = []
        for endpoint, most in excess.items():
            old = [
                each
                for each in watches_of(endpoint)
                if each.watching_ns <= before_ns and each.can_end_watch
            ]
            self._random.shuffle(old)
            found += old[:most]
        self._random.shuffle(found)
        return found[:count]

    def __repr__(self) -> str:
        return f"<Rebalancing: {self._counters.rebalanced} ended>"


def watches_of(endpoint: Endpoint) -> list[ResponseSink]:
    sinks = [each.tunnelled or each.sink for each in endpoint.open]
    return [each for each in sinks if each is not None and each.watching_ns]


def excesses(endpoints: tuple[Endpoint, ...]) -> dict[Endpoint, int]:
    """How many watches are over the part of each endpoint that has too many."""
    counts = {each: len(watches_of(each)) for each in endpoints if each.is_well}
    weight = sum(each.address.weight for each in counts)
    total = sum(counts.values())
    found: dict[Endpoint, int] = {}
    for endpoint, count in counts.items():
        part = total * endpoint.address.weight / weight
        if count > part + max(1.0, SLACK * part):
            found[endpoint] = count - math.ceil(part)
    return found
