"""Scenarios of the architecture page, made to happen, with the functions that run then."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from apfproxy.app.process import ProxyProcess
from apfproxy.app.reloading import SettingsFile, reload
from apfproxy.settings import FlowControlSettings
from tests.docs.traced import traced
from tests.fleet.virtual import Shelf, member
from tests.support.processes import settings_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

Calls = dict[str, list[str]]
"""The functions that run, by the page's words for when."""

USUAL = "a request"

LEVEL = """
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: %(name)s}
spec:
  type: Limited
  limited:
    nominalConcurrencyShares: 1
    borrowingLimitPercent: 0
    limitResponse: %(response)s
"""
QUEUE = "{type: Queue, queuing: {queues: 64, handSize: 6, queueLengthLimit: 50}}"
SCHEMA = """
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: %(name)s}
spec:
  matchingPrecedence: 3
  priorityLevelConfiguration: {name: %(name)s}
  rules:
  - subjects: [{kind: User, user: {name: "*"}}]
    resourceRules:
    - {verbs: ["*"], apiGroups: ["*"], resources: ["*"], namespaces: [%(name)s]}
"""
LEVELS = LEVEL % {"name": "patient", "response": QUEUE} + LEVEL % {
    "name": "hasty",
    "response": "{type: Reject}",
}
OBJECTS = LEVELS + SCHEMA % {"name": "patient"} + SCHEMA % {"name": "hasty"}
"""A level that queues and one that rejects, each with one seat and a namespace of its own."""


class Upstream:
    """The server behind; it answers slow requests, and ends watches, once it is let go."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.arrived = asyncio.Semaphore(0)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer; a watch has a first event, and then nothing."""
        response = web.StreamResponse()
        if "watch" in request.query:
            await response.prepare(request)
            await response.write(b"{}\n")
        if "slow" in request.path or "watch" in request.query:
            self.arrived.release()
            await self.gate.wait()
        return response if response.prepared else web.Response(headers={"X-Path": request.path})


class Site:
    """A proxy with few seats, its server, and a client."""

    def __init__(
        self, upstream: Upstream, process: ProxyProcess, session: aiohttp.ClientSession
    ) -> None:
        self.upstream = upstream
        self.process = process
        self._session = session

    async def get(self, path: str, status: int = 200) -> None:
        """Ask for pods; each path has a head of its own."""
        url = f"http://127.0.0.1:{self.process.port}/api/v1/namespaces/{path}"
        async with self._session.get(url, headers={"X-Of": path}) as response:
            await response.read()
            assert status == response.status

    @contextlib.asynccontextmanager
    async def pending(self, path: str) -> AsyncIterator[None]:
        """Have a request at the server, which is let go at the end if it was not before."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.get(path))
            await self.upstream.arrived.acquire()
            yield
            self.upstream.gate.set()
        self.upstream.gate.clear()


@contextlib.asynccontextmanager
async def site(objects: Path) -> AsyncIterator[Site]:
    """Make a proxy with the objects of a file, and stop it at the end."""
    upstream, app = Upstream(), web.Application()
    app.router.add_route("*", "/{path:.*}", upstream.answer)
    server = TestServer(app)
    await server.start_server()
    control = FlowControlSettings(server_concurrency_limit=10, objects=(str(objects),))
    process = ProxyProcess(settings_for(server.port or 0, control))
    async with aiohttp.ClientSession() as session:
        yield Site(upstream, process, session)
    await process.stop()
    await server.close()


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for something that no event tells."""
    while not is_so():  # noqa: ASYNC110 - the test's time limit ends it
        await asyncio.sleep(0.01)


async def of_a_proxy(folder: Path) -> Calls:
    calls: Calls = {}
    objects = folder / "objects.yaml"
    objects.write_text(OBJECTS)
    async with site(objects) as proxy:
        await proxy.process.start()
        patient = proxy.process.cluster.controller.levels["patient"].queue_set
        with traced(calls, USUAL):
            await proxy.get("patient/pods/usual")
        with traced(calls, "a request that waits"):
            async with proxy.pending("patient/pods/slow"), asyncio.TaskGroup() as tasks:
                tasks.create_task(proxy.get("patient/pods"))
                await until(lambda: patient.requests_waiting == 1)
                proxy.upstream.gate.set()
        async with proxy.pending("default/pods/slow"):
            with traced(calls, "seats idle elsewhere"):
                await proxy.get("default/pods")
        async with proxy.pending("hasty/pods/slow"):
            with traced(calls, "a rejected request"):
                await proxy.get("hasty/pods", 429)
        with traced(calls, "a watch"):
            async with proxy.pending("patient/pods?watch=1"):
                await until(lambda: patient.seats_in_use == 0)
        with traced(calls, "each second"):
            proxy.process.cluster.upstream.look()
        with traced(calls, "SIGHUP"):
            objects.write_text(LEVELS)
            await reload(proxy.process, SettingsFile(None, lambda: proxy.process.settings))
    return calls


async def of_a_fleet() -> Calls:
    calls: Calls = {}
    with traced(calls, "a fleet"):
        async with member(Shelf()) as one:
            assert one.seats
    return calls
