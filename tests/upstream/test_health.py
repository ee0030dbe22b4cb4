"""How the servers behind are, each and all together, and which of them get requests."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, cast

import pytest
from msgspec.structs import replace

from apfproxy.base.faults import Faults, Part
from apfproxy.settings import (
    Address,
    EjectionSettings,
    EndpointAddress,
    HealthCheckSettings,
    Settings,
    UpstreamSettings,
)
from apfproxy.upstream import health
from apfproxy.upstream.counters import PoolCounters, UpstreamFailure
from apfproxy.upstream.endpoint import DRAIN, DRAINING, Endpoint
from apfproxy.upstream.health import LINE_S, UpstreamHealth
from apfproxy.upstream.health_check import NoAnswerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.upstream.health import EndpointHealth
    from apfproxy.upstream.pool import Pool

S = 1_000_000_000
REFUSED = ConnectionRefusedError(111, "Connection refused")
UNKNOWN, UP, FAILING, EJECTED = "unknown", "up", "failing", "ejected"
OFTEN = UpstreamSettings(
    url=Address(host="h", port=1), health_check=HealthCheckSettings(interval_s=5.0)
)
NEVER = replace(OFTEN, health_check=HealthCheckSettings(interval_s=None))
SEVERAL = replace(
    OFTEN,
    health_check=HealthCheckSettings(interval_s=5.0, healthy_threshold=2, unhealthy_threshold=3),
    ejection=EjectionSettings(failures=5, pause_s=5.0, max_pause_s=12.0),
)


class Server(Endpoint):
    """An endpoint that has `status` for checks, or fails them, as a test says."""

    def __init__(self, name: str, pool: Servers, status: int = 200) -> None:
        super().__init__(
            EndpointAddress(address=Address(host=name, port=1)),
            OFTEN,
            PoolCounters(),
            None,
            lambda: 0,
            on_closed=lambda _: None,
            on_failing=lambda endpoint: pool.on_endpoint_failing(endpoint),  # noqa: PLW0108  set later
        )
        self.is_drawn = True
        self.probes = 0
        self.asked: list[bytes] = []
        self.error: Exception | None = None
        self.status = status
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.awaiting = 0
        self.closed_ns = 0

    def close_idle(self, idle_since_ns: int) -> None:
        self.closed_ns = idle_since_ns

    def count_awaiting(self) -> int:
        return self.awaiting

    async def probe(self) -> None:
        self.probes += 1
        await self.may_end.wait()
        if self.error is not None:
            raise self.error

    async def ask(self, question: bytes, limit_s: float) -> int:
        assert limit_s
        self.asked.append(question)
        await self.probe()
        if not self.status:
            text = "no answer to a check within 3 s"
            raise NoAnswerError(UpstreamFailure.ANSWER_TIMEOUT, text)
        return self.status

    def serve(self, answers: int = 0, failures: int = 0, status: int = 200) -> None:
        for _ in range(answers):
            self.answered(status, 1000)
        for _ in range(failures):
            self.fail(UpstreamFailure.ANSWER_TIMEOUT, "no answer within 60 s")


class Servers:
    """The pool."""

    def __init__(self, names: str, status: int) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.on_endpoint_failing: Callable[[Endpoint], None] = lambda _endpoint: None
        self.endpoints = tuple(Server(name, self, status) for name in names)
        self.weighed = self.tried_again = 0

    def weigh(self) -> None:
        self.weighed += 1

    def try_again(self) -> None:
        self.tried_again += 1

    @property
    def healthy_count(self) -> int:
        return sum(each.is_well for each in self.endpoints)

    def change(self, *endpoints: Server) -> None:
        before, self.endpoints = self.endpoints, endpoints
        for each in before:
            if each not in endpoints:
                each.state = DRAIN[each.state]
        self.on_change()


class Several:
    """Some servers that respond with 200 to checks, and the watch of them."""

    def __init__(
        self,
        upstream: UpstreamSettings = SEVERAL,
        names: str = "abc",
        cluster: str = "",
        status: int = 200,
    ) -> None:
        self.now_ns = 100 * S
        self.pool = Servers(names, status)
        self.a = self.servers[0]
        self.faults = Faults()
        loop = asyncio.get_running_loop()
        self.faults.watch(loop)
        self.changes = 0
        self.settings = Settings(upstream=upstream)
        counters = PoolCounters()
        counters.endpoints.update({server: server.counters for server in self.servers})
        self.watch = UpstreamHealth(
            self.settings,
            cast("Pool", self.pool),
            counters,
            loop,
            lambda: self.now_ns,
            cluster=cluster,
            own_lines=lambda: b"Authorization: Bearer own\r\n",
            on_change=self._note_change,
            unix_s=lambda: 1000.0 + self.now_ns / S,
        )
        self.watch.draw = lambda: 0.5

    def _note_change(self) -> None:
        self.changes += 1

    @property
    def servers(self) -> tuple[Server, ...]:
        return self.pool.endpoints

    @property
    def states(self) -> list[str]:
        return [self.of(each).state for each in self.servers]

    @property
    def first(self) -> tuple[str, str | None]:
        """The state of the first one, and what is wrong with it."""
        return self.of(self.a).state, self.of(self.a).problem

    def of(self, server: Server) -> EndpointHealth:
        return self.watch.watches[cast("Endpoint", server)]

    def configure(self, upstream: UpstreamSettings) -> None:
        self.settings = replace(self.settings, upstream=upstream)
        self.watch.configure(self.settings)

    async def look(self, after_s: float = 1.0) -> None:
        self.now_ns += round(after_s * S)
        self.watch.look()
        await settle()

    async def looks(self, *pauses_s: float) -> list[str]:
        for pause_s in pauses_s:
            await self.look(pause_s)
        return self.states

    def join(self, name: str = "d", status: int = 200) -> Server:
        new = Server(name, self.pool, status)
        self.pool.change(*self.servers, new)
        return new


class Alone(Several):
    """The only server, which responds to no check."""

    def __init__(self, upstream: UpstreamSettings = NEVER, cluster: str = "") -> None:
        super().__init__(upstream, "h", cluster, status=0)
        self.server = self.a

    async def see(self, responses: int = 0, failures: int = 0, *, after_s: float = 1.0) -> str:
        """Let time pass, in which there are so many responses and failures, then look."""
        self.server.serve(responses, failures)
        await self.look(after_s)
        return self.of(self.server).state


async def settle() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage().replace("the server behind, ", "") for each in caplog.records]


# One server, of which requests tell.


async def test_more_failures_than_responses_make_the_only_server_failing() -> None:
    scene = Alone()
    assert UNKNOWN == await scene.see()
    assert (None, None) == (scene.watch.since_unix_s, scene.watch.health())
    assert (UP, 1102.0) == (await scene.see(5, 5), scene.watch.since_unix_s)
    assert UP == await scene.see()
    assert (FAILING, "no answer within 60 s") == (await scene.see(1, 2), scene.watch.problem)
    assert (FAILING, 1104.0) == (await scene.see(), scene.watch.since_unix_s)
    scene.now_ns += 12 * S
    assert "http://h:1: no answer within 60 s (for 13 s)" == scene.watch.health()
    assert (UP, None) == (await scene.see(1), scene.watch.problem)
    scene.server.fail(UpstreamFailure.ANSWER_TIMEOUT, "an impatient client", is_telling=False)

    assert UP == await scene.see()


async def test_silence_lasts_while_requests_wait_and_none_has_a_response() -> None:
    scene = Several(NEVER, "ab")
    (a, b), watch = scene.servers, scene.watch
    a.awaiting, b.awaiting = 3, 4
    b.serve(1)
    await scene.look()
    assert (0, 0.0, 3) == (watch.awaiting, watch.silent_s, scene.of(a).awaiting)
    await scene.look(2)
    assert (7, 2.0) == (watch.awaiting, watch.silent_s)
    a.serve(1)
    await scene.look()
    assert (0, 0.0, 0) == (watch.awaiting, watch.silent_s, scene.of(a).awaiting)
    a.awaiting = b.awaiting = 0
    await scene.look(60)

    assert (0, 0.0) == (watch.awaiting, watch.silent_s)


async def test_probes_while_requests_tell_nothing() -> None:
    """There is one at the start, then one each interval after the last response or probe."""
    scene = Alone(OFTEN)
    scene.watch.start()
    await settle()
    assert (1, UP) == (scene.server.probes, scene.watch.state)
    scene.watch.stop()
    scene.watch.stop()
    for _ in range(7):
        await scene.see(1)
    for expected in (1, 1, 1, 1, 2, 2, 2, 2, 2, 3):
        await scene.see()
        assert expected == scene.server.probes
    scene.server.error = REFUSED
    await scene.see(after_s=5)
    assert (4, FAILING) == (scene.server.probes, scene.watch.state)
    assert "connection refused" == scene.watch.problem
    scene.server.error = None

    assert UP == await scene.see(after_s=5)


async def test_one_probe_at_a_time() -> None:
    scene = Alone(OFTEN)
    scene.server.may_end.clear()
    await scene.see()
    assert (UNKNOWN, 1) == (await scene.see(after_s=60), scene.server.probes)
    scene.watch.stop()
    await settle()
    scene.server.may_end.set()

    assert (UP, 2) == (await scene.see(after_s=60), scene.server.probes)


async def test_server_that_hangs_is_up_by_a_response_alone() -> None:
    """A probe's does not outweigh a request that failed since the probe before."""
    scene = Alone(OFTEN)
    await scene.see(0, 1)
    for _ in range(60):
        assert FAILING == await scene.see()
    assert scene.server.probes == len(scene.server.asked) > 1
    scene.server.status = 403
    for _ in range(5):
        assert FAILING == await scene.see(0, 1, after_s=5)

    assert UP == await scene.see(after_s=5)


