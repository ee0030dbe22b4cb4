"""How one server behind is, by its requests and by checks."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from apfproxy.base.faults import Part
from apfproxy.settings import EjectionSettings, HealthCheckSettings
from apfproxy.upstream import health
from apfproxy.upstream.counters import UpstreamFailure
from apfproxy.upstream.health import LINE_S
from tests.proxy import watched
from tests.proxy.watched import NEVER, OFTEN, REFUSED, S, settle

if TYPE_CHECKING:
    from apfproxy.settings import UpstreamSettings
    from apfproxy.upstream.health import EndpointHealth

UNKNOWN, UP, FAILING, EJECTED = "unknown", "up", "failing", "ejected"


class Scene(watched.Scene):
    """The only server, and the watch of it."""

    def __init__(self, upstream: UpstreamSettings = NEVER, cluster: str = "") -> None:
        super().__init__(upstream, cluster=cluster)
        [self.server] = self.servers

    @property
    def one(self) -> EndpointHealth:
        """Of the server."""
        return self.of(self.server)

    async def see(
        self, answers: int = 0, failures: int = 0, *, after_s: float = 1.0, is_telling: bool = True
    ) -> str:
        """Let time pass, in which there are so many answers and failures, then look."""
        self.server.serve(answers)
        for _ in range(failures):
            self.server.fail(
                UpstreamFailure.ANSWER_TIMEOUT, "no answer within 60 s", is_telling=is_telling
            )
        await self.look(after_s)
        return self.one.state


async def test_answers_and_failures() -> None:
    """Which of them are more decides; without any the state stays."""
    scene = Scene()
    assert (UNKNOWN, None) == (await scene.see(), scene.watch.since_unix_s)
    assert UP == await scene.see(5, 5)
    assert 1102.0 == scene.watch.since_unix_s
    assert UP == await scene.see()
    assert (FAILING, "no answer within 60 s") == (await scene.see(1, 2), scene.watch.problem)
    assert FAILING == await scene.see()
    assert 1104.0 == scene.watch.since_unix_s
    assert (UP, None) == (await scene.see(1), scene.watch.problem)
    assert "<EndpointHealth http://h:1: up>" == repr(scene.one)


async def test_impatient_clients() -> None:
    """Failures that a client has brought about do not tell of the server."""
    scene = Scene()
    assert UP == await scene.see(1)
    assert UP == await scene.see(0, 50, is_telling=False)


async def test_silence() -> None:
    """It lasts while requests wait and nobody has an answer; the state says nothing of it."""
    scene = Scene()
    watch = scene.one
    await scene.see(1)
    scene.server.awaiting = 7
    assert (UP, 1.0, 7) == (await scene.see(), watch.silent_s, watch.awaiting)
    assert (UP, 12.0, 7) == (await scene.see(after_s=11), watch.silent_s, watch.awaiting)
    assert (UP, 0.0, 0) == (await scene.see(1), watch.silent_s, watch.awaiting)
    scene.server.awaiting = 0
    await scene.see(after_s=60)

    assert (0.0, 0) == (watch.silent_s, watch.awaiting)


async def test_recent_answers() -> None:
    """Each look is a sample of the rates."""
    scene = Scene()
    await scene.see(30)

    assert 30.0 == scene.watch.recent.answers_per_s["2xx"]


async def test_health() -> None:
    """It says what is wrong, where, and for how long."""
    scene = Scene()
    assert scene.watch.health() is None
    await scene.see(0, 1)
    scene.now_ns += 12 * S

    assert "http://h:1: no answer within 60 s (for 12 s)" == scene.watch.health()


async def test_health_of_the_look() -> None:
    """It says, too, that nobody looks: then what it knows is old."""
    scene = Scene()
    scene.watch.start()
    assert scene.watch.health() is None
    scene.watch.stop()
    scene.watch.stop()
    assert 0 == scene.server.probes


async def test_probe_at_the_start() -> None:
    """Before any request it is known whether the server can be reached."""
    scene = Scene(OFTEN)
    scene.watch.start()
    await settle()

    assert (1, UP) == (scene.server.probes, scene.watch.state)
    scene.watch.stop()


async def test_probes_while_requests_tell_nothing() -> None:
    """One each interval after the last answer or probe; none while there are answers."""
    scene = Scene(OFTEN)
    for _ in range(7):
        await scene.see(1)
    assert 0 == scene.server.probes
    for _ in range(4):
        await scene.see()
    assert 0 == scene.server.probes
    await scene.see()
    assert 1 == scene.server.probes
    for _ in range(5):
        await scene.see()
    assert (2, UP) == (scene.server.probes, scene.watch.state)
    scene.server.error = REFUSED
    await scene.see(after_s=5)
    assert (3, FAILING) == (scene.server.probes, scene.watch.state)
    assert "connection refused" == scene.watch.problem
    scene.server.error = None
    await scene.see(after_s=5)

    assert UP == scene.watch.state


async def test_one_probe_at_a_time() -> None:
    """One that takes long has no other beside it, and ends with the watch."""
    scene = Scene(OFTEN)
    scene.server.may_end.clear()
    await scene.see()
    await scene.see(after_s=60)
    assert (1, UNKNOWN) == (scene.server.probes, scene.watch.state)
    scene.watch.stop()
    await settle()
    scene.server.may_end.set()
    await scene.see(after_s=60)

    assert (2, UP) == (scene.server.probes, scene.watch.state)


async def test_connections_without_answers() -> None:
    """A server that hangs accepts connections: only an answer tells otherwise, be it a probe's."""
    scene = Scene(OFTEN)
    await scene.see(0, 1)
    for _ in range(60):
        assert FAILING == await scene.see()
    assert scene.server.probes == len(scene.server.asked) > 1
    scene.server.status = 403
    await scene.see(after_s=5)

    assert UP == scene.watch.state


