"""The pool, whose connections come up, stall, fail or are lost as a test says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from apfproxy.proxy.counters import ProxyCounters, UpstreamFailure
from apfproxy.settings import Address, UpstreamSettings
from apfproxy.upstream.connect_failure import OWN_FAILURE
from apfproxy.upstream.pool import Pool
from tests.proxy.fakes import Bench, FakeTransport, S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.upstream.connection import UpstreamConnection


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A pool of two connections at most, none of them open."""
    settings = UpstreamSettings(url=Address(host="origin", port=80), max_connections=2)
    with Bench(idle_origins=0, upstream=settings) as result:
        yield result


class Borrower:
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


def stand_in_line(bench: Bench, count: int) -> list[Borrower]:
    """Have so many borrowers wait."""
    borrowers = [Borrower() for _ in range(count)]
    for borrower in borrowers:
        bench.pool.wait(borrower)
    return borrowers


def served(borrowers: list[Borrower]) -> list[bool]:
    """Who has a connection."""
    return [borrower.connection is not None for borrower in borrowers]


def put_back(bench: Bench, borrower: Borrower, now_ns: int = S) -> UpstreamConnection:
    """Have a borrower return its connection."""
    connection = borrower.connection
    assert connection is not None
    borrower.connection = None
    bench.pool.put_back(connection, now_ns)
    return connection


def test_opens_as_many_as_the_line_needs(bench: Bench) -> None:
    """But never more than the bound, those under way included; the rest waits."""
    assert bench.pool.take() is None
    borrowers = stand_in_line(bench, 3)
    assert 2 == len(bench.connecting)
    bench.connect()
    assert [True, False, False] == served(borrowers)
    bench.connect()
    assert [True, True, False] == served(borrowers)
    assert [] == list(bench.connecting)
    put_back(bench, borrowers[0])

    assert [False, True, True] == served(borrowers)
    assert (2, 0, 0) == (bench.pool.open_count, bench.pool.idle_count, bench.pool.waiting_count)
    assert 2 == bench.counters.upstream_connections_opened


def test_another_limit(bench: Bench) -> None:
    """Those in line get the connections that may be opened by then."""
    borrowers = stand_in_line(bench, 3)
    before = len(bench.connecting)
    address = Address(host="origin", port=80)
    bench.pool.configure(UpstreamSettings(url=address, max_connections=3), None)

    assert (2, 3) == (before, len(bench.connecting))
    for _ in borrowers:
        bench.connect()
    assert [True] * 3 == served(borrowers)


def test_connection_used_last_is_lent_first(bench: Bench) -> None:
    """So the others grow idle."""
    borrowers = stand_in_line(bench, 2)
    bench.connect()
    bench.connect()
    first, second = (put_back(bench, borrower) for borrower in borrowers)

    assert second is bench.pool.take()
    bench.pool.put_back(second, 2 * S)
    assert second is bench.pool.take()
    assert first is bench.pool.take()
    assert bench.pool.take() is None


def test_connection_that_comes_back_first_serves_the_line(bench: Bench) -> None:
    """The one that was opened for it is kept for the next."""
    borrowers = stand_in_line(bench, 1)
    bench.connect()
    borrowers += stand_in_line(bench, 1)
    put_back(bench, borrowers[0])
    assert [False, True] == served(borrowers)
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
            (502, "no connection to the origin: Connection refused"),
            id="refused",
        ),
        pytest.param(
            OSError("Multiple exceptions: a, b"),
            (502, "no connection to the origin: Multiple exceptions: a, b"),
            id="several",
        ),
        pytest.param(
            TimeoutError(),
            (504, "no connection to the origin within 5 s (upstream.connectTimeout)"),
            id="stalls",
        ),
        pytest.param("lost", (502, "the origin closed the connection at once"), id="lost"),
    ],
)
def test_failure_fails_one(
    bench: Bench, outcome: BaseException | str, failure: tuple[int, str]
) -> None:
    """Whoever waits longest is told, and for the others it is tried again."""
    borrowers = stand_in_line(bench, 3)
    bench.connect(outcome)
    assert [failure, None, None] == [borrower.failure for borrower in borrowers]
    kind = UpstreamFailure.CONNECT_TIMEOUT if failure[0] == 504 else UpstreamFailure.CONNECT
    assert 1 == bench.counters.upstream.failures[kind]
    assert 0 == bench.pool.open_count
    bench.connect()
    bench.connect()

    assert [False, True, True] == served(borrowers)


