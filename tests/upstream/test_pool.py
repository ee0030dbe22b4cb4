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
from tests.support.clocks import VirtualClock

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
        assert self.connection is not None
        return self.connection

    @property
    def host(self) -> str:
        return "" if self.connection is None else host_of(self.connection)


def host_of(connection: UpstreamConnection) -> str:
    return connection.endpoint.address.address.host


# One endpoint, whose connections come up, stall, fail or are lost as a test says.


@pytest.fixture
def bench() -> Iterator[Bench]:
    settings = UpstreamSettings(url=Address(host="upstream", port=80), max_connections=2)
    with Bench(idle_upstreams=0, upstream=settings) as result:
        yield result


def stand_in_line(bench: Bench, count: int = 1, *, is_new: bool = False) -> list[Waiter]:
    waiters = [Waiter() for _ in range(count)]
    for waiter in waiters:
        bench.pool.wait(waiter, is_new=is_new)
    return waiters


def connected(bench: Bench, count: int) -> list[Waiter]:
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
    assert bench.pool.acquire() is None
    waiters = stand_in_line(bench, 4)
    assert 2 == len(bench.connecting)
    bench.connect()
    assert [True, False, False, False] == served(*waiters)
    bench.connect()
    assert ([True, True, False, False], []) == (served(*waiters), list(bench.connecting))
    release(bench, waiters[0])
    assert [False, True, True, False] == served(*waiters)
    assert (2, 0, 1) == (bench.pool.open_count, bench.pool.idle_count, bench.pool.waiting_count)
    address = Address(host="upstream", port=80)
    bench.pool.configure(UpstreamSettings(url=address, max_connections=3), None)
    bench.connect()

    assert [False, True, True, True] == served(*waiters)
    assert 3 == bench.counters.pool.connections_opened


def test_connection_used_last_is_given_first(bench: Bench) -> None:
    waiters = connected(bench, 2)
    waiters[0].its.pause_reading()
    assert [False, True] == [each.reads for each in bench.upstreams]
    first, second = (release(bench, waiter) for waiter in waiters)
    assert [True, True] == [each.reads for each in bench.upstreams]
    assert second is bench.pool.acquire()
    bench.pool.release(second, 2 * S)

    assert [second, first, None] == [bench.pool.acquire() for _ in range(3)]


def test_connection_that_comes_back_first_serves_the_line(bench: Bench) -> None:
    waiters = stand_in_line(bench)
    bench.connect()
    waiters += stand_in_line(bench)
    release(bench, waiters[0])
    assert [False, True] == served(*waiters)
    bench.connect()

    assert (2, 1) == (bench.pool.open_count, bench.pool.idle_count)


@pytest.mark.parametrize("is_new", [False, True])
def test_waiter_that_leaves_the_line_is_not_served(bench: Bench, *, is_new: bool) -> None:
    first, second = stand_in_line(bench, 2, is_new=is_new)
    bench.pool.leave(first)
    bench.pool.leave(first)
    bench.connect()

    assert ([False, True], 0) == (served(first, second), bench.pool.waiting_count)


@pytest.mark.parametrize(
    ("outcome", "failure"),
    [
        (REFUSED, (502, "no connection to the upstream: Connection refused")),
        (
            TimeoutError(),
            (504, "no connection to the upstream within 5 s (upstream.connectTimeout)"),
        ),
        ("lost", (502, "the upstream closed the connection at once")),
        (KeyError("a bug"), (502, OWN_FAILURE.reason)),
    ],
    ids=["refused", "stalls", "lost", "own-error"],
)
def test_failure_fails_the_first_in_line_alone(
    bench: Bench, outcome: BaseException | str, failure: tuple[int, str]
) -> None:
    waiters = stand_in_line(bench, 3)
    bench.connect(outcome)
    assert [failure, None, None] == [waiter.failure for waiter in waiters]
    kind = UpstreamFailure.CONNECT_TIMEOUT if failure[0] == 504 else UpstreamFailure.CONNECT
    assert (1, 0) == (bench.counters.upstream.failures[kind], bench.pool.open_count)
    bench.connect()
    bench.connect()

    assert [False, True, True] == served(*waiters)


def test_connection_whose_options_the_system_refuses_is_closed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    (first,) = stand_in_line(bench)
    with monkeypatch.context() as patch:
        patch.setattr(FakeTransport, "get_extra_info", fail)
        bench.connect()

    assert (502, "no connection to the upstream: Invalid argument") == first.failure
    assert "abort" == bench.upstreams[-1].ended_by
    assert (0, 0) == (bench.pool.open_count, bench.pool.waiting_count)


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


