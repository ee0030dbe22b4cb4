"""Errors that were in the program, or could be: the machine has to find each of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

from apfproxy.authn.authenticator import FOREVER_NS
from apfproxy.flowcontrol.passage import Passage
from apfproxy.flowcontrol.queue_set import QueueSet
from apfproxy.http.request_body import RequestBody
from apfproxy.proxy import exchange
from apfproxy.proxy.abandoned import AbandonedResponse
from apfproxy.proxy.exchange import Exchange, Relay
from apfproxy.proxy.head_reader import HeadReader
from apfproxy.proxy.http1_connection import Http1Connection
from apfproxy.proxy.request_record import Failure
from apfproxy.proxy.server import ProxyServer
from apfproxy.upstream.endpoint import Endpoint, UpstreamConnection
from apfproxy.upstream.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from apfproxy.http.read_buffer import Piece
    from apfproxy.http.response_head import ResponseHead


Method = Callable[..., Any]


class Mutation(NamedTuple):
    """An error; `seed` is of a chance that comes to it soon."""

    of: type[object] | ModuleType
    method: str
    make: Callable[[Method], Method]
    seed: int = 1


def nothing(_: Method) -> Method:
    return lambda *_, **__: None


def before(act: Callable[..., object]) -> Callable[[Method], Method]:
    """Act with the arguments first."""

    def make(method: Method) -> Method:
        def mutated(*args: object, **named: object) -> object:
            act(*args, **named)
            return method(*args, **named)

        return mutated

    return make


def behind(act: Callable[..., object]) -> Callable[[Method], Method]:
    """Act with the arguments afterwards."""

    def make(method: Method) -> Method:
        def mutated(*args: object, **named: object) -> object:
            found = method(*args, **named)
            act(*args, **named)
            return found

        return mutated

    return make


def unset_of_those_known(self: Exchange) -> None:
    if self.request.authenticated_until_ns > self.context.clock.now_ns():
        del self.request.user_lines


def never_expiring(self: Exchange) -> None:
    if self.request.authenticated_until_ns:
        self.request.authenticated_until_ns = FOREVER_NS


def ends_with_the_first_408(sweep: Method) -> Method:
    def mutated(self: ProxyServer) -> None:
        assert self._router.only is not None
        if not self._router.only.counters.responses.get(408):
            sweep(self)

    return mutated


def gives_seats_back(self: Relay) -> None:
    exchange = self._exchange
    if exchange.passage.has_seats:
        exchange.passage.release_seats(exchange.context.clock.now_ns())


def keeps_its_place(drop: Method) -> Method:
    return lambda self: self._relay is not None and drop(self)


def says_less_of_a_response(on_response: Method) -> Method:
    def mutated(self: Relay, head: ResponseHead, body: bytes, *, is_whole: bool) -> None:
        on_response(self, head, body if is_whole else body[:-1], is_whole=is_whole)

    return mutated


def not_of_those_who_leave(log: Method) -> Method:
    def mutated(self: Exchange, now_ns: int, reason: str, *rest: object) -> None:
        if reason != Failure.CANCELLED:
            log(self, now_ns, reason, *rest)

    return mutated


def forgets_half(forget: Method) -> Method:
    def mutated(self: HeadReader) -> None:
        known, request = self._known[:], self.last_request
        forget(self)
        self._known[:], self.last_request = known, request

    return mutated


def keeps_its_relay(self: Exchange, old: Relay, _reason: str) -> None:
    self._relay = old


def loses_a_byte(send_body: Method) -> Method:
    return lambda self, pieces: send_body(self, [bytes(b"".join(pieces))[:-1]])


def gives_seats_back_twice(self: Exchange, _old: Relay, now_ns: int) -> None:
    self.passage.release(now_ns)


def stays_open(end: Method) -> Method:
    return lambda self, sink, **_: end(self, sink, keep_alive=True)


def believes_it(_: Method) -> Method:
    return lambda *_: b"websocket"


def forgets_the_rest(self: RequestBody, _data: Piece) -> None:
    self.rest = b""


ROWS: tuple[tuple[Any, ...], ...] = (
    ("lines of a known user are unset", Exchange, "start", before(unset_of_those_known), 15),
    ("credentials never expire", Exchange, "start", before(never_expiring), 3),
    ("a late body ends the sweep", ProxyServer, "_sweep", ends_with_the_first_408, 4),
    ("a pause gives seats back", Relay, "_pause_upstream", behind(gives_seats_back), 11),
    ("a silent client is not missed", Http1Connection, "on_disconnect", nothing, 3),
    ("a waiter that leaves keeps its place", Exchange, "_drop_upstream", keeps_its_place, 3),
    ("a client that ends has no deadline", Http1Connection, "abort_after_write", nothing),
    ("a watch is never over", Relay, "close", nothing, 14),
    ("who leaves is not in the log", Exchange, "_log", not_of_those_who_leave),
    ("a first part loses a byte", Relay, "on_response", says_less_of_a_response, 3),
    ("heads of those forgotten stay", HeadReader, "forget_peer", forgets_half, 37),
    ("the upstream's pause is for ever", Relay, "on_upstream_writable", nothing, 58),
    ("the client's pause is for ever", Exchange, "on_downstream_writable", nothing, 9),
    ("a response until the end keeps seats", Exchange, "_give_back", nothing),
    ("a response that is cut is not over", Exchange, "finish", nothing, 6),
    ("a connection that breaks is not missed", Relay, "on_broken", nothing, 2),
    ("a deadline does nothing", Exchange, "on_deadline", nothing, 4),
    ("a request's body loses a byte", Relay, "send_body", loses_a_byte, 4),
    ("a slow client is looked at for ever", Exchange, "on_sweep", nothing, 2),
    ("a retry keeps its first relay", Exchange, "retry", behind(keeps_its_relay), 34),
    ("an abandoned response keeps seats", AbandonedResponse, "end", nothing),
    ("an exchange misses no client", Exchange, "on_client_left", nothing),
    ("seats go back twice", Exchange, "end", behind(gives_seats_back_twice)),
    ("a break is told to nothing", UpstreamConnection, "_break", nothing, 18),
    ("a connection stays busy", UpstreamConnection, "_end", nothing),
    ("a request is not sent", UpstreamConnection, "send", nothing),
    ("a transport is unknown", UpstreamConnection, "connection_made", nothing),
    ("a waiter is lost", Pool, "wait", nothing),
    ("a waiter that leaves is served", Pool, "leave", nothing, 3),
    ("a connection that is released is lost", Pool, "release", nothing),
    ("a new connection serves nothing", Pool, "_take_in", nothing),
    ("waiters have no connection made", Pool, "_connect_for_the_line", nothing),
    ("a closed connection is used", UpstreamConnection, "_end", stays_open, 3),
    ("an earlier identity is used", Endpoint, "renew", nothing, 5),
    ("idle connections are kept for ever", Endpoint, "close_stale", nothing),
    ("an endpoint keeps seats", UpstreamConnection, "release_seats", nothing),
    ("an upgrade of nothing is believed", exchange, "switched", believes_it),
    ("what is behind a body is lost", RequestBody, "take", behind(forgets_the_rest)),
    ("a waiter stays in its queue", QueueSet, "withdraw", nothing, 3),
    ("seats stay with their level", QueueSet, "_release_seats", nothing),
    ("no wait for seats is too long", Passage, "_on_wait_limit", nothing, 3),
    ("a cancelled passage keeps seats", Passage, "cancel", nothing, 2),
)
MUTATIONS = {name: Mutation(*parts) for name, *parts in ROWS}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    mutation = MUTATIONS[name]
    original = vars(mutation.of)[mutation.method]
    with patch.object(mutation.of, mutation.method, mutation.make(original)):
        yield
