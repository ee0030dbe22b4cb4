"""What sees the requests of a process, as the settings say."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from apfproxy.admin.access_log import AccessLogError
from apfproxy.app.observation import ACCESS_LOG, TRACING, Observation
from apfproxy.base.health_checks import HealthRegistry
from apfproxy.proxy.request_log import Omission
from apfproxy.proxy.request_record import RequestRecord
from apfproxy.settings import AccessLogSettings, Settings, TopFlowsSettings, TracingSettings
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from pathlib import Path

    from apfproxy.proxy.client import ListenerContext
    from apfproxy.proxy.request_log import RequestLog

WAIT_S = 30.0


class Told:
    """Stands for a cluster: what it tells of requests now."""

    def __init__(self) -> None:
        self.now: tuple[object, object] = (None, None)
        self.tracer: object = None

    def observe(self, access_log: object, top_flows: object, tracer: object) -> None:
        """Tell of requests from now on."""
        self.now = access_log, top_flows
        self.tracer = tracer


ANYBODY = Told()


def observation_of(
    settings: Settings, told: Told | None = None, health: HealthRegistry | None = None
) -> Observation:
    """What sees the requests of a process with these settings."""
    shared = cast("ListenerContext", SimpleNamespace())
    observation = Observation(settings, VirtualClock(), shared, health or HealthRegistry())
    observation.begin(told or ANYBODY)
    return observation


def logging_to(path: Path, **more: Any) -> Settings:  # noqa: ANN401 - of the settings
    """Settings of a process that logs there."""
    return Settings(access_log=AccessLogSettings(path=str(path), **more))


async def test_another_log(tmp_path: Path) -> None:
    """Requests are logged there from then on; what was written before is in the old file."""
    told, health = Told(), HealthRegistry()
    observation = observation_of(logging_to(tmp_path / "a"), told, health)
    observation.open()
    assert observation.access_log is not None
    observation.access_log.write(lambda: b"old\n", 1)
    first = told.now
    change = await observation.prepare(logging_to(tmp_path / "b"))
    is_first = told.now == first
    change.commit()
    observation.access_log.write(lambda: b"new\n", 1)
    second = told.now
    await observation.close()

    assert is_first
    assert first != second
    assert ["old\n", "new\n"] == [(tmp_path / name).read_text() for name in "ab"]
    assert [ACCESS_LOG] == [check.name for check in health if check.name != "ping"]


def refused(status: int) -> RequestRecord:
    """What is no request, and had such a response."""
    return RequestRecord(
        None, None, None, None, None, "::1", 0, 1, 0, 1, 0, status, status, 0, "malformed", "x"
    )


async def test_record_of_which_no_line_can_be_made(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The event loop is told of it, and the lines of the others are there."""
    shared = SimpleNamespace(access_log=None, loop=asyncio.get_running_loop())
    observation = Observation(
        logging_to(tmp_path / "a"),
        VirtualClock(),
        cast("ListenerContext", shared),
        HealthRegistry(),
    )
    observation.open()
    assert observation.access_log is not None
    for status in (400, 9999, 404):
        cast("RequestLog", shared.access_log).take(refused(status))
    await observation.close()
    await asyncio.sleep(0)
    lines = (tmp_path / "a").read_text().splitlines()

    assert [400, 404] == [json.loads(line)["status"] for line in lines]
    assert (2, 1) == (observation.access_log.written, observation.access_log.dropped)
    assert 1 == caplog.text.count("a request is not in the access log")


async def test_floods_of_what_is_no_request(tmp_path: Path) -> None:
    """Some have a line each second, and each log says how many have none, before it is closed."""
    shared = SimpleNamespace(access_log=None)
    settings = [logging_to(tmp_path / name, refused_per_second=2) for name in "ab"]
    observation = Observation(
        settings[0], VirtualClock(), cast("ListenerContext", shared), HealthRegistry()
    )
    observation.open()
    shown = []
    for number in (5, 9):
        for _ in range(number):
            cast("RequestLog", shared.access_log).take(refused(400))
        (await observation.prepare(settings[1])).commit()
    await observation.close()
    for name in "ab":
        lines = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        shown.append([line.get("leftOut", 0) for line in lines])

    assert [[0, 0, 3], [0, 0, 7]] == shown
    assert 10 == observation.log_budget.left_out[Omission.REFUSED]


