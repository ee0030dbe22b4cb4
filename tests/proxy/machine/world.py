"""A whole server between clients and upstreams that do as they like, and what must hold of it."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from socket import AF_INET
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import Mock, patch

from msgspec.structs import replace
from opentelemetry.sdk.resources import Resource

from apfproxy.admin.spans import spans_of
from apfproxy.admin.top_flows import TopFlows
from apfproxy.authn.authenticator import Authenticator, Rules
from apfproxy.authn.credentials import Peer, Verdict
from apfproxy.base import build
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.passage import WAITING, FlowControl
from apfproxy.proxy.cluster_router import ClusterRouter
from apfproxy.proxy.context import Context, ListenerContext, passage_errors
from apfproxy.proxy.counters import ProxyCounters
from apfproxy.proxy.exchange import Exchange
from apfproxy.proxy.exchange_state import AWAITING
from apfproxy.proxy.http1_connection import Http1Connection
from apfproxy.proxy.server import ProxyServer
from apfproxy.proxy.tracing import Tracer
from apfproxy.request.attributes import User
from apfproxy.settings import ENFORCE, AccessLogSettings, Settings
from apfproxy.upstream.pool import Pool
from tests.proxy.fakes import Certificates, Tls, request_log
from tests.proxy.machine.choices import HEAD_S, TRACING, Choices
from tests.proxy.machine.loop import Attempt, VirtualLoop
from tests.proxy.machine.peers import OF_CERTIFICATE, Answers, Client, Upstream
from tests.proxy.machine.requests import CONFIGURATIONS, REQUESTS
from tests.proxy.machine.wires import Disconnects, Wire

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from apfproxy.http.credential_fields import Credentials

S = 1_000_000_000
SELF = Resource({})
SLOTS = 5
"""Clients at once."""
LATE_NS = S // 2
"""By so much a deadline may be missed."""


class WantedError(Exception):
    pass


class Tokens:
    """Tokens, how each is answered, and all names that each has had since they were forgotten."""

    def __init__(self, lifetime_s: float) -> None:
        self.modes = {"quick": "now", "slow": "later", "fickle": "now", "bad": "bad"}
        self.names = {"quick": "alice", "slow": "bob", "fickle": "carol", "bad": "nobody"}
        self.all_names = {token: {name} for token, name in self.names.items()}
        self.lifetime_s = lifetime_s
        self.asked: list[tuple[str, asyncio.Future[Verdict]]] = []

    def verdict(self, token: str) -> Verdict:
        mode = self.modes.get(token, "bad")
        if mode in ("bad", "open"):
            return Verdict(None, 0.0, "no token", is_open=mode == "open")
        lifetime_s = self.lifetime_s if token == "fickle" else 3600.0  # noqa: S105  of no one
        return Verdict(User(self.names[token], ()), lifetime_s)

    def check(self, token: str) -> Verdict | None:
        mode = self.modes.get(token)
        if mode == "fails":
            raise WantedError
        return None if mode == "later" else self.verdict(token)

    async def review(self, token: str, address: str) -> Verdict:  # noqa: ARG002  the protocol's
        future: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self.asked.append((token, future))
        return await future

    def rename(self, token: str, name: str) -> None:
        self.names[token] = name
        self.all_names[token].add(name)

    def forget(self) -> None:
        self.all_names = {token: {name} for token, name in self.names.items()}

    def waiting(self) -> list[tuple[str, asyncio.Future[Verdict]]]:
        self.asked = [each for each in self.asked if not each[1].done()]
        return self.asked

    def fail(self, future: asyncio.Future[Verdict]) -> None:
        future.set_exception(WantedError())


class Judge(Authenticator):
    asked = 0

    def authenticate(self, peer: Peer, credentials: Credentials) -> Any:  # noqa: ANN401  as the base's
        self.asked += 1
        return super().authenticate(peer, credentials)


class Lines:
    def __init__(self, loop: VirtualLoop) -> None:
        self._made: list[bytes] = []
        settings = AccessLogSettings(path="-", refused_per_second=None)  # a line of each
        self.log = request_log(settings, loop.clock, self._made)
        self._of_requests = 0

    def count(self) -> int:
        self.log.flush()
        self._of_requests += sum(b'"method":null' not in line for line in self._made)
        self._made.clear()
        return self._of_requests


class _Errors(logging.Handler):
    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._world.on_error(f"an error on the log: {record.getMessage()}", error)


class World:
    def __init__(self, choices: Choices) -> None:
        self.findings: list[str] = []
        self.choices = choices
        self.loop = loop = VirtualLoop()
        loop.set_exception_handler(self._on_loop_error)
        self._log = _Errors(self)
        logging.getLogger("apfproxy").addHandler(self._log)
        self.tokens = Tokens(choices.lifetime_s)
        self.answers = Answers()
        self.clients: list[Client | None] = [None] * SLOTS
        self.former: list[Client] = []
        self.upstreams: list[Upstream] = []
        self.exchanges: list[Exchange] = []
        self.drain: asyncio.Task[None] | None = None
        self._refused = frozenset[str]()
        if choices.has_tokens:
            self._refused = frozenset(("bad",) if choices.allows_anonymous else ("bad", ""))
        self.counters = ProxyCounters()
        self.controller = Controller(loop.clock, choices.seats, 0)
        self._digests = [self.controller.digest(each) for each in CONFIGURATIONS]
        self.controller.commit(self._digests[choices.configuration])
        self.settings = choices.settings()
        self._keeps_seats = keeps_seats(self.settings)
        rules = Rules(
            allows_anonymous=choices.allows_anonymous, assertion=self.settings.upstream.identity
        )
        self.judge = Judge(loop.clock, rules, (self.tokens,), now_s=loop.time)
        self.judge.certificates = Certificates()
        shared = ListenerContext(self.settings, self.counters.listener, loop.clock, loop)
        self.context = self._context(shared)
        self.server = loop.run_until_complete(self._start(shared))
        self._hold(choices.held_bytes)
        self.context.listener.disconnects = cast("Any", Disconnects(loop))
        self._watch_exchanges()
        self.lines = Lines(loop) if choices.has_access_log else None
        flows = TopFlows(16, loop.clock) if choices.has_top_flows else None
        self.traces: list[list[ReadableSpan]] = []
        tracer = None
        if choices.has_traces:
            tracer = Tracer(TRACING, lambda trace: self.traces.append(spans_of(trace, "", SELF, 0)))
        self.context.observe(None if self.lines is None else self.lines.log, flows, tracer)

    def _authenticator(self) -> Authenticator | None:
        return self.judge if self.choices.has_tokens else None

    def _context(self, shared: ListenerContext) -> Context:
        flow_control = FlowControl(
            self.controller,
            shared.clock,
            unix_s=lambda: int(time.time()),
            on_error=passage_errors(self.settings, shared.loop),
        )
        self.kinds, self.costs = flow_control.kinds, flow_control.costs
        pool = Pool(self.settings.upstream, self.counters.pool, shared.clock.now_ns)
        return Context(
            self.settings, shared, flow_control, pool, self.counters, self._authenticator()
        )

    async def _start(self, shared: ListenerContext) -> ProxyServer:
        server = ProxyServer(self.settings, shared, ClusterRouter(self.context))
        server.add(self.context)
        listener = Mock(family=AF_INET)
        listener.accept.side_effect = BlockingIOError  # no one has connected before
        await server.start([cast("Any", listener)])
        return server

    def _watch_exchanges(self) -> None:
        world, start = self, Exchange.start

        def watched(exchange: Exchange) -> None:
            world.exchanges.append(exchange)
            request = exchange.request
            until_ns, asked = request.authenticated_until_ns, world.judge.asked
            start(exchange)
            if world.choices.has_tokens and world.judge.asked == asked:
                assert until_ns > world.loop.now_ns(), "credentials that have expired count"
                world.check_known(request.head.fields.credentials.token, request.user.name)

        self._patch = patch.object(Exchange, "start", watched)
        self._patch.start()

    # What is found.

    def found(self, what: str, error: BaseException | None = None) -> None:
        text = "".join(traceback.format_exception(error)) if error is not None else ""
        self.findings.append(f"{what}\n{text}".rstrip())

    def on_error(self, what: str, error: BaseException | None) -> None:
        if not isinstance(error, WantedError):
            self.found(what, error)

    def _on_loop_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.on_error(f"an exception on the loop: {context['message']}", context.get("exception"))

    # What happens.

    def do(self, action: Any, *arguments: object) -> None:  # noqa: ANN401  any callable
        self.loop.call_soon(action, *arguments)
        self.loop.run_ready()

    def connect(self, slot: int, *, is_shared: bool = False, tls: Tls | None = None) -> None:
        client, accept = self.clients[slot], self.loop.accept
        if accept is None:
            return
        if client is not None:
            if not client.wire.is_over and not client.wire.has_left:
                return
            self.former.append(client)
        address = "10.0.0.9" if is_shared else f"10.0.0.{slot + 1}"
        if tls is not None and tls.certificate:
            address = address.replace("10.0.0.", "10.0.1.")
        wire = Wire(self.loop, (address, 4711), tls)
        self.clients[slot] = Client(wire, address.encode())
        wire.connect(accept())

    def waiting_attempts(self) -> list[Attempt]:
        loop = self.loop
        loop.attempts = [each for each in loop.attempts if not each.outcome.done()]
        return loop.attempts

    def come_about(self, attempt: Attempt, *, is_lost: bool = False) -> None:
        wire = Wire(self.loop, ("10.1.1.1", 80))
        protocol = attempt.factory()
        wire.connect(protocol)
        if is_lost:
            wire.end()
        else:
            self.upstreams.append(Upstream(wire, self.answers, self._refused))
        attempt.outcome.set_result((wire, protocol))

    def configure(self, number: int) -> None:
        self.controller.commit(self._digests[number % len(self._digests)])

    def _hold(self, held_bytes: int) -> None:
        self.context.held_bytes = self.context.listener.held_bytes = held_bytes

    def change_settings(self, choices: Choices) -> None:
        self._hold(choices.held_bytes)
        self.settings = replace(
            self.settings,
            downstream=choices.settings().downstream,
            upstream=replace(choices.settings().upstream, identity=self.settings.upstream.identity),
        )
        self._keeps_seats = self._keeps_seats and keeps_seats(self.settings)
        self.tokens.forget()
        self.context.configure(self.settings, self._authenticator())
        self.server.configure(self.settings, None)

    def renew(self) -> None:
        self.context.pool.renew()
        for upstream in self.upstreams:
            # What was sent before may come yet.
            upstream.is_last = upstream.is_last or (upstream.wire.takes and upstream.asked is None)

    def forget_authentications(self) -> None:
        self.tokens.forget()
        self.context.forget_authentications()

    def check_known(self, token: str, name: str) -> None:
        names = self.tokens.all_names.get(token)
        # A certificate counts before any token.
        assert names is None or name in {*names, OF_CERTIFICATE}, ("another's", token, name, names)

    def begin_drain(self) -> None:
        self.answers.are_ended = True
        if self.drain is None:
            self.drain = self.loop.create_task(self.server.drain())

    # What must hold.

    def look(self) -> None:
        self.upstreams = [each for each in self.upstreams if not each.wire.is_over]
        for upstream in self.upstreams:
            if not upstream.wire.is_closed:
                upstream.read()
        for client in self.clients:
            if client is not None and not client.is_garbled:
                client.read(self.answers)
        now_ns = self.loop.now_ns()
        for client in (*self.clients, *self.former):
            if client is not None and client.wire.has_left and client.wire.left_ns < now_ns:
                protocol = client.wire.protocol
                is_known = isinstance(protocol, Http1Connection) and protocol.exchange
                assert not is_known, ("a client that has left has a request", client, protocol)
        self.former = [each for each in self.former if not each.wire.is_over]
        if self._keeps_seats:
            busy = [each for each in self.upstreams if each.holds_seats]
            seats = sum(each.queue_set.seats_in_use for each in self._levels())
            assert len(busy) <= seats, ("more is worked on than there are seats for", busy, seats)
        for connection in self.context.listener.connections:
            assert not 0 < connection.deadline_ns < now_ns - LATE_NS, (
                "a deadline is missed",
                connection,
            )

    def settle(self) -> None:
        loop = self.loop
        for _ in range(60):
            if not self._lingering():
                break
            loop.run_for(S)
            self.look()
        late = self._lingering()
        assert not late, ("neither answered nor closed", late)
        self._check_seats_of_the_long_lived()
        if self.drain is None:
            self._ask_once_more()
        for number, client in enumerate([*self.clients, *self.former]):
            if client is not None and number % 2:
                self.do(client.wire.break_off)
            elif client is not None:
                self.do(client.wire.end)
        loop.run_for(6 * S)
        for client in (*self.clients, *self.former):
            # A client that takes nothing, and is long-running, is found gone when it is written to.
            if client is not None:
                self.do(client.wire.take_all)
        loop.run_for(6 * S)
        self.controller.adjust_limits()
        self.look()
        self._check_at_rest()
        if self.drain is None:
            assert not self.context.slow_readers.watched
            assert not self.context.pool.idle_count, "idle connections are kept"
        self.stop()

    def stop(self) -> None:
        self.answers.are_ended = True
        stopped = self.loop.create_task(self.server.stop()) if self.drain is None else self.drain
        self.loop.run_for(10 * S)
        assert stopped.done(), "the server does not stop"
        stopped.result()
        self._check_at_rest()
        assert self.context.pool.open_count == 0, self.context.pool
        assert self.counters.listener.connections_open == 0

    def waits_for_seats(self, client: Client) -> bool:
        protocol = client.wire.protocol
        exchange = protocol.exchange if isinstance(protocol, Http1Connection) else None
        return exchange is not None and exchange.passage.state is WAITING

    def _lingering(self) -> list[Client]:
        found = []
        for client in self.clients:
            if client is None or client.wire.is_over:
                continue
            protocol = client.wire.protocol
            exchange = protocol.exchange if isinstance(protocol, Http1Connection) else None
            if exchange is None or not may_last(exchange):
                found.append(client)
        return found

    def _check_seats_of_the_long_lived(self) -> None:
        self.loop.run_for(4 * S)
        use = [(each.name, each.queue_set.seats_in_use) for each in self._levels()]
        assert all(seats == 0 for _, seats in use), ("seats that nobody needs", use)

    def _ask_once_more(self) -> None:
        if self.clients[0] is not None:
            self.former.append(self.clients[0])
            self.clients[0] = None
        self.do(lambda: self.connect(0))
        client = cast("Client", self.clients[0])
        if client.wire.is_closed:
            return  # over a limit
        client.ask(REQUESTS[0], b"")
        self.do(client.send, 10)
        self.loop.run_for(round((HEAD_S + 0.5) * S))
        assert client.wire.received.startswith(b"HTTP/1.1 408 "), "no deadline counts"

    def _levels(self) -> list[Any]:
        return list(self.controller.levels.values())

    def _check_at_rest(self) -> None:
        for level in self._levels():
            queue_set = level.queue_set
            assert queue_set.seats_in_use == 0, queue_set
            assert queue_set.requests_waiting == 0, queue_set
            assert not list(queue_set.executing), queue_set
        for count in (*self.kinds._waiting, *self.kinds._executing):  # noqa: SLF001  nothing else tells
            assert count.count == 0, count
        for limits in self.controller._flow_limits.values():  # noqa: SLF001  nothing else tells
            assert not limits.is_in_use, limits
        assert not self.context.listener.connections
        assert not self.context.abandoned
        assert not self.counters.listener.held_bytes, "bytes that nobody holds are counted"
        assert not self.context.holdings.by_address
        assert not self.context.slow_readers.by_level
        assert not self.context.listener.limits._by_address  # noqa: SLF001  nothing else tells
        assert self.context.pool.waiting_count == 0, self.context.pool
        assert not any(each.seats for each in self.context.pool.endpoints)
        assert self.counters.tunnels_open == 0
        assert not self.costs._watches  # noqa: SLF001  nothing else tells
        for exchange in self.exchanges:
            assert {exchange.state.value, exchange.passage.state.value} == {"done"}, exchange
        # Compiled code does not call what replaces `start`.
        if self.lines is not None and build.kind() == build.INTERPRETED:
            counts = len(self.exchanges), self.lines.count()
            assert counts[0] == counts[1], ("requests, lines of the access log", counts)
        if self.choices.has_traces and build.kind() == build.INTERPRETED:
            counts = len(self.exchanges), len(self.traces)
            assert counts[0] == counts[1], ("requests, traces", counts)
        for spans in self.traces:
            assert all(0 < (span.start_time or 0) <= (span.end_time or 0) for span in spans), spans

    def close(self) -> None:
        self._patch.stop()
        logging.getLogger("apfproxy").removeHandler(self._log)
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_ready()
        self.loop.close()

    def __repr__(self) -> str:
        return f"<World at {self.loop.now_ns() - 1000 * S} ns: {self.server!r}>"


def keeps_seats(settings: Settings) -> bool:
    limits = settings.downstream.limits
    return limits.slow_reader_grace_s is None and settings.flow_control.enforcement == ENFORCE


def may_last(exchange: Exchange) -> bool:
    relay = exchange._relay  # noqa: SLF001  nothing else tells
    is_long_running = exchange.request.is_long_running
    if relay is not None:
        paced = exchange.context.pacing.responses.get(relay)
        is_long_running = relay.is_long_running and not (paced and paced.held)
    if not is_long_running:
        return False
    if exchange.is_whole:
        return exchange.has_responded or exchange.state is AWAITING
    # Of one without seats that goes for its body, too.
    return exchange.has_responded or not exchange.request.takes_seats
