"""A pool of several endpoints: which one gets a request, and what becomes of those that fail."""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import TYPE_CHECKING, cast

import pytest

from apfproxy.settings import Address, EndpointAddress, UpstreamSettings
from apfproxy.upstream.connecting import NO_ENDPOINT
from apfproxy.upstream.counters import PoolCounters, UpstreamFailure
from apfproxy.upstream.endpoint import EJECT, FAIL, RECOVER, TRY_AGAIN
from apfproxy.upstream.pool import Pool
from tests.proxy.fakes import FakeLoop, FakeTransport, S
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from typing import Any

    from apfproxy.upstream.endpoint import Endpoint, UpstreamConnection


def address(name: str, weight: int = 1) -> EndpointAddress:
    """An endpoint's."""
    return EndpointAddress(address=Address(host=name, port=80), weight=weight)


class PoolWaiter:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.connection: UpstreamConnection | None = None
        self.failure: tuple[int, str] | None = None

    def on_connection(self, connection: UpstreamConnection) -> None:
        """Keep it."""
        self.connection = connection

    def on_no_connection(self, code: int, reason: str) -> None:
        """Keep the reason."""
        self.failure = (code, reason)

    def fail(self, error: Exception) -> None:
        """Let nothing be hidden."""
        raise error

    @property
    def host(self) -> str:
        """Whose connection it has; "" for none."""
        return "" if self.connection is None else host_of(self.connection)


def host_of(connection: UpstreamConnection) -> str:
    """Whose it is."""
    return connection.endpoint.address.address.host


class Scene:
    """A pool whose connections come up at once, unless an endpoint is down."""

    def __init__(self, *names: str, max_connections: int = 100) -> None:
        self.loop = FakeLoop(VirtualClock(S))
        self.counters = PoolCounters()
        self.tasks: list[Coroutine[Any, Any, None]] = []
        self.down: set[str] = set()
        self.asked: list[str] = []
        self.pool = Pool(
            UpstreamSettings(max_connections=max_connections),
            self.counters,
            lambda: S,
            draw=random.Random(1).random,  # noqa: S311  nothing secret
        )
        self.pool.set_endpoints([address(name) for name in names])

    def endpoint(self, name: str) -> Endpoint:
        """One of them, by its host."""
        all_of_them = (*self.pool.endpoints, *self.pool.draining)
        [found] = [each for each in all_of_them if each.address.address.host == name]
        return found

    async def borrow(self, count: int = 1, **how: Any) -> list[PoolWaiter]:  # noqa: ANN401  as of `wait`
        """Have so many requests get a connection, or wait for one."""
        waiters = [PoolWaiter() for _ in range(count)]
        for waiter in waiters:
            taken = self.pool.acquire()
            if taken is None or how:
                self.pool.wait(waiter, **how)
            else:
                waiter.on_connection(taken)
            await turns()
        return waiters


async def turns() -> None:
    """Let tasks come as far as they can."""
    for _ in range(12):
        await asyncio.sleep(0)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Three endpoints."""
    made = Scene("a", "b", "c")
    connect_to(made, monkeypatch)
    yield made
    made.pool.close()


def connect_to(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have connections come up without a network."""

    async def connected(connection: UpstreamConnection, found: Address, *others: object) -> None:
        del others
        scene.asked.append(found.host)
        await asyncio.sleep(0)
        if found.host in scene.down:
            raise ConnectionRefusedError(111, "Connection refused")
        FakeTransport(scene.loop).connect(cast("asyncio.BufferedProtocol", connection))

    monkeypatch.setattr("apfproxy.upstream.endpoint.connected", connected)


def held(waiters: list[PoolWaiter]) -> dict[str, int]:
    """How many of them have a connection to which endpoint."""
    hosts = sorted(waiter.host for waiter in waiters)
    return {host: len(list(group)) for host, group in itertools.groupby(hosts)}


async def test_connections_spread(scene: Scene) -> None:
    """Each new one is to the endpoint that has the fewest in use."""
    assert {"a": 3, "b": 3, "c": 3} == held(await scene.borrow(9))


