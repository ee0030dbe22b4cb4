"""A data plane without sockets: connections on fake transports, on a loop whose time is virtual.

Everything else is real: the parsers, the pool, the flow control.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast
from unittest.mock import patch

from msgspec.structs import replace

from apfproxy.authn.certificates import ClientCertificates
from apfproxy.authn.credentials import Peer
from apfproxy.base.sockets import RESET
from apfproxy.base.tasks import spawn
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.passage import FlowControl
from apfproxy.http.read_buffer import READ_BYTES
from apfproxy.objects.decode import decode_documents
from apfproxy.proxy import exchange as exchange_module
from apfproxy.proxy.cluster_router import ClusterRouter
from apfproxy.proxy.context import Context, ListenerContext
from apfproxy.proxy.counters import ProxyCounters
from apfproxy.proxy.head_reader import HeadReader
from apfproxy.proxy.http1_connection import Http1Connection
from apfproxy.proxy.request_log import LogBudget, RequestLog
from apfproxy.proxy.tracing import Tracer
from apfproxy.request.attributes import User
from apfproxy.settings import (
    ENFORCE,
    KUBERNETES_API,
    OBSERVE,
    AccessLogSettings,
    Address,
    AuthenticationSettings,
    DownstreamSettings,
    FlowControlSettings,
    Settings,
    TracingSettings,
    UpstreamSettings,
)
from apfproxy.upstream import pool as pool_module
from apfproxy.upstream.pool import Pool, PoolWaiter
from tests.support.clocks import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from types import TracebackType

    from apfproxy.authn.authenticator import Authenticator
    from apfproxy.base.clock import Clock
    from apfproxy.proxy.request import Request
    from apfproxy.proxy.tracing import RequestTrace
    from apfproxy.simulation.virtual_clock import VirtualTimer
    from apfproxy.upstream.endpoint import UpstreamConnection

Result = TypeVar("Result")
S = 1_000_000_000
"""Nanoseconds of a second."""

OBJECTS = b"""
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: queued}
spec:
  type: Limited
  limited:
    nominalConcurrencyShares: 100000
    limitResponse: {type: Queue, queuing: {queues: 1, handSize: 1, queueLengthLimit: 3}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: refusing}
spec:
  type: Limited
  limited: {nominalConcurrencyShares: 1, limitResponse: {type: Reject}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: refusing, uid: schema-uid}
spec:
  matchingPrecedence: 100
  priorityLevelConfiguration: {name: refusing}
  rules:
  - subjects: [{kind: User, user: {name: "*"}}]
    nonResourceRules: [{verbs: ["*"], nonResourceURLs: ["/refusing"]}]
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: queued}
spec:
  matchingPrecedence: 200
  priorityLevelConfiguration: {name: queued}
  rules:
  - subjects: [{kind: User, user: {name: "*"}}]
    nonResourceRules: [{verbs: ["*"], nonResourceURLs: ["*"]}]
    resourceRules:
    - {verbs: ["*"], apiGroups: ["*"], resources: ["*"], clusterScope: true, namespaces: ["*"]}
"""
"""A level with one queue for everything but `/refusing`, whose level has none."""


class FakeLoop:
    """`errors` takes what is contained; while it is None, an error is raised."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._ready: deque[Callable[[], object]] = deque()
        self.errors: list[BaseException] | None = None

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.errors is None:
            raise context["exception"]
        self.errors.append(context["exception"])

    def time(self) -> float:
        return self._clock.now_ns() / 1e9

    def call_soon(self, callback: Callable[..., object], *args: object) -> None:
        self._ready.append(partial(callback, *args))

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> VirtualTimer:
        return self._clock.call_at(self._clock.now_ns() + round(delay_s * 1e9), callback)

    def run_ready(self) -> None:
        while self._ready:
            self._ready.popleft()()

    def as_event_loop(self) -> asyncio.AbstractEventLoop:
        return cast("asyncio.AbstractEventLoop", self)


