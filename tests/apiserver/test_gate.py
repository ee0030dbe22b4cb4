"""What every request passes."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Self

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from apfproxy.apiserver.counters import ApiServerCounters, RequestLabels
from apfproxy.apiserver.gate import Gate
from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.load import EVERY_VERB, Fault, Latency, Load, LoadSettings, Shape
from apfproxy.apiserver.watches import ON_INITIAL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp.typedefs import Handler

    Client = TestClient[web.Request, web.Application]

PODS = "/api/v1/namespaces/a/pods"
BUDGET = "poddisruptionbudgets"
BUDGETS = f"/apis/policy/v1/namespaces/a/{BUDGET}"


async def answered(_request: web.Request) -> web.Response:
    """Answer at once."""
    return web.Response(text="ok")


class Gated:
    """A handler behind a gate, and its client.

    Args:
        handler: Answers what passes.
        load: How slow and faulty the server is.
    """

    def __init__(self, handler: Handler = answered, load: LoadSettings | None = None) -> None:
        self.counters = ApiServerCounters()
        chances = random.Random(1), random.Random(1)  # noqa: S311  draws of tests
        self.load = None if load is None else Load(load, *chances)
        self.gate = Gate(handler, KINDS, self.counters, self.load)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.gate.handle)
        self.client: Client = TestClient(TestServer(app, handler_cancellation=True))

    async def __aenter__(self) -> Self:
        await self.client.start_server()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()

    @property
    def labels(self) -> list[RequestLabels]:
        """Of all requests so far."""
        return list(self.counters.requests)


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", f"{PODS}/x", ("GET", "", "v1", "pods", "", "resource", "")),
        ("HEAD", f"{PODS}/x", ("GET", "", "v1", "pods", "", "resource", "")),
        ("GET", PODS, ("LIST", "", "v1", "pods", "", "namespace", "")),
        ("GET", "/api/v1/pods", ("LIST", "", "v1", "pods", "", "cluster", "")),
        ("GET", f"{PODS}?watch=1", ("WATCH", "", "v1", "pods", "", "namespace", "")),
        ("POST", f"{PODS}?dryRun=All", ("POST", "", "v1", "pods", "", "resource", "All")),
        ("PUT", f"{PODS}/x/status", ("PUT", "", "v1", "pods", "status", "resource", "")),
        ("POST", f"{PODS}/x/evil", ("POST", "", "v1", "pods", "other", "resource", "")),
        ("GET", f"{PODS}/x?dryRun=x", ("GET", "", "v1", "pods", "", "resource", "invalid")),
        ("DELETE", PODS, ("DELETECOLLECTION", "", "v1", "pods", "", "namespace", "")),
        ("DELETE", f"{BUDGETS}/x", ("DELETE", "policy", "v1", BUDGET, "", "resource", "")),
        ("GET", "/apis/evil/v1/things/x", ("GET", "", "", "", "", "", "")),
        ("OPTIONS", "/version", ("other", "", "", "", "", "", "")),
    ],
)  # fmt: skip
async def test_labels(method: str, path: str, expected: tuple[str, ...]) -> None:
    """Requests are counted by what they are about; names that are not served are no labels."""
    async with Gated() as gated, gated.client.request(method, path):
        pass

    assert [RequestLabels(*expected)] == gated.labels


async def test_apply() -> None:
    """A patch that applies a configuration has a verb of its own."""
    async with Gated() as gated:
        headers = {"Content-Type": "application/apply-patch+yaml"}
        async with gated.client.patch(f"{PODS}/x", headers=headers):
            pass

    assert ["APPLY"] == [each.verb for each in gated.labels]


async def test_in_flight() -> None:
    """A request counts while it is there, a watch until its initial events are written."""
    seen: list[tuple[int, int]] = []

    async def look(_request: web.Request) -> web.Response:
        counters = gated.counters
        seen.append((counters.in_flight["readOnly"], counters.in_flight["mutating"]))
        if (on_initial := ON_INITIAL.get()) is not None:
            on_initial()
            seen.append((counters.in_flight["readOnly"], counters.in_flight["mutating"]))
            seen.append((sum(each.long_running for each in counters.requests.values()), 0))
        return web.Response()

    async with Gated(look, LoadSettings()) as gated:
        for method, path in (("GET", PODS), ("POST", PODS), ("GET", f"{PODS}?watch=1")):
            async with gated.client.request(method, path):
                pass
        await gated.gate.drain(1)

    assert [(1, 0), (0, 1), (1, 0), (0, 0), (1, 0)] == seen
    assert {"mutating": 0, "readOnly": 0} == gated.counters.in_flight
    assert 0 == sum(each.long_running for each in gated.counters.requests.values())


async def test_error_fault() -> None:
    """A fault of 500 is a Status object, and the request is not carried out."""

    async def never(_request: web.Request) -> web.Response:
        raise AssertionError

    faults = LoadSettings(faults={Fault.ERROR: 1.0})
    async with Gated(never, faults) as gated, gated.client.get(PODS) as response:
        body = await response.json()

    assert (500, "InternalError") == (response.status, body["reason"])
    assert {"500": 1} == gated.counters.injected_faults


async def test_reset() -> None:
    """A reset is the end of the connection, without an answer."""
    async with Gated(load=LoadSettings(faults={Fault.RESET: 1.0})) as gated:
        with pytest.raises(aiohttp.ClientError):
            await gated.client.get(PODS)

    assert {"reset": 1} == gated.counters.injected_faults


async def test_stall() -> None:
    """A request that stalls has no answer, until the server stops."""
    async with Gated(load=LoadSettings(faults={Fault.STALL: 1.0})) as gated:
        request = asyncio.gather(gated.client.get(PODS), return_exceptions=True)
        for _ in range(10_000):
            if gated.counters.injected_faults:
                break
            await asyncio.sleep(0)
        is_open = not request.done()
        await gated.gate.drain(5)
        (error,) = await request

    assert is_open
    assert isinstance(error, aiohttp.ClientError)


async def test_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request waits as long as is drawn for it, before it is carried out."""
    waits = []
    real = asyncio.sleep

    async def sleep(delay_s: float) -> None:
        waits.append(delay_s)
        await real(0)

    fixed = LoadSettings(latency={EVERY_VERB: Latency(Shape.FIXED, 12.5)})
    async with Gated(load=fixed) as gated:
        monkeypatch.setattr("apfproxy.apiserver.gate.asyncio.sleep", sleep)
        async with gated.client.get(PODS) as response:
            assert 200 == response.status
        monkeypatch.undo()

    assert 12.5 in waits
    assert {"mutating": 0, "readOnly": 0} == gated.counters.in_flight


