"""What sees the requests of a process, as the settings say."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from msgspec.structs import replace

from apfproxy.admin.access_log import AccessLogError
from apfproxy.admin.observation import ACCESS_LOG, TRACING, Observation
from apfproxy.base.health_checks import HealthRegistry
from apfproxy.proxy.request_log import Omission
from apfproxy.proxy.request_record import RequestRecord
from apfproxy.settings import AccessLogSettings, Settings, TopFlowsSettings, TracingSettings
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from pathlib import Path

    from apfproxy.proxy.client import ListenerContext
    from apfproxy.proxy.context import Context
    from apfproxy.proxy.request_log import RequestLog
    from apfproxy.proxy.tracing import Tracer


class Served:
    """Stands for a cluster: what it tells of requests now."""

    def __init__(self) -> None:
        self.now: tuple[object, object] = (None, None)
        self.tracer: Tracer | None = None

    def observe(self, access_log: object, top_flows: object, tracer: Tracer | None) -> None:
        self.now = access_log, top_flows
        self.tracer = tracer


ANYBODY = Served()


def observation_of(
    settings: Settings, served: Served | None = None, health: HealthRegistry | None = None
) -> Observation:
    """What sees the requests of a process with these settings."""
    shared = cast("ListenerContext", SimpleNamespace())
    observation = Observation(settings, VirtualClock(), shared, health or HealthRegistry())
    observation.begin(cast("Context", served or ANYBODY))
    return observation


def logging_to(path: Path, **more: Any) -> Settings:  # noqa: ANN401 - of the settings
    """Settings of a process that logs there."""
    return Settings(access_log=AccessLogSettings(path=str(path), **more))


async def test_another_log(tmp_path: Path) -> None:
    """Requests are logged there from then on; what was written before is in the old file."""
    served, health = Served(), HealthRegistry()
    observation = observation_of(logging_to(tmp_path / "a"), served, health)
    observation.open()
    assert observation.access_log is not None
    observation.access_log.write(lambda: b"old\n", 1)
    first = served.now
    change = await observation.prepare(logging_to(tmp_path / "b"))
    is_first = served.now == first
    change.commit()
    observation.access_log.write(lambda: b"new\n", 1)
    second = served.now
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
    """The event loop is served of it, and the lines of the others are there."""
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


async def test_log_and_flows_turned_off(tmp_path: Path) -> None:
    """Nobody is served of requests any more, and nothing can be wrong with the log."""
    served, health = Served(), HealthRegistry()
    observation = observation_of(logging_to(tmp_path / "a"), served, health)
    observation.open()
    settings = Settings(top_flows=TopFlowsSettings(is_enabled=False))
    (await observation.prepare(settings)).commit()
    await observation.close()

    assert (
        served.now
        == (None, None)
        == (observation.access_log, observation.top_flows(cast("Context", served)))
    )
    assert ["ping"] == [check.name for check in health]


def tracing(**settings: Any) -> Settings:  # noqa: ANN401 - of the settings
    """Settings of a process that traces requests; nobody listens there."""
    return Settings(tracing=TracingSettings(**{"endpoint": "http://127.0.0.1:9", **settings}))


async def test_traces_turned_on_and_off() -> None:
    """Requests are traced from then on, and a check tells of the collector meanwhile."""
    served, health = Served(), HealthRegistry()
    observation = observation_of(Settings(), served, health)
    (await observation.prepare(tracing())).commit()
    on = served.tracer, observation.traces, [check.name for check in health]
    (await observation.prepare(Settings())).commit()
    off = served.tracer, observation.traces, [check.name for check in health]
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


async def test_what_stays(tmp_path: Path) -> None:
    """Other requests for the same file and collector leave both, and the flows, as they are."""
    served = Served()
    settings = replace(tracing(), access_log=AccessLogSettings(path=str(tmp_path / "a")))
    observation = observation_of(settings, served)
    observation.open()
    before = served.tracer, observation.traces, *served.now
    other = replace(
        tracing(sampling_rate_per_million=1),
        access_log=replace(settings.access_log, sampled_percent=1),
    )
    (await observation.prepare(other)).commit()
    after = served.tracer, observation.traces, *served.now
    await observation.close()

    assert before[0] is not after[0]
    assert before[1:] == after[1:]


async def test_changes_that_are_given_up(tmp_path: Path) -> None:
    """What was in force goes on, and nothing is left of what was made."""
    served = Served()
    observation = observation_of(logging_to(tmp_path / "a"), served)
    observation.open()
    before = served.now, observation.access_log
    settings = replace(tracing(), access_log=AccessLogSettings(path=str(tmp_path / "b")))
    (await observation.prepare(settings)).discard()
    assert before == (served.now, observation.access_log)
    settings = replace(tracing(), access_log=AccessLogSettings(path="/nowhere/log"))
    with pytest.raises(AccessLogError, match="No such file or directory"):
        await observation.prepare(settings)
    await observation.close()

    assert None is served.tracer


def test_log_that_cannot_be_opened() -> None:
    """The start fails by it."""
    settings = Settings(access_log=AccessLogSettings(path="/nowhere/log"))

    with pytest.raises(AccessLogError, match="No such file or directory"):
        observation_of(settings).open()