async def test_probe_that_was_under_way_when_requests_began_to_fail_tells_nothing() -> None:
    scene = Alone(OFTEN)
    scene.server.may_end.clear()
    await scene.see()
    await scene.see(0, 1)
    scene.server.may_end.set()
    await settle()

    assert (FAILING, 1, []) == (scene.watch.state, scene.server.probes, scene.server.asked)


async def test_failures_before_another_way_to_the_server_tell_nothing() -> None:
    scene = Alone()
    await scene.see(1)
    scene.server.serve(0, 1)
    scene.configure(replace(NEVER, host_header="other"))

    assert UNKNOWN == await scene.see()


async def test_log_has_a_line_when_the_state_changes(caplog: pytest.LogCaptureFixture) -> None:
    """Lines of failures do not come too soon after each other."""
    caplog.set_level(logging.INFO, health.__name__)
    scene = Alone(cluster="blue")
    for responses in (1, 0, 1, 0):
        await scene.see(responses, 1 - responses)
    assert 3 == len(caplog.records)
    await scene.see(after_s=LINE_S)
    scene.server.fail(UpstreamFailure.CONNECT, "connection refused")
    await scene.see(after_s=LINE_S)
    await scene.see(1, after_s=LINE_S)

    assert [
        "blue: http://h:1, can be reached",
        "blue: http://h:1, fails: no answer within 60 s",
        "blue: http://h:1, is up again after 1 s",
        "blue: http://h:1, fails: no answer within 60 s",
        "blue: http://h:1, still fails: connection refused",
        "blue: http://h:1, is up again after 30 s",
    ] == lines(caplog)
    levels = [each.levelname for each in caplog.records]
    assert ["INFO", "WARNING", "INFO", "WARNING", "WARNING", "INFO"] == levels


