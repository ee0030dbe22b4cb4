"""How the servers behind are: which of them get requests, and how they are as a whole.

1. Once a second, or more often where checks are, each endpoint is looked at, and asked how it is
   where that is due; see `EndpointWatch`.  An error in the look at one leaves the others.
2. An endpoint that fails requests one after the other is taken out at once, as long as at most half
   of the endpoints are out then: where more fail, the reason is likely none of theirs.
3. At the start those get requests that are known to be well, as soon as one is; an endpoint that
   joins others from its first good check on.  It starts slowly, as
   one that returns does: its part grows with the time.
4. Whoever has to know is told at once when the endpoints that are well are others.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from apfproxy.base.faults import Part, contained
from apfproxy.base.tasks import Recurring
from apfproxy.settings import KUBERNETES_API
from apfproxy.upstream import endpoint as endpoint_state
from apfproxy.upstream.endpoint import UP
from apfproxy.upstream.endpoint_log import UNKNOWN
from apfproxy.upstream.endpoint_watch import EndpointWatch, Rules
from apfproxy.upstream.recent_responses import RecentOfAll

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from apfproxy.settings import Settings
    from apfproxy.upstream.counters import PoolCounters, UpstreamCounters
    from apfproxy.upstream.endpoint import Endpoint
    from apfproxy.upstream.pool import Pool

LOOK_S = 1.0
STALE_LOOK_S = 10.0
READYZ = "/readyz"
"""What API servers of Kubernetes are asked for."""
MOST_NAMED = 3
"""Endpoints that one text names; it counts the others."""
NS_PER_S = 1_000_000_000

FAILING = "failing"


class UpstreamWatch:
    """Looks at the endpoints of a pool, and decides which of them get requests.

    Args:
        settings: Of the cluster.
        pool: Which has the endpoints.
        counters: Of the cluster.
        loop: On which it looks.
        now_ns: The clock.
        own_lines: Header lines that say who the proxy is; b"" for none.
        on_change: Called soon after the endpoints, or the state of one, have changed.
        unix_s: The time since 1970.

    Attributes:
        cluster: Whose servers they are, for the log; "" where there is one cluster.
        draw: A random number of [0, 1).
        watches: Of the endpoints, in their order.
        recent: What the servers did in the last seconds, together.
        state: `unknown`, `up` while any endpoint is, or `failing`.
        since_unix_s: When that began, in seconds since 1970; None while it is unknown.
        awaiting: Requests that wait for an answer while there is none for anybody; else 0.
        silent_s: For how long there was none, while some waited for one.
    """

    def __init__(  # noqa: PLR0913  what it watches, and what it is told by
        self,
        settings: Settings,
        pool: Pool,
        counters: PoolCounters,
        loop: asyncio.AbstractEventLoop,
        now_ns: Callable[[], int],
        *,
        cluster: str = "",
        own_lines: Callable[[], bytes] = bytes,
        on_change: Callable[[], None] = lambda: None,
        unix_s: Callable[[], float] = time.time,
    ) -> None:
        self.cluster = cluster
        self._settings = settings
        self._pool = pool
        self._counters = counters
        self._loop = loop
        self.now_ns = now_ns
        self.unix_s = unix_s
        self.draw: Callable[[], float] = random.random
        self.own_lines = own_lines
        self._on_change = on_change
        self._tells_soon = False
        self._looking = Recurring(
            Part.UPSTREAM, loop, LOOK_S, STALE_LOOK_S, self.look, self._pauses_s()
        )
        self._is_started = False
        self.watches: dict[Endpoint, EndpointWatch] = {}
        self.rules = self._rules()
        self.recent = RecentOfAll(lambda: [each.recent for each in self.watches.values()])
        self.state = UNKNOWN
        self.since_unix_s: float | None = None
        self._since_ns = 0
        self.awaiting = 0
        self.silent_s = 0.0
        self._spoke_ns = now_ns()
        pool.on_change = self._on_endpoints
        pool.on_endpoint_failing = self._on_failing
        self._on_endpoints()

    # What the pages and the metrics say.

    @property
    def address(self) -> str:
        """What stands for the servers as a whole, as a URL."""
        return self._settings.upstream.address.url

    @property
    def counters(self) -> UpstreamCounters:
        """What the servers did, together."""
        return self._counters.total()

    @property
    def problem(self) -> str | None:
        """What is wrong with the servers, in some words; None unless they fail."""
        if self.state != FAILING:
            return None
        watches = list(self.watches.values())
        if not watches:
            return "no address of a server is known"
        if len(watches) == 1:
            return watches[0].problem
        return f"all {len(watches)} fail: {_named(watches)}"

    @property
    def is_steady(self) -> bool:
        """Whether no endpoint gets but a part of its weight, as it started lately."""
        return not any(each.is_starting for each in self.watches.values())

    def health(self) -> str | None:
        """As the health pages say it: that all endpoints fail, or that nobody looks at them."""
        if self.state != FAILING:
            return self._looking.problem()
        lasts_s = (self.now_ns() - self._since_ns) // NS_PER_S
        where = f"{self.address}: " if self.rules.is_alone else ""
        return f"{where}{self.problem} (for {lasts_s} s)"

    def out(self) -> str | None:
        """As the health pages say it: which of several endpoints are out, and why."""
        found = [each for each in self.watches.values() if each.endpoint.state is not UP]
        if not found or self.rules.is_alone:
            return None
        verb = "is" if len(found) == 1 else "are"
        return f"{len(found)} of {len(self.watches)} {verb} out: {_named(found)}"

    # Its life.

    def configure(self, settings: Settings) -> None:
        """Put other settings in force; servers are asked anew where the way to them is another."""
        before = asked_of(self._settings, self.rules)
        self._settings = settings
        self._take_rules()
        if asked_of(settings, self.rules) != before:
            for watch in list(self.watches.values()):
                watch.forget()
        self.judge()

    def start(self) -> None:
        """Look from now on, and ask at once."""
        self._is_started = True
        self._looking.start()
        if self._settings.upstream.health_check.interval_s is not None:
            for watch in self.watches.values():
                watch.endpoint.is_known = self.rules.is_alone or watch.is_well
            self._pool.weigh()
        for watch in self.watches.values():
            watch.begin()

    def stop(self) -> None:
        """Look no more; harmless if it never started."""
        self._is_started = False
        self._looking.stop()
        for watch in self.watches.values():
            watch.stop()

    def look(self) -> None:
        """Look at each endpoint."""
        now_ns, answered, awaiting = self.now_ns(), 0, 0
        for watch in list(self.watches.values()):
            with contained(Part.UPSTREAM, self._loop):
                answered += watch.look(now_ns)
                awaiting += watch.awaiting
        self._ramp(now_ns)
        self.awaiting = 0 if answered else awaiting
        if not self.awaiting:
            self._spoke_ns = now_ns
        self.silent_s = (now_ns - self._spoke_ns) / NS_PER_S
        self.judge()

    # What happens to endpoints.

    def _rules(self) -> Rules:
        settings, is_alone = self._settings, len(self._pool.endpoints) <= 1
        path = settings.upstream.health_check.path
        if path is None and not is_alone and settings.preset == KUBERNETES_API:
            path = READYZ
        interval_s = settings.upstream.health_check.interval_s or LOOK_S
        return Rules(settings.upstream, path, is_alone, min(LOOK_S, interval_s), LOOK_S)

    def _pauses_s(self) -> Iterator[float]:
        """Before each look: a second, or less where checks are to come more often."""
        while True:
            yield self.rules.look_s

    def _take_rules(self) -> None:
        self.rules = rules = self._rules()
        failures = self._settings.upstream.ejection.failures
        for endpoint in self.watches:
            endpoint.max_failures_in_row = 0 if rules.is_alone else failures

    def _on_endpoints(self) -> None:
        """The pool has other endpoints."""
        before = self.watches
        self.watches = {
            endpoint: before.get(endpoint) or EndpointWatch(endpoint, self)
            for endpoint in self._pool.endpoints
        }
        for endpoint, watch in before.items():
            if endpoint not in self.watches:
                watch.stop()
        path = self.rules.path
        self._take_rules()
        new = [watch for endpoint, watch in self.watches.items() if endpoint not in before]
        # Where all are new there is nobody else to do their part.
        if len(new) < len(self.watches):
            self._let_join(new)
        if self._is_started:
            # An endpoint that joins the only one is judged by what that one answers, too.
            for watch in new if self.rules.path == path else list(self.watches.values()):
                watch.begin()
        self.judge()
        self._tell_soon()

    def _let_join(self, watches: list[EndpointWatch]) -> None:
        if watches and self._settings.upstream.health_check.interval_s is not None:
            for watch in watches:
                watch.hold()
            self._pool.weigh()
        else:
            self._start_slowly(watches)

    def _start_slowly(self, watches: list[EndpointWatch]) -> None:
        if watches and self._settings.upstream.slow_start_s and not self.rules.is_alone:
            for watch in watches:
                watch.start_slowly()
            self._pool.weigh()

    def _ramp(self, now_ns: int) -> None:
        """Let those that start slowly have the part that is due."""
        starting = [each for each in self.watches.values() if each.is_starting]
        for watch in starting:
            watch.ramp(now_ns)
        if starting:
            self._pool.weigh()

    def _on_failing(self, endpoint: Endpoint) -> None:
        """Requests failed at an endpoint as often in a row as they may, or it may be gone."""
        watch = self.watches.get(endpoint)
        if watch is None or endpoint.state is not UP:
            return
        endpoints = self._pool.endpoints
        out = sum(each.state is not UP for each in endpoints)
        if endpoint.has_failed_enough and out + 1 <= len(endpoints) // 2:
            watch.eject()
        else:
            watch.doubt()

    def on_known(self) -> None:
        """Something is known of an endpoint, for the first time."""
        self._pool.weigh()
        self.judge()

    def on_state(self, watch: EndpointWatch) -> None:
        """The state of an endpoint has changed."""
        self._pool.weigh()
        if watch.endpoint.state is UP:
            self._start_slowly([watch])
        elif watch.endpoint.state is endpoint_state.FAILING and not self.rules.is_alone:
            # Perhaps its machine is gone: once it is back, connections of before are dead.
            watch.endpoint.close_idle(self.now_ns())
        self.judge()
        self._tell_soon()

    @property
    def is_path_right(self) -> bool:
        """Whether any endpoint has answered 2xx to the path of the checks."""
        return any(each.has_passed for each in self.watches.values())

    def on_path_right(self) -> None:
        """An endpoint has answered 2xx to the path of the checks, for the first time."""
        for watch in list(self.watches.values()):
            watch.reconsider()

    def _tell_soon(self) -> None:
        """Tell that something has changed, once this event is through: it may be a request's."""
        if not self._tells_soon:
            self._tells_soon = True
            self._loop.call_soon(self._tell)

    def _tell(self) -> None:
        self._tells_soon = False
        self._on_change()

    def judge(self) -> None:
        """Find out how the servers are as a whole."""
        watches = self.watches.values()
        if any(each.is_well for each in watches):
            state = str(UP)
        elif any(each.state == UNKNOWN for each in watches) or not (watches or self._is_started):
            state = UNKNOWN
        else:
            state = FAILING
        if state != self.state:
            self.state = state
            self._since_ns = self.now_ns()
            self.since_unix_s = None if state == UNKNOWN else self.unix_s()

    def __repr__(self) -> str:
        return f"<UpstreamWatch {self.address}: {self.state}>"


def asked_of(settings: Settings, rules: Rules) -> tuple[object, ...]:
    """All settings on which the answer to a check depends, beside the server."""
    upstream = settings.upstream
    return (
        *(upstream.tls, upstream.host_header, upstream.identity, upstream.token_file),
        rules.path,
    )


def _named(watches: list[EndpointWatch]) -> str:
    """The first endpoints with what is wrong with them, and how many more there are."""
    texts = [f"{each.endpoint.url}: {each.problem}" for each in watches[:MOST_NAMED]]
    more = len(watches) - MOST_NAMED
    return "; ".join(texts) + (f"; and {more} more" if more > 0 else "")
