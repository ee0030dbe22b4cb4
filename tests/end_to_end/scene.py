"""A proxy before a scripted upstream, in the event loop of the test."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ParamSpec

import pytest
import uvloop
from msgspec import structs

from apfproxy.app.process import ProxyProcess
from apfproxy.base.clock import LoopClock
from apfproxy.objects.decode import decode_documents, mandatory_objects, suggested_objects
from apfproxy.settings import (
    ENFORCE,
    PROMPT,
    AccessLogSettings,
    Address,
    AuthenticationSettings,
    DownstreamSettings,
    DrainSettings,
    FlowControlSettings,
    HealthCheckSettings,
    Http2Settings,
    LimitSettings,
    OverloadSettings,
    RequestSettings,
    Settings,
    TracingSettings,
    TunnelSettings,
    UpstreamSettings,
    WatchSettings,
)
from tests.end_to_end.http2_peer import HTTP2, SPOKEN, Http2Peer
from tests.end_to_end.peer import WAIT_S, Message, Peer
from tests.end_to_end.upstream import Arrival, Upstream
from tests.support.clocks import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable

    from apfproxy.flowcontrol.priority_level import PriorityLevel
    from apfproxy.objects.types import FlowControlObject

P = ParamSpec("P")

over_both_protocols = pytest.mark.usefixtures("protocol")
"""Runs a test with clients that speak HTTP/1.1, then with clients that speak HTTP/2."""

TRUSTED = "127.0.0.2"
"""The address of clients that may assert identities."""
GET = b"GET /healthz HTTP/1.1\r\nHost: a.test\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
EXEC = (
    b"GET /api/v1/namespaces/a/pods/b/exec?command=ls HTTP/1.1\r\nHost: a\r\n"
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
AGREED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

GATHERED_BYTES = 32768
"""For a body of known length that is waited for."""

NARROW = """
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: narrow, uid: 00000000-0000-0000-0000-00000000aaaa}
spec:
  type: Limited
  limited:
    nominalConcurrencyShares: 1000
    lendablePercent: 0
    borrowingLimitPercent: 0
    limitResponse:
      type: Queue
      queuing: {queues: 1, handSize: 1, queueLengthLimit: 2}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: everybody, uid: 00000000-0000-0000-0000-00000000bbbb}
spec:
  matchingPrecedence: 100
  priorityLevelConfiguration: {name: narrow}
  distinguisherMethod: {type: ByUser}
  rules:
  - subjects:
    - {kind: Group, group: {name: "system:unauthenticated"}}
    - {kind: Group, group: {name: "system:authenticated"}}
    resourceRules:
    - {verbs: ["*"], apiGroups: ["*"], resources: ["*"], clusterScope: true, namespaces: ["*"]}
    nonResourceRules:
    - {verbs: ["*"], nonResourceURLs: ["*"]}
