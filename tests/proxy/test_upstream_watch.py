"""How the server behind is, by its counters and by probes."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from apfproxy.faults import Faults, Part
from apfproxy.proxy import upstream_watch
from apfproxy.proxy.counters import UpstreamCounters, UpstreamFailure
from apfproxy.proxy.upstream_watch import (
    FAILING,
    LINE_S,
    UNKNOWN,
    UP,
    UpstreamState,
    UpstreamWatch,
)
from apfproxy.settings import Address, HealthCheckSettings, UpstreamSettings

if TYPE_CHECKING:
    import pytest

S = 1_000_000_000
REFUSED = ConnectionRefusedError(111, "Connection refused")
NEVER = UpstreamSettings(
    url=Address(host="h", port=1), health_check=HealthCheckSettings(interval_s=None)
)
OFTEN = UpstreamSettings(
    url=Address(host="h", port=1), health_check=HealthCheckSettings(interval_s=5.0)
)


class Connector:
    """Connects, or fails, as a test says.

    Attributes:
        probes: So far.
        error: What the next probes end in.
        may_end: Lets a probe end.
        answers: Whether the server answers those that ask.
        asked: Of the probes, those that asked.
        awaiting: Requests that wait for an answer.
    """

    def __init__(self) -> None:
        self.probes = 0
        self.error: Exception | None = None
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.awaiting = 0
        self.answers = False
        self.asked = 0

    def count_awaiting(self) -> int:
        """Count them."""
        return self.awaiting

    async def probe(self, *, asks: bool) -> bool:
        """Connect."""
        self.probes += 1
        self.asked += asks
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        return self.answers or not asks


class Scene:
    """A watch at a time that a test moves."""

    def __init__(self, settings: UpstreamSettings = NEVER) -> None:
        self.now_ns = 100 * S
        self.counters = UpstreamCounters()
        self.connector = Connector()
        loop = asyncio.get_running_loop()
        self.faults = Faults()
        self.faults.watch(loop)
        self.watch = UpstreamWatch(
            settings, self.counters, self.connector, loop, lambda: self.now_ns, lambda: self.unix_s
        )

    @property
    def unix_s(self) -> float:
        """The time as people have it."""
        return 1000.0 + self.now_ns / S

    async def look(
        self, answers: int = 0, failures: int = 0, *, after_s: float = 1.0, is_telling: bool = True
    ) -> UpstreamState:
        """Let time pass, in which there are so many answers and failures, then look."""
        self.now_ns += round(after_s * S)
        self.counters.answers[200] = self.counters.answers.get(200, 0) + answers
        for _ in range(failures):
            self.counters.fail(
                UpstreamFailure.ANSWER_TIMEOUT, "no answer within 60 s", is_telling=is_telling
            )
        self.watch.look()
        await self.settle()
        return self.watch.state

    async def settle(self) -> None:
        """Let a probe come to its end."""
        for _ in range(4):
            await asyncio.sleep(0)


async def test_answers_and_failures() -> None:
    """Which of them are more decides; without any the state stays."""
    scene = Scene()
    assert (UNKNOWN, None) == (await scene.look(), scene.watch.since_unix_s)
    assert UP == await scene.look(5, 5)
    assert 1102.0 == scene.watch.since_unix_s
    assert UP == await scene.look()
    assert (FAILING, "no answer within 60 s") == (await scene.look(1, 2), scene.watch.problem)
    assert FAILING == await scene.look()
    assert 1104.0 == scene.watch.since_unix_s
    assert (UP, None) == (await scene.look(1), scene.watch.problem)
    assert "<UpstreamWatch http://h:1: up>" == repr(scene.watch)


async def test_impatient_clients() -> None:
    """Failures that a client has brought about do not tell of the server."""
    scene = Scene()
    assert UP == await scene.look(1)
    assert UP == await scene.look(0, 50, is_telling=False)


async def test_silence() -> None:
    """It lasts while requests wait and nobody has an answer; the state says nothing of it."""
    scene = Scene()
    watch = scene.watch
    await scene.look(1)
    scene.connector.awaiting = 7
    assert (UP, 1.0, 7) == (await scene.look(), watch.silent_s, watch.awaiting)
    assert (UP, 12.0, 7) == (await scene.look(after_s=11), watch.silent_s, watch.awaiting)
    assert (UP, 0.0, 0) == (await scene.look(1), watch.silent_s, watch.awaiting)
    scene.connector.awaiting = 0
    await scene.look(after_s=60)

    assert (0.0, 0) == (watch.silent_s, watch.awaiting)


async def test_recent_answers() -> None:
    """Each look is a sample of the rates."""
    scene = Scene()
    await scene.look(30)

    assert 30.0 == scene.watch.recent.answers_per_s["2xx"]


async def test_health() -> None:
    """It says what is wrong, where, and for how long."""
    scene = Scene()
    assert scene.watch.health() is None
    await scene.look(0, 1)
    scene.now_ns += 12 * S

    assert "http://h:1: no answer within 60 s (for 12 s)" == scene.watch.health()


async def test_health_of_the_look() -> None:
    """It says, too, that nobody looks: then what it knows is old."""
    scene = Scene()
    scene.watch.start()
    assert scene.watch.health() is None
    scene.watch.stop()
    scene.watch.stop()
    assert 0 == scene.connector.probes


async def test_probe_at_the_start() -> None:
    """Before any request it is known whether the server can be reached."""
    scene = Scene(OFTEN)
    scene.watch.start()
    await scene.settle()

    assert (1, UP) == (scene.connector.probes, scene.watch.state)
    scene.watch.stop()


async def test_probes_while_requests_tell_nothing() -> None:
    """One each interval after the last answer or probe; none while there are answers."""
    scene = Scene(OFTEN)
    for _ in range(7):
        await scene.look(1)
    assert 0 == scene.connector.probes
    for _ in range(4):
        await scene.look()
    assert 0 == scene.connector.probes
    await scene.look()
    assert 1 == scene.connector.probes
    for _ in range(5):
        await scene.look()
    assert (2, UP) == (scene.connector.probes, scene.watch.state)
    scene.connector.error = REFUSED
    await scene.look(after_s=5)
    assert (3, FAILING) == (scene.connector.probes, scene.watch.state)
    assert "connection refused" == scene.watch.problem
    scene.connector.error = None
    await scene.look(after_s=5)

    assert UP == scene.watch.state


async def test_one_probe_at_a_time() -> None:
    """One that takes long has no other beside it, and ends with the watch."""
    scene = Scene(OFTEN)
    scene.connector.may_end.clear()
    await scene.look()
    await scene.look(after_s=60)
    assert (1, UNKNOWN) == (scene.connector.probes, scene.watch.state)
    scene.watch.stop()
    await scene.settle()
    scene.connector.may_end.set()
    await scene.look(after_s=60)

    assert (2, UP) == (scene.connector.probes, scene.watch.state)


async def test_connections_without_answers() -> None:
    """A server that hangs accepts connections: only an answer tells otherwise, be it a probe's."""
    scene = Scene(OFTEN)
    await scene.look(0, 1)
    for _ in range(60):
        assert FAILING == await scene.look()
    assert scene.connector.probes == scene.connector.asked > 1
    scene.connector.answers = True
    await scene.look(after_s=5)

    assert UP == scene.watch.state