async def test_path_that_settings_name_tells_of_the_only_server() -> None:
    scene = Alone(replace(OFTEN, health_check=replace(OFTEN.health_check, path="/healthz")))
    scene.server.status = 200
    assert UP == await scene.see()
    assert UP == await scene.see(0, 100)
    scene.server.status = 500
    await scene.see(after_s=5)

    assert FAILING == await scene.see(100, after_s=5)
    assert scene.server.asked[0].startswith(b"GET /healthz HTTP/1.1\r\n")


# Several, of which checks tell.


async def test_several_are_asked_each_interval_whether_they_have_requests_or_not() -> None:
    """Intervals differ by a tenth at most."""
    scene = Several()
    scene.watch.start()
    await settle()
    assert [UP] * 3 == scene.states
    for _ in range(20):
        scene.a.serve(9)
        await scene.look()
    scene.watch.stop()

    assert 20 <= scene.pool.tried_again
    assert [5] * 3 == [each.probes for each in scene.servers]
    [asked] = {question for each in scene.servers for question in each.asked}
    assert (
        b"GET /readyz HTTP/1.1\r\nHost: h:1\r\nUser-Agent: apfproxy\r\n"
        b"Authorization: Bearer own\r\nConnection: close\r\n\r\n"
    ) == asked
    scene.watch.draw = lambda: 0.0
    await scene.looks(5, 1, 1, 1)
    assert 6 == scene.a.probes
    await scene.look()
    assert 7 == scene.a.probes