async def test_answer_beside_failures() -> None:
    """A probe that is answered does not outweigh a request that failed since the one before."""
    scene = Scene(OFTEN)
    scene.server.status = 403
    for _ in range(5):
        assert FAILING == await scene.see(0, 1, after_s=5)
    await scene.see(after_s=5)

    assert UP == scene.watch.state


async def test_probe_that_did_not_ask() -> None:
    """One that was under way when requests began to fail tells nothing."""
    scene = Scene(OFTEN)
    scene.server.may_end.clear()
    await scene.see()
    await scene.see(0, 1)
    scene.server.may_end.set()
    await settle()

    assert (FAILING, 1, []) == (scene.watch.state, scene.server.probes, scene.server.asked)


async def test_other_interval() -> None:
    """It counts from the next look on."""
    scene = Scene()
    await scene.see(after_s=60)
    assert 0 == scene.server.probes
    scene.configure(OFTEN)
    await scene.see()

    assert 1 == scene.server.probes


async def test_another_way() -> None:
    """What was done on the one before says nothing of the server."""
    scene = Scene()
    await scene.see(1)
    scene.server.fail(UpstreamFailure.ANSWER_TIMEOUT, "of the one before", is_telling=True)
    scene.configure(replace(NEVER, host_header="other"))
    await scene.see()

    assert UNKNOWN == scene.watch.state


async def test_error_of_the_program() -> None:
    """It is reported, says nothing of the server, and another probe follows."""
    scene = Scene(OFTEN)
    scene.server.error = KeyError("a bug")
    await scene.see()
    assert (UNKNOWN, 1) == (scene.watch.state, scene.faults.totals[Part.UPSTREAM])
    scene.server.error = None
    await scene.see(after_s=5)

    assert UP == scene.watch.state


async def test_log(caplog: pytest.LogCaptureFixture) -> None:
    """A line when the state changes; those of failures not too soon after each other."""
    caplog.set_level(logging.INFO, health.__name__)
    scene = Scene()
    await scene.see(1)
    await scene.see(0, 1)
    await scene.see(1)
    await scene.see(0, 1)
    assert 3 == len(caplog.records)
    await scene.see(after_s=LINE_S)
    scene.server.fail(UpstreamFailure.CONNECT, "connection refused")
    await scene.see(after_s=LINE_S)
    await scene.see(1, after_s=LINE_S)

    assert [
        (logging.INFO, "the server behind, http://h:1, can be reached"),
        (logging.WARNING, "the server behind, http://h:1, fails: no answer within 60 s"),
        (logging.INFO, "the server behind, http://h:1, is up again after 1 s"),
        (logging.WARNING, "the server behind, http://h:1, fails: no answer within 60 s"),
        (logging.WARNING, "the server behind, http://h:1, still fails: connection refused"),
        (logging.INFO, "the server behind, http://h:1, is up again after 30 s"),
    ] == [(record.levelno, record.getMessage()) for record in caplog.records]


