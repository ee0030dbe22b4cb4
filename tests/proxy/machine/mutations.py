"""Errors that were in the program, or could be: the machine has to find each of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
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


@dataclass(frozen=True)
class Mutation:
    """An error; `seed` is of a chance that comes to it soon."""

    of: type[object] | ModuleType
    method: str
    make: Callable[[Method], Method]
    seed: int = 1


def _unset_of_those_known(start: Method) -> Method:
    def mutated(self: Exchange) -> None:
        if self.request.authenticated_until_ns > self.context.clock.now_ns():
            del self.request.user_lines
        start(self)

    return mutated


def _never_expiring(start: Method) -> Method:
    def mutated(self: Exchange) -> None:
        if self.request.authenticated_until_ns:
            self.request.authenticated_until_ns = FOREVER_NS
        start(self)

    return mutated


def _nothing(_: Method) -> Method:
    return lambda *_, **__: None


def _ends_with_the_first_408(sweep: Method) -> Method:
    def mutated(self: ProxyServer) -> None:
        assert self._router.only is not None
        if not self._router.only.counters.requests_by_status.get(408):
            sweep(self)

    return mutated


def _paused_gives_seats_back(pause: Method) -> Method:
    def mutated(self: Relay) -> None:
        pause(self)
        exchange = self._exchange
        if exchange.passage.has_seats:
            exchange.passage.release_seats(exchange.context.clock.now_ns())

    return mutated


def _keeps_its_place(drop: Method) -> Method:
    return lambda self: self._relay is not None and drop(self)


def _says_less_of_a_response(on_response: Method) -> Method:
    def mutated(self: Relay, head: ResponseHead, body: bytes, *, is_whole: bool) -> None:
        on_response(self, head, body if is_whole else body[:-1], is_whole=is_whole)

    return mutated


def _not_of_those_who_leave(log: Method) -> Method:
    def mutated(self: Exchange, now_ns: int, reason: str, *rest: object) -> None:
        if reason != Failure.CANCELLED:
            log(self, now_ns, reason, *rest)

    return mutated


def _forgets_half(forget: Method) -> Method:
    def mutated(self: HeadReader) -> None:
        known, request = self._known[:], self.last_request
        forget(self)
        self._known[:], self.last_request = known, request

    return mutated


def _keeps_its_relay(retry: Method) -> Method:
    def mutated(self: Exchange, old: Relay, reason: str) -> None:
        retry(self, old, reason)
        self._relay = old

    return mutated


def _loses_a_byte(send_body: Method) -> Method:
    return lambda self, pieces: send_body(self, [bytes(b"".join(pieces))[:-1]])


def _gives_seats_back_twice(end: Method) -> Method:
    def mutated(self: Exchange, old: Relay, now_ns: int) -> None:
        end(self, old, now_ns)
        self.passage.release(now_ns)

    return mutated


def _stays_open(end: Method) -> Method:
    return lambda self, sink, **_: end(self, sink, keep_alive=True)


def _believes_it(_: Method) -> Method:
    return lambda *_: b"websocket"


def _forgets_the_rest(take: Method) -> Method:
    def mutated(self: RequestBody, data: Piece) -> list[Piece]:
        pieces: list[Piece] = take(self, data)
        self.rest = b""
        return pieces

    return mutated


MUTATIONS: dict[str, Mutation] = {
    "the lines of a class are unset where the user is remembered": Mutation(
        Exchange, "start", _unset_of_those_known, seed=15
    ),
    "credentials are compared with a clock that stands still": Mutation(
        Exchange, "start", _never_expiring, seed=3
    ),
    "the sweep ends with the first body that does not come": Mutation(
        ProxyServer, "_sweep", _ends_with_the_first_408
    ),
    "a client that stops reading gives its seats back at once": Mutation(
        Relay, "_pause_upstream", _paused_gives_seats_back, seed=2
    ),
    "a client that leaves while nothing is read of it is not missed": Mutation(
        Http1Connection, "on_disconnect", _nothing, seed=2
    ),
    "who waits for a connection and leaves keeps the place": Mutation(
        Exchange, "_drop_upstream", _keeps_its_place
    ),
    "a client that ends has no deadline": Mutation(Http1Connection, "abort_after_write", _nothing),
    "a watch is never over": Mutation(Relay, "close", _nothing),
    "a request whose client leaves is not in the log": Mutation(
        Exchange, "_log", _not_of_those_who_leave
    ),
    "an answer's first part loses a byte": Mutation(Relay, "on_response", _says_less_of_a_response),
    "heads of those forgotten stay": Mutation(HeadReader, "forget_peer", _forgets_half, seed=15),
    "the upstream's pause is for ever": Mutation(Relay, "on_upstream_writable", _nothing, seed=58),
    "the client's pause is for ever": Mutation(
        Exchange, "on_downstream_writable", _nothing, seed=9
    ),
    "a response that ends with its connection keeps the seats": Mutation(
        Exchange, "_give_back", _nothing
    ),
    "a response that is cut is not over": Mutation(Exchange, "finish", _nothing),
    "a connection that breaks is not missed": Mutation(Relay, "on_broken", _nothing, seed=2),
    "a deadline does nothing": Mutation(Exchange, "on_deadline", _nothing),
    "a request's body loses a byte": Mutation(Relay, "send_body", _loses_a_byte),
    "a slow client is looked at for ever": Mutation(Exchange, "on_sweep", _nothing),
    "a retry keeps its first relay": Mutation(Exchange, "retry", _keeps_its_relay),
    "an abandoned response keeps the seats": Mutation(AbandonedResponse, "end", _nothing),
    "a client that leaves is not missed by its exchange": Mutation(
        Exchange, "on_client_left", _nothing
    ),
    "seats go back twice": Mutation(Exchange, "end", _gives_seats_back_twice),
    "nobody learns that a connection broke": Mutation(UpstreamConnection, "_break", _nothing),
    "a connection stays busy once its response is whole": Mutation(
        UpstreamConnection, "_end", _nothing
    ),
    "a request is not sent": Mutation(UpstreamConnection, "send", _nothing),
    "a connection does not know its transport": Mutation(
        UpstreamConnection, "connection_made", _nothing
    ),
    "a request that has to wait for a connection is lost": Mutation(Pool, "wait", _nothing),
    "a waiter that leaves gets a connection": Mutation(Pool, "leave", _nothing),
    "a connection that is released is lost": Mutation(Pool, "release", _nothing),
    "a new connection is given to nobody": Mutation(Pool, "_take_in", _nothing),
    "nobody connects for those that wait": Mutation(Pool, "_connect_for_the_line", _nothing),
    "a connection that its server closes is used again": Mutation(
        UpstreamConnection, "_end", _stays_open
    ),
    "a connection of an earlier identity is used again": Mutation(Endpoint, "renew", _nothing),
    "idle connections are kept for ever": Mutation(Endpoint, "close_stale", _nothing),
    "an endpoint keeps the seats of its requests": Mutation(
        UpstreamConnection, "release_seats", _nothing
    ),
    "an upgrade is believed that nobody asked for": Mutation(exchange, "switched", _believes_it),
    "what comes behind a request's body is lost": Mutation(RequestBody, "take", _forgets_the_rest),
    "a waiter that leaves stays in its queue": Mutation(QueueSet, "withdraw", _nothing),
    "seats do not come back to their level": Mutation(QueueSet, "_release_seats", _nothing),
    "nobody waits too long for seats": Mutation(Passage, "_on_wait_limit", _nothing),
    "a passage that is cancelled keeps its seats": Mutation(Passage, "cancel", _nothing),
}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    mutation = MUTATIONS[name]
    original = vars(mutation.of)[mutation.method]
    with patch.object(mutation.of, mutation.method, mutation.make(original)):
        yield
