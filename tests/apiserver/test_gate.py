"""The gate of all requests: counts, latencies, faults, time limits, and guarded writes."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request
from multidict import CIMultiDict

from apfproxy.apiserver.counters import ApiServerCounters, RequestLabels
from apfproxy.apiserver.gate import (
    DEFAULT_SERVICE_S,
    EVERY_VERB,
    LONGEST_S,
    Fault,
    Gate,
    Latency,
    Load,
    LoadSettings,
    Shape,
    WriteGuard,
)
from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.lists import METER
from tests.support.clocks import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from aiohttp.typedefs import Handler

PODS = "/api/v1/namespaces/a/pods"
WATCHES = "/api/v1/watch/namespaces/a/pods"
BUDGET = "poddisruptionbudgets"
BUDGETS = f"/apis/policy/v1/namespaces/a/{BUDGET}"
NAMED = "fieldSelector=metadata.name%3Dx"
REQUEST_S = "apfproxy.apiserver.gate.REQUEST_S"


def load_of(settings: LoadSettings) -> Load:
    return Load(settings, random.Random(7), random.Random(7))  # noqa: S311  draws of tests


async def answered(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


async def waiting_midway(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"begun")
    await asyncio.Event().wait()
    return response


class Gated(TestClient[web.Request, web.Application]):
    def __init__(self, handler: Handler = answered, load: LoadSettings | None = None) -> None:
        self.counters = ApiServerCounters()
        self.gate = Gate(handler, KINDS, self.counters, None if load is None else load_of(load))
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.gate.handle)
        super().__init__(TestServer(app, handler_cancellation=True))

    @property
    def in_flight(self) -> list[int]:
        return [kind.executing.count for kind in self.counters.in_flight.kinds]


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("HEAD", f"{PODS}/x", ("GET", "", "v1", "pods", "", "resource", "")),
        ("GET", PODS, ("LIST", "", "v1", "pods", "", "namespace", "")),
        ("GET", f"{PODS}?{NAMED}", ("LIST", "", "v1", "pods", "", "namespace", "")),
        ("GET", "/api/v1/pods", ("LIST", "", "v1", "pods", "", "cluster", "")),
        ("GET", f"{PODS}?watch=1", ("WATCH", "", "v1", "pods", "", "namespace", "")),
        ("GET", f"{WATCHES}/x", ("WATCH", "", "v1", "pods", "", "resource", "")),
        ("POST", f"{PODS}?dryRun=All", ("POST", "", "v1", "pods", "", "resource", "All")),
        ("PUT", f"{PODS}/x/status", ("PUT", "", "v1", "pods", "status", "resource", "")),
        ("POST", f"{PODS}/x/evil", ("POST", "", "v1", "pods", "other", "resource", "")),
        ("GET", f"{PODS}/x?dryRun=x", ("GET", "", "v1", "pods", "", "resource", "invalid")),
        ("GET", f"{PODS}/x?dryRun=", ("GET", "", "v1", "pods", "", "resource", "")),
        ("DELETE", f"{BUDGETS}/x", ("DELETE", "policy", "v1", BUDGET, "", "resource", "")),
        ("DELETE", BUDGETS, ("DELETE", "policy", "v1", BUDGET, "", "namespace", "")),
        ("GET", "/apis/evil/v1/things/x", ("GET", "", "", "", "", "", "")),
        ("OPTIONS", "/version", ("other", "", "", "", "", "", "")),
    ],
)  # fmt: skip
async def test_labels(method: str, path: str, expected: tuple[str, ...]) -> None:
    async with Gated() as client, client.request(method, path):
        pass
    assert [RequestLabels(*expected)] == list(client.counters.requests)


async def test_share_in_the_load() -> None:
    seen: list[object] = []

    async def look(_request: web.Request) -> web.Response:
        seen.append(client.in_flight)
        if (meter := METER.get()) is not None:
            meter.on_initial()
            seen.extend((client.in_flight, +client.counters.long_running))
        return web.Response()

    async with Gated(look, LoadSettings()) as client:
        for method, path in (("GET", PODS), ("POST", PODS), ("GET", f"{PODS}?watch=1&{NAMED}")):
            async with client.request(method, path):
                pass
        await client.gate.drain(1)
        async with client.get(PODS) as response:
            assert (429, "5") == (response.status, response.headers["Retry-After"])
            assert "close" == response.headers["Connection"]

    labels = RequestLabels("WATCH", "", "v1", "pods", "", "resource")
    assert [[1, 0], [0, 1], [1, 0], [0, 0], {labels: 1}] == seen
    assert ([0, 0], {}) == (client.in_flight, +client.counters.long_running)


@pytest.mark.parametrize(("path", "sizes"), [(f"{PODS}?watch=1", 1), (f"{WATCHES}/x", 0)])
async def test_clients_that_leave_watches(path: str, sizes: int) -> None:
    async with Gated(waiting_midway) as client:
        async with client.get(path):
            pass
        await until(lambda: client.counters.requests)
    (counted,) = client.counters.requests.values()
    assert {200: 1} == counted.by_code
    assert sizes == sum(counted.response_bytes.counts)


async def never(_request: web.Request) -> web.Response:
    raise AssertionError


async def test_faults_instead_of_responses() -> None:
    async with Gated(never, LoadSettings(faults={Fault.ERROR: 1})) as client:
        async with client.get(PODS) as response:
            assert (500, "InternalError") == (response.status, (await response.json())["reason"])
        assert {"500": 1} == client.counters.injected_faults
    async with Gated(never, LoadSettings(faults={Fault.RESET: 1})) as client:
        with pytest.raises(aiohttp.ClientError):
            await client.get(PODS)
        assert {"reset": 1} == client.counters.injected_faults


async def test_stall() -> None:
    async with Gated(never, LoadSettings(faults={Fault.STALL: 1})) as client:
        request = asyncio.gather(client.get(PODS), return_exceptions=True)
        await until(lambda: client.counters.injected_faults)
        is_open = not request.done()
        await client.gate.drain(5)
        (error,) = await request
    assert is_open
    assert isinstance(error, aiohttp.ClientError)


async def read_to_end(request: web.Request) -> web.Response:
    await request.read()
    return web.Response(text="ok")


async def endless_body() -> AsyncIterator[bytes]:
    yield b"{"
    await asyncio.Event().wait()


async def test_slow_bodies(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(REQUEST_S, 0.01)
    async with Gated(read_to_end) as client, client.post(PODS, data=endless_body()) as response:
        status = await response.json()
    labels = RequestLabels("POST", "", "v1", "pods", "", "resource")
    assert (504, "Timeout") == (status["code"], status["reason"])
    assert {(labels, 504): 1} == client.counters.terminations
    assert ([0, 0], []) == (client.in_flight, caplog.messages)


@pytest.mark.parametrize(
    ("latency_s", "path", "status", "counted"),
    [
        (60, f"{PODS}?timeout=10ms", 504, 1),
        (60, f"{PODS}?timeout=5", 400, 0),
        (0.02, f"{PODS}?timeout=0s", 200, 0),
        (0.02, f"{PODS}?watch=1&timeout=10ms", 200, 0),
    ],
)
async def test_time_limits(latency_s: float, path: str, status: int, counted: int) -> None:
    """The time limit, which a parameter may shorten, is of the latency, too; a watch has none."""
    slow = LoadSettings(latency={EVERY_VERB: Latency(Shape.FIXED, latency_s)})
    async with Gated(load=slow) as client, client.get(path) as response:
        assert status == response.status
    assert counted == client.counters.terminations.total()


async def test_slow_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REQUEST_S, 0.01)
    async with Gated(waiting_midway) as client, client.get(PODS) as response:
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
    monkeypatch.setattr(REQUEST_S, 0)
    async with Gated() as client, client.get(f"{PODS}?watch=1") as response:
        assert 200 == response.status


@pytest.mark.parametrize(
    ("latency", "least", "median", "greatest"),
    [
        (Latency(Shape.FIXED, 0.005), 0.005, 0.005, 0.005),
        (Latency(Shape.UNIFORM, 0.02, 0.05), 0.02, 0.035, 0.05),
        (Latency(Shape.EXPONENTIAL, 0.01), 0, 0.00693, 0.12),
        (Latency(Shape.EXPONENTIAL, 0.0), 0, 0, 0),
        (Latency(Shape.NORMAL, 0.01, 0.002), 0, 0.01, 0.02),
        (Latency(Shape.NORMAL, 0.0, 1.0), 0, None, 5),
        (Latency(Shape.LOGNORMAL, 0.01, 0.5), 0, 0.01, 0.1),
        (Latency(Shape.LOGNORMAL, 1.0, 1e9), 0, None, LONGEST_S),
    ],
)
def test_distributions(
    latency: Latency, least: float, median: float | None, greatest: float
) -> None:
    chance = random.Random(7)  # noqa: S311  draws of tests
    drawn = sorted(latency.draw(chance) for _ in range(2000))
    assert least <= drawn[0]
    assert drawn[-1] <= greatest
    if median is not None:
        assert median == pytest.approx(drawn[1000], rel=0.1)


@pytest.mark.parametrize(
    ("latency", "verb", "concurrency", "delay_s"),
    [
        ({"list": 0.02, EVERY_VERB: 0.005}, "get", 1, 0.005),
        ({"list": 0.02, EVERY_VERB: 0.005}, "list", 20, 0.02),
        ({"list": 0.02, EVERY_VERB: 0.005}, "get", 80, 0.04),
        ({}, "get", 20, 0),
        ({}, "get", 80, 7 * DEFAULT_SERVICE_S),
    ],
)
def test_delays(latency: dict[str, float], verb: str, concurrency: int, delay_s: float) -> None:
    fixed = {each: Latency(Shape.FIXED, value_s) for each, value_s in latency.items()}
    load = load_of(LoadSettings(latency=fixed, capacity=20))
    assert delay_s == pytest.approx(load.delay_s(verb, concurrency))


def test_draws_of_faults() -> None:
    latency = {EVERY_VERB: Latency(Shape.UNIFORM, 0.0, 1.0)}
    settings = LoadSettings(latency, faults={Fault.ERROR: 0.1, Fault.RESET: 0.2})
    first, second, plain = map(load_of, (settings, settings, LoadSettings(latency)))
    drawn = [first.fault() for _ in range(5000)]

    assert drawn == [second.fault() for _ in range(5000)]
    assert plain.fault() is None
    assert plain.delay_s("get", 1) == first.delay_s("get", 1)
    assert 500 == pytest.approx(drawn.count(Fault.ERROR), rel=0.1)
    assert 1000 == pytest.approx(drawn.count(Fault.RESET), rel=0.1)


TOKEN = b"0123456789abcdef"
BEARER = ("Authorization", "Bearer 0123456789abcdef")
NONE = ("Sec-Fetch-Site", "none")


async def status_of(guard: WriteGuard, *headers: tuple[str, str], method: str = "POST") -> int:
    sent = CIMultiDict(headers)
    sent.setdefault("Host", "127.0.0.1:8081")
    return (await guard.handle(make_mocked_request(method, "/apis/x", headers=sent))).status


@pytest.mark.parametrize(
    ("method", "expected"),
    [(method, 200) for method in ("GET", "HEAD", "OPTIONS")]
    + [(method, 403) for method in ("POST", "PUT", "PATCH", "DELETE", "POSE")],
)
async def test_from_other_machines(method: str, expected: int) -> None:
    guard = WriteGuard(answered, lambda: False)
    assert expected == await status_of(guard, ("Host", "evil"), ("Origin", "null"), method=method)


@pytest.mark.parametrize(
    ("headers", "expected", "behind_a_proxy"),
    [
        ([], 200, 200),
        ([("Host", "localhost:1")], 200, 200),
        ([("Host", "[::1]:8081")], 200, 200),
        ([("Host", "evil.example")], 403, 200),
        ([("Host", "")], 403, 200),
        ([("Origin", "http://127.0.0.1:8081")], 403, 403),
        ([("Origin", "null")], 403, 403),
        ([("Sec-Fetch-Site", "same-site")], 403, 403),
        ([NONE, ("Sec-Fetch-Site", "cross-site")], 403, 403),
        ([NONE], 200, 200),
        ([("Authorization", "Bearer whatever")], 200, 200),
    ],
)
async def test_from_this_machine(
    headers: Sequence[tuple[str, str]], expected: int, behind_a_proxy: int
) -> None:
    """On loopback every client writes that is no browser; a proxy has a host name of its own."""
    assert expected == await status_of(WriteGuard(answered, lambda: True), *headers)
    guard = WriteGuard(answered, lambda: True, checks_host=False)
    assert behind_a_proxy == await status_of(guard, *headers)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], 401),
        ([BEARER], 200),
        ([("Authorization", "bearer  0123456789abcdef")], 200),
        ([("Authorization", "Bearer 0123456789abcdeg")], 401),
        ([("Authorization", "Bearer")], 401),
        ([("Authorization", "Bearer \xff")], 401),
        ([("Authorization", "Basic 0123456789abcdef")], 401),
        ([BEARER, ("Origin", "http://evil")], 200),
        ([BEARER, BEARER], 401),
    ],
)
async def test_token(headers: Sequence[tuple[str, str]], expected: int) -> None:
    assert expected == await status_of(WriteGuard(answered, lambda: False, lambda: TOKEN), *headers)


async def test_no_token_to_compare(caplog: pytest.LogCaptureFixture) -> None:
    """Without a token that can be read all writes are refused; only the log says why, once."""
    problems = ["gone", "gone", "", "gone", "empty"]

    def broken() -> bytes:
        if problem := problems.pop(0):
            raise ValueError(f"the token file is {problem}")
        return TOKEN

    guard = WriteGuard(answered, lambda: True, broken)
    found = [await guard.handle(make_mocked_request("POST", "/")) for _ in range(5)]

    assert [500, 500, 401, 500, 500] == [response.status for response in found]
    assert not any("token file" in (getattr(response, "text", "") or "") for response in found)
    assert ["gone", "gone", "empty"] == [text.rpartition(" ")[2] for text in caplog.messages]
