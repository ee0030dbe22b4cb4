"""Tests of a member of a fleet: it has its seats from the record, and gives them back."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from apfproxy.app.membership import Membership
from apfproxy.base.clock import LoopClock
from apfproxy.base.events import ConfigurationEvents
from apfproxy.base.tasks import Supervised
from apfproxy.fleet.ledger import LeaseState
from apfproxy.fleet.record import decode
from apfproxy.fleet.store import Stored, StoreError, Swapped
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.queue_set import ONE_SEAT, Ticket
from apfproxy.objects.types import QueuingConfiguration
from apfproxy.request.attributes import User, parse_attributes
from loadtest.objects import flow_schema, priority_level, user_subject

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import pytest

GET_POD = parse_attributes("GET", b"/api/v1/namespaces/default/pods/a")
LIMIT = 20
QUEUING = QueuingConfiguration(queues=1, hand_size=1, queue_length_limit=1000)
LONG_S = 300.0
"""For what no test waits for."""
WITHIN_S = 60.0


class Shelf:
    """A store in memory, which several members share, and which may be away.

    Attributes:
        problem: Why it does not answer; "" if it does.
        pause_s: What it asks for then.
        is_read_only: Whether it takes no writes.
        reads: How often it was read.
        late_s: How long each answer takes.
        rivals: What others write just before somebody swaps, the last one first.
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

    def stored(self) -> Stored:
        """What is there."""
        return Stored(self.data, str(self.writes) if self.data is not None else "")

    def write(self, data: bytes) -> None:
        """Have something else."""
        self.data = data
        self.writes += 1

    def member(self) -> Slot:
        """It as one member has it."""
        return Slot(self)