def test_close_ends_everything(bench: Bench) -> None:
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


def test_renewal_closes_idle_connections_and_busy_ones_once_they_are_released(bench: Bench) -> None:
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


def test_connection_that_began_before_a_renewal_is_not_given(bench: Bench) -> None:
    (waiter,) = stand_in_line(bench)
    bench.pool.renew()
    bench.connect()
    assert (["abort"], [False]) == (endings(bench), served(waiter))
    bench.connect()

    assert (["abort", ""], [True]) == (endings(bench), served(waiter))
    release(bench, waiter)
    assert 1 == bench.pool.idle_count


def test_waiter_for_a_new_connection_gets_none_that_is_released(bench: Bench) -> None:
    (first,) = stand_in_line(bench)
    bench.connect()
    (needy,), (other,) = stand_in_line(bench, is_new=True), stand_in_line(bench)
    release(bench, first)
    assert [False, True] == served(needy, other)
    bench.connect()

    assert ([True, True], 2) == (served(needy, other), bench.pool.open_count)


def test_idle_connection_makes_way_for_a_new_one(bench: Bench) -> None:
    waiters = connected(bench, 2)
    release(bench, waiters[1])
    release(bench, waiters[0])
    needy = stand_in_line(bench, is_new=True)
    bench.connect()

    assert (["", "abort", ""], [True]) == (endings(bench), served(*needy))
    assert 2 == bench.pool.open_count


def test_busy_connection_makes_way_for_a_new_one(bench: Bench) -> None:
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
        self.pool.set_endpoints([address(name) for name in names])

    def cap(self, most: int) -> None:
        settings = UpstreamSettings(max_connections=100, max_requests_per_endpoint=most)
        self.pool.configure(settings, None)
        self.name("a", "b")

    async def connect(self, connection: UpstreamConnection, found: Address, *_: object) -> None:
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
        used = dict.fromkeys("abc", 0)
        for _ in range(count):
            [waiter] = await self.ask()
            waiter.its.hold(seats)
            used[waiter.host] += 1
            self.pool.release(waiter.its, S)
        return used


async def turns() -> None:
    for _ in range(12):
        await asyncio.sleep(0)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene("a", "b", "c")
    monkeypatch.setattr("apfproxy.upstream.endpoint.connected", made.connect)
    yield made
    made.pool.close()


def held(waiters: list[Waiter]) -> dict[str, int]:
    return dict(Counter(waiter.host for waiter in waiters))


async def test_endpoint_whose_requests_hold_fewer_seats_is_preferred(scene: Scene) -> None:
    [large] = await scene.ask()
    large.its.hold(10)
    used = await scene.use(200)
    assert (0, 200) == (used[large.host], sum(used.values()))
    large.its.release_seats()  # as of a watch that is on: it takes the connection, but no seats

    assert 0 < (await scene.use(200))[large.host]


async def test_endpoint_whose_requests_have_fewer_tokens_is_preferred(scene: Scene) -> None:
    large, *small = await scene.ask(3)
    large.its.hold(1, 2000.0)
    for each in small:
        each.its.hold(2, 10.0)
    assert 0 == (await scene.use(50))[large.host]
    for each in (large, *small):
        each.its.release_seats()

    assert [(0, 0.0)] * 3 == [(each.seats, each.load) for each in scene.pool.endpoints]


async def test_endpoint_with_a_free_slot_is_preferred(scene: Scene) -> None:
    """As many requests are at each as it has slots, whatever they cost."""
    scene.pool.slots = 2
    at: Counter[str] = Counter()
    for _ in range(6):
        [waiter] = await scene.ask()
        at[waiter.host] += 1
        waiter.its.hold(1, {"a": 1.0, "b": 50.0, "c": 500.0}[waiter.host])

    assert {"a": 2, "b": 2, "c": 2} == at
    assert await scene.ask()  # more than there are slots are not refused


async def test_slots_count_that_wait_for_their_connections(scene: Scene) -> None:
    """Also where one endpoint has far less to do than the others."""
    scene.pool.slots = 1
    dear = [found for [found] in [await scene.ask() for _ in range(3)]]
    for each in dear:
        each.its.hold(0, {"a": 1.0, "b": 50.0, "c": 500.0}[each.host])
    waiters = [Waiter() for _ in range(3)]
    for each in waiters:
        scene.pool.wait(each)
    await turns()

    assert ["a", "b", "c"] == sorted(each.host for each in waiters)