@pytest.mark.parametrize(
    ("error", "status", "problem"),
    [
        (None, 400, "/readyz is answered by 400 Bad Request"),
        (None, 0, "no answer to a check within 3 s"),
        (REFUSED, 200, "connection refused"),
    ],
    ids=["error", "hangs", "refused"],
)
async def test_as_many_checks_in_a_row_have_to_agree_as_the_thresholds_say(
    error: Exception | None, status: int, problem: str
) -> None:
    """The first one decides alone."""
    scene = Several()
    a, weighed = scene.a, 0
    await scene.look()
    for is_bad, expected in [
        *((True, UP), (True, UP), (False, UP), (True, UP), (True, UP), (True, FAILING)),
        *((False, FAILING), (True, FAILING), (False, FAILING), (False, UP)),
    ]:
        a.error, a.status = (error, status) if is_bad else (None, 200)
        weighed = scene.pool.weighed
        await scene.look(5)
        assert (expected, problem if expected == FAILING else None) == scene.first
        assert [UP, UP] == scene.states[1:]
    assert scene.pool.weighed > weighed
    other = Several()
    other.a.error, other.a.status = error, status

    assert [FAILING, UP, UP] == await other.looks(1)


async def test_responses_do_not_outweigh_checks() -> None:
    scene = Several()
    scene.a.status = 503
    await scene.look()
    scene.a.serve(100)
    await scene.look()
    assert FAILING == scene.first[0]
    scene.a.status = 200
    await scene.looks(5, 5)
    scene.a.serve(0, 4)

    assert [UP] * 3 == await scene.looks(1)