async def test_change_that_is_given_up(tmp_path: Path) -> None:
    """The old log goes on, and the new one is closed."""
    observation = observation_of(logging_to(tmp_path / "a"))
    observation.open()
    log = observation.access_log
    change = await observation.prepare(logging_to(tmp_path / "b"))
    change.discard()
    assert log is not None
    assert log is observation.access_log
    log.write(lambda: b"old\n", 1)
    await observation.close()

    assert ["old\n", ""] == [(tmp_path / name).read_text() for name in "ab"]


async def test_log_and_flows_turned_off(tmp_path: Path) -> None:
    """Nobody is told of requests any more, and nothing can be wrong with the log."""
    told, health = Told(), HealthRegistry()
    observation = observation_of(logging_to(tmp_path / "a"), told, health)
    observation.open()
    settings = Settings(top_flows=TopFlowsSettings(is_enabled=False))
    (await observation.prepare(settings)).commit()
    await observation.close()

    assert told.now == (None, None) == (observation.access_log, observation.top_flows(told))
    assert ["ping"] == [check.name for check in health]


def tracing(**settings: Any) -> Settings:  # noqa: ANN401 - of the settings
    """Settings of a process that traces requests; nobody listens there."""
    return Settings(tracing=TracingSettings(**{"endpoint": "http://127.0.0.1:9", **settings}))


async def test_traces_turned_on_and_off() -> None:
    """Requests are traced from then on, and a check tells of the collector meanwhile."""
    told, health = Told(), HealthRegistry()
    observation = observation_of(Settings(), told, health)
    (await observation.prepare(tracing())).commit()
    on = told.tracer, observation.traces, [check.name for check in health]
    (await observation.prepare(Settings())).commit()
    off = told.tracer, observation.traces, [check.name for check in health]
    await observation.close()

    assert None not in on
    assert TRACING in on[2]
    assert (None, None, ["ping"]) == off


async def test_traced_requests_without_a_collector(caplog: pytest.LogCaptureFixture) -> None:
    """The log says so at the start, and when the settings change, but not with other changes."""
    before, after = (tracing(endpoint=None, sampling_rate_per_million=rate) for rate in (1, 2))
    observation = observation_of(before)
    observation.open()
    at_start = len(caplog.messages)
    (await observation.prepare(replace(before, metrics="full"))).commit()
    unchanged = len(caplog.messages)
    (await observation.prepare(after)).commit()
    await observation.close()

    assert (1, 1, 2) == (at_start, unchanged, len(caplog.messages))
    assert caplog.messages[-1].startswith("tracing.samplingRatePerMillion has no effect")


async def test_other_requests_for_the_same_collector() -> None:
    """What waits to be exported waits on; others are traced from then on."""
    told = Told()
    observation = observation_of(tracing(), told)
    observation.open()
    before = told.tracer, observation.traces
    (await observation.prepare(tracing(sampling_rate_per_million=1))).commit()
    after = told.tracer, observation.traces
    await observation.close()

    assert before[0] is not after[0]
    assert before[1] is after[1]


async def test_other_collector_that_is_given_up() -> None:
    """Those before stay as they are."""
    told = Told()
    observation = observation_of(tracing(), told)
    observation.open()
    before = told.tracer, observation.traces
    change = await observation.prepare(tracing(service_name="b"))
    change.discard()
    await observation.close()

    assert before == (told.tracer, observation.traces)


async def test_log_that_cannot_be_opened_beside_other_traces() -> None:
    """Nothing of the change is left."""
    told = Told()
    observation = observation_of(Settings(), told)
    settings = replace(tracing(), access_log=AccessLogSettings(path="/nowhere/log"))
    with pytest.raises(AccessLogError, match="No such file or directory"):
        await observation.prepare(settings)
    await observation.close()

    assert None is told.tracer


