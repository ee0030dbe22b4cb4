"""The pool, whose connections come up, stall, fail or are lost as a test says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from apfproxy.settings import Address, UpstreamSettings
from apfproxy.upstream.connecting import OWN_FAILURE
from apfproxy.upstream.counters import PoolCounters, UpstreamFailure
from apfproxy.upstream.pool import Pool
from tests.proxy.fakes import Bench, FakeTransport, S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.upstream.endpoint import UpstreamConnection


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A pool of two connections at most, none of them open."""
    settings = UpstreamSettings(url=Address(host="upstream", port=80), max_connections=2)
    with Bench(idle_upstreams=0, upstream=settings) as result:
        yield result


class PoolWaiter:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.connection: UpstreamConnection | None = None
        self.failure: tuple[int, str] | None = None
        self.has_failed = asyncio.Event()

    def on_connection(self, connection: UpstreamConnection) -> None:
        """Keep it."""
        assert self.connection is None
        self.connection = connection

    def on_no_connection(self, code: int, reason: str) -> None:
        """Keep the reason."""
        assert self.failure is None
        self.failure = (code, reason)
        self.has_failed.set()

    def fail(self, error: Exception) -> None:
        """Let nothing be hidden."""
        raise error


def stand_in_line(bench: Bench, count: int) -> list[PoolWaiter]:
    """Have so many waiters wait."""
    waiters = [PoolWaiter() for _ in range(count)]
    for waiter in waiters:
        bench.pool.wait(waiter)
    return waiters


def served(waiters: list[PoolWaiter]) -> list[bool]:
    """Who has a connection."""
    return [waiter.connection is not None for waiter in waiters]


def release(bench: Bench, waiter: PoolWaiter, now_ns: int = S) -> UpstreamConnection:
    """Have a waiter return its connection."""
    connection = waiter.connection
    assert connection is not None
    waiter.connection = None
    bench.pool.release(connection, now_ns)
    return connection


def test_opens_as_many_as_the_line_needs(bench: Bench) -> None:
    """But never more than the bound, those under way included; the rest waits."""
    assert bench.pool.acquire() is None
    waiters = stand_in_line(bench, 3)
    assert 2 == len(bench.connecting)
    bench.connect()
    assert [True, False, False] == served(waiters)
    bench.connect()
    assert [True, True, False] == served(waiters)
    assert [] == list(bench.connecting)
    release(bench, waiters[0])

    assert [False, True, True] == served(waiters)
    assert (2, 0, 0) == (bench.pool.open_count, bench.pool.idle_count, bench.pool.waiting_count)
    assert 2 == bench.counters.pool.connections_opened


def test_another_limit(bench: Bench) -> None:
    """Those in line get the connections that may be opened by then."""
    waiters = stand_in_line(bench, 3)
    before = len(bench.connecting)
    address = Address(host="upstream", port=80)
    bench.pool.configure(UpstreamSettings(url=address, max_connections=3), None)

    assert (2, 3) == (before, len(bench.connecting))
    for _ in waiters:
        bench.connect()
    assert [True] * 3 == served(waiters)


def test_connection_used_last_is_lent_first(bench: Bench) -> None:
    """So the others grow idle."""
    waiters = stand_in_line(bench, 2)
    bench.connect()
    bench.connect()
    first, second = (release(bench, waiter) for waiter in waiters)

    assert second is bench.pool.acquire()
    bench.pool.release(second, 2 * S)
    assert second is bench.pool.acquire()
    assert first is bench.pool.acquire()
    assert bench.pool.acquire() is None


def test_connection_that_comes_back_first_serves_the_line(bench: Bench) -> None:
    """The one that was opened for it is kept for the next."""
    waiters = stand_in_line(bench, 1)
    bench.connect()
    waiters += stand_in_line(bench, 1)
    release(bench, waiters[0])
    assert [False, True] == served(waiters)
    bench.connect()

    assert (2, 1) == (bench.pool.open_count, bench.pool.idle_count)


def test_who_leaves_the_line_is_not_served(bench: Bench) -> None:
    """The next one is; leaving twice is harmless."""
    first, second = stand_in_line(bench, 2)
    bench.pool.leave(first)
    bench.pool.leave(first)
    bench.connect()

    assert [False, True] == served([first, second])
    assert 0 == bench.pool.waiting_count


