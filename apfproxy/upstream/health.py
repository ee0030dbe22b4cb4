"""How the servers behind are: which of them get requests, and how they are as a whole.

Where there is one server, and no path to ask for, requests tell (`PassiveHealth`):

1. A second with more failures than responses makes the server `failing`, any other one with
   responses makes it `up`.
2. A check is a connection, with TLS where the server has it, that is closed at once: one at the
   start, and one each `upstream.healthCheck.interval` while requests tell nothing, or failures.
3. A check that fails makes the server `failing`.  Another one makes it `up`, unless the server
   accepts connections but does not respond, as a stopped process does: then the check asks and has
   to have a response, and no request may have failed since the check before.
4. A server that hangs fails once requests are given up, after `upstream.answerTimeout`.  Until then
   `silent_s` tells for how long none had a response.  Long-running requests tell nothing of that.

Where there are several, or a path, checks tell (`ActiveHealth`), since requests say nothing of an
endpoint that gets none:

5. There is a check each interval, with jitter.  It asks for the path; without one it is as above,
   and left out while an endpoint that is up gives responses.  As many as the thresholds say have to
   agree before the state changes; the first one decides alone.
6. 401, 403 and 404 say that the proxy may not ask for the path, until any endpoint has responded to
   it with 2xx: then they say that this one is not ready, as kube-apiserver's 403 before its roles
   are loaded; so one that was taken for well by such a response is not any more.
7. A request that finds no server, or whose connection breaks, has the endpoint checked at once, and
   one failed check is enough: a server that is gone may be back before the next one, but not ready.
8. An endpoint that fails requests one after the other is `ejected` at once: it gets none for a
   pause, which grows with each time, and shrinks again while it is well.  A check that fails
   meanwhile makes it `failing`; otherwise it comes back by the first good check after the pause,
   and its next failure ejects it again.  At most half of the endpoints are out then: where more
   fail, the reason is likely none of theirs, so the others stay, but are checked as of 7.
9. An endpoint that joins others gets requests from its first good check on.  It starts slowly, as
   one that returns does: its part grows with the time.

An error in the look at one endpoint leaves the others.  The log has a line when a state changes,
but no two of failures within `LINE_S`; the last line is true, soon.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.base.faults import Part, contained, report
from apfproxy.base.rare_log import RareLog
from apfproxy.base.tasks import Recurring, spawn
from apfproxy.settings import KUBERNETES_API, LLM_API
from apfproxy.upstream.connecting import CONNECT_ERRORS, ConnectTimeoutError, connect_failure
from apfproxy.upstream.counters import UpstreamFailure
from apfproxy.upstream.endpoint import (
    DRAINING,
    EJECT,
    EJECTED,
    FAIL,
    FAILING,
    FORGET,
    JOIN,
    JOINING,
    LEARN,
    RECOVER,
    TRY_AGAIN,
    UNKNOWN,
    UP,
)
from apfproxy.upstream.health_check import REFUSALS, NoAnswerError, question, status_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.base.transitions import Event
    from apfproxy.settings import Settings, UpstreamSettings
    from apfproxy.upstream.counters import PoolCounters, UpstreamCounters
    from apfproxy.upstream.endpoint import Endpoint, EndpointState
    from apfproxy.upstream.pool import Pool

log = logging.getLogger(__name__)

LOOK_S = 1.0
STALE_LOOK_S = 10.0
LINE_S = 10.0  # a server that comes and goes fills no log
READYZ = "/readyz"  # what API servers of Kubernetes are asked for
HEALTH = "/health"  # and servers of language models, which refuse it while a model is loaded
JITTER = 0.1
"""The part of an interval by which checks vary: many must not come at once."""
FIRST_RAMP = 0.1  # of its weight an endpoint that joins or returns gets at once
MOST_NAMED = 3  # endpoints that one text names; it counts the others
ANSWER_FAILURES = frozenset({UpstreamFailure.ANSWER_TIMEOUT, UpstreamFailure.BROKEN_ANSWER})
"""The failures of a server that accepts connections."""
NS_PER_S = 1_000_000_000

Problem = tuple[UpstreamFailure | None, str]


@dataclass(frozen=True, slots=True)
class Rules:
    """How endpoints are judged; checks ask for `path`, None for a connection alone."""

    settings: UpstreamSettings
    path: str | None
    is_alone: bool
    look_s: float

    @property
    def interval_s(self) -> float | None:
        return self.settings.health_check.interval_s

    @property
    def asked(self) -> tuple[object, ...]:
        """All on which the response to a check depends, beside the server."""
        of = self.settings
        return of.tls, of.host_header, of.identity, of.token_file, self.path


class PassiveHealth:
    """Judges the only server, of which requests tell most."""

    def __init__(self, health: EndpointHealth) -> None:
        self._health = health

    def look(self, responded: int, failed: int, now_ns: int) -> None:
        health = self._health
        if failed > responded:
            counters = health.endpoint.counters
            health.fail((counters.last_failure, counters.last_problem), now_ns)
        elif responded:
            health.heard_ns = now_ns
            health.recover(now_ns)

    async def check(self) -> None:
        health = self._health
        asks, before_ns = health.failure in ANSWER_FAILURES, health.heard_ns or 0
        error: Exception | None = None
        try:
            await health.reach()
        except Exception as problem:  # noqa: BLE001  whatever it is, the next check may do better
            error = problem
        now_ns = health.end_check()
        if isinstance(error, NoAnswerError):
            pass  # it fails still
        elif isinstance(error, CONNECT_ERRORS):
            found = connect_failure(error)
            health.fail((found.kind, found.problem), now_ns)
        elif error is not None:
            report(Part.UPSTREAM, error)
        elif health.failed_ns <= before_ns if asks else health.failure not in ANSWER_FAILURES:
            health.recover(now_ns)
        health.say(now_ns)


class ActiveHealth:
    """Judges one of several, or one that is asked for a path."""

    def __init__(self, health: EndpointHealth) -> None:
        self._health = health
        self._good = self._bad = 0  # of checks in a row
        self._refusal = ""
        """The fault of the last check's response, if that was taken for well all the same."""
        self._rare_log = RareLog(log, health.owner.now_ns, period_s=3600.0)

    def look(self, responded: int, failed: int, now_ns: int) -> None:  # noqa: ARG002  checks tell
        health = self._health
        if responded and health.endpoint.state in {UNKNOWN, UP}:
            health.recover(now_ns)
            if health.owner.rules.path is None and health.heard_ns is not None:
                health.heard_ns = now_ns
        elif health.endpoint.state in {FAILING, JOINING} and health.owner.rules.interval_s is None:
            health.recover(now_ns)  # nothing would ever say that it is well again

    async def check(self) -> None:
        health = self._health
        rules = health.owner.rules
        started_ns = health.owner.now_ns()
        try:
            async with asyncio.timeout(health.limit_s):
                problem = await self._asked(rules.path)
        except NoAnswerError as error:
            problem = error.kind, str(error)
        except CONNECT_ERRORS as error:
            if isinstance(error, TimeoutError) and not isinstance(error, ConnectTimeoutError):
                kind = UpstreamFailure.ANSWER_TIMEOUT
                problem = kind, f"no answer to a check within {health.limit_s:g} s"
            else:
                failure = connect_failure(error)
                problem = failure.kind, failure.problem
        except Exception as bug:  # noqa: BLE001  as in `PassiveHealth.check`
            report(Part.UPSTREAM, bug)
            health.end_check(started_ns)
            return
        # Of a path there is a check each interval, however long the response takes.
        now_ns = health.end_check(None if rules.path is None else started_ns)
        if problem is None:
            self._on_good_check(now_ns)
        else:
            self._on_bad_check(problem, now_ns)
        health.say(now_ns)

    async def _asked(self, path: str | None) -> Problem | None:
        health = self._health
        if path is None:
            await health.reach()
            return None
        status = await health.ask("GET", path)
        found = f"{path} is answered by {status_text(status)}"
        before, self._refusal = self._refusal, ""
        if 200 <= status < 300 and not health.has_passed:
            health.has_passed = True
            health.owner.on_path_right()
        if status < 400:
            return None
        if status in REFUSALS:
            found += ", though the proxy may ask for it"
        if status not in REFUSALS or health.owner.is_path_right:
            return None, found
        self._refusal = found
        if before:  # else another endpoint may be about to say that the proxy may ask
            text = (
                "%s%s answers %s to %s, which tells nothing of its health: set"
                " upstream.healthCheck.path to what the proxy may ask for"
            )
            told = health.prefix, health.endpoint.url, status_text(status), path
            self._rare_log.log(logging.WARNING, f"answered by {status}", text, *told)
        return None

    def reconsider(self) -> None:
        if self._refusal:
            health = self._health
            now_ns = health.owner.now_ns()
            health.is_doubted = True  # this one is enough
            self._on_bad_check((None, self._refusal), now_ns)
            self._refusal = ""
            health.say(now_ns)

    def _on_good_check(self, now_ns: int) -> None:
        self._good += 1
        self._bad = 0
        health = self._health
        health.is_doubted = False
        needed = health.owner.rules.settings.health_check.healthy_threshold
        if health.endpoint.state is EJECTED:
            health.try_again_if_due(now_ns)
        elif health.endpoint.state is not FAILING or self._good >= needed:
            health.recover(now_ns)

    def _on_bad_check(self, problem: Problem, now_ns: int) -> None:
        self._bad += 1
        self._good = 0
        health = self._health
        needed = health.owner.rules.settings.health_check.unhealthy_threshold
        # Where requests failed, or it is out, the check only says so again.
        if health.is_doubted or self._bad >= needed or health.endpoint.state is not UP:
            health.fail(problem, now_ns)