async def test_server_that_refuses_checks_is_well(caplog: pytest.LogCaptureFixture) -> None:
    """The log says so, rarely, and not while another one may let the proxy ask."""
    scene = Several()
    for server, status in zip(scene.servers, (401, 302, 302), strict=True):
        server.status = status
    await scene.look()
    assert [] == caplog.records
    await scene.looks(*[5] * 10)

    assert UP == scene.first[0]
    text = (
        "http://a:1 answers 401 Unauthorized to /readyz, which tells nothing of its"
        " health: set upstream.healthCheck.path to what the proxy may ask for"
    )
    assert [text] == lines(caplog)


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_refusal_is_a_failed_check_once_any_server_has_responded_well(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Several()
    await scene.look()
    scene.a.status = status
    await scene.looks(5, 5)
    assert UP == scene.first[0]
    await scene.look(5)
    assert FAILING == scene.first[0]
    assert f"/readyz is answered by {status} " in (scene.first[1] or "")
    assert not any("set upstream.healthCheck.path" in line for line in lines(caplog))
    scene.a.status = 200

    assert [UP] * 3 == await scene.looks(5, 5)


async def test_refusal_fails_as_soon_as_another_server_responds_well() -> None:
    scene = Several()
    a, b, c = scene.servers
    a.status = 403
    b.may_end.clear()
    c.may_end.clear()
    assert [UP, UNKNOWN, UNKNOWN] == await scene.looks(1)
    b.may_end.set()
    await settle()
    assert [FAILING, UP, UNKNOWN] == scene.states
    why = "/readyz is answered by 403 Forbidden, though the proxy may ask for it"
    assert why == scene.first[1]
    scene.watch.stop()


@pytest.mark.parametrize(
    "changed",
    [
        replace(SEVERAL, token_file="token"),  # noqa: S106  a path
        replace(SEVERAL, health_check=replace(SEVERAL.health_check, path="/livez")),
    ],
    ids=["credentials", "path"],
)
async def test_refusals_everywhere_after_a_change_tell_nothing(changed: UpstreamSettings) -> None:
    scene = Several()
    await scene.look()
    for server in scene.servers:
        server.status = 403
    scene.configure(changed)

    assert [UP] * 3 == await scene.looks(5, 5, 5, 5)


async def test_server_that_may_be_gone_is_checked_at_once_and_one_failed_check_is_enough() -> None:
    scene = Several()
    a = scene.a
    a.is_one_of_several = True
    await scene.look()
    scene.now_ns += S
    a.fail(UpstreamFailure.CONNECT, "it is gone")
    await settle()
    assert (2, UP) == (a.probes, scene.first[0])
    a.error = REFUSED
    a.fail(UpstreamFailure.CONNECT, "it is gone")
    await settle()
    assert (2, UP) == (a.probes, scene.first[0])  # it was asked just now
    await scene.look()

    assert (3, FAILING) == (a.probes, scene.first[0])


async def test_slow_check_is_given_up() -> None:
    scene = Several(replace(SEVERAL, health_check=replace(SEVERAL.health_check, timeout_s=0.001)))
    scene.a.may_end.clear()
    await scene.look()
    while scene.first[0] == UNKNOWN:
        await settle()
    scene.watch.stop()

    assert (FAILING, "no answer to a check within 0.001 s") == scene.first


@pytest.mark.parametrize(("count", "status"), [(1, 404), (3, 200)])
async def test_servers_of_models_are_asked_for_their_health(count: int, status: int) -> None:
    """One that loads its model refuses; a server without such a page is well."""
    scene = Several(SEVERAL, "abc"[:count])
    scene.settings = replace(scene.settings, preset="llm")
    scene.configure(SEVERAL)
    scene.a.status = 503
    assert FAILING == (await scene.looks(*[5] * 5))[0]
    scene.a.status = status

    assert UP == (await scene.looks(*[5] * 5))[0]
    assert {b"GET /health HTTP/1.1"} == {each.partition(b"\r\n")[0] for each in scene.a.asked}


@pytest.mark.parametrize("count", [1, 3])
async def test_error_of_the_program_in_a_check_says_nothing_of_the_server(count: int) -> None:
    scene = Several(SEVERAL, "abc"[:count])
    scene.a.error = KeyError("a bug")
    assert [UNKNOWN, UP, UP][:count] == await scene.looks(1)
    assert 1 == scene.faults.totals[Part.UPSTREAM]
    scene.a.error = None

    assert [UP] * count == await scene.looks(5)


async def test_connection_tells_where_there_is_no_path_and_responses_do_not() -> None:
    scene = Several()
    scene.settings = replace(scene.settings, preset="http")
    scene.configure(SEVERAL)
    a, b, c = scene.servers
    await scene.look()
    for _ in range(30):
        a.serve(1)
        await scene.look()
    assert (1, 7, 7) == (a.probes, b.probes, c.probes)
    assert [] == a.asked + b.asked
    a.serve(0, 5)
    assert EJECTED == scene.first[0]
    a.status = 0
    await scene.look()
    assert [b"HEAD / HTTP/1.1"] == [each.partition(b"\r\n")[0] for each in a.asked]
    await scene.looks(*[1] * 10)
    assert FAILING == scene.first[0]
    a.status = 403

    assert [UP] * 3 == await scene.looks(5, 5)


async def test_server_that_failed_when_checks_are_turned_off_is_tried_again() -> None:
    scene = Several()
    scene.a.error = REFUSED
    assert [FAILING, UP, UP] == await scene.looks(1)
    scene.configure(replace(SEVERAL, health_check=NEVER.health_check))
    assert [UP] * 3 == await scene.looks(1)
    scene.a.serve(0, 5)
    await scene.look(5)

    assert (UP, 1) == (scene.first[0], scene.a.probes)


# Ejection.


async def test_failures_in_a_row_eject_for_longer_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, health.__name__)
    scene = Several()
    await scene.look()
    caplog.clear()
    for pause_s, failures in ((5, 5), (10, 1), (12, 1)):
        scene.a.serve(0, failures - 1)
        assert UP == scene.first[0]
        scene.a.serve(0, 1)
        assert EJECTED == scene.first[0]
        await scene.look(pause_s - 1)
        assert EJECTED == scene.first[0]
        await scene.look()
        assert UP == scene.first[0]
    assert (3, 3) == (scene.of(scene.a).ejections, scene.of(scene.a).ejections_total)
    assert [
        "http://a:1, gets no requests (for 5 s): 5 failures in a row: no answer within 60 s",
        "http://a:1, is up again after 5 s",
    ] == lines(caplog)[:2]


