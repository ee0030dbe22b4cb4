"""Real members of a fleet on an event loop whose time is virtual, with a store in memory."""

from __future__ import annotations

import asyncio
import functools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from apfproxy.base.events import ConfigurationEvents
from apfproxy.fleet.membership import Membership
from apfproxy.fleet.store import Stored, StoreError, Swapped
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.ticket import ONE_SEAT, Ticket
from apfproxy.settings import FleetSettings
from tests.flowcontrol.scene import GET_POD, level_object, schema_object, user
from tests.support.clocks import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

LIMIT = 20
WITHIN_S = 1000.0


def virtually(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:  # noqa: ANN401 - fixtures
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*arguments, **named))

    return run


def now_s() -> float:
    return asyncio.get_running_loop().time()


class LoopTime:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def now_ns(self) -> int:
        return round(self._loop.time() * 1e9)

    def call_at(self, deadline_ns: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_at(deadline_ns / 1e9, callback)


class Shelf:
    """A store in memory, which several members share.

    Its `problem` is why it does not answer, and `pause_s` what it asks for then; half of `late_s`
    passes each way; `rivals` are written just before some member swaps, the last one first.
    """

    def __init__(self) -> None:
        self.data: bytes | None = None
        self.writes = 0
        self.problem = ""
        self.pause_s = 0.0
        self.is_read_only = False
        self.reads = 0
        self.late_s = 0.0
        self.rivals: list[bytes] = []
        self.listeners: list[Callable[[], None]] = []

    def open_store(self, *_settings: object) -> Slot:
        return Slot(self)

    def stored(self) -> Stored:
        return Stored(self.data, str(self.writes) if self.data is not None else "")

    def write(self, data: bytes) -> None:
        self.data = data
        self.writes += 1


class Slot:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._listeners: list[Callable[[], None]] = []
        self.is_closed = False

    async def read(self) -> Stored:
        self._shelf.reads += 1
        await self._travel()
        if self._shelf.problem:
            raise StoreError(self._shelf.problem, pause_s=self._shelf.pause_s)
        stored = self._shelf.stored()
        await self._travel()
        return stored

    async def swap(self, data: bytes, seen: Stored, *, is_urgent: bool = False) -> Swapped:
        shelf = self._shelf
        await self._travel()
        if shelf.problem or shelf.is_read_only:
            raise StoreError(shelf.problem or "it cannot be written")
        if shelf.rivals:
            shelf.write(shelf.rivals.pop())
        is_done = seen == shelf.stored()
        if is_done:
            shelf.write(data)
            for tell in shelf.listeners if is_urgent else ():
                if tell not in self._listeners:
                    asyncio.get_running_loop().call_later(shelf.late_s / 2, tell)
        stored = shelf.stored()
        await self._travel()
        return Swapped(is_done=is_done, stored=stored)

    async def _travel(self) -> None:
        if self._shelf.late_s:
            await asyncio.sleep(self._shelf.late_s / 2)

    def listen(self, on_urgent: Callable[[], None]) -> None:
        self._listeners.append(on_urgent)
        self._shelf.listeners.append(on_urgent)

    async def close(self) -> None:
        self.is_closed = True
        for each in self._listeners:
            self._shelf.listeners.remove(each)


class One:
    """A member with its controller, whose one level has all seats that are limited."""

    def __init__(
        self, shelf: Shelf, name: str, period_s: float, lease_s: float, *, queues: bool
    ) -> None:
        self.slot = Slot(shelf)
        self.controller = Controller(LoopTime(), LIMIT, 0, is_prompt=True, on_short=self.on_short)
        level = level_object("a", 95, int(queues), borrowing=0, length=1000)
        digest = self.controller.digest([level, schema_object("s", "a")])
        self.controller.commit(digest)
        self.changed = asyncio.Event()
        self.limit = LIMIT
        self.events = ConfigurationEvents()
        settings = FleetSettings(store="redis://shelf", name="fleet", member=name)
        settings = replace(settings, lease_s=lease_s, refresh_interval_s=period_s)
        told = self.events, self.changed.set
        self.membership = Membership(
            self.controller, self.slot, settings, lambda: self.limit, *told
        )

    def on_short(self, level: str, seats: int) -> None:
        self.membership.on_short(level, seats)

    @property
    def seats(self) -> int:
        return self.controller.server_concurrency_limit

    @property
    def used(self) -> int:
        return self.controller.levels["a"].queue_set.seats_in_use

    def admit(
        self, count: int, on_dispatch: Callable[[Ticket], None] = lambda _: None
    ) -> list[Ticket]:
        found = self.controller.classify(user("alice"), GET_POD)
        queue_set = found.level.queue_set
        tickets = [queue_set.admit(found.flow, ONE_SEAT, on_dispatch) for _ in range(count)]
        return [ticket for ticket in tickets if isinstance(ticket, Ticket)]

    def end(self, ticket: Ticket) -> None:
        self.controller.levels["a"].queue_set.withdraw(ticket, None)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not holds():
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def member(
    shelf: Shelf,
    name: str = "one",
    *,
    period_s: float = 1.0,
    lease_s: float = 5.0,
    queues: bool = True,
) -> AsyncIterator[One]:
    one = One(shelf, name, period_s, lease_s, queues=queues)
    await one.membership.join()
    try:
        yield one
    finally:
        one.membership.stop()
        await one.membership.leave()