class FakeTransport(asyncio.Transport):
    """Keeps what is written, delivers what a test feeds, and ends as real ones do."""

    def __init__(self, loop: FakeLoop, peer: object = ("10.0.0.1", 4711)) -> None:
        super().__init__()
        self._loop = loop
        self._peer = peer
        self._inbox: deque[bytes] = deque()
        self._is_lost = False
        self.protocol: asyncio.BufferedProtocol
        self.written = bytearray()
        self.reads = True
        self.has_eof = False
        self.ended_by = ""
        self.is_stuck = False
        self.plain_socket: object = None
        self.is_tls = False
        self.tls: object = None
        self.high_water = 0

    def connect(self, protocol: asyncio.BufferedProtocol) -> None:
        self.protocol = protocol
        protocol.connection_made(self)

    # What a test does.

    def feed(self, data: bytes) -> None:
        for start in range(0, len(data), READ_BYTES):
            self._inbox.append(data[start : start + READ_BYTES])
        self._deliver()

    def end(self, error: Exception | None = None) -> None:
        if self.ended_by:
            return
        if error is None and self.protocol.eof_received():
            self._loop.run_ready()
            return
        self.ended_by = self.ended_by or "peer"
        if error is not None or not self.is_stuck:
            self._lose(error)
        self._loop.run_ready()

    def take(self) -> bytes:
        taken = bytes(self.written)
        self.written.clear()
        return taken

    def _deliver(self) -> None:
        while self._inbox and self.reads and not self.ended_by:
            data = self._inbox.popleft()
            buffer = cast("bytearray", self.protocol.get_buffer(-1))
            if len(data) > len(buffer):
                self._inbox.appendleft(data[len(buffer) :])
                data = data[: len(buffer)]
            buffer[: len(data)] = data
            self.protocol.buffer_updated(len(data))
            buffer[: len(data)] = b"?" * len(data)  # as the next read: no view may be in use now

    def _lose(self, error: Exception | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._loop.call_soon(self.protocol.connection_lost, error)

    # What the protocol does.

    def get_extra_info(self, name: str, default: object = None) -> object:
        found = {"peername": self._peer, "ssl_object": self.tls, "socket": self.plain_socket}
        return found.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:  # noqa: ARG002  the base's signature
        self.high_water = high or 0

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        assert not self.has_eof, "written after the end"
        if not self.ended_by:
            self.written += data

    def can_write_eof(self) -> bool:
        return not self.is_tls

    def write_eof(self) -> None:
        self.has_eof = True

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = cast("asyncio.BufferedProtocol", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol

    def get_write_buffer_size(self) -> int:
        return len(self.written) if self.is_stuck else 0

    def pause_reading(self) -> None:
        assert self.reads, "paused twice"
        self.reads = False

    def resume_reading(self) -> None:
        assert not self.reads, "resumed without a pause"
        self.reads = True
        self._loop.call_soon(self._deliver)

    def is_closing(self) -> bool:
        return bool(self.ended_by)

    def close(self) -> None:
        self.ended_by = self.ended_by or "close"
        if not self.is_stuck:
            self._lose(None)

    def abort(self) -> None:
        self.ended_by = "abort" if self.ended_by in {"", "close"} else self.ended_by
        self._lose(None)


class Linger:
    """A socket of which only SO_LINGER counts."""

    def __init__(self) -> None:
        self.resets = False

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        assert (socket.SOL_SOCKET, socket.SO_LINGER) == (level, option)
        self.resets = value == RESET

    def fileno(self) -> int:
        return -1


class Certificates(ClientCertificates):
    """Takes for a certificate the name of its user; the empty one is no good."""

    def __init__(self) -> None:
        super().__init__(None, None)

    def judge(self, leaf_der: bytes, chain: Sequence[bytes] = ()) -> Peer:  # noqa: ARG002  the base's
        if not leaf_der:
            return Peer(has_certificate=True, problem="no good")
        if leaf_der == b"front":
            return Peer(is_front_proxy=True, has_certificate=True)
        return Peer(User(leaf_der.decode(), ()), has_certificate=True)


class Tls:
    def __init__(self, certificate: bytes | None) -> None:
        self.certificate = certificate

    def getpeercert(self, *, binary_form: bool) -> bytes | None:
        assert binary_form
        return self.certificate

    def get_unverified_chain(self) -> list[bytes]:
        return [] if self.certificate is None else [self.certificate]


class Returner(PoolWaiter):
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def on_connection(self, connection: UpstreamConnection) -> None:
        self._pool.release(connection, S)

    def on_no_connection(self, code: int, reason: str) -> None:
        raise AssertionError((code, reason))

    def fail(self, error: Exception) -> None:
        raise error


def with_upstream(settings: UpstreamSettings) -> UpstreamSettings:
    if settings.addresses:
        return settings
    return replace(settings, url=Address(host="upstream", port=80))


def request_log(settings: AccessLogSettings, clock: Clock, lines: list[bytes]) -> RequestLog:
    def write(make: Callable[[], bytes], number: int, _: int) -> None:
        made = make().splitlines()
        assert number == len(made)
        lines.extend(made)

    def fail(error: Exception) -> None:
        raise error

    return RequestLog(settings, clock, write, LogBudget(settings), fail)


class Bench:
    """The data plane between a client's transports and an upstream's."""

    def __init__(  # noqa: PLR0913  what tests vary
        self,
        *,
        seats: int = 1,
        idle_upstreams: int = 1,
        downstream: DownstreamSettings | None = None,
        upstream: UpstreamSettings | None = None,
        authentication: AuthenticationSettings | None = None,
        authenticator: Callable[[VirtualClock], Authenticator] | None = None,
        gathered_body_bytes: int = 0,
        enforcement: str = ENFORCE,
        preset: str = KUBERNETES_API,
        access_log: AccessLogSettings | None = None,
        tracing: TracingSettings | None = None,
    ) -> None:
        # Of two benches at once the one that ends last would leave its `spawn` to all other tests.
        assert spawn is vars(pool_module)["spawn"], "another bench has not ended"
        self.clock = VirtualClock(S)
        self.loop = FakeLoop(self.clock)
        self.controller = Controller(self.clock, seats, 0)
        self.apply(OBJECTS)
        self.counters = ProxyCounters()
        self.settings = Settings(
            preset=preset,
            downstream=downstream or DownstreamSettings(),
            upstream=with_upstream(upstream or UpstreamSettings()),
            authentication=authentication or AuthenticationSettings(),
            flow_control=FlowControlSettings(enforcement=enforcement),
            access_log=access_log or AccessLogSettings(),
        )
        self.log_lines: list[bytes] = []
        self.pool = Pool(self.settings.upstream, self.counters.pool)
        self.passage_errors: list[Exception] = []
        self.flow_control = FlowControl(
            self.controller,
            self.clock,
            unix_s=lambda: 10**9 + self.clock.now_ns() // S,
            on_error=self.passage_errors.append if enforcement == OBSERVE else None,
        )
        self.kinds, self.costs = self.flow_control.kinds, self.flow_control.costs
        self.listener = ListenerContext(
            self.settings, self.counters.listener, self.clock, self.loop.as_event_loop()
        )
        self.context = Context(
            self.settings,
            self.listener,
            self.flow_control,
            self.pool,
            self.counters,
            None if authenticator is None else authenticator(self.clock),
        )
        self.router = ClusterRouter(self.context)
        if access_log is not None:
            self.context.access_log = request_log(access_log, self.clock, self.log_lines)
        self.traces: list[RequestTrace] = []
        if tracing is not None:
            self.context.tracer = Tracer(tracing, self.traces.append)
        self.context.in_force.gathered_body_bytes = gathered_body_bytes
        self.connecting: list[asyncio.Task[None]] = []
        self.upstreams: list[FakeTransport] = []
        # Connections come up in tasks of a loop of their own, which runs in `connect` only.
        self._tasks_loop = asyncio.new_event_loop()
        cast("Any", self._tasks_loop).create_connection = self._create_connection
        self._attempts: deque[asyncio.Future[BaseException | str]] = deque()
        self.authenticating: list[asyncio.Task[None]] = []
        self._patches = (
            patch.object(pool_module, "spawn", partial(self._spawn, self.connecting)),
            patch.object(exchange_module, "spawn", partial(self._spawn, self.authenticating)),
        )
        for each in self._patches:
            each.start()
        for _ in range(idle_upstreams):
            self.pool.wait(Returner(self.pool))
            self.connect()

    def apply(self, objects: bytes) -> None:
        decoded = decode_documents(objects, "objects.yaml")
        digest = self.controller.digest(decoded.objects)
        assert not decoded.problems
        assert not digest.problems
        self.controller.commit(digest)

    def annotate(self, annotations: bytes) -> None:
        schema = b"metadata: {name: queued}\nspec:\n  matchingPrecedence"
        assert 1 == OBJECTS.count(schema)
        annotated = schema.replace(b"queued}", b"queued, annotations: {%b}}" % annotations)
        self.apply(OBJECTS.replace(schema, annotated))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for each in self._patches:
            each.stop()
        tasks = (*self.connecting, *self.authenticating)
        for task in tasks:
            task.cancel()
        self._tasks_loop.run_until_complete(
            asyncio.gather(*tasks, return_exceptions=True) if tasks else asyncio.sleep(0)
        )
        self._tasks_loop.close()

    def _spawn(
        self, tasks: list[asyncio.Task[None]], coroutine: Coroutine[Any, Any, None], *, name: str
    ) -> asyncio.Task[None]:
        tasks.append(self._tasks_loop.create_task(coroutine, name=name))
        return tasks[-1]

    def request_of(self, head: bytes, address: str = "10.0.0.1") -> Request:
        return self.reader(address).read(head, None, 0)

    def reader(self, address: str = "10.0.0.1") -> HeadReader:
        reader = HeadReader(self.router)
        reader.address = address
        return reader

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        return self._tasks_loop.run_until_complete(coroutine)

    def run_tasks(self) -> None:
        for _ in range(5):
            self._tasks_loop.run_until_complete(asyncio.sleep(0))
        self.loop.run_ready()

    async def _create_connection(
        self, factory: Callable[[], asyncio.BufferedProtocol], host: str, port: int
    ) -> tuple[FakeTransport, asyncio.BufferedProtocol]:
        address = self.settings.upstream.address
        assert (host, port) == (address.host, address.port)
        attempt: asyncio.Future[BaseException | str] = self._tasks_loop.create_future()
        self._attempts.append(attempt)
        outcome = await attempt
        if isinstance(outcome, BaseException):
            raise outcome
        transport = FakeTransport(self.loop)
        self.upstreams.append(transport)
        protocol = factory()
        transport.connect(protocol)
        if outcome == "lost":
            transport.end()
        return transport, protocol

    def connect(self, outcome: BaseException | str = "") -> None:
        """Finish the oldest connection under way, perhaps with an error, or `lost` at once."""
        task = self.connecting.pop(0)

        async def finish() -> None:
            await asyncio.sleep(0)  # lets the task begin
            self._attempts.popleft().set_result(outcome)
            await task

        self._tasks_loop.run_until_complete(finish())
        self.loop.run_ready()

    def client(self, peer: object = ("10.0.0.1", 4711), tls: object = None) -> FakeTransport:
        transport = FakeTransport(self.loop, peer)
        transport.tls = tls
        connection = Http1Connection(self.listener, self.router)
        transport.connect(cast("asyncio.BufferedProtocol", connection))
        return transport

    def ask(self, request: bytes) -> FakeTransport:
        client = self.client()
        self.send(client, request)
        return client

    def send(self, transport: FakeTransport, data: bytes) -> None:
        transport.feed(data)
        self.loop.run_ready()

    def end(self, transport: FakeTransport, error: Exception | None = None) -> None:
        transport.end(error)

    def wait(self, duration_s: float) -> None:
        now_ns = self.clock.now_ns() + round(duration_s * S)
        self.clock.run_until(now_ns)
        for look in list(self.context.slow_readers.watched.values()):
            look(round(duration_s * S))
        for connection in [c for c in self.listener.connections if 0 < c.deadline_ns <= now_ns]:
            connection.on_deadline()
        self.loop.run_ready()

    def use(self) -> tuple[int, int, int]:
        levels = self.controller.levels.values()
        return (
            sum(level.queue_set.seats_in_use for level in levels),
            sum(level.queue_set.requests_waiting for level in levels),
            self.pool.waiting_count,
        )

    def logged(self) -> list[dict[str, Any]]:
        assert self.context.access_log is not None
        self.context.access_log.flush()
        return [json.loads(line) for line in self.log_lines]

    def in_use_by_kind(self) -> list[str]:
        return [
            repr(count)
            for count in (*self.kinds._waiting, *self.kinds._executing)  # noqa: SLF001  nothing else tells
            if count.count
        ]

    def assert_at_rest(self, *ending: FakeTransport) -> None:
        for transport in ending:
            self.end(transport)
        assert (0, 0, 0) == self.use()
        assert [] == self.in_use_by_kind()
        levels = self.controller.levels.values()
        assert [] == [t for level in levels for t in level.queue_set.executing]
        assert not self.costs._watches  # noqa: SLF001  nothing else tells
        assert (0, {}) == (self.counters.listener.held_bytes, self.listener.holdings.by_address)


def connection_of(transport: FakeTransport) -> Http1Connection:
    assert isinstance(transport.protocol, Http1Connection)
    return transport.protocol


def broken(*_: object, **__: object) -> None:
    raise ZeroDivisionError("a bug")


def status(answer: bytes) -> bytes:
    return answer[9:12]


def body(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


GET = b"GET /api/v1/namespaces/a/pods/b HTTP/1.1\r\nHost: h\r\n\r\n"
LIST = b"GET /api/v1/pods HTTP/1.1\r\nHost: h\r\n\r\n"
WATCH = b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: h\r\n\r\n"
LOG = b"GET /api/v1/namespaces/a/pods/b/log?follow=1 HTTP/1.1\r\nHost: h\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED_OK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
POST = b"POST /api/v1/namespaces/a/pods HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n"
CHUNKED_POST = b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
"""Requests with a body, but for the empty line."""