async def use(scene: Scene, count: int, seats: int = 1) -> dict[str, int]:
    """So many requests, one after the other; how many each endpoint had."""
    used = dict.fromkeys("abc", 0)
    for _ in range(count):
        [waiter] = await scene.borrow()
        assert waiter.connection is not None
        waiter.connection.hold(seats)
        used[waiter.host] += 1
        scene.pool.release(waiter.connection, S)
    return used


async def test_even_without_load(scene: Scene) -> None:
    """Endpoints with nothing to do share what comes."""
    used = await use(scene, 600)

    assert all(170 < each < 230 for each in used.values()), used


async def test_seats_count(scene: Scene) -> None:
    """An endpoint that works on something large gets nothing while others have less to do."""
    [large] = await scene.borrow()
    assert large.connection is not None
    large.connection.hold(10)
    used = await use(scene, 200)

    assert 0 == used.pop(large.host)
    assert 200 == sum(used.values())
    large.connection.release_seats()  # the watch is on: it takes the connection, but no seats
    assert 0 < (await use(scene, 200))[large.host]


async def test_long_requests_count_connections(scene: Scene) -> None:
    """They hold seats for a moment only; an endpoint that has fewer of them gets the next one."""
    [first] = await scene.borrow()
    for name in "abc":  # an idle connection each
        scene.endpoint(name)
    await use(scene, 50)
    taken = [scene.pool.acquire(is_long=True) for _ in range(2)]

    assert None not in taken
    assert first.host not in {host_of(each) for each in taken if each is not None}


async def test_weights(scene: Scene) -> None:
    """Also where nobody has anything to do."""
    scene.pool.set_endpoints([address("a", 1), address("b", 1), address("c", 3)])
    used = await use(scene, 1000)

    assert 130 < used["a"] < 270, used
    assert 500 < used["c"] < 700, used


async def test_another_endpoint_is_tried(scene: Scene) -> None:
    """A request that has no connection yet fails only where none can be made."""
    scene.down = {"a", "b"}
    assert {"c": 6} == held(await scene.borrow(6))
    assert {"a", "b", "c"} == set(scene.asked)
    assert scene.counters.endpoints[scene.endpoint("a")].failures[UpstreamFailure.CONNECT]
    scene.down = {"a", "b", "c"}
    [failed] = await scene.borrow()

    assert (502, "no connection to the upstream: Connection refused") == failed.failure


async def test_idle_connection_elsewhere(scene: Scene) -> None:
    """Where no connection can be made, one that another endpoint has serves the request."""
    await use(scene, 50)
    before = scene.pool.open_count
    one = scene.endpoint("a")
    for connection in list(one.idle):
        connection.abort()
    scene.down = {"a"}
    await use(scene, 100)

    assert before - 1 == scene.pool.open_count
    assert one.failures_in_row


async def test_servers_that_close_each_connection(scene: Scene) -> None:
    """Each request takes a new connection: they spread as others do, by the weights."""
    scene.pool.set_endpoints([address("a"), address("b"), address("c", 2)])
    used = dict.fromkeys("abc", 0)
    for _ in range(400):
        [waiter] = await scene.borrow()
        assert waiter.connection is not None
        used[waiter.host] += 1
        waiter.connection.abort()

    assert 60 < used["a"] < 140, used
    assert 150 < used["c"] < 250, used


async def test_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """No endpoint has more requests than that; who waits is served once one has ended."""
    scene = Scene("a", "b")
    connect_to(scene, monkeypatch)
    settings = UpstreamSettings(max_requests_per_endpoint=2)
    scene.pool.configure(settings, None)
    waiters = await scene.borrow(5)
    assert {"": 1, "a": 2, "b": 2} == held(waiters)
    first, *_, last = waiters
    assert first.connection is not None
    first.connection.abort()
    await turns()
    assert first.host == last.host
    [other] = await scene.borrow()
    assert "" == other.host
    assert last.connection is not None
    scene.pool.release(last.connection, S)

    assert other.connection is last.connection