async def test_ejection_is_forgotten_after_as_long_a_time_as_its_pause() -> None:
    scene = Several()
    for _ in range(2):
        scene.a.serve(5, status=503)
        assert "in a row: answers 502, 503 or 504" in (scene.first[1] or "")
        await scene.look(10)
    left = [scene.of(scene.a).ejections]
    for pause_s in (9, 1, 4, 1):
        await scene.look(pause_s)
        left.append(scene.of(scene.a).ejections)

    assert [2, 2, 1, 1, 0] == left


async def test_ejected_server_that_fails_a_check_comes_back_by_good_checks() -> None:
    """It is not taken out a second time."""
    scene = Several()
    await scene.look()
    scene.a.error = REFUSED
    scene.a.serve(0, 5)
    await scene.look()
    assert (2, FAILING, "connection refused") == (scene.a.probes, *scene.first)  # at once
    await scene.look(60)
    scene.a.serve(0, 50)
    assert (FAILING, 1) == (scene.first[0], scene.of(scene.a).ejections)
    scene.a.error = None

    assert [UP] * 3 == await scene.looks(5, 5)


async def test_ejection_lasts_until_a_good_check_after_the_pause() -> None:
    scene = Several()
    await scene.look()
    scene.a.serve(0, 5)
    await scene.look()
    assert (2, EJECTED) == (scene.a.probes, scene.first[0])
    scene.a.may_end.clear()
    await scene.looks(4, 4)
    assert (3, EJECTED) == (scene.a.probes, scene.first[0])
    scene.a.may_end.set()
    await settle()

    assert UP == scene.first[0]


@pytest.mark.parametrize(("count", "expected"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2)])
async def test_at_most_half_are_ejected(count: int, expected: int) -> None:
    scene = Several(NEVER, "abcde"[:count])
    for server in scene.servers:
        server.serve(0, 50)
    await settle()

    assert expected == scene.states.count(EJECTED)
    assert expected == sum(scene.of(each).ejections for each in scene.servers)


async def test_those_that_are_spared_the_pause_are_checked_at_the_next_look() -> None:
    scene = Several(OFTEN)
    assert [UP] * 3 == await scene.looks(1)
    for server in scene.servers:
        server.error = REFUSED
        server.serve(0, 50)
    assert [EJECTED, UP, UP] == scene.states
    assert [FAILING] * 3 == await scene.looks(1)
    scene.servers[1].error = None
    await scene.looks(5, 5)
    scene.servers[1].serve(0, 50)

    assert [FAILING, UP, FAILING] == scene.states  # half are out already