@pytest.mark.parametrize(
    ("outcome", "failure"),
    [
        pytest.param(
            ConnectionRefusedError(111, "Connection refused"),
            (502, "no connection to the upstream: Connection refused"),
            id="refused",
        ),
        pytest.param(
            OSError("Multiple exceptions: a, b"),
            (502, "no connection to the upstream: Multiple exceptions: a, b"),
            id="several",
        ),
        pytest.param(
            TimeoutError(),
            (504, "no connection to the upstream within 5 s (upstream.connectTimeout)"),
            id="stalls",
        ),
        pytest.param("lost", (502, "the upstream closed the connection at once"), id="lost"),
    ],
)
def test_failure_fails_one(
    bench: Bench, outcome: BaseException | str, failure: tuple[int, str]
) -> None:
    """Whoever waits longest is told, and for the others it is tried again."""
    waiters = stand_in_line(bench, 3)
    bench.connect(outcome)
    assert [failure, None, None] == [waiter.failure for waiter in waiters]
    kind = UpstreamFailure.CONNECT_TIMEOUT if failure[0] == 504 else UpstreamFailure.CONNECT
    assert 1 == bench.counters.upstream.failures[kind]
    assert 0 == bench.pool.open_count
    bench.connect()
    bench.connect()

    assert [False, True, True] == served(waiters)


def test_failure_with_nobody_left_in_line(bench: Bench) -> None:
    """It is counted, and nothing is opened any more."""
    (waiter,) = stand_in_line(bench, 1)
    bench.pool.leave(waiter)
    bench.connect(ConnectionRefusedError())

    assert 1 == bench.counters.upstream.failures[UpstreamFailure.CONNECT]
    assert [] == list(bench.connecting)


def test_lost_connection_makes_room(bench: Bench) -> None:
    """The line gets a new one in its place, and a lost idle one is given no more."""
    waiters = stand_in_line(bench, 3)
    bench.connect()
    bench.connect()
    release(bench, waiters[1])
    bench.end(bench.upstreams[0])
    assert 1 == bench.pool.open_count
    idle = release(bench, waiters[2])
    assert idle is bench.pool.acquire()
    bench.pool.release(idle, S)
    bench.end(bench.upstreams[1])

    assert bench.pool.acquire() is None
    assert (0, 0) == (bench.pool.open_count, bench.pool.idle_count)
    bench.pool.release(idle, S)
    assert 0 == bench.pool.idle_count


def test_lost_connection_is_replaced_for_the_line(bench: Bench) -> None:
    """Where the bound was reached, a loss lets the line go on."""
    waiters = stand_in_line(bench, 3)
    bench.connect()
    bench.connect()
    assert [] == list(bench.connecting)
    bench.end(bench.upstreams[0])
    bench.connect()

    assert [True, True, True] == served(waiters)
    assert 2 == bench.pool.open_count


def test_closes_what_was_idle_too_long(bench: Bench) -> None:
    """The ones used last stay."""
    waiters = stand_in_line(bench, 2)
    bench.connect()
    bench.connect()
    release(bench, waiters[0], 3 * S)
    release(bench, waiters[1], 5 * S)
    bench.pool.close_idle(2 * S)
    assert 2 == bench.pool.idle_count
    bench.pool.close_idle(3 * S)
    assert ["abort", ""] == [upstream.ended_by for upstream in bench.upstreams]
    bench.pool.close_idle(5 * S)

    assert (0, 0) == (bench.pool.open_count, bench.pool.idle_count)


def test_unsolicited_bytes_close_an_idle_connection(bench: Bench) -> None:
    """They must not become the answer to the next request."""
    waiters = stand_in_line(bench, 1)
    bench.connect()
    release(bench, waiters[0])
    bench.send(bench.upstreams[0], b"HTTP/1.1 408 Request Timeout\r\n\r\n")

    assert "abort" == bench.upstreams[0].ended_by
    assert bench.pool.acquire() is None


def test_close_ends_everything(bench: Bench) -> None:
    """Busy or idle, open or under way."""
    waiters = stand_in_line(bench, 1)
    bench.connect()
    waiters += stand_in_line(bench, 1)
    task = bench.connecting[0]
    bench.pool.leave(waiters[1])
    bench.pool.close()

    assert "abort" == bench.upstreams[0].ended_by
    assert 0 == bench.pool.open_count
    assert 1 == task.cancelling()


def test_connection_that_was_paused_is_lent_open(bench: Bench) -> None:
    """The next waiter hears of its answer."""
    (waiter,) = stand_in_line(bench, 1)
    bench.connect()
    assert waiter.connection is not None
    waiter.connection.pause_reading()
    assert not bench.upstreams[0].reads
    release(bench, waiter)

    assert bench.upstreams[0].reads


