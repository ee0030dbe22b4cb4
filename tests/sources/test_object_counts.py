"""Reading the numbers of stored objects from a metrics page."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from apfproxy.sources import object_counts
from apfproxy.sources.object_counts import CountsError, CountsParser, ObjectCounts
from tests.end_to_end.programs import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[dict[str, int], int]] = []

    def set_object_counts(self, counts: Mapping[str, int], now_ns: int) -> None:
        """Keep the counts."""
        self.told.append((dict(counts), now_ns))


def parse(page: bytes) -> dict[str, int]:
    """The counts of a page that comes in one piece."""
    parser = CountsParser()
    parser.feed(page)
    return parser.finish()


def test_counts_of_a_page() -> None:
    """The newer metric is read, its group joined to the resource, unknown counts left out."""
    assert parse(PAGE) == COUNTS


def test_counts_of_a_page_byte_by_byte() -> None:
    """Where the pieces are cut does not matter."""
    parser = CountsParser()
    for byte in PAGE.rstrip():
        parser.feed(bytes([byte]))

    assert parser.finish() == COUNTS


def test_older_metric() -> None:
    """A server without the newer metric is read by the older one."""
    page = b'apiserver_storage_objects{resource="deployments.apps"} 3\n'

    assert parse(page) == {"deployments.apps": 3}


@pytest.mark.parametrize(
    "line",
    [
        b'apiserver_storage_objects{resource="pods"}',
        b'apiserver_storage_objects{resource="pods"} many',
        b'apiserver_storage_objects{resource="pods"} NaN',
        b'apiserver_storage_objects{resource="pods"} +Inf',
        b'apiserver_storage_objects{kind="pods"} 3',
        b"apiserver_storage_objects 3",
        b"\xff\xfe",
    ],
)
def test_lines_without_a_count(line: bytes) -> None:
    """A line that says no count is passed over; a page without any is refused."""
    with pytest.raises(CountsError, match="neither apiserver_resource_objects nor"):
        parse(line)


def test_too_many_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page cannot make us keep more resources than a server can have."""
    monkeypatch.setattr(object_counts, "MAX_RESOURCES", 1)

    assert parse(PAGE) == {"pods": 1234}


def test_page_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that does not end is given up."""
    monkeypatch.setattr(object_counts, "MAX_PAGE_BYTES", 10)
    with pytest.raises(CountsError, match="longer than 10 bytes"):
        parse(PAGE)


def test_line_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that does not end is given up."""
    monkeypatch.setattr(object_counts, "MAX_LINE_BYTES", 10)
    with pytest.raises(CountsError, match="a line longer than 10 bytes"):
        parse(b"x" * 11)


async def test_reading_a_server(caplog: pytest.LogCaptureFixture) -> None:
    """Failures are logged when they begin and end, and leave what the sink knows."""
    answers = [
        web.Response(body=PAGE),
        web.Response(status=403),
        web.Response(body=b"process_open_fds 12\n"),
        web.Response(status=302, headers={"Location": "/metrics"}),
        web.Response(body=PAGE),
        web.Response(body=PAGE),
    ]
    pending = iter(answers)

    async def answer(_request: web.Request) -> web.Response:
        return next(pending)

    application = web.Application()
    application.router.add_get("/metrics", answer)
    sink = Sink()
    problems = []
    async with TestServer(application) as server, aiohttp.ClientSession() as session:
        url = str(server.make_url("/metrics?token=secret").with_user("u").with_password("p"))
        counts = ObjectCounts(url, sink.set_object_counts, lambda: 42, interval_s=30)
        shown = str(server.make_url("/metrics"))
        with caplog.at_level(logging.INFO, logger=object_counts.__name__):
            for _ in answers:
                await counts.read_once(session)
                problems.append(counts.problem)

    neither = "the page has neither apiserver_resource_objects nor apiserver_storage_objects"
    assert problems == [
        None,
        "the server answered 403",
        neither,
        "the server answered 302",
        None,
        None,
    ]
    assert sink.told == [(COUNTS, 42)] * 3
    assert 6 == counts.reads_total
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

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path_qs)
        return web.Response(body=PAGE)

    application = web.Application()
    application.router.add_get("/metrics", answer)
    sink = Sink()
    async with TestServer(application) as server, aiohttp.ClientSession() as session:
        gone = f"http://127.0.0.1:{free_port()}"
        url = str(server.make_url("/"))
        counts = ObjectCounts(
            f"{gone}/metrics?a=b", sink.set_object_counts, lambda: 1, 30, others=lambda: (gone, url)
        )
        await counts.read_once(session)
        await counts.read_once(session)
        assert (None, server.port) == (counts.problem, counts.url.port)
    assert ["/metrics?a=b"] * 2 == asked
    async with aiohttp.ClientSession() as session:
        await counts.read_once(session)

    assert counts.problem


async def test_reading_again_and_again() -> None:
    """It waits for the interval after each reading, whether it worked or not."""
    waited = []

    async def sleep(duration_s: float) -> None:
        waited.append(duration_s)
        if len(waited) == 3:
            raise asyncio.CancelledError

    # Port 0 of this machine takes no connection.
    sink = Sink().set_object_counts
    counts = ObjectCounts("http://127.0.0.1:0/metrics", sink, lambda: 0, 1.5, sleep=sleep)
    with pytest.raises(asyncio.CancelledError):
        await counts.run()

    assert waited == [1.5] * 3
    assert (3, True) == (counts.reads_total, counts.problem is not None)


async def test_odd_host() -> None:
    """A host whose name no resolver takes is a failure like any other."""
    counts = ObjectCounts("http://a..b/metrics", Sink().set_object_counts, lambda: 0, 1)
    async with aiohttp.ClientSession() as session:
        await counts.read_once(session)

    assert counts.problem
