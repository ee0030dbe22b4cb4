"""Whether the server behind is well: known from requests, and without them from probes.

1. Requests only count; once a second the counters are looked at.  A second with more failures than
   answers makes the server `failing`, any other one with answers makes it `up`.
2. A probe is a connection, with TLS where the server has it, that is closed at once.  There is one
   at the start, and one each `upstream.healthCheck.interval` while requests tell nothing, or that
   the server fails; one at a time.
3. A probe that fails makes the server `failing`.  One that does not makes it `up`, unless the
   server accepts connections but does not answer, as a stopped process does: then the probe asks
   and has to be answered, and no request may have failed since the probe before.
4. A server that hangs fails once requests are given up, after `upstream.answerTimeout`.  Until then
   `silent_s` tells for how long nobody had an answer.
5. The log has a line when the state changes, but no two of failures within `LINE_S`.  The last line
   is true, soon.
"""

from __future__ import annotations

import enum
import logging
import time
from typing import TYPE_CHECKING, Protocol

from apfproxy.duties import Recurring
from apfproxy.faults import Part, report
from apfproxy.proxy.connect_failure import ORIGIN_FAILURES, connect_failure
from apfproxy.proxy.counters import UpstreamFailure
from apfproxy.proxy.recent_answers import RecentAnswers
from apfproxy.tasks import spawn
from apfproxy.transitions import Event

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from apfproxy.proxy.counters import UpstreamCounters
    from apfproxy.settings import UpstreamSettings

log = logging.getLogger(__name__)

LOOK_S = 1.0
STALE_LOOK_S = 10.0
LINE_S = 10.0
"""A server that comes and goes fills no log."""
ANSWER_FAILURES = frozenset({UpstreamFailure.ANSWER_TIMEOUT, UpstreamFailure.BROKEN_ANSWER})
"""Those of a server that accepts connections."""
NS_PER_S = 1_000_000_000


class UpstreamState(enum.StrEnum):
    """How the server behind is."""

    UNKNOWN = "unknown"
    """Nothing was asked yet."""
    UP = "up"
    FAILING = "failing"


UNKNOWN, UP, FAILING = UpstreamState.UNKNOWN, UpstreamState.UP, UpstreamState.FAILING

TRANSITIONS = {state: {"answer": UP, "fail": FAILING} for state in UpstreamState}
"""State to event to the next state."""

ANSWER = Event("answer", TRANSITIONS)
FAIL = Event("fail", TRANSITIONS)


class Connector(Protocol):
    """Connects to the server."""

    def count_awaiting(self) -> int:
        """Requests sent that have no answer yet."""

    async def probe(self, *, asks: bool) -> bool:
        """Connect, and close that again; an error of `ORIGIN_FAILURES` if that fails.

        Args:
            asks: Whether the server has to answer a request.

        Returns:
            Whether it did, or was not asked.
        """