async def test_connects_within_a_time_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that stalls is given up; the time is the event loop's."""

    async def stall(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", stall)
    waiter = PoolWaiter()
    pool = Pool(
        UpstreamSettings(url=Address(host="upstream", port=80), connect_timeout_s=0.001),
        PoolCounters(),
    )
    pool.wait(waiter)
    await waiter.has_failed.wait()

    assert (
        504,
        "no connection to the upstream within 0.001 s (upstream.connectTimeout)",
    ) == waiter.failure


def test_renewal_closes_idle_connections(bench: Bench) -> None:
    """They were opened with another identity."""
    waiters = stand_in_line(bench, 2)
    bench.connect()
    bench.connect()
    release(bench, waiters[0])
    bench.pool.renew()

    assert ["abort", ""] == [upstream.ended_by for upstream in bench.upstreams]
    assert bench.pool.acquire() is None


def test_renewal_lets_busy_connections_end_their_request(bench: Bench) -> None:
    """But then they are closed, and the next in line gets a new one."""
    waiters = stand_in_line(bench, 3)
    bench.connect()
    bench.connect()
    bench.pool.renew()
    assert ["", ""] == [upstream.ended_by for upstream in bench.upstreams]
    release(bench, waiters[0])
    assert ["abort", ""] == [upstream.ended_by for upstream in bench.upstreams]
    bench.connect()
    release(bench, waiters[2])

    assert (2, 1) == (bench.pool.open_count, bench.pool.idle_count)
    assert [False, True, False] == served(waiters)


def test_renewal_while_connecting(bench: Bench) -> None:
    """A connection that began with the old identity is not given; another one is made."""
    (waiter,) = stand_in_line(bench, 1)
    bench.pool.renew()
    bench.connect()
    assert ("abort", [False]) == (bench.upstreams[0].ended_by, served([waiter]))
    bench.connect()

    assert ("", [True]) == (bench.upstreams[1].ended_by, served([waiter]))
    release(bench, waiter)
    assert 1 == bench.pool.idle_count


def wait_for_new(bench: Bench) -> PoolWaiter:
    """Have a waiter wait for a connection without a past."""
    waiter = PoolWaiter()
    bench.pool.wait(waiter, is_new=True)
    return waiter


def test_new_connection(bench: Bench) -> None:
    """Who needs one is not given one that is put back; who waits behind is."""
    (first,) = stand_in_line(bench, 1)
    bench.connect()
    needy = wait_for_new(bench)
    (other,) = stand_in_line(bench, 1)
    release(bench, first)
    assert [False, True] == served([needy, other])
    bench.connect()

    assert [True, True] == served([needy, other])
    assert 2 == bench.pool.open_count


def test_idle_connection_makes_way_for_a_new_one(bench: Bench) -> None:
    """Where the bound is reached: the one that was idle for longest."""
    waiters = stand_in_line(bench, 2)
    bench.connect()
    bench.connect()
    release(bench, waiters[1])
    release(bench, waiters[0])
    needy = wait_for_new(bench)
    bench.connect()

    assert ["", "abort", ""] == [upstream.ended_by for upstream in bench.upstreams]
    assert ([True], 2) == (served([needy]), bench.pool.open_count)


def test_busy_connection_makes_way_for_a_new_one(bench: Bench) -> None:
    """Where none is idle: the first that is put back, once it is the new one's turn."""
    first, second, earlier = stand_in_line(bench, 3)
    bench.connect()
    bench.connect()
    needy = wait_for_new(bench)
    (later,) = stand_in_line(bench, 1)
    release(bench, first)
    assert [True, False, False] == served([earlier, needy, later])
    release(bench, second)
    assert ["", "abort"] == [upstream.ended_by for upstream in bench.upstreams]
    release(bench, earlier)
    assert [False, True] == served([needy, later])
    bench.connect()

    assert [True, True] == served([needy, later])
    assert (2, 0) == (bench.pool.open_count, bench.pool.waiting_count)


def test_who_needs_a_new_connection_may_leave(bench: Bench) -> None:
    """And is then not served."""
    needy = wait_for_new(bench)
    bench.pool.leave(needy)
    bench.connect()

    assert ([False], 1) == (served([needy]), bench.pool.idle_count)


def test_failure_of_a_new_connection(bench: Bench) -> None:
    """Who waited longest is told, in whichever line."""
    (first,) = stand_in_line(bench, 1)
    needy = wait_for_new(bench)
    bench.connect(ConnectionRefusedError(111, "Connection refused"))
    bench.connect(ConnectionRefusedError(111, "Connection refused"))

    reason = (502, "no connection to the upstream: Connection refused")
    assert (reason, reason) == (first.failure, needy.failure)


def test_an_error_nobody_foresaw_does_not_stop_the_line(bench: Bench) -> None:
    """Who is first gets a 502 that says whose fault it is; the place is free for the next."""
    first, second = stand_in_line(bench, 2)
    bench.connect(KeyError("a bug"))

    assert (502, OWN_FAILURE.reason) == first.failure
    bench.connect()
    assert [True] == served([second])
    assert (1, 0) == (bench.pool.open_count, bench.pool.waiting_count)


def test_connection_that_breaks_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system will not take its options any more it is closed, and is nobody's."""

    def fail(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    (first,) = stand_in_line(bench, 1)
    with monkeypatch.context() as patch:
        patch.setattr(FakeTransport, "get_extra_info", fail)
        bench.connect()

    assert (502, "no connection to the upstream: Invalid argument") == first.failure
    assert "abort" == bench.upstreams[-1].ended_by
    assert (0, 0) == (bench.pool.open_count, bench.pool.waiting_count)