async def test_other_lines_in_the_same_log(tmp_path: Path) -> None:
    """The file stays open, and the flows are gathered on."""
    observation = observation_of(logging_to(tmp_path / "a"))
    observation.open()
    before = observation.access_log, observation.top_flows(ANYBODY)
    (await observation.prepare(logging_to(tmp_path / "a", sampled_percent=1))).commit()
    after = observation.access_log, observation.top_flows(ANYBODY)
    await observation.close()

    assert before == after


async def test_flows_turned_on() -> None:
    """They are gathered from then on."""
    told = Told()
    observation = observation_of(Settings(top_flows=TopFlowsSettings(is_enabled=False)), told)
    (await observation.prepare(Settings())).commit()
    await observation.close()

    assert told.now == (None, observation.top_flows(told))
    assert observation.top_flows(told) is not None


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(Settings(top_flows=TopFlowsSettings(is_enabled=False)), id="off"),
        pytest.param(Settings(admin=None), id="nobody-can-ask"),
    ],
)
async def test_nothing_to_see(settings: Settings) -> None:
    """With all of it off there is nothing to open, to show or to close."""
    observation = observation_of(settings)
    observation.open()
    observation.reopen()
    await observation.close()

    assert [] == list(observation.flows(ANYBODY))
    assert (None, None) == (observation.access_log, observation.top_flows(ANYBODY))


async def test_top_flows_are_on_by_default() -> None:
    """They are there, without a log."""
    observation = observation_of(Settings())

    assert None is observation.access_log
    assert observation.top_flows(ANYBODY) is not None
    assert [] == list(observation.flows(ANYBODY))
    await observation.close()


def test_log_that_cannot_be_opened() -> None:
    """The start fails by it."""
    settings = Settings(access_log=AccessLogSettings(path="/nowhere/log"))

    with pytest.raises(AccessLogError, match="No such file or directory"):
        observation_of(settings).open()


def test_name_of_the_check() -> None:
    """Operators exclude them by that."""
    assert ("access-log", "tracing") == (ACCESS_LOG, TRACING)


def serve(*arguments: str) -> subprocess.Popen[str]:
    """A process of the command."""
    return subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-m", "apfproxy", "serve", "--listen", "127.0.0.1:0", *arguments],
        stderr=subprocess.PIPE,
        text=True,
    )


async def ask(port: int, target: str) -> None:
    """Ask for something that the proxy answers by itself."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
    await reader.read()
    writer.close()


def test_rotation_by_the_signal(tmp_path: Path) -> None:
    """SIGUSR1 opens the file again, and at the end no line is missing."""
    path, old = tmp_path / "log", tmp_path / "log.1"
    process = serve(
        "--upstream", "http://127.0.0.1:9", "--admin", "none", "--access-log", str(path)
    )
    assert process.stderr is not None
    try:
        started = process.stderr.readline()
        port = int(started.partition("listens on 127.0.0.1:")[2].partition(",")[0])
        asyncio.run(asyncio.wait_for(ask(port, "/old"), WAIT_S))
        path.rename(old)
        os.kill(process.pid, signal.SIGUSR1)
        while "opened again" not in process.stderr.readline():
            pass
        asyncio.run(asyncio.wait_for(ask(port, "/new"), WAIT_S))
        process.terminate()
        _, rest = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.wait()

    assert 0 == process.returncode, rest
    found = [json.loads(file.read_text()) for file in (old, path)]
    assert [("/old", 502), ("/new", 502)] == [(line["path"], line["status"]) for line in found]


def test_log_that_cannot_be_opened_by_the_command() -> None:
    """It ends with one line."""
    process = serve("--upstream", "http://127.0.0.1:9", "--access-log", "/nowhere/log")
    _, errors = process.communicate(timeout=WAIT_S)

    assert 0 != process.returncode
    assert "the access log /nowhere/log cannot be opened: No such file or directory" in errors
    assert "Traceback" not in errors
