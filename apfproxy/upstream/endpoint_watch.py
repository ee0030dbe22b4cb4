"""How one server behind is: known from its requests, and from checks.

Where there is one server, and no path to ask for, requests tell:

1. Requests only count; once a second the counters are looked at.  A second with more failures than
   answers makes the server `failing`, any other one with answers makes it `up`.
2. A check is a connection, with TLS where the server has it, that is closed at once.  There is one
   at the start, and one each `upstream.healthCheck.interval` while requests tell nothing, or that
   the server fails; one at a time.
3. A check that fails makes the server `failing`.  One that does not makes it `up`, unless the
   server accepts connections but does not answer, as a stopped process does: then the check asks
   and has to be answered, and no request may have failed since the check before.
4. A server that hangs fails once requests are given up, after `upstream.answerTimeout`.  Until then
   `silent_s` tells for how long nobody had an answer.  Long-running requests tell nothing of that.

Where there are several, or a path, checks tell, since what an endpoint gets no requests for has to
be known as well:

5. There is a check each interval, with jitter.  It asks for the path; without one it is as above,
   and left out while an endpoint that is up gives answers.  As many as the thresholds say have to
   agree before the state changes; the first one decides alone.
6. 401, 403 and 404 say that the proxy may not ask for the path, until any endpoint has answered 2xx
   to it: then they say that this one is not ready, as kube-apiserver's 403 before its roles are
   loaded.  Who was taken for well before by such an answer is not any more.
7. A request that finds no server, or whose connection breaks, has the endpoint checked at once, and
   one failed check is enough: a server that is gone may be back before the next one is due, but not
   ready.
8. An endpoint that fails requests one after the other is `ejected`: it gets none for a pause, which
   grows with each time, and shrinks again while it is well.  A check that fails meanwhile makes it
   `failing`; otherwise it comes back by the first good check after the pause.  Its next failure
   ejects it again.  Where too many are out already it stays, but is checked as of 7.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from apfproxy.base.faults import Part, report
from apfproxy.base.rare_log import RareLog
from apfproxy.base.tasks import spawn
from apfproxy.upstream.connecting import CONNECT_ERRORS, ConnectTimeoutError, connect_failure
from apfproxy.upstream.counters import UpstreamFailure
from apfproxy.upstream.endpoint import (
    DRAINING,
    EJECT,
    EJECTED,
    FAIL,
    FAILING,
    RECOVER,
    TRY_AGAIN,
    UP,
)
from apfproxy.upstream.endpoint_log import UNKNOWN, EndpointLog
from apfproxy.upstream.health_check import (
    REFUSALS,
    NoAnswerError,
    is_success,
    is_well,
    question,
    status_text,
)
from apfproxy.upstream.recent_responses import RecentResponses

if TYPE_CHECKING:
    from apfproxy.settings import UpstreamSettings
    from apfproxy.upstream.endpoint import Endpoint, EndpointState

log = logging.getLogger(__name__)

JITTER = 0.1
"""The part by which an interval between checks is longer or shorter, so that those of many
endpoints, and of many proxies, do not come at once."""
FIRST_RAMP = 0.1
"""Of its weight an endpoint that joins or returns gets at once."""
ANSWER_FAILURES = frozenset({UpstreamFailure.ANSWER_TIMEOUT, UpstreamFailure.BROKEN_ANSWER})
"""Those of a server that accepts connections."""
NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Rules:
    """How endpoints are judged.

    Attributes:
        settings: Of the servers behind.
        path: What checks ask for; None for a connection alone.
        is_alone: Whether there is no other endpoint.
        look_s: How often they are looked at.
        sample_s: How often it is noted what they did.
    """

    settings: UpstreamSettings
    path: str | None
    is_alone: bool
    look_s: float
    sample_s: float

    @property
    def is_by_requests(self) -> bool:
        """Whether requests tell how the server is."""
        return self.is_alone and self.path is None


class WatchOwner(Protocol):
    """What has the watches of all endpoints.

    Attributes:
        cluster: Whose servers they are, for the log; "" where there is one cluster.
        rules: Those in force.
        is_path_right: Whether any endpoint has answered 2xx to the path of the checks.
    """

    cluster: str
    rules: Rules

    @property
    def is_path_right(self) -> bool:
        """As above."""

    def now_ns(self) -> int:
        """The time."""

    def unix_s(self) -> float:
        """The time since 1970."""

    def draw(self) -> float:
        """A random number of [0, 1)."""

    def own_lines(self) -> bytes:
        """Header lines that say who the proxy is; b"" for none."""

    def on_known(self) -> None:
        """Something is known of an endpoint, for the first time."""

    def on_state(self, watch: EndpointWatch) -> None:
        """The state of an endpoint has changed."""

    def on_path_right(self) -> None:
        """An endpoint has answered 2xx to the path of the checks, for the first time."""


class EndpointWatch:
    """Looks at an endpoint's counters, and asks it how it is.

    Attributes:
        endpoint: Whose state this decides.
        recent: What it did in the last seconds.
        since_unix_s: When its state began, in seconds since 1970; None while it is unknown.
        awaiting: Requests that wait for an answer while it gives none to anybody; else 0.
        silent_s: For how long it has given none, while some waited for one.
        ejections: That it was taken out for, lately.
        ejections_total: Likewise, ever.
        has_passed: Whether it has ever answered 2xx to the path of the checks.
    """

    def __init__(self, endpoint: Endpoint, owner: WatchOwner) -> None:
        self.endpoint = endpoint
        self._owner = owner
        now_ns = owner.now_ns()
        self.recent = RecentResponses(endpoint.counters, now_ns)
        self.since_unix_s: float | None = None
        self.awaiting = 0
        self.silent_s = 0.0
        self.ejections = 0
        self.ejections_total = 0
        self.has_passed = False
        self._refusal = ""
        """What is wrong with the last check's answer, if that was taken for well all the same."""
        self._sampled_ns = now_ns
        self._is_known = False
        self._checking: asyncio.Task[None] | None = None
        self._log = EndpointLog(endpoint.url, owner.cluster)
        self._rare_log = RareLog(log, owner.now_ns, period_s=3600.0)
        self._since_ns = 0
        self._failure: UpstreamFailure | None = None
        """How it fails; None unless it does, or it fails by what it answers."""
        self._problem = ""
        self._failed_ns = 0
        """When it failed last."""
        self._heard_ns: int | None = None
        """When a check ended, or an answer was noticed, last; None if it is to be asked at once."""
        self._asked_ns = 0
        """When the last check began."""
        self._is_doubted = False
        """Whether requests say that it may be gone, and no good check has said otherwise since."""
        self._spoke_ns = now_ns
        """When it was last seen to answer, or to have nothing to answer."""
        # Of checks in a row.
        self._good = 0
        self._bad = 0
        self._factor = 1.0
        """By which the next interval is longer."""
        self._try_again_ns = 0
        """When its pause is over, while it is ejected."""
        self._well_ns = 0
        """Since when it was well, or that was last held to its credit, after an ejection."""
        self._ramp_ns: int | None = None
        """When it began to get requests, if it does not get all of its part yet."""
        # Counted at the last look; of the failures those that tell of the server.
        self._answers, self._failures = self._counted()

    @property
    def state(self) -> str:
        """`unknown`, `up`, `ejected`, `failing` or `draining`."""
        return str(self.endpoint.state) if self._is_known else UNKNOWN

    @property
    def is_well(self) -> bool:
        """Whether it is known, and gets requests because it is well."""
        return self._is_known and self.endpoint.state is UP

    @property
    def problem(self) -> str | None:
        """What is wrong with the server, in some words; None unless it is out."""
        return None if self.endpoint.state is UP else self._problem

    def begin(self) -> None:
        """Ask at once."""
        self._heard_ns = None
        self._check_if_due(self._owner.now_ns())

    def hold(self) -> None:
        """Let it get no requests before its first check: it may only be starting."""
        self.endpoint.state = FAIL[self.endpoint.state]
        self._problem = "not checked yet"

    def stop(self) -> None:
        """Ask no more; harmless if it never began."""
        if self._checking is not None:
            self._checking.cancel()
            self._checking = None

    def forget(self) -> None:
        """Judge it anew, since the way to it is another one.

        What was done on the way before, since the last look, tells nothing of it.
        """
        self.stop()
        self._answers, self._failures = self._counted()
        self._is_known, self.since_unix_s = False, None
        self._failure, self._heard_ns = None, None
        self._good = self._bad = 0
        self.has_passed, self._refusal = False, ""
        self._log.forget()
        self._spoke_ns = self._owner.now_ns()
        if self.endpoint.state is FAILING:
            self.endpoint.state = RECOVER[FAILING]
            self._owner.on_state(self)

    def look(self, now_ns: int) -> int:
        """Judge it by what it did since the last look; says how many answers it gave."""
        counters, rules = self.endpoint.counters, self._owner.rules
        if now_ns - self._sampled_ns >= 0.9 * rules.sample_s * NS_PER_S:
            self._sampled_ns = now_ns
            self.recent.sample(now_ns)
        answered, failed = self._count()
        if rules.is_by_requests:
            if failed > answered:
                self._fail(counters.last_failure, counters.last_problem, now_ns)
            elif answered:
                self._heard_ns = now_ns
                self._answer(now_ns)
        elif answered and self.endpoint.state is UP:
            self._know(now_ns)
            if rules.path is None and self._heard_ns is not None:
                self._heard_ns = now_ns
        elif self.endpoint.state is FAILING and rules.settings.health_check.interval_s is None:
            self._answer(now_ns)  # nothing would ever say that it is well again
        self._count_pauses(now_ns)
        # To look at all connections is for the second in which none of them had an answer.
        self.awaiting = 0 if answered else self.endpoint.count_awaiting()
        if not self.awaiting:
            self._spoke_ns = now_ns
        self.silent_s = (now_ns - self._spoke_ns) / NS_PER_S
        self._say(now_ns)
        self._check_if_due(now_ns)
        return answered

    def _count(self) -> tuple[int, int]:
        """How many answers and failures there were since this was asked last."""
        answers, failures = self._counted()
        answered, failed = answers - self._answers, failures - self._failures
        self._answers, self._failures = answers, failures
        return answered, failed

    def _counted(self) -> tuple[int, int]:
        """All answers, and all failures that tell of the server, so far."""
        counters = self.endpoint.counters
        return sum(counters.answers.values()), counters.telling

    # Ejection and slow start.

    def eject(self) -> None:
        """Let it get no requests for a pause: it failed them one after the other."""
        now_ns, load = self._owner.now_ns(), self.endpoint
        self.ejections += 1
        self.ejections_total += 1
        self._try_again_ns = now_ns + self._pause_ns()
        self._heard_ns = None  # ask at the next look
        has_failed = load.counters.telling > self._failures
        self._failure = load.counters.last_failure if has_failed else None
        last = load.counters.last_problem if has_failed else "answers 502, 503 or 504"
        self._problem = f"{load.failures_in_row} failures in a row: {last}"
        self._become(EJECT[load.state], now_ns)
        self._know(now_ns)
        self._say(now_ns)

    def doubt(self) -> None:
        """Ask at once, and take one failed check for enough: by its requests it may be gone.

        Or at the next look, if it was asked since the last one.
        """
        now_ns = self._owner.now_ns()
        self._is_doubted, self._heard_ns = True, None
        if now_ns - self._asked_ns >= self._owner.rules.look_s * NS_PER_S:
            self._check_if_due(now_ns)

    def _pause_ns(self) -> int:
        """How long the last ejection lasts."""
        ejection = self._owner.rules.settings.ejection
        return round(min(ejection.pause_s * self.ejections, ejection.max_pause_s) * NS_PER_S)

    def _count_pauses(self, now_ns: int) -> None:
        """End a pause that is over, and forget one after as much time in which it was well."""
        endpoint = self.endpoint
        if endpoint.state is EJECTED:
            if now_ns < self._try_again_ns:
                return
            if self._owner.rules.settings.health_check.interval_s is None:
                self._try_again(now_ns)
            elif self._asked_ns < self._try_again_ns:
                self._heard_ns = None  # it returns by a good check
        elif self.ejections and endpoint.state is UP and now_ns - self._well_ns >= self._pause_ns():
            self.ejections -= 1
            self._well_ns = now_ns

    def _try_again(self, now_ns: int) -> None:
        """Let it have requests again, on trial: one failure is enough."""
        endpoint = self.endpoint
        endpoint.failures_in_row = max(0, endpoint.max_failures_in_row - 1)
        self._failure = None
        self._become(TRY_AGAIN[EJECTED], now_ns)

    def start_slowly(self) -> None:
        """Have it get more and more of its part from now on."""
        self._ramp_ns = self._owner.now_ns()
        self.endpoint.ramp = FIRST_RAMP

    def ramp(self, now_ns: int) -> None:
        """Let it have the part that is due."""
        if self._ramp_ns is not None:
            rules = self._owner.rules
            whole_ns = 0 if rules.is_alone else rules.settings.slow_start_s * NS_PER_S
            past_ns = now_ns - self._ramp_ns
            if past_ns >= whole_ns:
                self._ramp_ns = None
                self.endpoint.ramp = 1.0
            else:
                self.endpoint.ramp = max(FIRST_RAMP, past_ns / whole_ns)

    @property
    def is_starting(self) -> bool:
        """Whether it does not get all of its part yet."""
        return self._ramp_ns is not None

    # The state.

    def _answer(self, now_ns: int) -> None:
        self._failure = None
        self._know(now_ns)
        if self.endpoint.state is FAILING:
            self._become(RECOVER[FAILING], now_ns)

    def _fail(self, failure: UpstreamFailure | None, problem: str, now_ns: int) -> None:
        self._failure, self._problem, self._failed_ns = failure, problem, now_ns
        if self.endpoint.state in {UP, EJECTED}:
            self._become(FAIL[self.endpoint.state], now_ns)
        self._know(now_ns)

    def _know(self, now_ns: int) -> None:
        """Something is known of it."""
        if not self._is_known:
            self._is_known = True
            self._since_ns, self.since_unix_s = now_ns, self._owner.unix_s()
            self.endpoint.is_known = True
            self._owner.on_known()

    def _become(self, state: EndpointState, now_ns: int) -> None:
        self.endpoint.state = state
        self._since_ns, self.since_unix_s = now_ns, self._owner.unix_s()
        self._well_ns = now_ns
        self._owner.on_state(self)

    def _say(self, now_ns: int) -> None:
        """Have the log say what it does not say yet."""
        text = f"fails: {self._problem}"
        if self.endpoint.state is EJECTED:
            pause_s = self._pause_ns() / NS_PER_S
            text = f"gets no requests (for {pause_s:g} s): {self._problem}"
        self._log.say(self.state, self._failure, text, since_ns=self._since_ns, now_ns=now_ns)

    # Checks.

    def _check_if_due(self, now_ns: int) -> None:
        rules, heard_ns = self._owner.rules, self._heard_ns
        interval_s = rules.settings.health_check.interval_s
        if interval_s is None or self._checking is not None or self.endpoint.state is DRAINING:
            return
        # The next look would be late by as much as this one is early.
        after_s = interval_s * self._factor - rules.look_s / 2
        if heard_ns is not None and now_ns - heard_ns < after_s * NS_PER_S:
            return
        self._asked_ns = now_ns
        if not rules.is_by_requests:
            self._factor = 1.0 + JITTER * (2.0 * self._owner.draw() - 1.0)
        work = self._probe() if rules.is_by_requests else self._check(rules)
        self._checking = spawn(work, name="checking a server's health")

    async def _probe(self) -> None:
        """Check the only server, of which requests tell most."""
        asks, before_ns = self._failure in ANSWER_FAILURES, self._heard_ns or 0
        error: Exception | None = None
        try:
            if asks:
                await self.endpoint.ask(self._question("HEAD", "/"), self._limit_s)
            else:
                await self.endpoint.probe()
        except Exception as problem:  # noqa: BLE001  whatever it is, the next check may do better
            error = problem
        now_ns = self._heard_ns = self._owner.now_ns()
        self._checking = None
        if isinstance(error, NoAnswerError):
            pass  # it fails still
        elif isinstance(error, CONNECT_ERRORS):
            found = connect_failure(error)
            self._fail(found.kind, found.problem, now_ns)
        elif error is not None:
            report(Part.UPSTREAM, error)
        elif self._failed_ns <= before_ns if asks else self._failure not in ANSWER_FAILURES:
            self._answer(now_ns)
        self._say(now_ns)

    async def _check(self, rules: Rules) -> None:
        """Check one of several, or one that is asked for a path."""
        started_ns = self._owner.now_ns()
        found: tuple[UpstreamFailure | None, str] | None = None
        try:
            async with asyncio.timeout(self._limit_s):
                found = await self._asked(rules)
        except NoAnswerError as error:
            found = error.kind, str(error)
        except CONNECT_ERRORS as error:
            if isinstance(error, TimeoutError) and not isinstance(error, ConnectTimeoutError):
                kind = UpstreamFailure.ANSWER_TIMEOUT
                found = kind, f"no answer to a check within {self._limit_s:g} s"
            else:
                failure = connect_failure(error)
                found = failure.kind, failure.problem
        except Exception as bug:  # noqa: BLE001  as in `_probe`
            report(Part.UPSTREAM, bug)
            self._heard_ns = started_ns
            self._checking = None
            return
        # Of a path there is a check each interval, however long the answer takes.
        now_ns = self._owner.now_ns()
        self._heard_ns = now_ns if rules.path is None else started_ns
        self._checking = None
        if found is None:
            self._on_good_check(now_ns)
        else:
            self._on_bad_check(*found, now_ns)
        self._say(now_ns)

    async def _asked(self, rules: Rules) -> tuple[UpstreamFailure | None, str] | None:
        """Ask the endpoint: what is wrong with its answer, if anything is."""
        path, endpoint = rules.path, self.endpoint
        if path is None:
            if self._failure in ANSWER_FAILURES:
                await endpoint.ask(self._question("HEAD", "/"), self._limit_s)
            else:
                await endpoint.probe()
            return None
        status = await endpoint.ask(self._question("GET", path), self._limit_s)
        answer = f"{path} is answered by {status_text(status)}"
        before, self._refusal = self._refusal, ""
        if is_success(status) and not self.has_passed:
            is_news, self.has_passed = not self._owner.is_path_right, True
            if is_news:
                self._owner.on_path_right()
        if is_well(status):
            return None
        if status not in REFUSALS:
            return None, answer
        if self._owner.is_path_right:
            return None, f"{answer}, though the proxy may ask for it"
        self._refusal = f"{answer}, though the proxy may ask for it"
        if before:  # else another endpoint may be about to say that the proxy may ask
            self._rare_log.log(
                logging.WARNING,
                f"answered by {status}",
                "%s%s answers %s to %s, which tells nothing of its health: set"
                " upstream.healthCheck.path to what the proxy may ask for",
                self._owner.cluster and f"{self._owner.cluster}: ",
                endpoint.url,
                status_text(status),
                path,
            )
        return None

    def reconsider(self) -> None:
        """Take a refusal for what it is: by another endpoint's answer the path is right."""
        if self._refusal:
            now_ns = self._owner.now_ns()
            self._on_bad_check(None, self._refusal, now_ns, is_enough=True)
            self._refusal = ""
            self._say(now_ns)

    @property
    def _limit_s(self) -> float:
        return self._owner.rules.settings.health_check.timeout_s

    def _question(self, method: str, path: str) -> bytes:
        settings = self._owner.rules.settings
        host = settings.host_header or settings.address.authority
        return question(method, path, host, self._owner.own_lines() if method == "GET" else b"")

    def _on_good_check(self, now_ns: int) -> None:
        self._good += 1
        self._bad = 0
        self._is_doubted = False
        needed = self._owner.rules.settings.health_check.healthy_threshold
        if self.endpoint.state is EJECTED:
            if now_ns >= self._try_again_ns:
                self._try_again(now_ns)
        elif self.endpoint.state is not FAILING or self._good >= needed or not self._is_known:
            self._answer(now_ns)

    def _on_bad_check(
        self,
        failure: UpstreamFailure | None,
        problem: str,
        now_ns: int,
        *,
        is_enough: bool = False,
    ) -> None:
        """Count a failed check; `is_enough` if it decides alone."""
        self._bad += 1
        self._good = 0
        needed = self._owner.rules.settings.health_check.unhealthy_threshold
        # Where requests failed, or it is out, the check only says so again.
        is_first = is_enough or self._is_doubted or not self._is_known
        if is_first or self._bad >= needed or self.endpoint.state is not UP:
            self._fail(failure, problem, now_ns)

    def __repr__(self) -> str:
        return f"<EndpointWatch {self.endpoint.url}: {self.state}>"
