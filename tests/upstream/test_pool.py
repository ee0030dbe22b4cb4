"""The pool: who gets which connection, of which endpoint, and what becomes of those that fail."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING, cast

import pytest

from apfproxy.settings import Address, EndpointAddress, UpstreamSettings
from apfproxy.upstream.connecting import NO_ENDPOINT, OWN_FAILURE
from apfproxy.upstream.counters import PoolCounters, UpstreamFailure
from apfproxy.upstream.endpoint import EJECT, FAIL, RECOVER, TRY_AGAIN
from apfproxy.upstream.pool import Pool, PoolWaiter
from tests.proxy.fakes import Bench, FakeLoop, FakeTransport, S
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from typing import Any

    from apfproxy.upstream.endpoint import Endpoint, UpstreamConnection

REFUSED = ConnectionRefusedError(111, "Connection refused")


class Waiter(PoolWaiter):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.connection: UpstreamConnection | None = None
        self.failure: tuple[int, str] | None = None
        self.has_failed = asyncio.Event()

    def on_connection(self, connection: UpstreamConnection) -> None:
        assert self.connection is None
        self.connection = connection

    def on_no_connection(self, code: int, reason: str) -> None:
        assert self.failure is None
        self.failure = (code, reason)
        self.has_failed.set()

    def fail(self, error: Exception) -> None:
        raise error

    @property
    def its(self) -> UpstreamConnection:
        """The connection that it must have."""
        assert self.connection is not None
        return self.connection

    @property
    def host(self) -> str:
        """Of its connection; "" for none."""
        return "" if self.connection is None else host_of(self.connection)


def host_of(connection: UpstreamConnection) -> str:
    return connection.endpoint.address.address.host


# One endpoint, whose connections come up, stall, fail or are lost as a test says.


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A pool of two connections at most, none of them open."""
    settings = UpstreamSettings(url=Address(host="upstream", port=80), max_connections=2)
    with Bench(idle_upstreams=0, upstream=settings) as result:
        yield result


def stand_in_line(bench: Bench, count: int = 1, *, is_new: bool = False) -> list[Waiter]:
    waiters = [Waiter() for _ in range(count)]
    for waiter in waiters:
        bench.pool.wait(waiter, is_new=is_new)
    return waiters


def connected(bench: Bench, count: int) -> list[Waiter]:
    """So many waiters, of which two at most have connections."""
    waiters = stand_in_line(bench, count)
    for _ in range(min(2, count)):
        bench.connect()
    return waiters


def served(*waiters: Waiter) -> list[bool]:
    return [waiter.connection is not None for waiter in waiters]


def release(bench: Bench, waiter: Waiter, now_ns: int = S) -> UpstreamConnection:
    connection, waiter.connection = waiter.its, None
    bench.pool.release(connection, now_ns)
    return connection


def endings(bench: Bench) -> list[str]:
    return [upstream.ended_by for upstream in bench.upstreams]


def test_opens_as_many_as_the_line_needs(bench: Bench) -> None:
    """But never more than the bound, those under way included; the rest waits."""
    assert bench.pool.acquire() is None
    waiters = stand_in_line(bench, 3)
    assert 2 == len(bench.connecting)
    bench.connect()
    assert [True, False, False] == served(*waiters)
    bench.connect()
    assert ([True, True, False], []) == (served(*waiters), list(bench.connecting))
    release(bench, waiters[0])

    assert [False, True, True] == served(*waiters)
    assert (2, 0, 0) == (bench.pool.open_count, bench.pool.idle_count, bench.pool.waiting_count)
    assert 2 == bench.counters.pool.connections_opened


def test_line_gets_what_a_higher_limit_allows(bench: Bench) -> None:
    waiters = stand_in_line(bench, 3)
    before = len(bench.connecting)
    address = Address(host="upstream", port=80)
    bench.pool.configure(UpstreamSettings(url=address, max_connections=3), None)
    assert (2, 3) == (before, len(bench.connecting))
    for _ in waiters:
        bench.connect()

    assert [True] * 3 == served(*waiters)