async def test_answer_beside_failures() -> None:
    """A probe that is answered does not outweigh a request that failed since the one before."""
    scene = Scene(OFTEN)
    scene.connector.answers = True
    for _ in range(5):
        assert FAILING == await scene.look(0, 1, after_s=5)
    await scene.look(after_s=5)

    assert UP == scene.watch.state


async def test_probe_that_did_not_ask() -> None:
    """One that was under way when requests began to fail tells nothing."""
    scene = Scene(OFTEN)
    scene.connector.may_end.clear()
    await scene.look()
    await scene.look(0, 1)
    scene.connector.may_end.set()
    await scene.settle()

    assert (FAILING, 1, 0) == (scene.watch.state, scene.connector.probes, scene.connector.asked)


async def test_other_interval() -> None:
    """It counts from the next look on."""
    scene = Scene()
    await scene.look(after_s=60)
    assert 0 == scene.connector.probes
    scene.watch.configure(OFTEN)
    await scene.look()

    assert 1 == scene.connector.probes


async def test_another_server() -> None:
    """What the one before did says nothing of it."""
    scene = Scene()
    await scene.look(1)
    scene.counters.fail(UpstreamFailure.ANSWER_TIMEOUT, "of the one before", is_telling=True)
    scene.watch.configure(replace(NEVER, url=Address(host="other", port=1)))
    await scene.look()

    assert UNKNOWN == scene.watch.state


