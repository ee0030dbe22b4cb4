"""Reading the numbers of stored objects from a metrics page."""

from __future__ import annotations

import asyncio
import logging

import aiohttp
import pytest
from aiohttp import web

from apfproxy.base.health_checks import HealthRegistry
from apfproxy.settings import FlowControlSettings, Settings
from apfproxy.sources import object_counts
from apfproxy.sources.object_counts import CountsError, CountsParser, ObjectCounts
from tests.end_to_end.programs import free_port
from tests.support.clocks import until
from tests.support.http_server import serving

PAGE = b"""# HELP apiserver_resource_objects Number of stored objects
# TYPE apiserver_resource_objects gauge
apiserver_resource_objects{group="",resource="pods"} 1234
apiserver_resource_objects{group="apps",resource="deployments"} 5e+02
apiserver_resource_objects{group="apps",resource="unknown"} -1
apiserver_resource_objects{group="",resource="nodes"} 7 1700000000000
apiserver_storage_objects{resource="secrets"} 9
process_open_fds 12
"""
COUNTS = {"pods": 1234, "deployments.apps": 500, "nodes": 7}


class Sink:
    def __init__(self, url: str | None, *others: str) -> None:
        self.told: list[dict[str, int]] = []
        self.health = HealthRegistry()
        self.counts = ObjectCounts(
            settings_for(url),
            lambda counts, _: self.told.append(dict(counts)),
            lambda: 42,
            self.health,
            lambda _: dict.fromkeys(others),
            sleep=self._sleep,
        )
        self.waited: list[float] = []

    async def _sleep(self, duration_s: float) -> None:
        self.waited.append(duration_s)
        await asyncio.sleep(0)

    @property
    def checks(self) -> list[str]:
        return [check.name for check in self.health if check.name != "ping"]


def settings_for(url: str | None, interval_s: float = 30.0) -> Settings:
    return Settings(
        flow_control=FlowControlSettings(
            object_counts_from=url, object_counts_interval_s=interval_s
        )
    )


def parse(page: bytes) -> dict[str, int]:
    parser = CountsParser()
    parser.feed(page)
    return parser.finish()


def test_counts_of_a_page() -> None:
    """The newer metric is read, its group joined to the resource, unknown counts left out.

    Where the pieces are cut does not matter; a server without it is read by the older metric.
    """
    parser = CountsParser()
    for byte in PAGE.rstrip():
        parser.feed(bytes([byte]))

    assert COUNTS == parse(PAGE) == parser.finish()
    older = b'apiserver_storage_objects{resource="deployments.apps"} 3\n'
    assert parse(older) == {"deployments.apps": 3}


@pytest.mark.parametrize(
    "line",
    [
        b'apiserver_storage_objects{resource="pods"}',
        b'apiserver_storage_objects{resource="pods"} NaN',
        b'apiserver_storage_objects{kind="pods"} 3',
        b"apiserver_storage_objects 3",
        b"\xff\xfe",
    ],
)
def test_lines_without_a_count(line: bytes) -> None:
    with pytest.raises(CountsError, match="neither apiserver_resource_objects nor"):
        parse(line)


def test_too_many_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_counts, "MAX_RESOURCES", 1)

    assert parse(PAGE) == {"pods": 1234}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("MAX_PAGE_BYTES", "longer than 10 bytes"), ("MAX_LINE_BYTES", "a line longer than 10 bytes")],
)
def test_page_without_end(name: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_counts, name, 10)
    with pytest.raises(CountsError, match=expected):
        parse(b"x" * 11)


async def test_reading_a_server(caplog: pytest.LogCaptureFixture) -> None:
    """Failures are logged when they begin and end, and leave what the sink knows."""
    responses = [
        web.Response(body=PAGE),
        web.Response(status=403),
        web.Response(body=b"process_open_fds 12\n"),
        web.Response(status=302, headers={"Location": "/metrics"}),
        web.Response(body=PAGE),
        web.Response(body=PAGE),
    ]
    pending = iter(responses)

    async def respond(_request: web.Request) -> web.Response:
        return next(pending)

    problems = []
    async with serving(respond) as url, aiohttp.ClientSession() as session:
        shown = f"{url}/metrics"
        sink = Sink(f"{shown.replace('//', '//u:p@')}?token=secret")
        with caplog.at_level(logging.INFO, logger=object_counts.__name__):
            for _ in responses:
                await sink.counts.read_once(session)
                problems.append(sink.counts.problem)

    neither = "the page has neither apiserver_resource_objects nor apiserver_storage_objects"
    refused = ["the server answered 403", neither, "the server answered 302"]
    assert problems == [None, *refused, None, None]
    assert sink.told == [COUNTS] * 3
    assert [record.getMessage() for record in caplog.records] == [
        f"object counts of 3 resources from {shown}",
        (
            f"cannot read object counts from {shown}: the server answered 403;"
            " costs of lists rest on what is known"
        ),
        f"object counts of 3 resources from {shown}",
    ]


async def test_page_of_another_server() -> None:
    """Where the server of the page does not answer, the same page of the next one is read."""
    asked: list[str] = []

    async def respond(request: web.Request) -> web.Response:
        asked.append(request.path_qs)
        return web.Response(body=PAGE)

    async with serving(respond) as url, aiohttp.ClientSession() as session:
        gone = f"http://127.0.0.1:{free_port()}"
        counts = Sink(f"{gone}/metrics?a=b", gone, url).counts
        await counts.read_once(session)
        await counts.read_once(session)
        assert counts.problem is None
        assert f"{url}/metrics?a=b" == counts.url
    assert ["/metrics?a=b"] * 2 == asked
    async with aiohttp.ClientSession() as session:
        await counts.read_once(session)

    assert counts.problem


async def test_reading_again_and_again() -> None:
    sink = Sink("http://a..b/metrics")  # a host whose name no resolver takes
    sink.counts.start()
    await until(lambda: len(sink.waited) >= 3)
    sink.counts.close()

    assert {30.0} == set(sink.waited)
    assert sink.counts.problem


async def test_page_that_is_named_later() -> None:
    """It is read from then on, and what another one said is forgotten."""
    sink = Sink(None)
    counts, url = sink.counts, "http://127.0.0.1:9/a"
    counts.start()
    before = sink.checks
    (await counts.prepare(settings_for(url))).commit()
    named = sink.checks
    (await counts.prepare(settings_for(url, 1))).commit()
    forgotten = list(sink.told)
    (await counts.prepare(settings_for(None, 1))).commit()
    counts.close()

    assert ([], ["object-counts"], []) == (before, named, sink.checks)
    assert ([], [{}]) == (forgotten, sink.told)