def test_connection_used_last_is_given_first(bench: Bench) -> None:
    first, second = (release(bench, waiter) for waiter in connected(bench, 2))
    assert second is bench.pool.acquire()
    bench.pool.release(second, 2 * S)

    assert [second, first, None] == [bench.pool.acquire() for _ in range(3)]


def test_connection_that_comes_back_first_serves_the_line(bench: Bench) -> None:
    """The one that was opened for it is kept for the next."""
    waiters = stand_in_line(bench)
    bench.connect()
    waiters += stand_in_line(bench)
    release(bench, waiters[0])
    assert [False, True] == served(*waiters)
    bench.connect()

    assert (2, 1) == (bench.pool.open_count, bench.pool.idle_count)


def test_who_leaves_the_line_is_not_served(bench: Bench) -> None:
    first, second = stand_in_line(bench, 2)
    bench.pool.leave(first)
    bench.pool.leave(first)
    bench.connect()

    assert ([False, True], 0) == (served(first, second), bench.pool.waiting_count)


@pytest.mark.parametrize(
    ("outcome", "failure"),
    [
        pytest.param(
            REFUSED, (502, "no connection to the upstream: Connection refused"), id="refused"
        ),
        pytest.param(
            TimeoutError(),
            (504, "no connection to the upstream within 5 s (upstream.connectTimeout)"),
            id="stalls",
        ),
        pytest.param("lost", (502, "the upstream closed the connection at once"), id="lost"),
        pytest.param(KeyError("a bug"), (502, OWN_FAILURE.reason), id="our-own-error"),
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
    assert (1, 0) == (bench.counters.upstream.failures[kind], bench.pool.open_count)
    bench.connect()
    bench.connect()

    assert [False, True, True] == served(*waiters)


def test_failure_with_nobody_left_in_line(bench: Bench) -> None:
    (waiter,) = stand_in_line(bench)
    bench.pool.leave(waiter)
    bench.connect(ConnectionRefusedError())

    assert 1 == bench.counters.upstream.failures[UpstreamFailure.CONNECT]
    assert [] == list(bench.connecting)


def test_failure_of_a_new_connection(bench: Bench) -> None:
    """Who waited longest is told, in whichever line."""
    (first,), (needy,) = stand_in_line(bench), stand_in_line(bench, is_new=True)
    bench.connect(REFUSED)
    bench.connect(REFUSED)

    reason = (502, "no connection to the upstream: Connection refused")
    assert (reason, reason) == (first.failure, needy.failure)


def test_connection_that_breaks_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system will not take its options any more it is closed, and is nobody's."""

    def fail(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    (first,) = stand_in_line(bench)
    with monkeypatch.context() as patch:
        patch.setattr(FakeTransport, "get_extra_info", fail)
        bench.connect()

    assert (502, "no connection to the upstream: Invalid argument") == first.failure
    assert "abort" == bench.upstreams[-1].ended_by
    assert (0, 0) == (bench.pool.open_count, bench.pool.waiting_count)


async def test_connects_within_a_time_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    async def stall(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", stall)
    waiter, address = Waiter(), Address(host="upstream", port=80)
    Pool(UpstreamSettings(url=address, connect_timeout_s=0.001), PoolCounters()).wait(waiter)
    await waiter.has_failed.wait()

    why = "no connection to the upstream within 0.001 s (upstream.connectTimeout)"
    assert (504, why) == waiter.failure


def test_lost_connections_are_given_no_more_and_replaced(bench: Bench) -> None:
    waiters = connected(bench, 3)
    assert [] == list(bench.connecting)
    bench.end(bench.upstreams[0])
    bench.connect()
    assert ([True] * 3, 2) == (served(*waiters), bench.pool.open_count)
    idle = release(bench, waiters[1])
    assert idle is bench.pool.acquire()
    bench.pool.release(idle, S)
    bench.end(bench.upstreams[1])

    assert bench.pool.acquire() is None
    assert (1, 0) == (bench.pool.open_count, bench.pool.idle_count)
    bench.pool.release(idle, S)
    assert 0 == bench.pool.idle_count


def test_closes_what_was_idle_too_long(bench: Bench) -> None:
    waiters = connected(bench, 2)
    release(bench, waiters[0], 3 * S)
    release(bench, waiters[1], 5 * S)
    bench.pool.close_idle(2 * S)
    assert 2 == bench.pool.idle_count
    bench.pool.close_idle(3 * S)
    assert ["abort", ""] == endings(bench)
    bench.pool.close_idle(5 * S)

    assert (0, 0) == (bench.pool.open_count, bench.pool.idle_count)


def test_unsolicited_bytes_close_an_idle_connection(bench: Bench) -> None:
    """They must not become the response to the next request."""
    waiters = connected(bench, 1)
    release(bench, waiters[0])
    bench.send(bench.upstreams[0], b"HTTP/1.1 408 Request Timeout\r\n\r\n")

    assert "abort" == bench.upstreams[0].ended_by
    assert bench.pool.acquire() is None


def test_close_ends_everything(bench: Bench) -> None:
    """Busy or idle, open or under way."""
    stand_in_line(bench)
    bench.connect()
    (waiter,) = stand_in_line(bench)
    task = bench.connecting[0]
    bench.pool.leave(waiter)
    bench.pool.close()

    assert ("abort", 0, 1) == (
        bench.upstreams[0].ended_by,
        bench.pool.open_count,
        task.cancelling(),
    )


def test_connection_that_was_paused_is_given_open(bench: Bench) -> None:
    (waiter,) = connected(bench, 1)
    waiter.its.pause_reading()
    assert not bench.upstreams[0].reads
    release(bench, waiter)

    assert bench.upstreams[0].reads


def test_renewal(bench: Bench) -> None:
    """It closes idle connections, and busy ones once their requests have ended."""
    waiters = connected(bench, 2)
    release(bench, waiters[0])
    bench.pool.renew()
    assert ["abort", ""] == endings(bench)
    assert bench.pool.acquire() is None
    later = stand_in_line(bench, 2)
    release(bench, waiters[1])
    assert ["abort", "abort"] == endings(bench)
    bench.connect()
    assert [True, False] == served(*later)
    release(bench, later[0])

    assert [False, True] == served(*later)


def test_renewal_while_connecting(bench: Bench) -> None:
    """A connection that began with the old identity is not given; another one is made."""
    (waiter,) = stand_in_line(bench)
    bench.pool.renew()
    bench.connect()
    assert (["abort"], [False]) == (endings(bench), served(waiter))
    bench.connect()

    assert (["abort", ""], [True]) == (endings(bench), served(waiter))
    release(bench, waiter)
    assert 1 == bench.pool.idle_count


def test_new_connection(bench: Bench) -> None:
    """Who needs one is not given one that is put back; who waits behind is."""
    (first,) = stand_in_line(bench)
    bench.connect()
    (needy,), (other,) = stand_in_line(bench, is_new=True), stand_in_line(bench)
    release(bench, first)
    assert [False, True] == served(needy, other)
    bench.connect()

    assert ([True, True], 2) == (served(needy, other), bench.pool.open_count)


def test_idle_connection_makes_way_for_a_new_one(bench: Bench) -> None:
    """Where the bound is reached: the one that was idle for longest."""
    waiters = connected(bench, 2)
    release(bench, waiters[1])
    release(bench, waiters[0])
    needy = stand_in_line(bench, is_new=True)
    bench.connect()

    assert (["", "abort", ""], [True]) == (endings(bench), served(*needy))
    assert 2 == bench.pool.open_count


def test_busy_connection_makes_way_for_a_new_one(bench: Bench) -> None:
    """Where none is idle: the first that is put back, once it is the new one's turn."""
    first, second, earlier = connected(bench, 3)
    (needy,), (later,) = stand_in_line(bench, is_new=True), stand_in_line(bench)
    release(bench, first)
    assert [True, False, False] == served(earlier, needy, later)
    release(bench, second)
    assert ["", "abort"] == endings(bench)
    release(bench, earlier)
    assert [False, True] == served(needy, later)
    bench.connect()

    assert [True, True] == served(needy, later)
    assert (2, 0) == (bench.pool.open_count, bench.pool.waiting_count)


def test_who_needs_a_new_connection_may_leave(bench: Bench) -> None:
    (needy,) = stand_in_line(bench, is_new=True)
    bench.pool.leave(needy)
    bench.connect()

    assert ([False], 1) == (served(needy), bench.pool.idle_count)


# Several endpoints.


def address(name: str, weight: int = 1) -> EndpointAddress:
    return EndpointAddress(address=Address(host=name, port=80), weight=weight)


class Scene:
    """A pool whose connections come up at once, unless an endpoint is down."""

    def __init__(self, *names: str) -> None:
        self.loop = FakeLoop(VirtualClock(S))
        self.counters = PoolCounters()
        self.tasks: list[Coroutine[Any, Any, None]] = []
        self.down: set[str] = set()
        self.asked: list[str] = []
        self.pool = Pool(
            UpstreamSettings(max_connections=100),
            self.counters,
            lambda: S,
            draw=random.Random(1).random,  # noqa: S311  nothing secret
        )
        self.name(*names)

    def name(self, *names: str) -> None:
        """Have other endpoints."""
        self.pool.set_endpoints([address(name) for name in names])

    def cap(self, most: int) -> None:
        """Have two endpoints, of so many requests at once at most."""
        settings = UpstreamSettings(max_connections=100, max_requests_per_endpoint=most)
        self.pool.configure(settings, None)
        self.name("a", "b")

    async def connect(self, connection: UpstreamConnection, found: Address, *_: object) -> None:
        """Stand for the network."""
        self.asked.append(found.host)
        await asyncio.sleep(0)
        if found.host in self.down:
            raise REFUSED
        FakeTransport(self.loop).connect(cast("asyncio.BufferedProtocol", connection))

    def endpoint(self, name: str) -> Endpoint:
        all_of_them = (*self.pool.endpoints, *self.pool.draining)
        [found] = [each for each in all_of_them if each.address.address.host == name]
        return found

    def become(self, name: str, event: Any) -> None:  # noqa: ANN401  an event of its state
        endpoint = self.endpoint(name)
        endpoint.state = event[endpoint.state]
        self.pool.weigh()

    async def ask(self, count: int = 1, **how: Any) -> list[Waiter]:  # noqa: ANN401  as of `wait`
        """Have so many requests get a connection, or wait for one."""
        waiters = [Waiter() for _ in range(count)]
        for waiter in waiters:
            taken = None if how else self.pool.acquire()
            if taken is None:
                self.pool.wait(waiter, **how)
            else:
                waiter.on_connection(taken)
            await turns()
        return waiters

    async def use(self, count: int, seats: int = 1) -> dict[str, int]:
        """Send so many requests, one after the other; how many each endpoint had."""
        used = dict.fromkeys("abc", 0)
        for _ in range(count):
            [waiter] = await self.ask()
            waiter.its.hold(seats)
            used[waiter.host] += 1
            self.pool.release(waiter.its, S)
        return used


async def turns() -> None:
    """Let tasks come as far as they can."""
    for _ in range(12):
        await asyncio.sleep(0)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Three endpoints."""
    made = Scene("a", "b", "c")
    monkeypatch.setattr("apfproxy.upstream.endpoint.connected", made.connect)
    yield made
    made.pool.close()


def held(waiters: list[Waiter]) -> dict[str, int]:
    """How many of them have a connection to which endpoint."""
    return dict(Counter(waiter.host for waiter in waiters))


async def test_connections_spread(scene: Scene) -> None:
    assert {"a": 3, "b": 3, "c": 3} == held(await scene.ask(9))


async def test_requests_spread_without_load(scene: Scene) -> None:
    used = await scene.use(600)

    assert all(170 < each < 230 for each in used.values()), used


async def test_seats_count(scene: Scene) -> None:
    """An endpoint that works on something large gets nothing while others have less to do."""
    [large] = await scene.ask()
    large.its.hold(10)
    used = await scene.use(200)
    assert (0, 200) == (used[large.host], sum(used.values()))
    large.its.release_seats()  # as of a watch that is on: it takes the connection, but no seats

    assert 0 < (await scene.use(200))[large.host]


async def test_long_requests_count_connections(scene: Scene) -> None:
    """They hold seats for a moment only; an endpoint that has fewer of them gets the next one."""
    [first] = await scene.ask()
    await scene.use(50)
    taken = [scene.pool.acquire(is_long=True) for _ in range(2)]

    assert first.host not in {host_of(each) for each in taken if each is not None}
    assert None not in taken


async def test_weights(scene: Scene) -> None:
    """Whether connections are kept or each request takes a new one."""
    scene.pool.set_endpoints([address("a"), address("b"), address("c", 3)])
    used = await scene.use(1000)
    assert 130 < used["a"] < 270, used
    assert 500 < used["c"] < 700, used
    scene.pool.close_idle(S)
    hosts = Counter[str]()
    for _ in range(400):
        [waiter] = await scene.ask()
        hosts[waiter.host] += 1
        waiter.its.abort()

    assert 50 < hosts["a"] < 120, hosts
    assert 190 < hosts["c"] < 290, hosts


async def test_another_endpoint_is_tried(scene: Scene) -> None:
    """A request that has no connection yet fails only where none can be made."""
    scene.down = {"a", "b"}
    assert {"c": 6} == held(await scene.ask(6))
    assert {"a", "b", "c"} == set(scene.asked)
    assert scene.endpoint("a").counters.failures[UpstreamFailure.CONNECT]
    scene.down = {"a", "b", "c"}
    [failed] = await scene.ask()

    assert (502, "no connection to the upstream: Connection refused") == failed.failure


async def test_idle_connection_elsewhere(scene: Scene) -> None:
    """Where no connection can be made, one that another endpoint has serves the request."""
    await scene.use(50)
    before, one = scene.pool.open_count, scene.endpoint("a")
    for connection in list(one.idle):
        connection.abort()
    scene.down = {"a"}
    await scene.use(100)

    assert before - 1 == scene.pool.open_count
    assert one.failures_in_row


async def test_failing_endpoints_get_nothing(scene: Scene) -> None:
    """Until they recover; where all fail, all are asked."""
    await scene.use(30)
    scene.become("a", FAIL)
    assert (0, 2) == ((await scene.use(100))["a"], scene.pool.healthy_count)
    scene.become("a", RECOVER)
    assert 0 < (await scene.use(100))["a"]
    for name in "abc":
        scene.become(name, EJECT)

    assert 0 == scene.pool.healthy_count
    assert all((await scene.use(300)).values())


async def test_endpoint_that_is_named_no_more(scene: Scene) -> None:
    """It gets nothing, keeps what it has until that ends, and its counts are kept for good."""
    waiters = await scene.ask(3)
    gone = scene.endpoint("b")
    gone.answered(200, 1000)
    scene.name("a", "c", "d")
    assert [gone] == list(scene.pool.draining)
    assert {"a": 1, "b": 1, "c": 1} == held(waiters)
    assert "b" not in held(await scene.ask(6))
    [last] = [each for each in waiters if each.host == "b"]
    scene.pool.release(last.its, S)

    assert last.its.is_closed
    assert not scene.pool.draining
    assert {200: 1} == scene.counters.total().answers == scene.counters.unattributed.answers


async def test_endpoint_that_goes_while_it_is_connected_to(scene: Scene) -> None:
    scene.name("a")
    waiter = Waiter()
    scene.pool.wait(waiter)
    scene.name("b")
    await turns()

    assert ("b", {}) == (waiter.host, scene.pool.draining)


async def test_endpoints_that_stay(scene: Scene) -> None:
    """They are the same objects, with their connections; weights may change."""
    await scene.use(30)
    before = {each.url: (each, set(each.open)) for each in scene.pool.endpoints}
    assert ["a:80", "b:80", "c:80"] == [each.log_name for each in scene.pool.endpoints]
    scene.pool.set_endpoints([address("c"), address("a", 5), address("a")])
    assert ["http://c:80", "http://a:80"] == [each.url for each in scene.pool.endpoints]
    for endpoint in scene.pool.endpoints:
        assert (endpoint, endpoint.open) == before[endpoint.url]
    scene.name("a")

    assert [""] == [each.log_name for each in scene.pool.endpoints]


async def test_no_endpoint(scene: Scene) -> None:
    """Requests are refused at once, and served once there is one."""
    scene.name()
    [refused] = await scene.ask()
    assert (503, NO_ENDPOINT.reason) == refused.failure
    assert 1 == scene.counters.total().failures[UpstreamFailure.CONNECT]
    scene.name("a")

    assert {"a": 1} == held(await scene.ask())


async def test_several_fail_in_a_row(scene: Scene) -> None:
    """Whoever looks after endpoints hears of it, each time."""
    heard: list[Endpoint] = []
    scene.pool.on_endpoint_failing = heard.append
    one = scene.endpoint("a")
    one.max_failures_in_row = 2
    for _ in range(3):
        one.fail(UpstreamFailure.ANSWER_TIMEOUT, "no answer")

    assert [one, one] == heard


# Requests that an endpoint has failed, which avoid it.


async def test_request_that_an_endpoint_failed_goes_elsewhere(scene: Scene) -> None:
    """Even where that one's connection comes first; but not where there is no other."""
    [first] = await scene.ask()
    again = Waiter()
    scene.pool.wait(again, avoided=first.its.endpoint)
    scene.pool.release(first.its, S)
    assert "" == again.host
    await turns()
    assert again.host not in {"", first.host}
    scene.name(first.host)
    [last] = await scene.ask(avoided=first.its.endpoint)

    assert first.host == last.host


async def test_idle_connection_makes_way_for_another_endpoint(scene: Scene) -> None:
    scene.name("a", "b")
    waiters = await scene.ask(2)
    scene.pool.limit(2)
    for each in waiters:
        scene.pool.release(each.its, S)
    [first] = await scene.ask()
    [needy] = await scene.ask(avoided=scene.endpoint("a" if first.host == "b" else "b"))

    assert (first.host, 2) == (needy.host, scene.pool.open_count)


@pytest.mark.parametrize("is_known", [True, False], ids=["ejected", "down"])
async def test_only_the_endpoint_that_is_avoided_is_left(scene: Scene, *, is_known: bool) -> None:
    """Then it will do: to ask it is better than to wait without end."""
    scene.name("a", "b")
    scene.down = {"b"}
    again = Waiter()
    scene.pool.wait(again, avoided=scene.endpoint("a"))
    if is_known:
        scene.become("b", EJECT)
    await turns()

    assert ("a", 1) == (again.host, scene.pool.open_count)


async def test_idle_connection_makes_way_for_one_whose_server_is_gone(scene: Scene) -> None:
    """It was failed by a server that is drained, and one other is left, whose one is idle."""
    scene.name("a")
    failed, _ = await scene.ask(2)
    scene.name("b")
    [other] = await scene.ask()
    scene.pool.release(other.its, S)
    scene.pool.limit(2)
    failed.its.abort()
    [again] = await scene.ask(avoided=failed.its.endpoint)

    assert ("b", 2) == (again.host, scene.pool.open_count)


# The most requests of an endpoint.


async def test_most_requests_of_an_endpoint(scene: Scene) -> None:
    """Who finds no room waits, and is served as soon as there is room, whoever makes it."""
    scene.cap(2)
    waiters = await scene.ask(7)
    assert {"": 3, "a": 2, "b": 2} == held(waiters)
    assert (3, 4) == (scene.pool.waiting_count, scene.pool.open_count)
    one, two = [each for each in waiters if each.host == "a"]
    scene.pool.release(one.its, S)  # through
    assert 2 == scene.pool.waiting_count
    two.its.abort()  # dropped
    await turns()
    assert 1 == scene.pool.waiting_count
    scene.pool.leave(next(each for each in waiters if not each.host))
    assert 0 == scene.pool.waiting_count

    assert all(each.busy_count == 2 for each in scene.pool.endpoints)


async def test_room_at_an_endpoint_that_joins(scene: Scene) -> None:
    """It serves those that wait at once."""
    scene.cap(1)
    waiters = await scene.ask(5)
    assert 3 == scene.pool.waiting_count
    scene.name("a", "b", "c")
    await turns()
    assert {"": 2, "a": 1, "b": 1, "c": 1} == held(waiters)
    scene.cap(3)
    await turns()

    assert 0 == scene.pool.waiting_count


async def test_room_of_idle_connections(scene: Scene) -> None:
    """An idle connection is no request: neither where one is taken nor where one is made."""
    scene.cap(2)
    used = await scene.use(50)
    assert 0 not in {used["a"], used["b"]}
    waiters = await scene.ask(4)

    assert {"a": 2, "b": 2} == held(waiters)
    assert (0, 4) == (scene.pool.waiting_count, scene.pool.open_count)
    assert scene.pool.acquire() is None


async def test_most_requests_where_one_fails(scene: Scene) -> None:
    """What it cannot have waits for the others, and for it once it is back."""
    scene.cap(2)
    scene.become("a", EJECT)
    waiters = await scene.ask(4)
    assert {"": 2, "b": 2} == held(waiters)
    scene.become("a", TRY_AGAIN)
    await turns()

    assert {"a": 2, "b": 2} == held(waiters)


async def test_upgrade_that_waits_for_room(scene: Scene) -> None:
    """It gets its new connection when any request ends, also one of the idle kind."""
    scene.cap(1)
    first, _ = await scene.ask(2)
    [upgrade] = await scene.ask(is_new=True)
    assert "" == upgrade.host
    scene.pool.release(first.its, S)
    await turns()

    assert first.host == upgrade.host
    assert first.its is not upgrade.its


async def test_who_avoids_an_endpoint_holds_up_nobody(scene: Scene) -> None:
    """It waits for room elsewhere, while those behind it take what it may not have."""
    scene.cap(1)
    first, _ = await scene.ask(2)
    [again], [behind] = await scene.ask(avoided=first.its.endpoint), await scene.ask()
    first.its.abort()
    await turns()

    assert ("", first.host) == (again.host, behind.host)
    assert (1, 2) == (scene.pool.waiting_count, scene.pool.open_count)
    scene.pool.leave(again)


async def test_who_avoids_an_endpoint_waits_for_the_others(scene: Scene) -> None:
    """It makes no connections to the one that it avoids in the meantime."""
    scene.cap(1)
    first, other = await scene.ask(2)
    [again] = await scene.ask(avoided=first.its.endpoint)
    scene.pool.release(first.its, S)
    await turns()
    assert ("", 2) == (again.host, scene.pool.open_count)
    scene.pool.release(other.its, S)

    assert other.host == again.host


async def test_upgrade_behind_one_who_avoids_an_endpoint(scene: Scene) -> None:
    """It takes the room there is, which is of no use to the other one."""
    scene.cap(1)
    first, other = await scene.ask(2)
    [again], [upgrade] = await scene.ask(avoided=first.its.endpoint), await scene.ask(is_new=True)
    first.its.abort()
    await turns()

    assert ("", first.host) == (again.host, upgrade.host)
    assert (1, 2) == (scene.pool.waiting_count, scene.pool.open_count)
    scene.pool.release(other.its, S)
    assert other.host == again.host
