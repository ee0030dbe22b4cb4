"""The servers behind, and the line of requests that wait for a connection to one of them.

1. A request goes to the one of two endpoints, drawn by their shares, whose requests cost less for
   its share: by their seats, or by units such as tokens where their level counts these.  Where
   endpoints have slots, one with a free slot comes first.  A watch or a tunnel, which holds seats
   for a moment only, goes to the one with fewer connections in use.
2. Who finds no idle connection there stands in line, and a new one is made if no bound is reached:
   to the endpoint, of all, whose requests cost the least for its share; those without idle
   connections are preferred.  Whatever connection comes first, of whichever endpoint, serves the
   line.
3. A connection that cannot be made is tried at the other endpoints before a request fails.
4. Endpoints that fail get no requests, nor do those of which nothing is known yet, once another
   one is known to be well.  Where all fail, all get some: to ask is better than to refuse for sure.
5. An endpoint that is named no more is drained: its requests end, and it gets no others.
"""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from heapq import merge
from math import gcd
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from mypy_extensions import mypyc_attr

from apfproxy.base.faults import Part, report
from apfproxy.base.tasks import spawn
from apfproxy.upstream.connecting import (
    CLOSED_AT_ONCE,
    CONNECT_ERRORS,
    NO_ENDPOINT,
    OWN_FAILURE,
    ConnectFailure,
    connect_failure,
    watch_over,
)
from apfproxy.upstream.endpoint import UP, Endpoint, UpstreamConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apfproxy.settings import EndpointAddress, UpstreamSettings
    from apfproxy.upstream.counters import PoolCounters
    from apfproxy.upstream.tls import ClientTls

SLOTS_PER_ENDPOINT: Final = 20
"""Places for the largest share on the wheel from which endpoints are drawn: a twentieth of it is
the least that an endpoint gets."""


@mypyc_attr(allow_interpreted_subclasses=True)
class PoolWaiter(ABC):
    """Waits for a connection."""

    __slots__ = ()

    @abstractmethod
    def on_connection(self, connection: UpstreamConnection) -> None:
        """Use the connection."""

    @abstractmethod
    def on_no_connection(self, code: int, reason: str) -> None:
        """Respond with the status `code`: there is none."""

    @abstractmethod
    def fail(self, error: Exception) -> None:
        """End after an error of the program in one of these; never raises."""


class Place:
    """A place in line; `arrival` counts up.

    Connections of `avoided` will not do, since it just failed the request; None for any.
    """

    def __init__(self, arrival: int, avoided: Endpoint | None) -> None:
        self.arrival = arrival
        self.avoided = avoided