async def test_failing_endpoints_get_nothing(scene: Scene) -> None:
    """Until they recover; what they have goes on."""
    await use(scene, 30)
    one = scene.endpoint("a")
    one.state = FAIL[one.state]
    scene.pool.weigh()
    assert 0 == (await use(scene, 100))["a"]
    assert 2 == scene.pool.healthy_count
    one.state = RECOVER[one.state]
    scene.pool.weigh()

    assert 0 < (await use(scene, 100))["a"]


async def test_all_fail(scene: Scene) -> None:
    """Then all are asked."""
    for endpoint in scene.pool.endpoints:
        endpoint.state = EJECT[endpoint.state]
    scene.pool.weigh()
    used = await use(scene, 300)

    assert 0 == scene.pool.healthy_count
    assert all(used.values())


async def test_endpoint_that_is_named_no_more(scene: Scene) -> None:
    """It gets nothing, keeps what it has until that ends, and its counts are kept for good."""
    waiters = await scene.borrow(3)
    gone = scene.endpoint("b")
    gone.answered(200, 1000)
    scene.pool.set_endpoints([address("a"), address("c"), address("d")])
    assert [gone] == list(scene.pool.draining)
    assert {"a": 1, "b": 1, "c": 1} == held(waiters)
    assert "b" not in held(await scene.borrow(6))
    [last] = [each for each in waiters if each.host == "b"]
    assert last.connection is not None
    scene.pool.release(last.connection, S)

    assert last.connection.is_closed
    assert not scene.pool.draining
    assert {200: 1} == scene.counters.total().answers == scene.counters.unattributed.answers


async def test_endpoint_that_goes_while_it_is_connected_to(scene: Scene) -> None:
    """Whoever waits gets a connection to another one."""
    scene.pool.set_endpoints([address("a")])
    waiter = PoolWaiter()
    scene.pool.wait(waiter)
    scene.pool.set_endpoints([address("b")])
    await turns()

    assert "b" == waiter.host
    assert not scene.pool.draining


async def test_endpoints_that_stay(scene: Scene) -> None:
    """They are the same objects, with their connections; weights may change."""
    await use(scene, 30)
    before = {each.url: (each, set(each.open)) for each in scene.pool.endpoints}
    scene.pool.set_endpoints([address("c"), address("a", 5), address("a")])

    assert ["http://c:80", "http://a:80"] == [each.url for each in scene.pool.endpoints]
    for endpoint in scene.pool.endpoints:
        assert (endpoint, endpoint.open) == before[endpoint.url]


async def test_server_in_the_log(scene: Scene) -> None:
    """A server is named in the access log where there are several."""
    assert ["a:80", "b:80", "c:80"] == [each.log_name for each in scene.pool.endpoints]
    scene.pool.set_endpoints([address("a")])

    assert [""] == [each.log_name for each in scene.pool.endpoints]


async def test_no_endpoint(scene: Scene) -> None:
    """Requests are refused at once, and served once there is one."""
    scene.pool.set_endpoints([])
    [refused] = await scene.borrow()
    assert (503, NO_ENDPOINT.reason) == refused.failure
    assert 1 == scene.counters.total().failures[UpstreamFailure.CONNECT]
    scene.pool.set_endpoints([address("a")])

    assert {"a": 1} == held(await scene.borrow())


async def test_request_that_an_endpoint_failed_goes_elsewhere(scene: Scene) -> None:
    """Even where that one's connection comes first; but not where there is no other."""
    [first] = await scene.borrow()
    assert first.connection is not None
    endpoint = first.connection.endpoint
    again = PoolWaiter()
    scene.pool.wait(again, avoided=endpoint)
    scene.pool.release(first.connection, S)
    assert "" == again.host
    await turns()
    assert again.host not in {"", first.host}
    scene.pool.set_endpoints([address(first.host)])
    [last] = await scene.borrow(avoided=endpoint)

    assert first.host == last.host