class Slot:
    """The store of one member."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._listeners: list[Callable[[], None]] = []
        self.is_closed = False

    async def read(self) -> Stored:
        """What is there."""
        self._shelf.reads += 1
        await self._answer()
        if self._shelf.problem:
            raise StoreError(self._shelf.problem, pause_s=self._shelf.pause_s)
        return self._shelf.stored()

    async def swap(self, data: bytes, seen: Stored, *, is_urgent: bool = False) -> Swapped:
        """Write if nobody did; a rival may just have."""
        shelf = self._shelf
        await self._answer()
        if shelf.problem or shelf.is_read_only:
            raise StoreError(shelf.problem or "it cannot be written")
        if shelf.rivals:
            shelf.write(shelf.rivals.pop())
        if seen != shelf.stored():
            return Swapped(is_done=False, stored=shelf.stored())
        shelf.write(data)
        if is_urgent:
            for tell in shelf.listeners:
                if tell not in self._listeners:
                    tell()
        return Swapped(is_done=True, stored=shelf.stored())

    async def _answer(self) -> None:
        if self._shelf.late_s:
            await asyncio.sleep(self._shelf.late_s)

    def listen(self, on_urgent: Callable[[], None]) -> None:
        """Be told."""
        self._listeners.append(on_urgent)
        self._shelf.listeners.append(on_urgent)

    async def close(self) -> None:
        """Listen no more."""
        self.is_closed = True
        for each in self._listeners:
            self._shelf.listeners.remove(each)


class One:
    """A member with its controller."""

    def __init__(
        self, shelf: Shelf, name: str, period_s: float, lease_s: float, *, queues: bool
    ) -> None:
        self.slot = shelf.member()
        self.controller = Controller(
            LoopClock(asyncio.get_running_loop()),
            LIMIT,
            0,
            is_prompt=True,
            on_short=self.on_short,
        )
        self.controller.commit(
            self.controller.digest(
                [
                    priority_level("a", shares=95, queuing=QUEUING if queues else None),
                    flow_schema("s", "a", user_subject("*")),
                ]
            )
        )
        self.changed = asyncio.Event()
        self.limit = LIMIT
        self.events = ConfigurationEvents()
        self.membership = Membership(
            self.controller,
            self.slot,
            described="the shelf",
            fleet="fleet",
            member=name,
            limit=lambda: self.limit,
            lease_s=lease_s,
            period_s=period_s,
            replicas=None,
            events=self.events,
            on_change=self.changed.set,
        )

    def on_short(self, level: str, seats: int) -> None:
        """Tell the member, which is made with the controller."""
        self.membership.on_short(level, seats)

    @property
    def seats(self) -> int:
        """What it may use."""
        return self.controller.server_concurrency_limit

    def admit(self, count: int) -> list[Ticket]:
        """Requests of one user."""
        found = self.controller.classify(User("alice", ()), GET_POD)
        queue_set = found.level.queue_set
        tickets = [queue_set.admit(found.flow, ONE_SEAT, lambda _: None) for _ in range(count)]
        return [ticket for ticket in tickets if isinstance(ticket, Ticket)]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(WITHIN_S):
            while not holds():
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def member(
    shelf: Shelf,
    name: str = "one",
    *,
    period_s: float = LONG_S,
    lease_s: float = LONG_S,
    queues: bool = True,
) -> AsyncIterator[One]:
    """A member that has joined, and leaves at the end."""
    one = One(shelf, name, period_s, lease_s, queues=queues)
    await one.membership.join()
    try:
        yield one
    finally:
        one.membership.stop()
        await one.membership.leave()


async def test_a_member_has_a_starter_share_and_leaves_nothing() -> None:
    """It never takes the whole at once; its entry goes with it."""
    shelf = Shelf()
    async with member(shelf) as one:
        assert (LIMIT // 2, LIMIT // 2) == (one.seats, one.membership.ledger.claim)
        assert one.membership.problem() is None
        assert shelf.data is not None
        assert [one.membership.key] == list(decode(shelf.data).members)
        view = one.membership.view()
        assert ("held", LIMIT, LIMIT // 2) == (view.state, view.limit, view.in_force)

    assert {} == decode(shelf.data).members
    assert one.slot.is_closed


async def test_what_waits_gets_what_others_leave() -> None:
    """A member that has more than its part is told at once, and the other one takes it."""
    shelf = Shelf()
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(member(shelf, "first", lease_s=1.0, period_s=0.1))
        await first.until(lambda: first.seats == LIMIT)  # a lease after it came
        second = await stack.enter_async_context(member(shelf, "second", lease_s=1.0, period_s=0.1))
        tickets = second.admit(4 * LIMIT)
        await second.until(lambda: second.seats > LIMIT // 2)

        claims = [each.claim for each in decode(shelf.data or b"").members.values()]
        assert sum(claims) <= LIMIT
        assert second.controller.levels["a"].current_limit == sum(
            ticket.is_executing for ticket in tickets
        )


async def test_a_newcomer_serves_when_others_gave_it_a_share() -> None:
    """Of seats that nobody uses it has its part by then, though all were claimed."""
    shelf = Shelf()
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(member(shelf, "first", lease_s=0.5, period_s=0.1))
        await first.until(lambda: first.seats == LIMIT)
        second = await stack.enter_async_context(member(shelf, "second"))

        assert second.seats >= LIMIT // 4


async def test_a_level_without_queues_asks_for_more_before_it_has_it() -> None:
    """What it rejects counts as wanted, up to twice as much as it uses."""
    shelf = Shelf()
    async with AsyncExitStack() as stack:
        for name in ("first", "second"):
            one = await stack.enter_async_context(
                member(shelf, name, lease_s=1.0, period_s=0.1, queues=False)
            )
        level = one.controller.levels["a"]
        while len(one.admit(LIMIT)) == LIMIT or level.queue_set.seats_in_use <= LIMIT // 2:
            one.changed.clear()
            await one.changed.wait()

        assert one.seats > LIMIT // 2


async def test_a_store_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    """A newcomer serves by its starter share, says so, and joins when the store is back."""
    shelf = Shelf()
    shelf.problem = "it is on fire"
    async with member(shelf, period_s=0.05) as one:
        assert LeaseState.PARTITIONED is one.membership.ledger.state
        assert LIMIT // 2 == one.seats
        expected = (
            "the fleet's record in the shelf cannot be used: it is on fire;"
            " this member uses its safe share, 10 seats"
        )
        assert expected.endswith(f": {one.membership.view().problem}")
        assert expected == one.membership.problem()
        assert expected in caplog.text
        assert [True] == [event.is_error for event in one.events]

        shelf.problem = ""
        await one.until(lambda: one.membership.ledger.state is LeaseState.HELD)
        assert one.membership.problem() is None
        assert one.membership.view().failures >= 1
        assert "lease is over" not in caplog.text


async def test_a_store_that_asks_for_a_pause() -> None:
    """It is not asked before that is over, nor for longer than a lease."""
    shelf = Shelf()
    shelf.problem, shelf.pause_s = "too many requests", 1e6
    async with member(shelf, period_s=0.02, lease_s=5.0) as one:
        begun_s = asyncio.get_running_loop().time()
        one.membership.look()
        for _ in range(10):
            await asyncio.sleep(0)

        assert (1, 1) == (shelf.reads, one.membership.failures)
        assert begun_s < one.membership.due_s <= begun_s + 5.0


async def test_a_long_pause_is_no_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    """The health check sees that the task goes on, though it has nothing to do."""
    beats: asyncio.Queue[None] = asyncio.Queue()
    monkeypatch.setattr(Supervised, "beat", lambda _: beats.put_nowait(None))
    shelf = Shelf()
    shelf.problem, shelf.pause_s = "too many requests", 1e6
    async with member(shelf, period_s=0.02) as one:
        for _ in range(5):
            await beats.get()

        assert (1, 1) == (shelf.reads, one.membership.failures)


async def test_a_lease_that_ends() -> None:
    """Without an answer the lease ends by itself, and all others' after it."""
    shelf = Shelf()
    async with member(shelf, period_s=0.05, lease_s=0.3) as one:
        await one.until(lambda: one.seats == LIMIT)

        shelf.problem = "gone"
        await one.until(lambda: one.membership.ledger.state is LeaseState.EXPIRED)
        assert LIMIT // 2 == one.seats
        await one.until(lambda: one.membership.ledger.state is LeaseState.PARTITIONED)
        shelf.problem = ""


