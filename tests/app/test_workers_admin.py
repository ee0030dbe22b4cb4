"""The one admin listener of several workers, put together."""

from __future__ import annotations

import contextlib
import socket
import tempfile
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web
from yarl import URL

from apfproxy.admin.access import AdminAccess
from apfproxy.app.workers_admin import WorkersAdmin
from apfproxy.base.health_checks import HealthRegistry
from apfproxy.settings import Settings
from tests.admin.several_workers import Machine, served

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def apis(_request: web.Request) -> web.Response:
    """The objects of the process itself."""
    return web.Response(text="objects")


@contextlib.asynccontextmanager
async def listening() -> AsyncIterator[tuple[WorkersAdmin, str]]:
    """The listener of two workers, and its URL."""
    with tempfile.TemporaryDirectory(prefix="apf") as directory:
        machine = Machine(directory)
        async with contextlib.AsyncExitStack() as stack:
            for worker, admin in zip(machine.workers, machine.admins, strict=True):
                await stack.enter_async_context(served(worker.app(), admin.path))
            listener = WorkersAdmin(
                lambda: machine.admins,
                HealthRegistry(),
                AdminAccess(Settings()),
                [web.get("/apis", apis)],
            )
            await listener.start([socket.create_server(("127.0.0.1", 0))])
            stack.push_async_callback(listener.close)
            yield listener, f"http://127.0.0.1:{listener.port}"


async def test_pages() -> None:
    """Pages of workers, of both together, and of the process itself are there."""
    async with listening() as (listener, url), aiohttp.ClientSession() as session:
        texts = {}
        for path in ("/", "/readyz", "/metrics", "/debug/limits", "/apis"):
            async with session.get(url + path) as response:
                assert response.status == 200
                texts[path] = await response.text()
        shown = repr(listener)

    assert texts["/readyz"] == "ok"
    assert texts["/apis"] == "objects"
    assert "the objects, for kubectl --server" in texts["/"]
    assert "apfproxy_admin_connections 1.0" in texts["/metrics"]
    assert 'apfproxy_healthcheck{name="ping"} 1.0' in texts["/metrics"]
    assert shown == "<WorkersAdmin: <Places of admin: 1 of 64 taken>>"


async def test_check_of_any_name() -> None:
    """A check that there is not is not found, whatever it is called: nothing is logged of it."""
    targets = ("/livez/%00", "/livez/a%0D%0Ab", "/livez/worker/1/%00", "/livez/%3Fverbose")
    async with listening() as (_, url), aiohttp.ClientSession() as session:
        found = []
        for target in targets:
            async with session.get(URL(url + target, encoded=True)) as response:
                found.append(response.status)

    assert found == [404] * len(targets)


async def test_metrics_of_one() -> None:
    """They are to be had of one worker alone, as other pages are; of one that is not there not."""
    async with listening() as (_, url), aiohttp.ClientSession() as session:
        answers = []
        for name in ("2", "99"):
            async with session.get(f"{url}/metrics?worker={name}") as response:
                answers.append((response.status, await response.text()))

    assert [200, 404] == [status for status, _ in answers]
    assert "apfproxy_worker_up" not in answers[0][1]
    assert "there is none named '99'" in answers[1][1]


async def test_stop_accepting() -> None:
    """Nobody else gets in, while connections go on."""
    async with listening() as (listener, url), aiohttp.ClientSession() as session:
        async with session.get(f"{url}/readyz") as response:
            await response.read()
        listener.stop_accepting()
        async with session.get(f"{url}/livez") as response:
            assert response.status == 200
        assert listener.port is None