async def test_long_requests_go_where_fewer_connections_are_in_use(scene: Scene) -> None:
    [first] = await scene.ask()
    await scene.use(50)
    taken = [scene.pool.acquire(is_long=True) for _ in range(2)]

    assert first.host not in {host_of(each) for each in taken if each is not None}
    assert None not in taken


async def test_endpoints_get_requests_and_connections_by_weight(scene: Scene) -> None:
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


async def test_seats_count_by_weight(scene: Scene) -> None:
    """Six seats at a server of three times the weight are less than three elsewhere."""
    scene.pool.set_endpoints([address("a"), address("b", 3)])
    scene.endpoint("a").load, scene.endpoint("b").load = 3, 6

    assert held(await scene.ask(50))["b"] > 40


async def test_another_endpoint_is_tried(scene: Scene) -> None:
    scene.down = {"a", "b"}
    assert {"c": 6} == held(await scene.ask(6))
    assert {"a", "b", "c"} == set(scene.asked)
    assert scene.endpoint("a").counters.failures[UpstreamFailure.CONNECT]
    scene.down = {"a", "b", "c"}
    [failed] = await scene.ask()

    assert (502, "no connection to the upstream: Connection refused") == failed.failure


async def test_idle_connection_elsewhere_serves_where_none_can_be_made(scene: Scene) -> None:
    await scene.use(50)
    before, one = scene.pool.open_count, scene.endpoint("a")
    for connection in list(one.idle):
        connection.abort()
    scene.down = {"a"}
    await scene.use(100)

    assert before - 1 == scene.pool.open_count
    assert one.failures_in_row


async def test_failing_endpoints_get_nothing_unless_all_fail(scene: Scene) -> None:
    """Each is said to fail with each failure beyond those in a row that it may have."""
    heard: list[Endpoint] = []
    scene.pool.on_endpoint_failing = heard.append
    one = scene.endpoint("a")
    one.max_failures_in_row = 2
    await scene.use(30)
    one.failures_in_row = 0
    for _ in range(3):
        one.fail(UpstreamFailure.ANSWER_TIMEOUT, "no answer")
    assert [one, one] == heard
    scene.become("a", FAIL)
    assert (0, 2) == ((await scene.use(100))["a"], scene.pool.healthy_count)
    scene.become("a", RECOVER)
    assert 0 < (await scene.use(100))["a"]
    for name in "abc":
        scene.become(name, EJECT)

    assert 0 == scene.pool.healthy_count
    assert all((await scene.use(300)).values())


async def test_endpoint_that_is_named_no_more_is_drained(scene: Scene) -> None:
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


async def test_endpoints_that_are_named_again_stay_as_they_are(scene: Scene) -> None:
    await scene.use(30)
    before = {each.url: (each, set(each.open)) for each in scene.pool.endpoints}
    assert ["a:80", "b:80", "c:80"] == [each.log_name for each in scene.pool.endpoints]
    scene.pool.set_endpoints([address("c"), address("a", 5), address("a")])
    assert ["http://c:80", "http://a:80"] == [each.url for each in scene.pool.endpoints]
    for endpoint in scene.pool.endpoints:
        assert (endpoint, endpoint.open) == before[endpoint.url]
    scene.name("a")

    assert [""] == [each.log_name for each in scene.pool.endpoints]


async def test_requests_are_refused_while_there_is_no_endpoint(scene: Scene) -> None:
    scene.name()
    [refused] = await scene.ask()
    assert (503, NO_ENDPOINT.reason) == refused.failure
    assert 1 == scene.counters.total().failures[UpstreamFailure.CONNECT]
    scene.name("a")

    assert {"a": 1} == held(await scene.ask())


# Requests that an endpoint has failed, which avoid it.


async def test_request_that_an_endpoint_failed_goes_elsewhere(scene: Scene) -> None:
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
    scene.name("a", "b")
    scene.down = {"b"}
    again = Waiter()
    scene.pool.wait(again, avoided=scene.endpoint("a"))
    if is_known:
        scene.become("b", EJECT)
    await turns()

    assert ("a", 1) == (again.host, scene.pool.open_count)


async def test_idle_connection_makes_way_for_one_whose_server_is_gone(scene: Scene) -> None:
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


async def test_waiter_is_served_as_soon_as_an_endpoint_has_room(scene: Scene) -> None:
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


async def test_endpoint_that_joins_serves_those_that_wait(scene: Scene) -> None:
    scene.cap(1)
    waiters = await scene.ask(5)
    assert 3 == scene.pool.waiting_count
    scene.name("a", "b", "c")
    await turns()
    assert {"": 2, "a": 1, "b": 1, "c": 1} == held(waiters)
    scene.cap(3)
    await turns()

    assert 0 == scene.pool.waiting_count


