"""`/metrics` of several workers, over real Unix sockets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from apfproxy.admin.worker_answers import Answer, Asked, WorkerAdmin
from apfproxy.admin.worker_metrics_page import WorkerMetricsPage
from tests.admin.several_workers import machine

if TYPE_CHECKING:
    import pytest

    from tests.admin.several_workers import Client

DISPATCHED = "apiserver_flowcontrol_dispatched_requests_total"


async def lines_of(client: Client, path: str = "/metrics", **headers: str) -> list[str]:
    """The samples."""
    async with client.get(path, headers=headers) as response:
        assert response.status == 200
        return [line for line in (await response.text()).splitlines() if line[:1] != "#"]


async def test_sums() -> None:
    """What both did is one series; the process says how many workers there are."""
    async with machine() as (found, client):
        for worker in found.workers:
            worker.scene.ticket("ann")
        found.add_silent()
        found.restarts = 5
        lines = await lines_of(client)

    assert f'{DISPATCHED}{{flow_schema="all",priority_level="wide"}} 2.0' in lines
    assert 'apfproxy_workers{state="serving"} 3.0' in lines
    assert 'apfproxy_worker_up{worker="3"} 0.0' in lines
    assert "apfproxy_worker_restarts_total 5.0" in lines


async def test_each() -> None:
    """Each worker has its own series if so wanted."""
    async with machine() as (found, client):
        found.workers[1].scene.ticket("ann")
        lines = await lines_of(client, "/metrics?workers=each")
        async with client.get("/metrics?workers=some") as response:
            status = response.status

    labels = 'worker="2",flow_schema="all",priority_level="wide"'
    assert f"{DISPATCHED}{{{labels}}} 1.0" in lines
    assert 'apfproxy_worker_up{worker="1"} 1.0' in lines
    assert status == 400


async def test_counts_stay() -> None:
    """What a worker counted is there, too, when another one has its place."""
    async with machine() as (found, client):
        found.workers[0].scene.ticket("ann")
        await lines_of(client)
        # The second one in the place of the first.
        found.admins[:] = [replace(found.admins[1], index=1)]
        lines = await lines_of(client)

    assert f'{DISPATCHED}{{flow_schema="all",priority_level="wide"}} 1.0' in lines


async def test_last_counts_that_are_no_page(caplog: pytest.LogCaptureFixture) -> None:
    """They are lost as a whole, and the log says whose they were."""

    async def ask(*_args: object, **_kwargs: object) -> list[Asked]:
        return []

    page = WorkerMetricsPage(ask, list, lambda: 0)
    page.bury((1, 7), b"<html>")
    page.bury((2, 8), b"")
    app = web.Application()
    app.add_routes([web.get("/metrics", page.show)])
    async with TestClient(TestServer(app)) as client:
        lines = await lines_of(client)

    assert not any(line.startswith("a_total") for line in lines)
    assert "what worker 1 (process 7) left of its counts is lost: no page of" in caplog.text


async def test_what_is_no_page_counts_as_no_answer() -> None:
    """Another program on a worker's socket spoils nothing."""
    worker = WorkerAdmin(1, "path", "serving", 1)

    async def ask(*_args: object, **_kwargs: object) -> list[Asked]:
        return [Asked(worker, Answer(200, "text/html", b"<html>"))]

    app = web.Application()
    app.add_routes([web.get("/metrics", WorkerMetricsPage(ask, lambda: [worker], lambda: 0).show)])
    async with TestClient(TestServer(app)) as client:
        lines = await lines_of(client)

    assert 'apfproxy_worker_up{worker="1"} 0.0' in lines