def test_failure_with_nobody_left_in_line(bench: Bench) -> None:
    """It is counted, and nothing is opened any more."""
    (borrower,) = stand_in_line(bench, 1)
    bench.pool.leave(borrower)
    bench.connect(ConnectionRefusedError())

    assert 1 == bench.counters.upstream.failures[UpstreamFailure.CONNECT]
    assert [] == list(bench.connecting)


def test_lost_connection_makes_room(bench: Bench) -> None:
    """The line gets a new one in its place, and a lost idle one is lent no more."""
    borrowers = stand_in_line(bench, 3)
    bench.connect()
    bench.connect()
    put_back(bench, borrowers[1])
    bench.end(bench.origins[0])
    assert 1 == bench.pool.open_count
    idle = put_back(bench, borrowers[2])
    assert idle is bench.pool.take()
    bench.pool.put_back(idle, S)
    bench.end(bench.origins[1])

    assert bench.pool.take() is None
    assert (0, 0) == (bench.pool.open_count, bench.pool.idle_count)
    bench.pool.put_back(idle, S)
    assert 0 == bench.pool.idle_count


def test_lost_connection_is_replaced_for_the_line(bench: Bench) -> None:
    """Where the bound was reached, a loss lets the line go on."""
    borrowers = stand_in_line(bench, 3)
    bench.connect()
    bench.connect()
    assert [] == list(bench.connecting)
    bench.end(bench.origins[0])
    bench.connect()

    assert [True, True, True] == served(borrowers)
    assert 2 == bench.pool.open_count


def test_closes_what_was_idle_too_long(bench: Bench) -> None:
    """The ones used last stay."""
    borrowers = stand_in_line(bench, 2)
    bench.connect()
    bench.connect()
    put_back(bench, borrowers[0], 3 * S)
    put_back(bench, borrowers[1], 5 * S)
    bench.pool.close_idle(2 * S)
    assert 2 == bench.pool.idle_count
    bench.pool.close_idle(3 * S)
    assert ["abort", ""] == [origin.ended_by for origin in bench.origins]
    bench.pool.close_idle(5 * S)

    assert (0, 0) == (bench.pool.open_count, bench.pool.idle_count)


def test_unsolicited_bytes_close_an_idle_connection(bench: Bench) -> None:
    """They must not become the answer to the next request."""
    borrowers = stand_in_line(bench, 1)
    bench.connect()
    put_back(bench, borrowers[0])
    bench.send(bench.origins[0], b"HTTP/1.1 408 Request Timeout\r\n\r\n")

    assert "abort" == bench.origins[0].ended_by
    assert bench.pool.take() is None


def test_close_ends_everything(bench: Bench) -> None:
    """Busy or idle, open or under way."""
    borrowers = stand_in_line(bench, 1)
    bench.connect()
    borrowers += stand_in_line(bench, 1)
    task = bench.connecting[0]
    bench.pool.leave(borrowers[1])
    bench.pool.close()

    assert "abort" == bench.origins[0].ended_by
    assert 0 == bench.pool.open_count
    assert 1 == task.cancelling()


def test_connection_that_was_paused_is_lent_open(bench: Bench) -> None:
    """The next borrower hears of its answer."""
    (borrower,) = stand_in_line(bench, 1)
    bench.connect()
    assert borrower.connection is not None
    borrower.connection.pause_reading()
    assert not bench.origins[0].reads
    put_back(bench, borrower)

    assert bench.origins[0].reads