"""
"""Everybody is in one level with one queue of two places; it has nearly all seats."""
REJECTING = NARROW.replace(
    "type: Queue\n      queuing: {queues: 1, handSize: 1, queueLengthLimit: 2}", "type: Reject"
)
"""The same, without a queue."""


def on_uvloop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test in an event loop of its own, of the kind that the program has."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(test(*args, **kwargs))

    return run


async def _deliver(sender: Peer, pieces: Iterable[bytes], has_read: Callable[[], int]) -> None:
    total = 0

    def has_arrived() -> bool:
        return has_read() >= total

    for piece in pieces:
        total = len(piece) + has_read()
        await sender.send(piece)
        await until(has_arrived)


def objects_of(text: str, *, suggested: bool = False) -> list[FlowControlObject]:
    """The objects of a text, with the mandatory ones or all that are built in."""
    decoded = decode_documents(text.encode(), "test")
    assert decoded.problems == []
    return [*mandatory_objects(), *(suggested_objects() if suggested else ()), *decoded.objects]


@dataclass(frozen=True)
class Setup:
    """Holds what a scene is made of; a part left out is as small as a test wants it."""

    objects: str | None = None
    preset: str = "kubernetes"
    seats: int = 600
    enforcement: str = ENFORCE
    limit_adjustment: str = PROMPT
    upstream_reads: bool = True
    buffer_bytes: int | None = None
    downstream: DownstreamSettings = field(
        default_factory=lambda: DownstreamSettings(
            listen=Address(host="127.0.0.1", port=0),
            identity_headers_from=(ipaddress.ip_network(f"{TRUSTED}/32"),),
            # What every system has descriptors for.
            limits=LimitSettings(max_connections=300),
            # Where the tests hold the loop up, that is no reason to refuse anybody.
            overload=OverloadSettings(loop_delay_s=None),
        )
    )
    # Without probes, so that an upstream sees no connection but those of a test's requests.
    upstream: UpstreamSettings = field(
        default_factory=lambda: UpstreamSettings(health_check=HealthCheckSettings(interval_s=None))
    )
    authentication: AuthenticationSettings = field(default_factory=AuthenticationSettings)
    tunnel: TunnelSettings = field(default_factory=TunnelSettings)
    watch: WatchSettings = field(default_factory=WatchSettings)
    drain: DrainSettings = field(default_factory=lambda: DrainSettings(timeout_s=WAIT_S))
    access_log: AccessLogSettings = field(default_factory=AccessLogSettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)
    request: RequestSettings = field(default_factory=RequestSettings)
    admin: Address | None = None

    def with_downstream(self, **changes: Any) -> Setup:  # noqa: ANN401  settings by their names
        return replace(self, downstream=structs.replace(self.downstream, **changes))

    def with_upstream(self, **changes: Any) -> Setup:  # noqa: ANN401  settings by their names
        return replace(self, upstream=structs.replace(self.upstream, **changes))


class Scene:
    """A running proxy, its upstream, and its clients."""

    def __init__(self, process: ProxyProcess, upstream: Upstream, protocol: str) -> None:
        self.expects_errors = False
        self.process = process
        self.upstream = upstream
        self.protocol = protocol
        self._clients: list[Peer] = []

    async def connect(self, *, source: str = "127.0.0.1", buffer_bytes: int | None = None) -> Peer:
        peer = await self.connect_socket(source=source, buffer_bytes=buffer_bytes)
        if self.protocol == HTTP2:
            peer = self._clients[-1] = Http2Peer(peer)
        return peer

    async def connect_socket(
        self, *, source: str = "127.0.0.1", buffer_bytes: int | None = None
    ) -> Peer:
        """A new client that has said nothing, and sends what it is given."""
        peer = await Peer.connect(self.process.port, source=source, buffer_bytes=buffer_bytes)
        self._clients.append(peer)
        return peer

    async def ask(self, request: bytes, *, source: str = "127.0.0.1") -> Peer:
        client = await self.connect(source=source)
        await client.send(request)
        return client

    async def exchange(
        self, request: bytes, answer: bytes = OK, *, source: str = "127.0.0.1"
    ) -> tuple[Message, Message]:
        """Send a request and answer it: what the upstream got, and what the client got."""
        client = await self.ask(request, source=source)
        arrival = await self.upstream.next_request()
        await arrival.peer.send(answer)
        got = await client.read_answer(to_head=request.startswith(b"HEAD "))
        client.close()
        return arrival.request, got

    async def deliver(self, client: Peer, *pieces: bytes) -> None:
        counters = self.process.cluster.counters
        await _deliver(client, pieces, lambda: counters.listener.bytes_from_clients)

    async def deliver_answer(self, upstream_side: Peer, *pieces: bytes) -> None:
        """Have the proxy read pieces of what the upstream sends one by one."""
        counters = self.process.cluster.counters
        await _deliver(upstream_side, pieces, lambda: counters.pool.bytes_received)

    def configure(self, objects: list[FlowControlObject]) -> None:
        controller = self.process.cluster.controller
        digest = controller.digest(objects)
        assert digest.problems == ()
        controller.commit(digest)

    def level(self, name: str = "narrow") -> PriorityLevel:
        return self.process.cluster.controller.levels[name]

    async def take_seat(self, request: bytes = GET, *, source: str = "127.0.0.1") -> Hold:
        client = await self.ask(request, source=source)
        return Hold(client, await self.upstream.next_request())

    def close_clients_but(self, client: Peer) -> None:
        for each in self._clients:
            if each is not client:
                each.close()

    def close_clients(self) -> None:
        for client in self._clients:
            client.close()


class Hold:
    """A request that is under way at the upstream."""

    def __init__(self, client: Peer, arrival: Arrival) -> None:
        self.client = client
        self.arrival = arrival

    async def end(self, answer: bytes = OK) -> Message:
        await self.arrival.peer.send(answer)
        return await self.client.read_answer()


class MovedClock(LoopClock):
    """The process's clock, which a test puts forward."""

    __slots__ = ("_ahead_ns",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        system_ns = self.now_ns
        self._ahead_ns = 0
        self.now_ns = lambda: system_ns() + self._ahead_ns

    def move(self, seconds: float) -> None:
        self._ahead_ns += round(seconds * 1e9)


TURNS = 3
"""For the loop, for tasks that the end of a connection ends, such as a collector's."""


@contextlib.asynccontextmanager
async def running(setup: Setup | None = None, *, upstream_port: int = 0) -> AsyncIterator[Scene]:
    """A proxy before an upstream; at its end all is closed, and nothing may be left."""
    setup = setup or Setup()
    upstream = Upstream(reads=setup.upstream_reads, buffer_bytes=setup.buffer_bytes)
    downstream, protocol = setup.downstream, SPOKEN.get()
    if protocol == HTTP2:
        downstream = structs.replace(downstream, http2=Http2Settings(is_cleartext=True))
    process = ProxyProcess(
        Settings(
            preset=setup.preset,
            downstream=downstream,
            upstream=structs.replace(
                setup.upstream, url=Address(host="127.0.0.1", port=upstream_port or upstream.port)
            ),
            authentication=setup.authentication,
            tunnel=setup.tunnel,
            watch=setup.watch,
            drain=setup.drain,
            flow_control=FlowControlSettings(
                enforcement=setup.enforcement,
                limit_adjustment=setup.limit_adjustment,
                server_concurrency_limit=setup.seats,
                hash_seed=1,
            ),
            access_log=setup.access_log,
            tracing=setup.tracing,
            request=setup.request,
            admin=setup.admin,
        )
    )
    scene = Scene(process, upstream, protocol)
    upstream.start()
    await process.start()
    if setup.objects is not None:
        scene.configure(objects_of(setup.objects))
    try:
        yield scene
    finally:
        scene.close_clients()
        await process.stop()
        await upstream.stop()
        for _ in range(TURNS):
            await asyncio.sleep(0)
    assert {asyncio.current_task()} == asyncio.all_tasks()
    errors = {part: total for part, total in process.faults.totals.items() if total}
    assert scene.expects_errors or not errors, errors
    server, pool = process.server, process.cluster.served.pool
    assert (0, 0, 0) == (server.connection_count, pool.open_count, pool.waiting_count)
    for level in process.cluster.controller.levels.values():
        queue_set = level.queue_set
        assert (0, 0) == (queue_set.requests_waiting, queue_set.requests_executing), level