async def test_idle_connections_take_no_room(scene: Scene) -> None:
    scene.cap(2)
    used = await scene.use(50)
    assert 0 not in {used["a"], used["b"]}
    waiters = await scene.ask(4)

    assert {"a": 2, "b": 2} == held(waiters)
    assert (0, 4) == (scene.pool.waiting_count, scene.pool.open_count)
    assert scene.pool.acquire() is None


async def test_bound_holds_where_one_endpoint_fails(scene: Scene) -> None:
    scene.cap(2)
    scene.become("a", EJECT)
    waiters = await scene.ask(4)
    assert {"": 2, "b": 2} == held(waiters)
    scene.become("a", TRY_AGAIN)
    await turns()

    assert {"a": 2, "b": 2} == held(waiters)


@pytest.mark.parametrize("is_new", [False, True])
async def test_who_cannot_be_connected_waits_for_those_that_are_full(
    scene: Scene, *, is_new: bool
) -> None:
    scene.cap(1)
    scene.down = {"b"}
    first, *waiters = [*await scene.ask(), *await scene.ask(3, is_new=is_new)]
    assert ("a", [None] * 3) == (first.host, [each.failure for each in waiters])
    assert (3, ["b"]) == (scene.pool.waiting_count, scene.asked[-1:])
    asked = len(scene.asked)
    scene.pool.release(first.its, S)
    await turns()
    assert "a" == waiters[0].host
    assert "b" not in scene.asked[asked:]
    scene.down = {"a", "b"}
    waiters[0].its.abort()
    await turns()
    scene.pool.try_again()
    await turns()

    assert [(502, "no connection to the upstream: Connection refused")] * 2 == [
        each.failure for each in waiters[1:]
    ]


async def test_many_who_wait_ask_an_endpoint_that_refuses_once(scene: Scene) -> None:
    scene.cap(2)
    scene.down = {"b"}
    waiters = await scene.ask(300)
    await turns()
    assert {"": 298, "a": 2} == held(waiters)
    assert scene.asked.count("b") <= 2 * 2
    scene.down = set()
    scene.pool.try_again()
    await turns()

    assert {"": 296, "a": 2, "b": 2} == held(waiters)
    for each in waiters:
        scene.pool.leave(each)


async def test_a_connection_to_an_endpoint_that_refused_opens_it_to_upgrades(scene: Scene) -> None:
    scene.cap(2)
    scene.down = {"b"}
    first, _ = await scene.ask(2)
    [upgrade] = await scene.ask(is_new=True)
    scene.down = set()
    scene.become("b", FAIL)
    scene.become("b", RECOVER)
    await turns()

    assert ("a", "b") == (first.host, upgrade.host)


async def test_who_avoids_what_is_left_gets_it(scene: Scene) -> None:
    scene.cap(1)
    scene.down = {"a"}
    [holder] = await scene.ask()
    [again] = await scene.ask(avoided=holder.its.endpoint)
    assert "" == again.host
    scene.pool.release(holder.its, S)
    await turns()
    assert "b" == again.host
    [other] = await scene.ask(avoided=scene.endpoint("b"))
    scene.pool.release(again.its, S)
    await turns()

    assert "b" == other.host


async def test_upgrade_that_waits_for_room(scene: Scene) -> None:
    scene.cap(1)
    first, _ = await scene.ask(2)
    [upgrade] = await scene.ask(is_new=True)
    assert "" == upgrade.host
    scene.pool.release(first.its, S)
    await turns()

    assert first.host == upgrade.host
    assert first.its is not upgrade.its


@pytest.mark.parametrize("how", [{}, {"is_new": True}], ids=["request", "upgrade"])
async def test_who_avoids_an_endpoint_holds_up_nobody(scene: Scene, how: dict[str, bool]) -> None:
    scene.cap(1)
    first, other = await scene.ask(2)
    [again], [behind] = await scene.ask(avoided=first.its.endpoint), await scene.ask(**how)
    first.its.abort()
    await turns()

    assert ("", first.host) == (again.host, behind.host)
    assert (1, 2) == (scene.pool.waiting_count, scene.pool.open_count)
    scene.pool.release(other.its, S)
    assert other.host == again.host


async def test_who_avoids_an_endpoint_waits_for_the_others(scene: Scene) -> None:
    scene.cap(1)
    first, other = await scene.ask(2)
    [again] = await scene.ask(avoided=first.its.endpoint)
    scene.pool.release(first.its, S)
    await turns()
    assert ("", 2) == (again.host, scene.pool.open_count)
    scene.pool.release(other.its, S)

    assert other.host == again.host
