"""Servers behind that do as a test says, and the watch of them at a time that a test moves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from apfproxy.base.faults import Faults
from apfproxy.proxy.counters import ProxyCounters
from apfproxy.settings import (
    Address,
    EndpointAddress,
    HealthCheckSettings,
    Settings,
    UpstreamSettings,
)
from apfproxy.upstream.counters import PoolCounters, UpstreamFailure
from apfproxy.upstream.endpoint import DRAIN, Endpoint
from apfproxy.upstream.health import UpstreamHealth

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.upstream.health import EndpointHealth
    from apfproxy.upstream.pool import Pool

S = 1_000_000_000
REFUSED = ConnectionRefusedError(111, "Connection refused")
OFTEN = UpstreamSettings(
    url=Address(host="h", port=1), health_check=HealthCheckSettings(interval_s=5.0)
)
NEVER = replace(OFTEN, health_check=HealthCheckSettings(interval_s=None))


class Server(Endpoint):
    """An endpoint that answers checks, or fails them, as a test says."""

    def __init__(self, name: str, pool: Servers) -> None:
        super().__init__(
            EndpointAddress(address=Address(host=name, port=1)),
            OFTEN,
            PoolCounters(),
            None,
            lambda: 0,
            on_closed=lambda _: None,
            on_failing=pool.tell_failing,
        )
        self.is_drawn = True
        self.probes = 0
        self.asked: list[bytes] = []
        self.error: Exception | None = None
        self.status = 0
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.awaiting = 0
        self.closed_ns = 0

    def close_idle(self, idle_since_ns: int) -> None:
        self.closed_ns = idle_since_ns

    def count_awaiting(self) -> int:
        return self.awaiting

    async def probe(self) -> None:
        self.probes += 1
        await self.may_end.wait()
        if self.error is not None:
            raise self.error

    async def ask(self, question: bytes, limit_s: float) -> int:
        assert limit_s
        self.asked.append(question)
        await self.probe()
        if not self.status:
            raise no_answer()
        return self.status

    def serve(self, answers: int = 0, failures: int = 0, status: int = 200) -> None:
        for _ in range(answers):
            self.answered(status, 1000)
        for _ in range(failures):
            self.fail(UpstreamFailure.ANSWER_TIMEOUT, "no answer within 60 s")


def no_answer() -> Exception:
    from apfproxy.upstream.health_check import NoAnswerError  # noqa: PLC0415

    return NoAnswerError(UpstreamFailure.ANSWER_TIMEOUT, "no answer to a check within 3 s")


class Servers:
    def __init__(self, *names: str) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.on_endpoint_failing: Callable[[Endpoint], None] = lambda _endpoint: None
        self.endpoints = tuple(Server(name, self) for name in names)
        self.weighed = 0
        self.tried_again = 0

    def tell_failing(self, endpoint: Endpoint) -> None:
        self.on_endpoint_failing(endpoint)

    def weigh(self) -> None:
        self.weighed += 1

    def try_again(self) -> None:
        self.tried_again += 1

    @property
    def healthy_count(self) -> int:
        return sum(each.is_well for each in self.endpoints)

    def change(self, *endpoints: Server) -> None:
        before, self.endpoints = self.endpoints, endpoints
        for each in before:
            if each not in endpoints:
                each.state = DRAIN[each.state]
        self.on_change()


class Scene:
    def __init__(self, upstream: UpstreamSettings = NEVER, *names: str, cluster: str = "") -> None:
        self.now_ns = 100 * S
        self.pool = Servers(*(names or ("h",)))
        self.faults = Faults()
        loop = asyncio.get_running_loop()
        self.faults.watch(loop)
        self.changes = 0
        self.settings = Settings(upstream=upstream)
        self.counters = ProxyCounters()
        for server in self.pool.endpoints:
            self.counters.pool.endpoints[server] = server.counters
        self.watch = UpstreamHealth(
            self.settings,
            cast("Pool", self.pool),
            self.counters.pool,
            loop,
            lambda: self.now_ns,
            cluster=cluster,
            own_lines=lambda: b"Authorization: Bearer own\r\n",
            on_change=self._note_change,
            unix_s=lambda: 1000.0 + self.now_ns / S,
        )
        self.watch.draw = lambda: 0.5

    def _note_change(self) -> None:
        self.changes += 1

    @property
    def servers(self) -> tuple[Server, ...]:
        return self.pool.endpoints

    def of(self, server: Server) -> EndpointHealth:
        return self.watch.watches[cast("Endpoint", server)]

    @property
    def states(self) -> list[str]:
        return [self.of(each).state for each in self.servers]

    def configure(self, upstream: UpstreamSettings) -> None:
        self.settings = replace(self.settings, upstream=upstream)
        self.watch.configure(self.settings)

    async def look(self, after_s: float = 1.0) -> None:
        self.now_ns += round(after_s * S)
        self.watch.look()
        await settle()


async def settle() -> None:
    for _ in range(8):
        await asyncio.sleep(0)