async def test_failures_of_the_server_before(caplog: pytest.LogCaptureFixture) -> None:
    """Another server is not judged by the last one's failures, and the log tells of it at once."""
    caplog.set_level(logging.INFO, upstream_watch.__name__)
    scene = Scene()
    await scene.look(0, 1)
    scene.counters.fail(UpstreamFailure.ANSWER_TIMEOUT, "no answer within 60 s", is_telling=True)
    other = Address(host="other", port=1)
    scene.watch.configure(replace(NEVER, url=other))
    assert UNKNOWN == await scene.look()

    assert FAILING == await scene.look(0, 1)
    assert ["h:1", "other:1"] == [
        record.getMessage().partition("//")[2].partition(",")[0] for record in caplog.records
    ]


async def test_error_of_the_program() -> None:
    """It is reported, says nothing of the server, and another probe follows."""
    scene = Scene(OFTEN)
    scene.connector.error = KeyError("a bug")
    await scene.look()
    assert (UNKNOWN, 1) == (scene.watch.state, scene.faults.totals[Part.UPSTREAM])
    scene.connector.error = None
    await scene.look(after_s=5)

    assert UP == scene.watch.state


async def test_log(caplog: pytest.LogCaptureFixture) -> None:
    """A line when the state changes; those of failures not too soon after each other."""
    caplog.set_level(logging.INFO, upstream_watch.__name__)
    scene = Scene()
    await scene.look(1)
    await scene.look(0, 1)
    await scene.look(1)
    await scene.look(0, 1)
    assert 3 == len(caplog.records)
    await scene.look(after_s=LINE_S)
    scene.counters.fail(UpstreamFailure.CONNECT, "connection refused")
    await scene.look(after_s=LINE_S)
    await scene.look(1, after_s=LINE_S)

    assert [
        (logging.INFO, "the server behind, http://h:1, can be reached"),
        (logging.WARNING, "the server behind, http://h:1, fails: no answer within 60 s"),
        (logging.INFO, "the server behind, http://h:1, is up again after 1 s"),
        (logging.WARNING, "the server behind, http://h:1, fails: no answer within 60 s"),
        (logging.WARNING, "the server behind, http://h:1, still fails: connection refused"),
        (logging.INFO, "the server behind, http://h:1, is up again after 30 s"),
    ] == [(record.levelno, record.getMessage()) for record in caplog.records]


async def test_log_of_a_server_that_never_was_up(caplog: pytest.LogCaptureFixture) -> None:
    """It says at the start that the server fails."""
    scene = Scene(OFTEN)
    scene.connector.error = REFUSED
    with caplog.at_level(logging.INFO, upstream_watch.__name__):
        scene.watch.start()
        await scene.settle()
    scene.watch.stop()

    assert ["the server behind, http://h:1, fails: connection refused"] == [
        record.getMessage() for record in caplog.records
    ]