class UpstreamWatch:
    """Looks at the server's counters, and asks it where they tell nothing.

    Attributes:
        counters: What it did.
        recent: What of that it did in the last seconds.
        state: How it is.
        since_unix_s: When that began, in seconds since 1970; None while it is unknown.
        awaiting: Requests that wait for an answer while it gives none to anybody; else 0.
        silent_s: For how long it has given none, while some waited for one.
    """

    def __init__(
        self,
        settings: UpstreamSettings,
        counters: UpstreamCounters,
        connector: Connector,
        loop: asyncio.AbstractEventLoop,
        now_ns: Callable[[], int],
        unix_s: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self.counters = counters
        self._connector = connector
        self._now_ns = now_ns
        self._unix_s = unix_s
        self._looking = Recurring(Part.UPSTREAM, loop, LOOK_S, STALE_LOOK_S, self.look)
        self._probing: asyncio.Task[None] | None = None
        self.recent = RecentAnswers(counters, now_ns())
        self.state = UNKNOWN
        self.since_unix_s: float | None = None
        self.awaiting = 0
        self.silent_s = 0.0
        self._since_ns = 0
        self._failure: UpstreamFailure | None = None
        """How it fails; None unless it does."""
        self._problem = ""
        self._failed_ns = 0
        """When it failed last."""
        self._heard_ns: int | None = None
        """When a probe ended, or an answer was noticed, last."""
        self._spoke_ns = now_ns()
        """When it was last seen to answer, or to have nothing to answer."""
        # Counted at the last look; of the failures those that tell of the server.
        self._answers = 0
        self._failures = 0
        # What the log's last line says, and since when it failed if it says so.
        self._said: tuple[UpstreamState, UpstreamFailure | None] = (UNKNOWN, None)
        self._said_since_ns = 0
        self._next_line_ns = 0

    @property
    def address(self) -> str:
        """The server's, as a URL."""
        return self._settings.address.url

    @property
    def problem(self) -> str | None:
        """What is wrong with the server, in some words; None unless it fails."""
        return self._problem if self.state is FAILING else None

    def configure(self, settings: UpstreamSettings) -> None:
        """Put other settings in force; another server, or another way to it, is asked anew."""
        before, self._settings = self._settings, settings
        if (settings.address, settings.tls) == (before.address, before.tls):
            return
        if self._probing is not None:
            self._probing.cancel()
            self._probing = None
        self._count()  # what the other one did since the last look tells nothing of this one
        self.state, self.since_unix_s = UNKNOWN, None
        self._failure, self._heard_ns = None, None
        self._said, self._next_line_ns = (UNKNOWN, None), 0
        # What the server of before did since the last look tells nothing of this one.
        self._answers, self._failures = self._counted()
        self._spoke_ns = self._now_ns()

    def start(self) -> None:
        """Look from now on, and ask at once."""
        self._looking.start()
        self._probe_if_due(self._now_ns())

    def stop(self) -> None:
        """Look no more; harmless if it never started."""
        self._looking.stop()
        if self._probing is not None:
            self._probing.cancel()
            self._probing = None

    def health(self) -> str | None:
        """As the health pages say it: what is wrong with the server, or with the look at it."""
        if self.state is not FAILING:
            return self._looking.problem()
        lasts_s = (self._now_ns() - self._since_ns) // NS_PER_S
        return f"{self.address}: {self._problem} (for {lasts_s} s)"

    def look(self) -> None:
        """Judge the server by what it did since the last look."""
        now_ns, counters = self._now_ns(), self.counters
        self.recent.sample(now_ns)
        answered, failed = self._count()
        if failed > answered:
            self._fail(counters.last_failure, counters.last_problem, now_ns)
        elif answered:
            self._heard_ns = now_ns
            self._answer(now_ns)
        # To look at all connections is for the second in which none of them had an answer.
        self.awaiting = 0 if answered else self._connector.count_awaiting()
        if not self.awaiting:
            self._spoke_ns = now_ns
        self.silent_s = (now_ns - self._spoke_ns) / NS_PER_S
        self._say(now_ns)
        self._probe_if_due(now_ns)

    def _count(self) -> tuple[int, int]:
        """How many answers and failures there were since this was asked last."""
        answers, failures = sum(self.counters.answers.values()), self.counters.telling
        answered, failed = answers - self._answers, failures - self._failures
        self._answers, self._failures = answers, failures
        return answered, failed

    def _counted(self) -> tuple[int, int]:
        """All answers, and all failures that tell of the server, so far."""
        return sum(self.counters.answers.values()), self.counters.telling

    def _answer(self, now_ns: int) -> None:
        self._change(ANSWER[self.state], now_ns)
        self._failure = None

    def _fail(self, failure: UpstreamFailure, problem: str, now_ns: int) -> None:
        self._change(FAIL[self.state], now_ns)
        self._failure, self._problem, self._failed_ns = failure, problem, now_ns

    def _change(self, state: UpstreamState, now_ns: int) -> None:
        if state is not self.state:
            self.state = state
            self._since_ns, self.since_unix_s = now_ns, self._unix_s()

    def _say(self, now_ns: int) -> None:
        """Have the log say what it does not say yet."""
        is_failing = self.state is FAILING
        if (self.state, self._failure) == self._said or (
            is_failing and now_ns < self._next_line_ns
        ):
            return
        (before, _), self._said = self._said, (self.state, self._failure)
        if is_failing:
            self._next_line_ns = now_ns + round(LINE_S * NS_PER_S)
            still = "still " if before is FAILING else ""
            if not still:
                self._said_since_ns = self._since_ns
            log.warning("the server behind, %s, %sfails: %s", self.address, still, self._problem)
        elif before is FAILING:
            lasted_s = (self._since_ns - self._said_since_ns) / NS_PER_S
            log.info("the server behind, %s, is up again after %.0f s", self.address, lasted_s)
        else:
            log.info("the server behind, %s, can be reached", self.address)

    def _probe_if_due(self, now_ns: int) -> None:
        interval_s, heard_ns = self._settings.health_check.interval_s, self._heard_ns
        if interval_s is None or self._probing is not None:
            return
        # The next look would be late by as much as this one is early.
        if heard_ns is None or now_ns - heard_ns >= (interval_s - LOOK_S / 2) * NS_PER_S:
            self._probing = spawn(self._probe(), name="probing the origin")

    async def _probe(self) -> None:
        error: Exception | None = None
        is_good = False
        asks, before_ns = self._failure in ANSWER_FAILURES, self._heard_ns or 0
        try:
            is_good = await self._connector.probe(asks=asks)
        except Exception as problem:  # noqa: BLE001  whatever it is, the next probe may do better
            error = problem
        now_ns = self._heard_ns = self._now_ns()
        self._probing = None
        if isinstance(error, ORIGIN_FAILURES):
            found = connect_failure(error)
            self._fail(found.kind, found.problem, now_ns)
        elif error is not None:
            report(Part.UPSTREAM, error)
        elif is_good and (
            self._failed_ns <= before_ns if asks else self._failure not in ANSWER_FAILURES
        ):
            self._answer(now_ns)
        self._say(now_ns)

    def __repr__(self) -> str:
        return f"<UpstreamWatch {self.address}: {self.state}>"