async def test_a_member_that_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    """The log of another one names it, and that one has its seats."""
    shelf = Shelf()
    async with (
        member(shelf, "lost", period_s=0.05, lease_s=0.3) as lost,
        member(shelf, "stays", period_s=0.05, lease_s=0.3) as stays,
    ):
        lost.membership.stop()
        await stays.until(lambda: stays.seats == LIMIT)

        assert 1 == stays.membership.view().lost
        assert "the lease of lost ended: it was killed, hangs or lost the store" in caplog.text


async def test_a_store_that_can_only_be_read() -> None:
    """A member that is alone keeps its safe share, whatever others wanted when they wrote last."""
    shelf = Shelf()
    async with (
        member(shelf, "greedy", period_s=0.05, lease_s=0.3) as greedy,
        member(shelf, "idle", period_s=0.05, lease_s=0.3) as idle,
    ):
        greedy.admit(2 * LIMIT)
        await greedy.until(lambda: greedy.seats > LIMIT - 4)
        shelf.is_read_only = True
        await idle.until(lambda: idle.membership.ledger.state is LeaseState.PARTITIONED)
        failures = idle.membership.failures
        await idle.until(lambda: idle.membership.failures > failures)

        assert LeaseState.PARTITIONED is idle.membership.ledger.state
        assert LIMIT // 2 == idle.seats
        shelf.is_read_only = False
        await greedy.until(lambda: greedy.seats > LIMIT - 4)


async def test_a_garbled_record_is_refused() -> None:
    """It is said, and stays as it is."""
    shelf = Shelf()
    shelf.write(b'{"version": 1, "members": []}')
    async with member(shelf) as one:
        assert "it has no record of a fleet" in (one.membership.problem() or "")
        assert LIMIT // 2 == one.seats

    assert b'{"version": 1, "members": []}' == shelf.data


async def test_others_are_faster() -> None:
    """A swap that somebody else was faster at is planned anew, with what that one wrote."""
    shelf = Shelf()
    async with member(shelf, "other") as other:
        assert shelf.data is not None
        shelf.rivals = [shelf.data, shelf.data]
        async with member(shelf, "one") as one:
            assert 2 == one.membership.conflicts
            assert {one.membership.key, other.membership.key} == set(decode(shelf.data).members)