async def test_ejection_off() -> None:
    scene = Several(replace(NEVER, ejection=EjectionSettings(failures=0)))
    scene.a.serve(0, 50)
    assert scene.a.is_well
    scene.configure(NEVER)
    scene.a.serve(0, 1)

    assert EJECTED == str(scene.a.state)


# Endpoints that join, return and leave.


@pytest.mark.parametrize("status", [200, 403])
async def test_server_that_joins_gets_a_part_of_requests_from_a_good_check_on(status: int) -> None:
    scene = Several()
    await scene.look()
    scene.watch.start()
    new = scene.join(status=status)
    assert ("joining", "not checked yet") == (str(new.state), scene.of(new).problem)
    assert UNKNOWN == scene.of(new).state
    await settle()
    if status == 403:
        assert FAILING == scene.of(new).state
        new.status = 200
        await scene.looks(5, 5)
    scene.watch.stop()

    assert (UP, 0.1) == (scene.of(new).state, new.ramp)


async def test_part_of_one_that_returns_grows_with_the_time() -> None:
    scene = Several()
    await scene.look()
    assert 1.0 == scene.a.ramp
    scene.a.serve(0, 5)
    weighed = 0
    for pause_s, ramp in ((5, 0.1), (2, 0.2), (3, 0.5), (5, 1.0)):
        weighed = scene.pool.weighed
        await scene.look(pause_s)
        assert (UP, ramp) == (scene.first[0], scene.a.ramp)
        assert (ramp < 1) is scene.of(scene.a).is_starting
        assert weighed < scene.pool.weighed
    weighed = scene.pool.weighed
    await scene.look()

    assert weighed == scene.pool.weighed


async def test_endpoints_that_join_and_leave() -> None:
    """They start slowly, unless there were none before; those that leave are looked at no more."""
    scene = Several(OFTEN, "a")
    a = scene.a
    scene.watch.start()
    await settle()
    b, c = scene.join("b"), Server("c", scene.pool)
    c.status = 200
    await settle()
    assert ([UP, UP], [1.0, 0.1]) == (scene.states, [a.ramp, b.ramp])
    assert (5, 5) == (a.max_failures_in_row, b.max_failures_in_row)
    assert not scene.watch.is_steady
    await scene.looks(*[1] * 10)
    assert (1.0, True) == (b.ramp, scene.watch.is_steady)
    scene.pool.change(b)
    assert (DRAINING, 0) == (a.state, b.max_failures_in_row)
    a.serve(0, 50)
    assert DRAINING is a.state
    scene.pool.change(c)
    await settle()
    scene.watch.stop()

    assert (1.0, [UP]) == (c.ramp, scene.states)


async def test_one_that_joins_the_only_one_is_judged_by_what_that_one_responds_too() -> None:
    scene = Several(OFTEN, "a")
    scene.watch.start()
    await settle()
    scene.a.serve(1)
    await scene.look()
    scene.join("b", 403)
    await settle()
    scene.watch.stop()

    assert [UP, FAILING] == scene.states


async def test_slow_start_off() -> None:
    """One under way ends."""
    at_once = replace(NEVER, slow_start_s=0.0)
    scene = Several(at_once, "a")
    assert 1.0 == scene.join("b").ramp
    scene.configure(NEVER)
    c = scene.join("c")
    assert 0.1 == c.ramp
    scene.configure(at_once)
    await scene.look()

    assert 1.0 == c.ramp


async def test_check_of_one_that_leaves_ends_with_it() -> None:
    scene = Several(OFTEN, "ab")
    a, b = scene.servers
    a.may_end.clear()
    a.status = b.status = 500
    scene.watch.start()
    await settle()
    scene.pool.change(b)
    a.may_end.set()
    await settle()
    scene.watch.stop()

    assert (DRAINING, 1) == (a.state, a.probes)


# All together.