async def test_log_of_one_of_several_clusters(caplog: pytest.LogCaptureFixture) -> None:
    """Its lines begin with the cluster's name: clusters may have the same server."""
    caplog.set_level(logging.INFO, health.__name__)
    scene = Scene(cluster="blue")
    await scene.see(1)
    await scene.see(0, 1)
    await scene.see(1)

    assert [
        "blue: the server behind, http://h:1, can be reached",
        "blue: the server behind, http://h:1, fails: no answer within 60 s",
        "blue: the server behind, http://h:1, is up again after 1 s",
    ] == [record.getMessage() for record in caplog.records]


async def test_log_of_a_server_that_never_was_up(caplog: pytest.LogCaptureFixture) -> None:
    """It says at the start that the server fails."""
    scene = Scene(OFTEN)
    scene.server.error = REFUSED
    with caplog.at_level(logging.INFO, health.__name__):
        scene.watch.start()
        await settle()
    scene.watch.stop()

    assert ["the server behind, http://h:1, fails: connection refused"] == [
        record.getMessage() for record in caplog.records
    ]


# Several, or a path.

SEVERAL = replace(
    OFTEN,
    health_check=HealthCheckSettings(interval_s=5.0, healthy_threshold=2, unhealthy_threshold=3),
    ejection=EjectionSettings(failures=5, pause_s=5.0, max_pause_s=12.0),
)


def three(upstream: UpstreamSettings = SEVERAL) -> watched.Scene:
    """Three servers that answer 200."""
    scene = watched.Scene(upstream, "a", "b", "c")
    for server in scene.servers:
        server.status = 200
    return scene


async def test_checks_of_several() -> None:
    """Each is asked each interval, whether it has requests or not."""
    scene = three()
    a, b, c = scene.servers
    scene.watch.start()
    await settle()
    assert [UP] * 3 == scene.states
    for _ in range(20):
        a.serve(9)
        await scene.look()
    scene.watch.stop()

    assert [5] * 3 == [a.probes, b.probes, c.probes]
    [asked] = {*a.asked, *b.asked, *c.asked}
    assert (
        b"GET /readyz HTTP/1.1\r\nHost: h:1\r\nUser-Agent: apfproxy\r\n"
        b"Authorization: Bearer own\r\nConnection: close\r\n\r\n"
    ) == asked


async def test_intervals_differ() -> None:
    """By a tenth at most, so that checks spread."""
    scene = three()
    [a, *_] = scene.servers
    scene.watch.draw = lambda: 0.0
    for _ in range(4):
        await scene.look()
    assert 1 == a.probes
    await scene.look()

    assert 2 == a.probes


@pytest.mark.parametrize(
    ("error", "status", "problem"),
    [
        (None, 500, "/readyz is answered by 500 Internal Server Error"),
        (None, 0, "no answer to a check within 3 s"),
        (REFUSED, 200, "connection refused"),
    ],
)
async def test_thresholds(error: Exception | None, status: int, problem: str) -> None:
    """So many checks in a row have to agree."""
    scene = three()
    a, *_ = scene.servers
    await scene.look()
    a.error, a.status = error, status
    await scene.look(5)
    await scene.look(5)
    assert UP == scene.of(a).state
    a.error, a.status = None, 200
    await scene.look(5)
    a.error, a.status = error, status
    await scene.look(5)
    await scene.look(5)
    assert (UP, None) == (scene.of(a).state, scene.of(a).problem)
    weighed = scene.pool.weighed
    await scene.look(5)
    assert ([FAILING, UP, UP], problem) == (scene.states, scene.of(a).problem)
    assert scene.pool.weighed > weighed
    a.error, a.status = None, 200
    await scene.look(5)
    a.error, a.status = error, status
    await scene.look(5)
    a.error, a.status = None, 200
    await scene.look(5)
    assert FAILING == scene.of(a).state
    await scene.look(5)

    assert UP == scene.of(a).state