class EndpointHealth:
    """How one endpoint is, and since when; what it did, and when it is checked next.

    Attributes:
        failure: How it fails; None unless it does, or it fails by what it responds.
        since_unix_s: When its state began, in seconds since 1970; None while it is unknown.
        awaiting: Requests that wait for a response while it gives none; else 0.
        ejections: Recent ejections; each lengthens the next pause.
        has_passed: Whether it has ever responded to the path of the checks with 2xx.
        heard_ns: When a check ended, or a response was noticed; None to have it checked at once.
        is_doubted: Whether one failed check is enough: by its requests it may be gone.
    """

    def __init__(self, endpoint: Endpoint, owner: UpstreamHealth) -> None:
        self.endpoint = endpoint
        self.owner = owner
        self.failure: UpstreamFailure | None = None
        self.since_unix_s: float | None = None
        self.awaiting = self.failed_ns = 0
        self.ejections = self.ejections_total = 0
        self.has_passed = self.is_doubted = False
        self.heard_ns: int | None = None
        self.judge: PassiveHealth | ActiveHealth = PassiveHealth(self)
        self.follow(owner.rules)
        self._problem = ""
        self._checking: asyncio.Task[None] | None = None
        # What the log's last line says, and since when the endpoint is out if it says so.
        self._said: tuple[str, UpstreamFailure | None] = (UNKNOWN, None)
        self._out_since_ns = self._next_line_ns = self._since_ns = 0
        self._asked_ns = 0  # when the last check began
        self._factor = 1.0  # by which the next interval is longer
        self._try_again_ns = 0  # when its pause is over, while it is ejected
        self._well_ns = 0  # from then on one earlier ejection is forgiven per pause
        self._ramp_ns: int | None = None
        """When it began to get requests, if it does not get all of its part yet."""
        # Counted at the last look; of the failures those that tell of the server.
        self._responses, self._failures = self._counted()

    @property
    def state(self) -> str:
        """`unknown`, `up`, `ejected`, `failing` or `draining`."""
        state = self.endpoint.state
        return str(UNKNOWN if state is JOINING else state)

    @property
    def problem(self) -> str | None:
        return None if self.endpoint.is_well else self._problem

    @property
    def prefix(self) -> str:
        return f"{self.owner.cluster}: " if self.owner.cluster else ""

    @property
    def limit_s(self) -> float:
        return self.owner.rules.settings.health_check.timeout_s

    # Its life.

    def follow(self, rules: Rules) -> None:
        kind = PassiveHealth if rules.is_alone and rules.path is None else ActiveHealth
        if not isinstance(self.judge, kind):
            self.judge = kind(self)

    def begin(self) -> None:
        self.heard_ns = None
        self._check_if_due(self.owner.now_ns())

    def join(self) -> None:
        """Let it get no requests before its first check: it may only be starting."""
        self._problem = "not checked yet"
        self.endpoint.state = JOIN[self.endpoint.state]

    def stop(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
            self._checking = None

    def forget(self) -> None:
        """Judge it from the start: the way to it is another one."""
        self.stop()
        self._responses, self._failures = self._counted()
        self.failure, self.heard_ns = None, None
        self.has_passed = False
        self.judge = type(self.judge)(self)
        self._said, self._next_line_ns = (UNKNOWN, None), 0
        if self.endpoint.state in {UP, FAILING, JOINING}:
            self._become(FORGET, self.owner.now_ns())

    def look(self, now_ns: int) -> int:
        """Judge it by what it did since the last look; returns how many responses it gave."""
        (responses, failures), before = self._counted(), (self._responses, self._failures)
        self._responses, self._failures = responses, failures
        responded = responses - before[0]
        self.judge.look(responded, failures - before[1], now_ns)
        self._count_pauses(now_ns)
        # To look at all connections is for the second in which none of them had a response.
        self.awaiting = 0 if responded else self.endpoint.count_awaiting()
        self.say(now_ns)
        self._check_if_due(now_ns)
        return responded

    def _counted(self) -> tuple[int, int]:
        counters = self.endpoint.counters
        return sum(counters.answers.values()), counters.telling

    # Ejection and slow start.

    def eject(self) -> None:
        """Let it get no requests for a pause: it failed them one after the other."""
        now_ns, endpoint = self.owner.now_ns(), self.endpoint
        self.ejections += 1
        self.ejections_total += 1
        self._try_again_ns = now_ns + self._pause_ns()
        self.heard_ns = None  # check at the next look
        has_failed = endpoint.counters.telling > self._failures
        self.failure = endpoint.counters.last_failure if has_failed else None
        last = endpoint.counters.last_problem if has_failed else "answers 502, 503 or 504"
        self._problem = f"{endpoint.failures_in_row} failures in a row: {last}"
        self._become(EJECT, now_ns)
        self.say(now_ns)

    def doubt(self) -> None:
        """Check at once, or at the next look if it was checked since the last one."""
        now_ns = self.owner.now_ns()
        self.is_doubted, self.heard_ns = True, None
        if now_ns - self._asked_ns >= self.owner.rules.look_s * NS_PER_S:
            self._check_if_due(now_ns)

    def _pause_ns(self) -> int:
        ejection = self.owner.rules.settings.ejection
        return round(min(ejection.pause_s * self.ejections, ejection.max_pause_s) * NS_PER_S)

    def _count_pauses(self, now_ns: int) -> None:
        """End a pause that is over, and forget one after as much time in which it was well."""
        if self.endpoint.state is EJECTED:
            if self.owner.rules.interval_s is None:
                self.try_again_if_due(now_ns)
            elif self._asked_ns < self._try_again_ns <= now_ns:
                self.heard_ns = None  # it returns by a good check
        elif (
            self.ejections and self.endpoint.is_well and now_ns - self._well_ns >= self._pause_ns()
        ):
            self.ejections -= 1
            self._well_ns = now_ns

    def try_again_if_due(self, now_ns: int) -> None:
        """Let it have requests after its pause, on trial: one failure is enough."""
        if now_ns >= self._try_again_ns:
            endpoint = self.endpoint
            endpoint.failures_in_row = max(0, endpoint.max_failures_in_row - 1)
            self.failure = None
            self._become(TRY_AGAIN, now_ns)

    def start_slowly(self) -> None:
        self._ramp_ns = self.owner.now_ns()
        self.endpoint.ramp = FIRST_RAMP

    def ramp(self, now_ns: int) -> None:
        if self._ramp_ns is not None:
            rules = self.owner.rules
            whole_ns = 0 if rules.is_alone else rules.settings.slow_start_s * NS_PER_S
            past_ns = now_ns - self._ramp_ns
            if past_ns >= whole_ns:
                self._ramp_ns = None
                self.endpoint.ramp = 1.0
            else:
                self.endpoint.ramp = max(FIRST_RAMP, past_ns / whole_ns)

    @property
    def is_starting(self) -> bool:
        return self._ramp_ns is not None

    # The state.

    def recover(self, now_ns: int) -> None:
        state = self.endpoint.state
        self.failure = None
        if state is UNKNOWN:
            self._become(LEARN, now_ns)
        elif state in {FAILING, JOINING}:
            self._become(RECOVER, now_ns)

    def fail(self, problem: Problem, now_ns: int) -> None:
        self.failure, self._problem = problem
        self.failed_ns = now_ns
        if self.endpoint.state not in {FAILING, DRAINING}:
            self._become(FAIL, now_ns)

    def _become(self, event: Event[EndpointState], now_ns: int) -> None:
        before = self.endpoint.state
        state = self.endpoint.state = event[before]
        self._since_ns = self._well_ns = now_ns
        self.since_unix_s = None if state is UNKNOWN else self.owner.unix_s()
        self.owner.on_state(self, before)

    def say(self, now_ns: int) -> None:
        """Have the log say what it does not say yet; of a failure of another kind, too."""
        server = f"{self.prefix}the server behind, {self.endpoint.url},"
        state, failure = self.state, self.failure
        is_out = state in {FAILING, EJECTED}
        if (state, failure) == self._said or (is_out and now_ns < self._next_line_ns):
            return
        (before, _), self._said = self._said, (state, failure)
        was_out = before in {FAILING, EJECTED}
        if is_out:
            self._next_line_ns = now_ns + round(LINE_S * NS_PER_S)
            if not was_out:
                self._out_since_ns = self._since_ns
            text = f"fails: {self._problem}"
            if state == EJECTED:
                pause_s = self._pause_ns() / NS_PER_S
                text = f"gets no requests (for {pause_s:g} s): {self._problem}"
            log.warning("%s %s%s", server, "still " if was_out else "", text)
        elif was_out:
            lasted_s = (self._since_ns - self._out_since_ns) / NS_PER_S
            log.info("%s is up again after %.0f s", server, lasted_s)
        elif before == UNKNOWN and state == UP:
            log.info("%s can be reached", server)

    # Checks.

    def _check_if_due(self, now_ns: int) -> None:
        rules, heard_ns = self.owner.rules, self.heard_ns
        interval_s = rules.interval_s
        if interval_s is None or self._checking is not None or self.endpoint.state is DRAINING:
            return
        # The next look would be late by as much as this one is early.
        after_s = interval_s * self._factor - rules.look_s / 2
        if heard_ns is not None and now_ns - heard_ns < after_s * NS_PER_S:
            return
        self._asked_ns = now_ns
        if isinstance(self.judge, ActiveHealth):
            self._factor = 1.0 + JITTER * (2.0 * self.owner.draw() - 1.0)
        self._checking = spawn(self.judge.check(), name="checking a server's health")

    def end_check(self, heard_ns: int | None = None) -> int:
        """End a check, which counts from `heard_ns` on, or from now; returns the time."""
        now_ns = self.owner.now_ns()
        self.heard_ns = now_ns if heard_ns is None else heard_ns
        self._checking = None
        return now_ns

    async def reach(self) -> None:
        """Connect; and ask, if the endpoint accepts connections but does not respond."""
        if self.failure in ANSWER_FAILURES:
            await self.ask("HEAD", "/")
        else:
            await self.endpoint.probe()

    async def ask(self, method: str, path: str) -> int:
        settings = self.owner.rules.settings
        host = settings.host_header or settings.address.authority
        lines = self.owner.own_lines() if method == "GET" else b""
        return await self.endpoint.ask(question(method, path, host, lines), self.limit_s)

    def __repr__(self) -> str:
        return f"<EndpointHealth {self.endpoint.url}: {self.state}>"


class UpstreamHealth:
    """Looks at the endpoints of a pool, and decides which of them get requests.

    `on_change` is called soon after the endpoints, or the state of one, have changed; `own_lines`
    gives the header lines that say who the proxy is, b"" for none.

    Attributes:
        cluster: For the log; "" where there is one cluster.
        draw: A random number of [0, 1).
        state: `unknown`, `up` while any endpoint is, or `failing`.
        since_unix_s, awaiting: As of `EndpointHealth`, of all together.
        silent_s: For how long none has given a response while some waited for one.
    """

    def __init__(  # noqa: PLR0913  what it looks at, and what it is told by
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
        pauses_s = iter(lambda: self.rules.look_s, None)
        self._looking = Recurring(Part.UPSTREAM, loop, LOOK_S, STALE_LOOK_S, self.look, pauses_s)
        self._is_started = False
        self.watches: dict[Endpoint, EndpointHealth] = {}
        self.rules: Rules = self._rules()
        self.state: str = UNKNOWN
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
        return self._settings.upstream.address.url

    @property
    def counters(self) -> UpstreamCounters:
        return self._counters.total()

    @property
    def problem(self) -> str | None:
        """Says how the servers fail; None unless they do."""
        if self.state != FAILING:
            return None
        watches = list(self.watches.values())
        if len(watches) == 1:
            return watches[0].problem
        if watches:
            return f"all {len(watches)} fail: {_named(watches)}"
        return "no address of a server is known"

    @property
    def is_steady(self) -> bool:
        """Whether no endpoint gets but a part of its weight, as it started lately."""
        return not any(each.is_starting for each in self.watches.values())

    def health(self) -> str | None:
        """Says for the health pages that all endpoints fail, or are not looked at; else None."""
        if self.state != FAILING:
            return self._looking.problem()
        lasts_s = (self.now_ns() - self._since_ns) // NS_PER_S
        where = f"{self.address}: " if self.rules.is_alone else ""
        return f"{where}{self.problem} (for {lasts_s} s)"

    def out(self) -> str | None:
        """Says for the health pages which of several endpoints are out, and why; else None."""
        found = [each for each in self.watches.values() if not each.endpoint.is_well]
        if not found or self.rules.is_alone:
            return None
        verb = "is" if len(found) == 1 else "are"
        return f"{len(found)} of {len(self.watches)} {verb} out: {_named(found)}"

    # Its life.

    def configure(self, settings: Settings) -> None:
        """Put other settings in force; another way to servers has them judged from the start."""
        before = self.rules.asked
        self._settings = settings
        self._take_rules()
        self._prefer_known()
        if self.rules.asked != before:
            for watch in list(self.watches.values()):
                watch.forget()
        self.judge()

    def start(self) -> None:
        self._is_started = True
        self._looking.start()
        self._prefer_known()
        for watch in self.watches.values():
            watch.begin()

    def _prefer_known(self) -> None:
        """Where endpoints are checked, those known to be well come before unknown ones."""
        self._pool.is_checked = self._is_started and self.rules.interval_s is not None
        self._pool.weigh()

    def stop(self) -> None:
        self._is_started = False
        self._looking.stop()
        for watch in self.watches.values():
            watch.stop()

    def look(self) -> None:
        now_ns, responded, awaiting = self.now_ns(), 0, 0
        for watch in list(self.watches.values()):
            with contained(Part.UPSTREAM, self._loop):
                responded += watch.look(now_ns)
                awaiting += watch.awaiting
        starting = [each for each in self.watches.values() if each.is_starting]
        for watch in starting:
            watch.ramp(now_ns)
        if starting:
            self._pool.weigh()
        self._pool.try_again()
        self.awaiting = 0 if responded else awaiting
        if not self.awaiting:
            self._spoke_ns = now_ns
        self.silent_s = (now_ns - self._spoke_ns) / NS_PER_S
        self.judge()

    # What happens to endpoints.

    def _rules(self) -> Rules:
        settings, is_alone = self._settings, len(self._pool.endpoints) <= 1
        path = settings.upstream.health_check.path
        if path is None and settings.preset == LLM_API:
            path = HEALTH
        elif path is None and not is_alone and settings.preset == KUBERNETES_API:
            path = READYZ
        interval_s = settings.upstream.health_check.interval_s or LOOK_S
        return Rules(settings.upstream, path, is_alone, min(LOOK_S, interval_s))

    def _take_rules(self) -> None:
        self.rules = rules = self._rules()
        failures = self._settings.upstream.ejection.failures
        for endpoint, watch in self.watches.items():
            endpoint.max_failures_in_row = 0 if rules.is_alone else failures
            watch.follow(rules)

    def _on_endpoints(self) -> None:
        before = self.watches
        self.watches = {
            endpoint: before.get(endpoint) or EndpointHealth(endpoint, self)
            for endpoint in self._pool.endpoints
        }
        for endpoint, watch in before.items():
            if endpoint not in self.watches:
                watch.stop()
        path = self.rules.path
        self._take_rules()
        new = [watch for endpoint, watch in self.watches.items() if endpoint not in before]
        # Where all are new no other one does their part.
        if new and len(new) < len(self.watches):
            if self.rules.interval_s is None:
                self._start_slowly(new)
            else:
                for watch in new:
                    watch.join()
                self._pool.weigh()
        if self._is_started:
            # An endpoint that joins the only one is judged by the responses of that one, too.
            for watch in new if self.rules.path == path else list(self.watches.values()):
                watch.begin()
        self.judge()
        self._tell_soon()

    def _start_slowly(self, watches: list[EndpointHealth]) -> None:
        if self._settings.upstream.slow_start_s and not self.rules.is_alone:
            for watch in watches:
                watch.start_slowly()
            self._pool.weigh()

    def _on_failing(self, endpoint: Endpoint) -> None:
        watch = self.watches.get(endpoint)
        if watch is None or not endpoint.is_well:
            return
        endpoints = self._pool.endpoints
        out = len(endpoints) - self._pool.healthy_count
        if endpoint.has_failed_enough and out + 1 <= len(endpoints) // 2:
            watch.eject()
        else:
            watch.doubt()

    def on_state(self, watch: EndpointHealth, before: EndpointState) -> None:
        self._pool.weigh()
        endpoint, was_well = watch.endpoint, before in {UNKNOWN, UP}
        if endpoint.is_well and not was_well:
            self._start_slowly([watch])
        elif endpoint.state is FAILING and not self.rules.is_alone:
            # Perhaps its machine is gone: once it is back, connections of before are dead.
            endpoint.close_idle(self.now_ns())
        self.judge()
        if endpoint.is_well != was_well or before is EJECTED:
            self._tell_soon()

    @property
    def is_path_right(self) -> bool:
        return any(each.has_passed for each in self.watches.values())

    def on_path_right(self) -> None:
        """Take refusals for what they are: the proxy may ask for the path."""
        for watch in list(self.watches.values()):
            if isinstance(watch.judge, ActiveHealth):
                watch.judge.reconsider()

    def _tell_soon(self) -> None:
        if not self._tells_soon:  # once this event is through: it may be a request's
            self._tells_soon = True
            self._loop.call_soon(self._tell)

    def _tell(self) -> None:
        self._tells_soon = False
        self._on_change()

    def judge(self) -> None:
        watches = self.watches.values()
        if any(each.endpoint.state is UP for each in watches):
            state = UP
        elif any(each.state == UNKNOWN for each in watches) or not (watches or self._is_started):
            state = UNKNOWN
        else:
            state = FAILING
        if state != self.state:
            self.state = str(state)
            self._since_ns = self.now_ns()
            self.since_unix_s = None if state == UNKNOWN else self.unix_s()

    def __repr__(self) -> str:
        return f"<UpstreamHealth {self.address}: {self.state}>"


def _named(watches: list[EndpointHealth]) -> str:
    texts = [f"{each.endpoint.url}: {each.problem}" for each in watches[:MOST_NAMED]]
    more = len(watches) - MOST_NAMED
    return "; ".join(texts) + (f"; and {more} more" if more > 0 else "")