async def test_bound_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle connection of one endpoint makes way for one that another endpoint needs."""
    scene = Scene("a", "b", max_connections=2)
    connect_to(scene, monkeypatch)
    waiters = await scene.borrow(2)
    for each in waiters:
        assert each.connection is not None
        scene.pool.release(each.connection, S)
    [first] = await scene.borrow()
    needy = PoolWaiter()
    assert first.connection is not None
    scene.pool.wait(needy, avoided=scene.endpoint("a" if first.host == "b" else "b"))
    await turns()

    assert first.host == needy.host
    assert 2 == scene.pool.open_count


async def test_several_fail_in_a_row(scene: Scene) -> None:
    """Whoever looks after endpoints hears of it, each time."""
    heard: list[Endpoint] = []
    scene.pool.on_endpoint_failing = heard.append
    one = scene.endpoint("a")
    one.max_failures_in_row = 2
    for _ in range(3):
        one.fail(UpstreamFailure.ANSWER_TIMEOUT, "no answer")

    assert [one, one] == heard


async def test_only_the_endpoint_that_is_avoided_is_left(scene: Scene) -> None:
    """Then it will do: to ask it is better than to wait without end."""
    scene.pool.set_endpoints([address("a"), address("b")])
    scene.down = {"b"}
    avoided = scene.endpoint("a")
    again = PoolWaiter()
    scene.pool.wait(again, avoided=avoided)
    other = scene.endpoint("b")
    other.state = EJECT[other.state]
    scene.pool.weigh()
    await turns()

    assert "a" == again.host
    assert 1 == scene.pool.open_count


async def test_only_the_endpoint_that_is_avoided_can_be_connected_to(scene: Scene) -> None:
    """Likewise where the others are named, but down."""
    scene.down = {"b", "c"}
    [again] = await scene.borrow(avoided=scene.endpoint("a"))
    await turns()

    assert "a" == again.host
    assert 1 == scene.pool.open_count


# The most requests of an endpoint.


def capped(scene: Scene, most: int) -> None:
    """Let endpoints have no more requests than that at once."""
    scene.pool.configure(
        UpstreamSettings(max_connections=100, max_requests_per_endpoint=most), None
    )
    scene.pool.set_endpoints([address("a"), address("b")])


async def test_most_requests_of_an_endpoint(scene: Scene) -> None:
    """Who finds no room waits, and is served as soon as there is room, whoever makes it."""
    capped(scene, 2)
    waiters = await scene.borrow(7)
    await turns()
    assert {"": 3, "a": 2, "b": 2} == held(waiters)
    assert (3, 4) == (scene.pool.waiting_count, scene.pool.open_count)
    one, two = [each for each in waiters if each.host == "a"]
    assert one.connection is not None
    assert two.connection is not None
    scene.pool.release(one.connection, S)  # through
    assert 2 == scene.pool.waiting_count
    two.connection.abort()  # dropped
    await turns()
    assert 1 == scene.pool.waiting_count
    waits = next(each for each in waiters if not each.host)
    scene.pool.leave(waits)
    assert 0 == scene.pool.waiting_count

    assert all(each.busy_count == 2 for each in scene.pool.endpoints)


async def test_room_at_an_endpoint_that_joins(scene: Scene) -> None:
    """It serves those that wait at once."""
    capped(scene, 1)
    waiters = await scene.borrow(5)
    assert 3 == scene.pool.waiting_count
    scene.pool.set_endpoints([address("a"), address("b"), address("c")])
    await turns()
    assert {"": 2, "a": 1, "b": 1, "c": 1} == held(waiters)
    capped(scene, 3)
    await turns()

    assert 0 == scene.pool.waiting_count


async def test_room_of_idle_connections(scene: Scene) -> None:
    """An idle connection is no request: neither where one is taken nor where one is made."""
    capped(scene, 2)
    used = await use(scene, 50)
    assert 0 not in {used["a"], used["b"]}
    waiters = await scene.borrow(4)
    await turns()

    assert {"a": 2, "b": 2} == held(waiters)
    assert (0, 4) == (scene.pool.waiting_count, scene.pool.open_count)
    assert scene.pool.acquire() is None


async def test_most_requests_where_one_fails(scene: Scene) -> None:
    """What it cannot have waits for the others, and for it once it is back."""
    capped(scene, 2)
    one = scene.endpoint("a")
    one.state = EJECT[one.state]
    scene.pool.weigh()
    waiters = await scene.borrow(4)
    assert {"": 2, "b": 2} == held(waiters)
    one.state = TRY_AGAIN[one.state]
    scene.pool.weigh()
    await turns()

    assert {"a": 2, "b": 2} == held(waiters)


async def test_upgrade_that_waits_for_room(scene: Scene) -> None:
    """It gets its new connection when any request ends, also one of the idle kind."""
    capped(scene, 1)
    waiters = await scene.borrow(2)
    upgrade = PoolWaiter()
    scene.pool.wait(upgrade, is_new=True)
    await turns()
    assert "" == upgrade.host
    connection = waiters[0].connection
    assert connection is not None
    scene.pool.release(connection, S)
    await turns()

    assert upgrade.host == waiters[0].host
    assert upgrade.connection is not connection


async def test_who_avoids_an_endpoint_holds_up_nobody(scene: Scene) -> None:
    """It waits for room elsewhere, while those behind it take what it may not have."""
    capped(scene, 1)
    first, _ = await scene.borrow(2)
    assert first.connection is not None
    again, behind = PoolWaiter(), PoolWaiter()
    scene.pool.wait(again, avoided=first.connection.endpoint)
    scene.pool.wait(behind)
    first.connection.abort()
    await turns()

    assert ("", first.host) == (again.host, behind.host)
    assert (1, 2) == (scene.pool.waiting_count, scene.pool.open_count)
    scene.pool.leave(again)


async def test_who_avoids_an_endpoint_waits_for_the_others(scene: Scene) -> None:
    """It makes no connections to the one that it avoids in the meantime."""
    capped(scene, 1)
    first, other = await scene.borrow(2)
    assert first.connection is not None
    assert other.connection is not None
    again = PoolWaiter()
    scene.pool.wait(again, avoided=first.connection.endpoint)
    scene.pool.release(first.connection, S)
    await turns()
    assert ("", 2) == (again.host, scene.pool.open_count)
    scene.pool.release(other.connection, S)

    assert other.host == again.host


@pytest.mark.parametrize("does_leave", [True, False])
async def test_upgrade_behind_one_who_avoids_an_endpoint(scene: Scene, *, does_leave: bool) -> None:
    """It gets the room there is as soon as the other one is out of its way."""
    capped(scene, 1)
    first, other = await scene.borrow(2)
    assert first.connection is not None
    assert other.connection is not None
    again, upgrade = PoolWaiter(), PoolWaiter()
    scene.pool.wait(again, avoided=first.connection.endpoint)
    scene.pool.wait(upgrade, is_new=True)
    first.connection.abort()
    await turns()
    assert ("", "") == (again.host, upgrade.host)
    if does_leave:
        scene.pool.leave(again)
    else:
        scene.pool.release(other.connection, S)
    await turns()

    assert first.host == upgrade.host


async def test_idle_connection_makes_way_for_one_whose_server_is_gone(scene: Scene) -> None:
    """It was failed by a server that is drained, and one other is left, whose one is idle."""
    scene.pool.set_endpoints([address("a")])
    held_there = await scene.borrow(2)
    scene.pool.set_endpoints([address("b")])
    [other] = await scene.borrow()
    assert other.connection is not None
    scene.pool.release(other.connection, S)
    scene.pool.limit(2)
    failed, again = held_there[0].connection, PoolWaiter()
    assert failed is not None
    failed.abort()
    scene.pool.wait(again, avoided=failed.endpoint)
    await turns()

    assert "b" == again.host
    assert 2 == scene.pool.open_count