async def test_connects_within_a_time_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that stalls is given up; the time is the event loop's."""

    async def stall(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", stall)
    borrower = Borrower()
    pool = Pool(
        UpstreamSettings(url=Address(host="origin", port=80), connect_timeout_s=0.001),
        ProxyCounters(),
    )
    pool.wait(borrower)
    await borrower.has_failed.wait()

    assert (
        504,
        "no connection to the origin within 0.001 s (upstream.connectTimeout)",
    ) == borrower.failure


def test_renewal_closes_idle_connections(bench: Bench) -> None:
    """They were opened with another identity."""
    borrowers = stand_in_line(bench, 2)
    bench.connect()
    bench.connect()
    put_back(bench, borrowers[0])
    bench.pool.renew()

    assert ["abort", ""] == [origin.ended_by for origin in bench.origins]
    assert bench.pool.take() is None


def test_renewal_lets_busy_connections_end_their_request(bench: Bench) -> None:
    """But then they are closed, and the next in line gets a new one."""
    borrowers = stand_in_line(bench, 3)
    bench.connect()
    bench.connect()
    bench.pool.renew()
    assert ["", ""] == [origin.ended_by for origin in bench.origins]
    put_back(bench, borrowers[0])
    assert ["abort", ""] == [origin.ended_by for origin in bench.origins]
    bench.connect()
    put_back(bench, borrowers[2])

    assert (2, 1) == (bench.pool.open_count, bench.pool.idle_count)
    assert [False, True, False] == served(borrowers)


def test_renewal_while_connecting(bench: Bench) -> None:
    """A connection that began with the old identity is not lent; another one is made."""
    (borrower,) = stand_in_line(bench, 1)
    bench.pool.renew()
    bench.connect()
    assert ("abort", [False]) == (bench.origins[0].ended_by, served([borrower]))
    bench.connect()

    assert ("", [True]) == (bench.origins[1].ended_by, served([borrower]))
    put_back(bench, borrower)
    assert 1 == bench.pool.idle_count


def wait_for_new(bench: Bench) -> Borrower:
    """Have a borrower wait for a connection without a past."""
    borrower = Borrower()
    bench.pool.wait(borrower, is_new=True)
    return borrower


def test_new_connection(bench: Bench) -> None:
    """Who needs one is not given one that is put back; who waits behind is."""
    (first,) = stand_in_line(bench, 1)
    bench.connect()
    needy = wait_for_new(bench)
    (other,) = stand_in_line(bench, 1)
    put_back(bench, first)
    assert [False, True] == served([needy, other])
    bench.connect()

    assert [True, True] == served([needy, other])
    assert 2 == bench.pool.open_count


def test_idle_connection_makes_way_for_a_new_one(bench: Bench) -> None:
    """Where the bound is reached: the one that was idle for longest."""
    borrowers = stand_in_line(bench, 2)
    bench.connect()
    bench.connect()
    put_back(bench, borrowers[1])
    put_back(bench, borrowers[0])
    needy = wait_for_new(bench)
    bench.connect()

    assert ["", "abort", ""] == [origin.ended_by for origin in bench.origins]
    assert ([True], 2) == (served([needy]), bench.pool.open_count)


def test_busy_connection_makes_way_for_a_new_one(bench: Bench) -> None:
    """Where none is idle: the first that is put back, once it is the new one's turn."""
    first, second, earlier = stand_in_line(bench, 3)
    bench.connect()
    bench.connect()
    needy = wait_for_new(bench)
    (later,) = stand_in_line(bench, 1)
    put_back(bench, first)
    assert [True, False, False] == served([earlier, needy, later])
    put_back(bench, second)
    assert ["", "abort"] == [origin.ended_by for origin in bench.origins]
    put_back(bench, earlier)
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

    reason = (502, "no connection to the origin: Connection refused")
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

    assert (502, "no connection to the origin: Invalid argument") == first.failure
    assert "abort" == bench.origins[-1].ended_by
    assert (0, 0) == (bench.pool.open_count, bench.pool.waiting_count)
