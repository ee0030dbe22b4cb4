"""Clients that ask and leave, or pause: the upstream works on no more than there are seats."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, cast

import pytest

from apfproxy.settings import ENFORCE, OBSERVE
from tests.end_to_end.scene import GET, NARROW, Setup, on_uvloop, over_both_protocols, running
from tests.support.clocks import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.proxy.http1_connection import Http1Connection

SEATS = 4
CLIENTS = 12
WAIT_S = 3600.0


class BusyUpstream(ThreadingHTTPServer):
    """Works on each request until it is told to answer, whether anybody waits for it or not.

    Attributes:
        begun: Requests so far.
        at_once: Those that it works on.
        most_at_once: The most of them at any time.
        may_answer: Set to let them be answered.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), BusyHandler)
        self.begun = 0
        self.at_once = 0
        self.most_at_once = 0
        self.may_answer = threading.Event()
        self._lock = threading.Lock()

    def work(self) -> None:
        """Work on one request."""
        with self._lock:
            self.begun += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        self.may_answer.wait()
        with self._lock:
            self.at_once -= 1


class BusyHandler(BaseHTTPRequestHandler):
    """One connection of the upstream."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Work, and answer."""
        assert isinstance(self.server, BusyUpstream)
        self.server.work()
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  as the base class has it
        """Keep quiet."""


@contextmanager
def busy_upstream() -> Iterator[BusyUpstream]:
    """Run such an upstream."""
    upstream = BusyUpstream()
    thread = threading.Thread(target=upstream.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield upstream
    finally:
        upstream.may_answer.set()
        upstream.shutdown()
        thread.join()
        upstream.server_close()


def _is_at_least(counted: object, name: str, number: int) -> bool:
    """Whether an attribute has got there."""
    return int(getattr(counted, name)) >= number


@pytest.mark.parametrize(
    ("wait_s", "is_bounded"),
    [pytest.param(WAIT_S, True, id="wait"), pytest.param(0.0, False, id="close")],
)
@over_both_protocols
@on_uvloop
async def test_clients_that_reset(wait_s: float, *, is_bounded: bool) -> None:
    """With the wait it works on as many requests as there are seats, without it on all."""
    setup = Setup(NARROW, seats=SEATS).with_upstream(abandoned_wait_s=wait_s)
    with busy_upstream() as upstream:
        async with running(setup, upstream_port=upstream.server_port) as scene:
            queue_set = scene.level().queue_set
            seats = queue_set.concurrency_limit
            for _ in range(CLIENTS):
                client = await scene.connect()
                dispatched = queue_set.dispatched_total
                await scene.deliver(client, GET.replace(b"/healthz", b"/x"))
                if queue_set.dispatched_total > dispatched:
                    expected = queue_set.dispatched_total
                    await until(partial(_is_at_least, upstream, "begun", expected))
                aborts = scene.process.cluster.counters.client_aborts
                await client.leave()
                await until(
                    partial(
                        _is_at_least, scene.process.cluster.counters, "client_aborts", aborts + 1
                    )
                )

            assert (seats if is_bounded else CLIENTS) == upstream.most_at_once
            assert (seats if is_bounded else 0) == queue_set.seats_in_use
            upstream.may_answer.set()
            await until(lambda: queue_set.seats_in_use == 0)
            assert {} == scene.process.cluster.served.abandoned


@pytest.mark.parametrize("enforcement", [ENFORCE, OBSERVE])
@over_both_protocols
@on_uvloop
async def test_stop(enforcement: str) -> None:
    """The end of the process waits for nobody, and gives all seats back, as `running` checks."""
    setup = Setup(NARROW, seats=SEATS, enforcement=enforcement).with_upstream(
        abandoned_wait_s=WAIT_S
    )
    with busy_upstream() as upstream:
        async with running(setup, upstream_port=upstream.server_port) as scene:
            queue_set = scene.level().queue_set
            clients = []
            for _ in range(2):
                clients.append(await scene.connect())
                await scene.deliver(clients[-1], GET.replace(b"/healthz", b"/x"))
            await until(lambda: upstream.begun == 2)
            await clients[0].leave()
            await until(lambda: scene.process.cluster.counters.client_aborts == 1)
            assert 2 == queue_set.seats_in_use


@over_both_protocols
@on_uvloop
async def test_an_upstream_that_closes() -> None:
    """It has given up, too: the seats are back long before the wait is over."""
    setup = Setup(NARROW, seats=SEATS).with_upstream(abandoned_wait_s=WAIT_S)
    async with running(setup) as scene:
        hold = await scene.take_seat()
        await hold.client.leave()
        await until(lambda: scene.process.cluster.served.abandoned)
        assert 1 == scene.level().queue_set.seats_in_use
        hold.arrival.peer.close()
        await until(lambda: scene.level().queue_set.seats_in_use == 0)


@on_uvloop
async def test_clients_that_pause() -> None:
    """By default answers that nobody takes hold their seats."""
    async with running(Setup(NARROW, seats=SEATS, buffer_bytes=4096)) as scene:
        queue_set = scene.level().queue_set
        seats = queue_set.concurrency_limit
        context = scene.process.cluster.served
        for index in range(seats + 1):
            client = await scene.connect(buffer_bytes=4096)
            await scene.deliver(client, GET.replace(b"/healthz", b"/x"))
            if index == seats:
                break
            arrival = await scene.upstream.next_request()
            await arrival.peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n")
            connection = max(
                cast(
                    "dict[Http1Connection, None]",
                    context.listener.connections,
                ),
                key=lambda each: each.transport.get_extra_info("peername")[1] == client.port,
            )
            while not connection.is_write_paused:
                arrival.peer.send_now(b"x" * 65536)
                await asyncio.sleep(0)
            for exchange in list(context.slow_readers.watched):
                exchange.on_sweep(2_000_000_000)

        assert (seats, 1) == (queue_set.seats_in_use, queue_set.requests_waiting)
