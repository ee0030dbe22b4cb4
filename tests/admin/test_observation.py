"""Tests of what sees the requests of a process, as the settings say."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self, cast

import pytest
from msgspec.structs import replace

from apfproxy.admin.access_log import AccessLogError
from apfproxy.admin.observation import ACCESS_LOG, TRACING, Observation
from apfproxy.base.health_checks import HealthRegistry
from apfproxy.proxy.request_log import Omission
from apfproxy.proxy.request_record import RequestRecord
from apfproxy.settings import AccessLogSettings, Settings, TopFlowsSettings, TracingSettings
from tests.support.clocks import VirtualClock

if TYPE_CHECKING:
    from apfproxy.proxy.context import Context, ListenerContext
    from apfproxy.proxy.request_log import RequestLog
    from apfproxy.proxy.tracing import Tracer


class Served:
    def __init__(self) -> None:
        self.now: tuple[object, object] = (None, None)
        self.tracer: Tracer | None = None

    def observe(self, access_log: object, top_flows: object, tracer: Tracer | None) -> None:
        self.now = access_log, top_flows
        self.tracer = tracer


class Observed:
    """The observers of a process with some settings, of a cluster and of no cluster."""

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.served, self.health = Served(), HealthRegistry()
        self.shared = SimpleNamespace(access_log=None, loop=loop)
        shared = cast("ListenerContext", self.shared)
        self.it = Observation(settings, VirtualClock(), shared, self.health)
        self.it.begin(cast("Context", self.served))

    async def __aenter__(self) -> Self:
        self.it.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.it.close()

    async def change(self, settings: Settings) -> None:
        (await self.it.prepare(settings)).commit()

    def checks(self) -> list[str]:
        return [check.name for check in self.health if check.name != "ping"]

    def write(self, line: bytes) -> None:
        assert self.it.access_log is not None
        self.it.access_log.write(lambda: line, 1)

    def refuse(self, status: int) -> None:
        record = RequestRecord(
            None, None, None, None, None, "::1", 0, 1, 0, 1, 0, status, status, 0, "malformed", "x"
        )
        cast("RequestLog", self.shared.access_log).take(record)


def logging_to(path: Path, **more: Any) -> Settings:  # noqa: ANN401 - of the settings
    return Settings(access_log=AccessLogSettings(path=str(path), **more))


def tracing(**settings: Any) -> Settings:  # noqa: ANN401 - of the settings
    """Settings of a process that traces requests; no one listens there."""
    return Settings(tracing=TracingSettings(**{"endpoint": "http://127.0.0.1:9", **settings}))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_record_of_which_no_line_can_be_made(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Observed(logging_to(tmp_path / "a"), asyncio.get_running_loop()) as observed:
        for status in (400, 9999, 404):
            observed.refuse(status)
    await asyncio.sleep(0)
    log = observed.it.access_log
    assert log is not None

    assert [400, 404] == [line["status"] for line in lines(tmp_path / "a")]
    assert (2, 1) == (log.written, log.dropped)
    assert 1 == caplog.text.count("a request is not in the access log")


async def test_floods_of_what_is_no_request(tmp_path: Path) -> None:
    settings = [logging_to(tmp_path / name, refused_per_second=2) for name in "ab"]
    async with Observed(settings[0]) as observed:
        for number in (5, 9):
            for _ in range(number):
                observed.refuse(400)
            await observed.change(settings[1])

    assert [[0, 0, 3], [0, 0, 7]] == [
        [line.get("leftOut", 0) for line in lines(tmp_path / name)] for name in "ab"
    ]
    assert 10 == observed.it.log_budget.left_out[Omission.REFUSED]


async def test_turned_on_and_off(tmp_path: Path) -> None:
    logs = logging_to(tmp_path / "a")
    async with Observed(replace(tracing(), access_log=logs.access_log)) as observed:
        on = observed.checks(), None not in (*observed.served.now, observed.served.tracer)
        await observed.change(Settings(top_flows=TopFlowsSettings(is_enabled=False)))
        it, served = observed.it, observed.served
        off = served.tracer, it.traces, it.access_log, it.top_flows(cast("Context", served))

        assert ([ACCESS_LOG, TRACING], True) == on
        assert ((None, None), (None,) * 4, []) == (served.now, off, observed.checks())
        await observed.change(tracing())
        assert None not in (served.tracer, it.traces)


async def test_changes_that_are_given_up(tmp_path: Path) -> None:
    async with Observed(logging_to(tmp_path / "a")) as observed:
        before = observed.served.now, observed.it.access_log
        logs = logging_to(tmp_path / "b").access_log
        (await observed.it.prepare(replace(tracing(), access_log=logs))).discard()
        assert before == (observed.served.now, observed.it.access_log)
        with pytest.raises(AccessLogError, match="No such file or directory"):
            await observed.it.prepare(logging_to(Path("/nowhere/log")))

    assert None is observed.served.tracer