class Pool:
    """A bounded set of connections to some endpoints; `draw` is a random number of [0, 1).

    Attributes:
        endpoints: Those in force, in the order in which they are named.
        slots: Of each endpoint: requests with seats that it works on at once; 0 for unknown.
        is_checked: Whether endpoints are checked, so that those known to be well come first.
        draining: Those that are named no more, but have connections in use.
        on_change: Called after the endpoints, or the state of one, have changed.
        on_endpoint_failing: Called as of `Endpoint.on_failing`.
    """

    def __init__(
        self,
        settings: UpstreamSettings,
        counters: PoolCounters,
        now_ns: Callable[[], int] = time.monotonic_ns,
        tls: ClientTls | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        assert tls is not None or not settings.address.is_tls
        self._settings = settings
        self._tls = tls
        self._now_ns = now_ns
        self._counters = counters
        self._draw = draw
        self.on_change: Callable[[], None] = lambda: None
        self.on_endpoint_failing: Callable[[Endpoint], None] = lambda _: None
        self._connects: set[asyncio.Task[None]] = set()
        # Insertion order is the line; a waiter that leaves is taken out in constant time.
        # Those who need a connection without a past stand in a line of their own; the places say
        # who of the two first ones came first.
        self._line: OrderedDict[PoolWaiter, Place] = OrderedDict()
        self._new_line: OrderedDict[PoolWaiter, Place] = OrderedDict()
        self._arrivals = 0
        # No connection could be made to these lately, so that the line waits for the others, which
        # are full.
        self._refusing: set[Endpoint] = set()
        self.endpoints: tuple[Endpoint, ...] = ()
        self.is_checked = False
        self.slots = 0
        self.draining: dict[Endpoint, None] = {}
        # What `acquire` looks at: the endpoint if it is the only one, and else from where to draw.
        self._only: Endpoint | None = None
        self._wheel: list[Endpoint] = []
        self._cap = 0
        self.set_endpoints(settings.addresses)

    # Endpoints.

    def configure(self, settings: UpstreamSettings, tls: ClientTls | None) -> None:
        """Put other settings in force; another identity as of `Endpoint.renew`.

        Endpoints that are found out, and not in the settings, stay as they are.
        """
        assert tls is not None or not settings.address.is_tls
        if tls is self._tls and settings == self._settings:
            return
        before, self._settings = self._settings, settings
        is_other_identity = tls is not self._tls or (settings.identity, settings.token_file) != (
            before.identity,
            before.token_file,
        )
        self._tls = tls
        for endpoint in self.endpoints:
            endpoint.configure(endpoint.address, settings, tls)
        if settings.addresses and settings.addresses != before.addresses:
            self.set_endpoints(settings.addresses)
        else:
            self.weigh()
        if is_other_identity:
            self.renew()
        self._connect_for_the_line()

    def set_endpoints(self, addresses: Iterable[EndpointAddress]) -> None:
        """Have other endpoints; those that are named again stay as they are."""
        before = self.endpoints
        known = {(each.address.address, each.address.server_name): each for each in before}
        found: dict[Endpoint, None] = {}
        for address in addresses:
            endpoint = known.get((address.address, address.server_name))
            if endpoint is None:
                endpoint = Endpoint(
                    address,
                    self._settings,
                    self._counters,
                    self._tls,
                    self._now_ns,
                    on_closed=self._on_closed,
                    on_failing=self._on_failing,
                )
                self._counters.endpoints[endpoint] = endpoint.counters
                known[address.address, address.server_name] = endpoint
            else:
                endpoint.configure(address, self._settings, self._tls)
            found[endpoint] = None
        self.endpoints = tuple(found)
        self.weigh()
        for endpoint in before:
            if endpoint not in found:
                self.draining[endpoint] = None
                endpoint.drain()
                self._forget_if_drained(endpoint)
        self.on_change()

    def _forget_if_drained(self, endpoint: Endpoint) -> None:
        if endpoint in self.draining and not endpoint.open and not endpoint.connecting:
            del self.draining[endpoint]
            self._counters.leave(endpoint)

    def weigh(self) -> None:
        """Have requests drawn by the shares and states that endpoints have now."""
        endpoints = self.endpoints
        self._cap = self._settings.max_requests_per_endpoint or 0
        well = [each for each in endpoints if each.is_well]
        known = [each for each in well if each.state is UP] if self.is_checked else well
        usable = known or well or list(endpoints)
        for endpoint in endpoints:
            endpoint.is_one_of_several = len(endpoints) > 1
            endpoint.log_name = str(endpoint.address.address) if len(endpoints) > 1 else ""
            endpoint.is_drawn = endpoint in usable
            endpoint.share = endpoint.address.weight * endpoint.ramp
        is_alone = len(endpoints) == 1 and not self._cap
        self._only = endpoints[0] if is_alone else None
        self._wheel = wheel_of(usable)
        self._refusing.clear()
        self._avoid_no_last_resort()
        self._connect_for_the_line()

    def _last_resort(self) -> Endpoint | None:
        """The endpoint that is all there is for those who avoid it; None if there are others."""
        left = {each for each in self._wheel if each not in self._refusing}
        return left.pop() if len(left) == 1 else None

    def _avoid_no_last_resort(self) -> None:
        last = self._last_resort()
        if last is not None:
            for place in self._places():
                if place.avoided is last:
                    place.avoided = None

    def try_again(self) -> None:
        """Connect for the line, also to endpoints to which no connection could be made before."""
        if self._refusing:
            self._refusing.clear()
            self._connect_for_the_line()

    @property
    def healthy_count(self) -> int:
        return sum(each.is_well for each in self.endpoints)

    def _choose(self, *, is_long: bool) -> Endpoint | None:
        """The one of two with less to do for its share; None if none has room, or there is none."""
        wheel = self._wheel
        size = len(wheel)
        if size < 2:
            found = wheel[0] if wheel else None
        else:
            first = int(self._draw() * size)
            second = first + 1 + int(self._draw() * (size - 1))
            found = wheel[first]
            other = wheel[second if second < size else second - size]
            if is_long:
                is_less = other.busy_count * found.share < found.busy_count * other.share
            else:
                is_less = other.load * found.share < found.load * other.share
            if is_less:
                found = other
            if self.slots and self._is_full(found):
                return self._least_loaded(None, has_idle=True)
        if self._cap and found is not None and found.busy_count >= self._cap:
            return self._least_loaded(None, has_idle=True)
        return found

    def _least_loaded(self, avoided: Endpoint | None, *, has_idle: bool) -> Endpoint | None:
        """The best endpoint that has room, but for `avoided`; None if there is none.

        Endpoints with idle connections come first if `has_idle`, or those without, to which a
        connection can be made.
        """
        best, best_key = None, (True, True, 0.0, 0.0)
        for each in self._drawn():
            busy = each.busy_count
            if each is avoided or (self._cap and busy >= self._cap):
                continue
            if each in self._refusing and not has_idle:
                continue
            is_second = bool(each.idle) is not has_idle
            is_full = self.slots > 0 and self._is_full(each)
            key = (is_full, is_second, each.load / each.share, busy / each.share)
            if best is None or key < best_key:
                best, best_key = each, key
        return best

    def _is_full(self, endpoint: Endpoint) -> bool:
        """Whether all slots are in use, or will be by those that wait for a connection."""
        expected = endpoint.connecting if self._line or self._new_line else 0
        return endpoint.seats + expected >= self.slots

    def _drawn(self) -> list[Endpoint]:
        wheel = self._wheel
        start = int(self._draw() * len(wheel))
        return list(dict.fromkeys(wheel[start:] + wheel[:start]))

    # Connections.

    def limit(self, max_connections: int) -> None:
        self._settings = replace(self._settings, max_connections=max_connections)

    def acquire(self, *, is_long: bool = False) -> UpstreamConnection | None:
        """An idle connection, or None: then `wait` for one.

        `is_long` says that the request may go on for as long as it likes.
        """
        endpoint = self._only
        if endpoint is None:
            endpoint = self._choose(is_long=is_long)
            if endpoint is None:
                return None
        idle = endpoint.idle
        return idle.popitem()[0] if idle else None

    def wait(
        self, waiter: PoolWaiter, *, is_new: bool = False, avoided: Endpoint | None = None
    ) -> None:
        """Stand in line; the waiter is called back, never from inside this call.

        If `is_new`, only a connection that has carried no request will do, as for an upgrade.  It
        counts in the bound like any other; an idle one makes way for it.  `avoided` is the endpoint
        that has failed the request, so that another one gets it, if there is one.
        """
        self._arrivals += 1
        if avoided is not None and avoided is self._last_resort():
            avoided = None
        line = self._new_line if is_new else self._line
        line[waiter] = Place(self._arrivals, avoided)
        self._connect_for_the_line()

    def leave(self, waiter: PoolWaiter) -> None:
        self._line.pop(waiter, None)
        self._new_line.pop(waiter, None)
        if self._cap:  # an endpoint that would not do for it may have room for others
            self._connect_for_the_line()

    def release(self, connection: UpstreamConnection, now_ns: int) -> None:
        """Take a connection back whose request and response are through."""
        connection.release_seats()
        if connection.is_closed:
            return
        endpoint = connection.endpoint
        if (endpoint.stale and connection in endpoint.stale) or (
            # It makes way for a new one if the first in line needs that.
            self._new_line
            and not self._connects
            and self.open_count >= self._settings.max_connections
            and self._first_line() is self._new_line
        ):
            connection.abort()
            return
        if connection.is_read_paused:
            connection.resume_reading()
        if self._line and endpoint.is_drawn:
            waiter = first_for(self._line, endpoint)
            if waiter is not None:
                del self._line[waiter]
                give(connection, waiter)
                if self._cap:  # as of `leave`
                    self._connect_for_the_line()
                return
        connection.idle_since_ns = now_ns
        endpoint.idle[connection] = None
        if self._line or self._new_line:
            self._connect_for_the_line()

    def renew(self) -> None:
        for endpoint in self.endpoints:
            endpoint.renew()

    def _on_closed(self, endpoint: Endpoint) -> None:
        if self.draining:
            self._forget_if_drained(endpoint)
        self._connect_for_the_line()

    def _on_failing(self, endpoint: Endpoint) -> None:
        self.on_endpoint_failing(endpoint)

    def close_idle(self, now_ns: int, idle_ns: int = 0, period_ns: int = 0) -> None:
        """Close idle connections, as of `Endpoint.close_stale`."""
        for endpoint in self.endpoints:
            endpoint.close_stale(now_ns, idle_ns, period_ns)

    def close(self) -> None:
        for task in list(self._connects):
            task.cancel()
        for endpoint in (*self.endpoints, *self.draining):
            endpoint.close()

    @property
    def idle_count(self) -> int:
        return sum(len(each.idle) for each in self.endpoints)

    @property
    def open_count(self) -> int:
        count = 0
        for endpoint in self.endpoints:
            count += len(endpoint.open)
        for endpoint in self.draining:
            count += len(endpoint.open)
        return count

    @property
    def waiting_count(self) -> int:
        return len(self._line) + len(self._new_line)

    # The line.

    def _first_line(self) -> OrderedDict[PoolWaiter, Place]:
        if not self._new_line or not self._line:
            return self._new_line or self._line
        first_new, first = next(iter(self._new_line.values())), next(iter(self._line.values()))
        return self._new_line if first_new.arrival < first.arrival else self._line

    def _connect_for_the_line(self) -> None:
        """Open connections for those in line that no connection under way will serve."""
        while len(self._connects) < len(self._line) + len(self._new_line):
            if len(self._connects) + self.open_count < self._settings.max_connections:
                endpoint = self._endpoint_for_the_line()
                if endpoint is None and self._wheel:
                    return  # all are full
                generation = 0
                if endpoint is not None:
                    endpoint.connecting += 1
                    generation = endpoint.generation
                self._connects.add(
                    spawn(self._connect(endpoint, generation), name="connect to the upstream")
                )
            else:
                for each in self.endpoints:
                    if each.idle:  # it serves none in line
                        next(iter(each.idle)).abort()
                        break
                else:
                    return

    def _endpoint_for_the_line(self) -> Endpoint | None:
        """The one to connect to for the first in line for whom one will do that has room."""
        known: set[Endpoint | None] = set()
        for place in self._places():
            avoided = place.avoided
            if avoided in known:
                continue
            found = self._least_loaded(avoided, has_idle=False)
            if found is not None or avoided is None:
                return found
            if not known and self._least_loaded(None, has_idle=False) is None:
                return None  # for anybody
            known.add(avoided)
        return None

    def _places(self) -> Iterable[Place]:
        """All places, in the order of arrival; mostly the first one is all that is looked at."""
        lines = self._line.values(), self._new_line.values()
        return merge(*lines, key=attrgetter("arrival"))

    async def _connect(self, endpoint: Endpoint | None, generation: int) -> None:
        """Connect to an endpoint, or if that fails to another one, for the first in line."""
        task = asyncio.current_task()
        assert task is not None
        failure = NO_ENDPOINT
        tried: list[Endpoint] = []
        while endpoint is not None:
            tried.append(endpoint)
            found = await self._tried(endpoint)
            if isinstance(found, UpstreamConnection):
                self._connects.discard(task)
                if generation != endpoint.generation:
                    endpoint.open.add(found)
                    found.abort()
                else:
                    self._take_in(endpoint, found, is_last=len(tried) > 1)
                self._forget_if_drained(endpoint)
                self._connect_for_the_line()
                return
            failure = found
            self._forget_if_drained(endpoint)
            if self._line and self._give_idle(tried):
                self._connects.discard(task)
                self._connect_for_the_line()
                return
            endpoint = self._another(tried)
            if endpoint is not None:
                generation = endpoint.generation
        self._connects.discard(task)
        if not tried:
            self._counters.unattributed.fail(failure.kind, failure.problem)
        if any(each not in tried for each in self._wheel):
            self._await_others(tried)  # which are full
        else:
            self._fail_one(failure)

    def _await_others(self, refusing: list[Endpoint]) -> None:
        if not self._refusing.issuperset(refusing):
            self._refusing.update(refusing)
            self._avoid_no_last_resort()
        self._connect_for_the_line()

    async def _tried(self, endpoint: Endpoint) -> UpstreamConnection | ConnectFailure:
        """A connection to an endpoint, which has one less on its way then; or why there is none."""
        connection: UpstreamConnection | None = None
        failure = CLOSED_AT_ONCE
        try:
            connection = await endpoint.open_connection()
            self._counters.connections_opened += 1
            self._refusing.discard(endpoint)
            # Else it was before it got here: nothing would take it out of the open ones again.
            if not connection.is_closed:
                watch_over(connection.transport)
                return connection
        except CONNECT_ERRORS as error:
            failure = connect_failure(error)
        except Exception as bug:  # noqa: BLE001  whatever it is, the line must go on
            report(Part.POOL, bug)
            failure = OWN_FAILURE
        finally:
            endpoint.connecting -= 1
        if connection is not None:
            connection.abort()
        endpoint.fail(failure.kind, failure.problem)
        return failure

    def _give_idle(self, tried: list[Endpoint]) -> bool:
        for endpoint in self._drawn():
            if endpoint.idle and endpoint not in tried:
                waiter = first_for(self._line, endpoint)
                if waiter is not None:
                    del self._line[waiter]
                    give(endpoint.idle.popitem()[0], waiter)
                    return True
        return False

    def _another(self, tried: list[Endpoint]) -> Endpoint | None:
        """One to connect to that was not tried yet; it has a connection on its way from now on."""
        if not (self._line or self._new_line):
            return None
        for endpoint in self._drawn():
            if endpoint not in tried and not (self._cap and endpoint.busy_count >= self._cap):
                endpoint.connecting += 1
                return endpoint
        return None

    def _take_in(
        self, endpoint: Endpoint, connection: UpstreamConnection, *, is_last: bool
    ) -> None:
        """Give a new connection to who is first in line, or keep it.

        `is_last` says that others could not be connected to: then it will do for anybody.
        """
        endpoint.open.add(connection)
        line = self._first_line()
        if not is_last and first_for(line, endpoint) is None:
            line = self._new_line  # in which one will do for all
        if line and (is_last or line is self._new_line):
            waiter = first_for(line, None if is_last else endpoint)
            if waiter is not None:
                del line[waiter]
                give(connection, waiter)
                return
        try:
            self.release(connection, self._now_ns())
        except Exception as bug:  # noqa: BLE001  as in `_tried`
            report(Part.POOL, bug)
            self._fail_one(OWN_FAILURE)
            connection.abort()

    def _fail_one(self, failure: ConnectFailure) -> None:
        line = self._first_line()
        if line:
            waiter, _ = line.popitem(last=False)
            try:
                waiter.on_no_connection(failure.code, failure.reason)
            except Exception as error:  # noqa: BLE001  it is of this waiter alone
                waiter.fail(error)
        self._connect_for_the_line()


def give(connection: UpstreamConnection, waiter: PoolWaiter) -> None:
    """Give a connection to a waiter out of the line; an error there is the waiter's alone."""
    try:
        waiter.on_connection(connection)
    except Exception as error:  # noqa: BLE001  whatever it is, others wait in line
        waiter.fail(error)
        connection.abort()


def first_for(line: OrderedDict[PoolWaiter, Place], endpoint: Endpoint | None) -> PoolWaiter | None:
    """The first in line for whom a connection of an endpoint will do; None for the first of all."""
    for waiter, place in line.items():
        if endpoint is None or place.avoided is not endpoint:
            return waiter
    return None


def wheel_of(endpoints: list[Endpoint]) -> list[Endpoint]:
    """Endpoints to draw from: each as often as its share of the largest says, at least once."""
    if not endpoints:
        return []
    most = max(each.share for each in endpoints)
    turns = [max(1, round(SLOTS_PER_ENDPOINT * each.share / most)) for each in endpoints]
    common = gcd(*turns)
    # In turns, so that two slots in a row are mostly of different endpoints.
    return [
        each
        for turn in range(max(turns) // common)
        for each, count in zip(endpoints, turns, strict=True)
        if turn < count // common
    ]