async def read_to_end(request: web.Request) -> web.Response:
    """Answer once the body is there."""
    await request.read()
    return web.Response(text="ok")


async def waiting_midway(request: web.Request) -> web.StreamResponse:
    """Begin an answer that never ends."""
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"begun")
    await asyncio.Event().wait()
    return response


async def endless_body() -> AsyncIterator[bytes]:
    """A body that does not end."""
    yield b"{"
    await asyncio.Event().wait()


async def test_slow_bodies(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A request whose body does not come in time is answered that it took too long."""
    monkeypatch.setattr("apfproxy.apiserver.gate.REQUEST_S", 0.01)
    async with (
        Gated(read_to_end) as gated,
        gated.client.post(PODS, data=endless_body()) as response,
    ):
        status = await response.json()

    assert (504, "Timeout") == (status["code"], status["reason"])
    assert 0 == gated.counters.in_flight["mutating"]
    assert [] == caplog.messages


async def test_slow_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is not over in time is cut, and does not seem complete."""
    monkeypatch.setattr("apfproxy.apiserver.gate.REQUEST_S", 0.01)
    async with Gated(waiting_midway) as gated, gated.client.get(PODS) as response:
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()


async def test_watches_may_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch has no such limit."""
    monkeypatch.setattr("apfproxy.apiserver.gate.REQUEST_S", 0)
    async with Gated() as gated, gated.client.get(f"{PODS}?watch=1") as response:
        assert 200 == response.status