async def test_others_are_faster_for_long() -> None:
    """It is not without the store as long as that answers, however often others are faster."""
    shelf = Shelf()
    shelf.late_s = 0.3
    async with member(shelf, "other") as other:
        assert shelf.data is not None
        shelf.rivals = [shelf.data] * 3
        async with member(shelf, "one", lease_s=5.0) as one:  # which gives an answer a second
            assert (3, 0) == (one.membership.conflicts, one.membership.failures)
            assert {one.membership.key, other.membership.key} == set(decode(shelf.data).members)


async def test_what_is_given_is_so_though_others_are_faster() -> None:
    """A member that gives seats up leaves the store to whoever is first, and then says it."""
    shelf = Shelf()
    async with member(shelf, "first") as first, member(shelf, "second", period_s=0.05) as second:
        await first.until(lambda: first.membership.refreshes == 2)  # it has seen the newcomer
        second.admit(4 * LIMIT)
        key = second.membership.key
        await second.until(lambda: bool(decode(shelf.data or b"").members[key].demand))
        second.membership.stop()
        assert shelf.data is not None
        shelf.rivals = [shelf.data]
        refreshes, conflicts = first.membership.refreshes, first.membership.conflicts
        first.membership.look()
        await first.until(lambda: first.membership.refreshes > refreshes)

        assert 1 == first.membership.conflicts - conflicts
        assert decode(shelf.data).members[first.membership.key].claim < LIMIT // 2


async def test_news_are_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written for news counts for the lease: the next write is due a period after it."""
    monkeypatch.setattr("random.uniform", min)
    shelf = Shelf()
    async with member(shelf) as one:
        due = [one.membership.due_s]
        for limit in (8, 7, 6):
            refreshes = one.membership.refreshes
            one.limit = limit
            one.membership.look()
            await one.until(lambda: one.membership.refreshes > refreshes)  # noqa: B023 - at once
            due.append(one.membership.due_s)

        assert sorted(set(due)) == due


async def test_a_store_that_is_far_away(caplog: pytest.LogCaptureFixture) -> None:
    """Members that cannot all write within a lease have a longer one while it is so, and say it."""
    shelf = Shelf()
    shelf.late_s = 0.1
    async with AsyncExitStack() as stack:
        names = ("first", "second", "third")
        for name in names:
            one = await stack.enter_async_context(member(shelf, name, period_s=0.1, lease_s=1.0))
        await one.until(lambda: one.membership.ledger.lease_s > 1)
        refreshes = one.membership.refreshes
        await one.until(lambda: one.membership.refreshes > refreshes)
        entries = decode(shelf.data or b"").members

        assert entries[one.membership.key].lease_ms >= 2000
        shelf.late_s = 0.0
        with caplog.at_level("INFO"):
            await one.until(lambda: one.membership.ledger.lease_s == 1)
    assert "fleet.lease is short for 3 members and a store that is 10" in caplog.text
    assert "the store is near again: fleet.lease is 1 s from now on" in caplog.text


async def test_another_limit() -> None:
    """A limit that changes is in force with the next look, which is at once."""
    shelf = Shelf()
    async with member(shelf) as one:
        one.limit = 8
        one.membership.look()
        await one.until(lambda: one.seats == 8)


async def test_nobody_looks_for_what_would_bring_nothing() -> None:
    """A member that has all there is asks no store for more."""
    shelf = Shelf()
    async with member(shelf, lease_s=1.0, period_s=LONG_S) as one:
        one.membership.look()
        await asyncio.sleep(0)
        before = shelf.reads
        one.admit(4)
        await asyncio.sleep(0)

        assert before == shelf.reads


async def test_one_name() -> None:
    """Members of one name are shown by their keys, so that they can be told apart."""
    shelf = Shelf()
    async with member(shelf, "same") as one, member(shelf, "same"), member(shelf, "other"):
        await one.until(lambda: len(one.membership.view().members) == 3)
        view = one.membership.view()

    assert ["other", *(each.key for each in view.members[1:])] == [
        each.name for each in view.members
    ]