async def test_first_check() -> None:
    """It decides alone: nothing else is known."""
    scene = three()
    a, *_ = scene.servers
    a.error = REFUSED
    assert [UNKNOWN] * 3 == scene.states
    await scene.look()

    assert [FAILING, UP, UP] == scene.states


async def test_answers_do_not_outweigh_checks() -> None:
    """A server may answer requests and yet say that it is not ready."""
    scene = three()
    a, *_ = scene.servers
    a.status = 503
    await scene.look()
    a.serve(100)
    await scene.look()
    assert FAILING == scene.of(a).state
    a.status = 200
    await scene.look(5)
    await scene.look(5)
    a.serve(0, 4)
    await scene.look()

    assert UP == scene.of(a).state


async def test_refused_checks(caplog: pytest.LogCaptureFixture) -> None:
    """A server that does not let the proxy ask is well; the log says so, rarely."""
    scene = three()
    a, b, c = scene.servers
    a.status, b.status, c.status = 401, 302, 302
    scene.watch.cluster = "blue"
    await scene.look()
    assert [] == caplog.records  # another one may let it ask
    for _ in range(10):
        await scene.look(5)

    assert UP == scene.of(a).state
    [record] = caplog.records
    assert (
        "blue: http://a:1 answers 401 Unauthorized to /readyz, which tells nothing of its"
        " health: set upstream.healthCheck.path to what the proxy may ask for"
    ) == record.getMessage()


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_refusals_of_a_path_that_is_right(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Once any server has answered it well they are failed checks, such as of one that starts."""
    scene = three()
    a, *_ = scene.servers
    await scene.look()
    a.status = status
    for _ in range(2):
        await scene.look(5)
    assert UP == scene.of(a).state
    await scene.look(5)
    assert FAILING == scene.of(a).state
    assert f"/readyz is answered by {status} " in (scene.of(a).problem or "")
    assert not any("set upstream.healthCheck.path" in each.getMessage() for each in caplog.records)
    a.status = 200
    await scene.look(5)
    await scene.look(5)

    assert UP == scene.of(a).state


async def test_refusal_before_others_answer() -> None:
    """Taken for well at first, it is a failed check as soon as another server answers well."""
    scene = three()
    a, b, c = scene.servers
    a.status = 403
    b.may_end.clear()
    c.may_end.clear()
    await scene.look()
    assert [UP, UNKNOWN, UNKNOWN] == scene.states
    b.may_end.set()
    await settle()
    assert [FAILING, UP, UNKNOWN] == scene.states
    assert (
        "/readyz is answered by 403 Forbidden, though the proxy may ask for it"
        == scene.of(a).problem
    )
    scene.watch.stop()


async def test_refusals_everywhere_after_a_change() -> None:
    """With another path, or other credentials, nothing is known of what the proxy may ask for."""
    scene = three()
    await scene.look()
    for server in scene.servers:
        server.status = 403
    for changed in (
        replace(SEVERAL, token_file="token"),  # noqa: S106  a path
        replace(SEVERAL, health_check=replace(SEVERAL.health_check, path="/livez")),
    ):
        scene.configure(changed)
        for _ in range(4):
            await scene.look(5)
        assert [UP] * 3 == scene.states
        for server in scene.servers:
            server.status = 200
        await scene.look(5)
        for server in scene.servers:
            server.status = 403


async def test_server_that_joins() -> None:
    """It gets requests from its first good check on: it may only be starting."""
    scene = three()
    a, b, c = scene.servers
    await scene.look()
    new = watched.Server("d", scene.pool)
    new.status = 403
    new.may_end.clear()
    scene.watch.start()
    scene.pool.change(a, b, c, new)
    assert ("joining", "not checked yet") == (str(new.state), scene.of(new).problem)
    assert UNKNOWN == scene.of(new).state
    new.may_end.set()
    await settle()
    assert FAILING == scene.of(new).state
    new.status = 200
    await scene.look(5)
    await scene.look(5)
    scene.watch.stop()

    assert (UP, 0.1) == (scene.of(new).state, new.ramp)


async def test_good_server_that_joins() -> None:
    """One good check is enough, whatever the threshold."""
    scene = three()
    a, b, c = scene.servers
    await scene.look()
    new = watched.Server("d", scene.pool)
    new.status = 200
    scene.watch.start()
    scene.pool.change(a, b, c, new)
    await settle()
    scene.watch.stop()

    assert (UP, 0.1) == (scene.of(new).state, new.ramp)


@pytest.mark.parametrize(
    "failure", [UpstreamFailure.CONNECT, UpstreamFailure.BROKEN_ANSWER, UpstreamFailure.TLS]
)
async def test_server_that_may_be_gone(failure: UpstreamFailure) -> None:
    """The first request that says so has it checked at once, and one failed check is enough."""
    scene = three()
    a, *_ = scene.servers
    a.is_one_of_several = True
    await scene.look()
    scene.now_ns += S
    a.fail(failure, "it is gone")
    await settle()
    assert (2, UP) == (a.probes, scene.of(a).state)
    a.error = REFUSED
    a.fail(failure, "it is gone")
    await settle()
    assert (2, UP) == (a.probes, scene.of(a).state)  # it was asked just now
    await scene.look()

    assert (3, FAILING) == (a.probes, scene.of(a).state)


async def test_one_check_at_a_time() -> None:
    """One that takes long has no other beside it."""
    patient = replace(SEVERAL.health_check, timeout_s=3600.0)
    scene = three(replace(SEVERAL, health_check=patient))
    a, *_ = scene.servers
    a.may_end.clear()
    await scene.look()
    await scene.look(60)
    assert (1, UNKNOWN) == (a.probes, scene.of(a).state)
    a.may_end.set()
    await settle()

    assert UP == scene.of(a).state


async def test_slow_check() -> None:
    """It is given up after its time."""
    scene = three(replace(SEVERAL, health_check=replace(SEVERAL.health_check, timeout_s=0.001)))
    a, *_ = scene.servers
    a.may_end.clear()
    await scene.look()
    while scene.of(a).state == UNKNOWN:
        await settle()
    scene.watch.stop()

    assert (FAILING, "no answer to a check within 0.001 s") == (
        scene.of(a).state,
        scene.of(a).problem,
    )


async def test_error_in_a_check() -> None:
    """One of the program says nothing of the server; it is reported, and asked again."""
    scene = three()
    a, *_ = scene.servers
    a.error = KeyError("a bug")
    await scene.look()
    assert ([UNKNOWN, UP, UP], 1) == (scene.states, scene.faults.totals[Part.UPSTREAM])
    a.error = None
    await scene.look(5)

    assert [UP] * 3 == scene.states


async def test_connections_only() -> None:
    """Without a path a connection says that an endpoint is well, where its answers do not."""
    scene = three()
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
    assert EJECTED == scene.of(a).state
    a.status = 0
    await scene.look()
    assert [b"HEAD / HTTP/1.1"] == [each.partition(b"\r\n")[0] for each in a.asked]
    for _ in range(10):
        await scene.look()
    assert FAILING == scene.of(a).state
    a.status = 403
    await scene.look(5)
    await scene.look(5)

    assert UP == scene.of(a).state


async def test_path_of_the_only_server() -> None:
    """Where the settings name one, it tells; requests do not."""
    scene = Scene(replace(OFTEN, health_check=replace(OFTEN.health_check, path="/healthz")))
    scene.server.status = 200
    assert UP == await scene.see()
    assert UP == await scene.see(0, 100)
    scene.server.status = 500
    await scene.see(after_s=5)

    assert FAILING == await scene.see(100, after_s=5)
    assert scene.server.asked[0].startswith(b"GET /healthz HTTP/1.1\r\n")


async def test_no_checks() -> None:
    """What fails when checks are turned off is tried again, since nothing else would tell."""
    scene = three()
    a, *_ = scene.servers
    a.error = REFUSED
    await scene.look()
    assert FAILING == scene.of(a).state
    scene.configure(replace(SEVERAL, health_check=NEVER.health_check))
    await scene.look()
    assert UP == scene.of(a).state
    a.serve(0, 5)
    await scene.look(5)

    assert (UP, 1) == (scene.of(a).state, a.probes)


# Ejection.


async def test_ejection(caplog: pytest.LogCaptureFixture) -> None:
    """So many failures in a row take an endpoint out, for longer each time."""
    caplog.set_level(logging.INFO, health.__name__)
    scene = three()
    a, *_ = scene.servers
    await scene.look()
    caplog.clear()
    for pause_s, failures in ((5, 5), (10, 1), (12, 1)):
        a.serve(0, failures - 1)
        assert UP == scene.of(a).state
        a.serve(0, 1)
        assert EJECTED == scene.of(a).state
        await scene.look(pause_s - 1)
        assert EJECTED == scene.of(a).state
        await scene.look()
        assert UP == scene.of(a).state
    assert (3, 3) == (scene.of(a).ejections, scene.of(a).ejections_total)
    assert [
        "http://a:1, gets no requests (for 5 s): 5 failures in a row: no answer within 60 s",
        "http://a:1, is up again after 5 s",
    ] == [record.getMessage().removeprefix("the server behind, ") for record in caplog.records[:2]]


async def test_ejection_is_forgotten() -> None:
    """After as long a time as the pause in which the endpoint was well."""
    scene = three()
    a, *_ = scene.servers
    for _ in range(2):
        a.serve(0, 5)
        await scene.look(10)
    assert 2 == scene.of(a).ejections
    await scene.look(9)
    assert 2 == scene.of(a).ejections
    await scene.look(1)
    assert 1 == scene.of(a).ejections
    await scene.look(5)

    assert 0 == scene.of(a).ejections


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_answers_that_eject(status: int) -> None:
    """So do answers of a server that cannot do its work; another one between them does not."""
    scene = three()
    a, *_ = scene.servers
    a.serve(4, status=status)
    a.serve(1, status=500)
    a.serve(4, status=status)
    assert a.is_well
    a.serve(1, status=status)

    assert "5 failures in a row: answers 502, 503 or 504" == scene.of(a).problem


async def test_ejected_and_failing() -> None:
    """Who fails a check while it is out is failing: good checks let it come back, no pause does."""
    scene = three()
    a, *_ = scene.servers
    await scene.look()
    a.error = REFUSED
    a.serve(0, 5)
    await scene.look()
    assert 2 == a.probes  # at once
    assert (FAILING, "connection refused") == (scene.of(a).state, scene.of(a).problem)
    await scene.look(60)
    assert FAILING == scene.of(a).state
    a.error = None
    await scene.look(5)
    await scene.look(5)

    assert UP == scene.of(a).state


async def test_ejected_until_a_good_check() -> None:
    """The end of the pause is not enough, nor is a good check before."""
    scene = three()
    a, *_ = scene.servers
    await scene.look()
    a.serve(0, 5)
    await scene.look()
    assert (2, EJECTED) == (a.probes, scene.of(a).state)
    a.may_end.clear()
    await scene.look(4)
    await scene.look(4)
    assert (3, EJECTED) == (a.probes, scene.of(a).state)
    a.may_end.set()
    await settle()

    assert UP == scene.of(a).state


async def test_failing_and_ejected() -> None:
    """One that is out is not taken out again."""
    scene = three()
    a, *_ = scene.servers
    a.error = REFUSED
    await scene.look()
    a.serve(0, 50)

    assert (FAILING, 0) == (scene.of(a).state, scene.of(a).ejections)


# Slow start.


async def test_slow_start_of_one_that_returns() -> None:
    """Its part grows with the time."""
    scene = three()
    a, *_ = scene.servers
    await scene.look()
    assert 1.0 == a.ramp
    a.serve(0, 5)
    await scene.look(5)
    assert (UP, 0.1, True) == (scene.of(a).state, a.ramp, scene.of(a).is_starting)
    await scene.look(2)
    assert 0.2 == a.ramp
    await scene.look(3)
    weighed = scene.pool.weighed
    assert 0.5 == a.ramp
    await scene.look(5)
    assert (1.0, False) == (a.ramp, scene.of(a).is_starting)
    assert weighed < scene.pool.weighed
    weighed = scene.pool.weighed
    await scene.look()

    assert weighed == scene.pool.weighed