async def test_whole_is_up_while_any_endpoint_is() -> None:
    scene = Several(OFTEN, "ab")
    a, b = scene.servers
    watch = scene.watch
    assert (UNKNOWN, None, None) == (watch.state, watch.since_unix_s, watch.problem)
    a.error = REFUSED
    await scene.look()
    assert ([FAILING, UP], UP, 1101.0) == (scene.states, watch.state, watch.since_unix_s)
    out = "1 of 2 is out: http://a:1: connection refused"
    assert (None, out) == (watch.health(), watch.out())
    b.status = 500
    await scene.looks(5, 5)
    problem = (
        "all 2 fail: http://a:1: connection refused;"
        " http://b:1: /readyz is answered by 500 Internal Server Error"
    )
    assert (FAILING, 1111.0, problem) == (watch.state, watch.since_unix_s, watch.problem)
    scene.now_ns += 3 * S
    assert f"{problem} (for 3 s)" == watch.health()
    b.status = 200
    await scene.look(5)

    assert (UP, None) == (watch.state, watch.problem)


async def test_text_names_some_that_fail_and_counts_the_others() -> None:
    scene = Several(OFTEN, "abcdef")
    for server in scene.servers[1:]:
        server.error = REFUSED
    await scene.look()
    text = scene.watch.out() or ""
    assert text.startswith("5 of 6 are out: http://b:1: connection refused; http://c:1")
    assert text.endswith("; and 2 more")
    alone = Alone(OFTEN)
    alone.server.error = REFUSED
    await alone.look()

    assert (None, "connection refused") == (alone.watch.out(), alone.watch.problem)


async def test_without_an_endpoint_it_fails_once_the_start_is_through() -> None:
    scene = Several(OFTEN, "a")
    scene.pool.change()
    assert UNKNOWN == scene.watch.state
    scene.watch.start()
    scene.watch.look()
    assert (FAILING, "no address of a server is known") == (scene.watch.state, scene.watch.problem)
    server = scene.join()
    await settle()
    scene.watch.stop()

    assert (UP, 1.0) == (scene.watch.state, server.ramp)


async def test_servers_are_looked_at_as_often_as_they_are_checked() -> None:
    scene = Several(replace(OFTEN, health_check=replace(OFTEN.health_check, interval_s=0.2)), "ab")
    a, b = scene.servers
    assert 0.2 == scene.watch.rules.look_s
    for _ in range(10):
        a.serve(1)
        b.serve(2)
        await scene.look(0.2)

    assert 10 == a.probes


async def test_error_in_a_look_leaves_the_others() -> None:
    scene = Several(OFTEN, "ab")
    scene.a.counters.answers[200] = cast("int", "a bug")

    assert [UNKNOWN, UP] == await scene.looks(1)
    assert 1 == scene.faults.totals[Part.UPSTREAM]


async def test_idle_connections_of_one_that_fails_are_closed_unless_it_is_the_only_one() -> None:
    scene, alone = Several(OFTEN, "ab"), Alone(OFTEN)
    a, b = scene.servers
    a.error = alone.server.error = REFUSED
    await scene.look()
    b.serve(0, 50)
    await alone.look()

    assert (scene.now_ns, 0) == (a.closed_ns, b.closed_ns)
    assert (FAILING, 0) == (alone.watch.state, alone.server.closed_ns)


async def test_changes_of_one_event_are_told_once_and_soon() -> None:
    scene = Several(NEVER, "abcde")
    await settle()
    before = scene.changes
    for server in scene.servers[:2]:
        server.serve(0, 5)
    assert before == scene.changes
    await settle()

    assert before + 1 == scene.changes


async def test_same_way_to_the_servers_leaves_their_states() -> None:
    scene = Several(OFTEN, "ab")
    scene.a.status = 500
    await scene.look()
    scene.configure(replace(OFTEN, slow_start_s=3.0))
    assert [FAILING, UP] == scene.states
    scene.configure(replace(OFTEN, host_header="other.example"))
    assert [UNKNOWN, UNKNOWN] == scene.states

    assert [FAILING, UP] == await scene.looks(1)
    assert b"\r\nHost: other.example\r\n" in scene.a.asked[-1]
