"""A member of a fleet: it has its seats from the record, and gives them back; in virtual time."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from apfproxy.base.events import ConfigurationEvents
from apfproxy.base.tasks import Supervised
from apfproxy.fleet.ledger import LeaseState, Ledger, Report
from apfproxy.fleet.membership import MembershipWords
from apfproxy.fleet.record import decode
from tests.fleet.virtual import LIMIT, One, Shelf, member, now_s, virtually

if TYPE_CHECKING:
    import pytest

    from apfproxy.fleet.record import Member
    from apfproxy.flowcontrol.ticket import Ticket

LONG_S = 100.0
"""A period in which a member looks for events alone."""


def entries(shelf: Shelf) -> dict[str, Member]:
    return decode(shelf.data or b"").members


# Joining and leaving


@virtually
async def test_a_member_has_a_starter_share_and_leaves_nothing() -> None:
    """It never takes the whole at once; its entry goes with it."""
    shelf = Shelf()
    async with member(shelf) as one:
        assert (LIMIT // 2, LIMIT // 2) == (one.seats, one.membership.ledger.claim)
        assert one.membership.problem() is None
        assert [one.membership.key] == list(entries(shelf))
        view = one.membership.view()
        assert ("held", LIMIT, LIMIT // 2) == (view.state, view.limit, view.in_force)

    assert {} == entries(shelf)
    assert one.slot.is_closed


@virtually
async def test_a_newcomer_serves_when_others_gave_it_a_share() -> None:
    shelf = Shelf()
    async with member(shelf, "first") as first:
        await first.until(lambda: first.seats == LIMIT)  # a lease after it came
        async with member(shelf, "second") as second:
            assert abs(second.seats - LIMIT // 2) <= 1  # each level has an odd seat


@virtually
async def test_a_member_that_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    shelf = Shelf()
    async with member(shelf, "lost") as lost, member(shelf, "stays") as stays:
        lost.membership.stop()
        await stays.until(lambda: stays.seats == LIMIT)
        assert 1 == stays.membership.view().lost
        assert "the lease of lost ended: it was killed, hangs or lost the store" in caplog.text


@virtually
async def test_one_name() -> None:
    shelf = Shelf()
    async with member(shelf, "same") as one, member(shelf, "same"), member(shelf, "other"):
        await one.until(lambda: len(one.membership.view().members) == 3)
        view = one.membership.view()

    assert ["other", *(each.key for each in view.members[1:])] == [
        each.name for each in view.members
    ]


# Demand


@virtually
async def test_a_level_without_queues_asks_for_more_before_it_has_it() -> None:
    shelf = Shelf()
    async with AsyncExitStack() as stack:
        for name in ("first", "second"):
            one = await stack.enter_async_context(member(shelf, name, queues=False))
        while len(one.admit(LIMIT)) == LIMIT or one.used <= LIMIT // 2:
            one.changed.clear()
            await one.changed.wait()

        assert one.seats > LIMIT // 2


@virtually
async def test_demand_is_sampled_once_a_look() -> None:
    """Others that write first take nothing from what was wanted since the look before."""
    shelf = Shelf()
    async with member(shelf) as one:
        for ticket in one.admit(7):
            one.end(ticket)
        assert shelf.data is not None
        shelf.rivals = [shelf.data] * 3
        refreshes = one.membership.refreshes
        await one.until(lambda: one.membership.refreshes > refreshes)

        assert 3 == one.membership.conflicts
        assert 7 == entries(shelf)[one.membership.key].demand["a"]


@virtually
async def test_no_look_for_what_would_bring_nothing() -> None:
    shelf = Shelf()
    async with member(shelf, period_s=LONG_S, lease_s=4 * LONG_S) as one:
        before = shelf.reads
        one.admit(4)
        await asyncio.sleep(LONG_S / 2)
        assert before == shelf.reads


@virtually
async def test_another_limit() -> None:
    async with member(Shelf(), period_s=LONG_S, lease_s=4 * LONG_S) as one:
        begun_s, one.limit = now_s(), 8
        one.membership.look()
        await one.until(lambda: one.seats == 8)
        assert begun_s == now_s()


# The store


@virtually
async def test_a_store_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    shelf = Shelf()
    shelf.problem = "it is on fire"
    async with member(shelf) as one:
        assert LeaseState.PARTITIONED is one.membership.ledger.state
        assert LIMIT // 2 == one.seats
        expected = (
            "the fleet's record in redis://shelf:6379 cannot be used: it is on fire;"
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


@virtually
async def test_a_store_that_asks_for_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not asked before that is over, a lease at most; the health check sees no stall."""
    beats: list[float] = []
    monkeypatch.setattr(Supervised, "beat", lambda _: beats.append(now_s()))
    shelf = Shelf()
    shelf.problem, shelf.pause_s = "too many requests", 1e6
    async with member(shelf) as one:
        one.membership.look()
        await asyncio.sleep(4.9)
        assert (1, 1) == (shelf.reads, one.membership.failures)
        assert len(beats) >= 5
        await asyncio.sleep(0.2)
        assert 2 == shelf.reads


@virtually
async def test_a_lease_ends_while_the_store_hangs() -> None:
    shelf = Shelf()
    async with member(shelf) as one:
        await one.until(lambda: one.seats == LIMIT)
        written_s = now_s()
        shelf.late_s = 1e6
        await one.until(lambda: one.membership.ledger.state is LeaseState.EXPIRED)

        assert now_s() <= written_s + 4.0


@virtually
async def test_a_store_that_can_only_be_read() -> None:
    """A partitioned member keeps its safe share, whatever others wanted when they wrote last."""
    shelf = Shelf()
    async with member(shelf, "greedy") as greedy, member(shelf, "idle") as idle:
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


@virtually
async def test_a_garbled_record_is_refused() -> None:
    shelf = Shelf()
    shelf.write(b'{"version": 1, "members": []}')
    async with member(shelf) as one:
        assert "it has no record of a fleet" in (one.membership.problem() or "")
        assert LIMIT // 2 == one.seats
    assert b'{"version": 1, "members": []}' == shelf.data


@virtually
async def test_others_are_always_faster() -> None:
    shelf = Shelf()
    async with member(shelf, "other"):
        assert shelf.data is not None
        shelf.rivals = [shelf.data] * 16
        async with member(shelf, "one") as one:
            assert 16 == one.membership.conflicts
            assert "16 times others wrote first; this" in (one.membership.problem() or "")


@virtually
async def test_a_lease_that_is_short_for_a_far_store(caplog: pytest.LogCaptureFixture) -> None:
    shelf = Shelf()
    shelf.late_s = 0.5
    async with member(shelf), member(shelf), member(shelf) as one:
        await one.until(lambda: one.membership.refreshes > 3)

    warnings = [each for each in caplog.messages if "fleet.lease" in each]
    assert (
        "fleet.lease is short for 3 members and a store that is 500 ms away: some lose their seats"
        " now and then; set 6 s or more"
    ) == warnings[-1]
    assert len(warnings) <= 3


# Words


def test_words(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    ledger, events = Ledger("m#1", LIMIT, lease_s=5.0), ConfigurationEvents()
    words = MembershipWords(ledger, "the shelf", events, "c: ", " of the fleet f")
    assert "there is no answer yet; this member has no seats yet" == words.reason()

    ledger.failed(LIMIT, 0.0)
    for problem in ("on fire", "on fire", "gone", "on fire", "gone"):
        words.problem = problem
        words.say()
    ledger.written(ledger.plan(None, Report(limit=LIMIT, levels={}), 1.0))
    for problem in ("", "", "slow", "slow", "", "", "slow"):
        words.problem = problem
        words.say()
    words.problem = ""

    trouble = "c: the fleet's record in the shelf cannot be used: "
    means = "this member uses its safe share, 10 seats"
    start = "shares the 20 seats of the fleet f: it has 0 now, and takes more as requests come"
    slow = f"{trouble}slow; this member keeps its 0 seats until its lease ends"
    assert [
        f"{trouble}on fire; {means}",
        f"{trouble}gone; {means}",
        f"c: this member {start}",
        slow,
        "c: the fleet's record can be used again",
        slow,
    ] == caplog.messages
    assert [True, False] == [each.is_error for each in events]
    assert "" == words.trouble()


# Whole fleets


class Load:
    running = 0
    """For all members."""
    most = 0

    def __init__(self, one: One, service_s: float = 0.04) -> None:
        self._one = one
        self._service_s = service_s
        self._wanted = 0
        self._waiting: set[Ticket] = set()
        self._loop = asyncio.get_running_loop()

    def want(self, clients: int) -> None:
        more, self._wanted = clients - self._wanted, clients
        for _ in range(more):
            self._ask()

    def _ask(self) -> None:
        tickets = self._one.admit(1, self._begin)
        for ticket in tickets:
            if ticket.is_executing:
                self._begin(ticket)
            else:
                self._waiting.add(ticket)

    def _begin(self, ticket: Ticket) -> None:
        self._waiting.discard(ticket)
        Load.running += 1
        Load.most = max(Load.most, Load.running)
        self._loop.call_later(self._service_s, self._end, ticket)

    def _end(self, ticket: Ticket) -> None:
        Load.running -= 1
        self._one.end(ticket)
        excess = len(self._waiting) + self._one.used - self._wanted
        for waiting in list(self._waiting)[: max(0, excess)]:
            self._waiting.discard(waiting)
            self._one.end(waiting)
        if excess < 0:
            self._ask()


@virtually
async def test_seats_follow_the_load() -> None:
    """They are where requests are, soon after these have moved; never more than the limit."""
    shelf = Shelf()
    shelf.late_s = 0.002
    Load.running = Load.most = 0
    async with AsyncExitStack() as stack:
        members = [
            await stack.enter_async_context(member(shelf, f"m{number}")) for number in range(3)
        ]
        loads = [Load(each) for each in members]
        await asyncio.sleep(10)
        for busy in (0, 1, 2, 0, 2):
            for number, load in enumerate(loads):
                load.want(3 * LIMIT if number == busy else 0)
            begun_s = now_s()
            await members[busy].until(lambda: members[busy].seats >= LIMIT - 2)  # noqa: B023 - at once
            assert now_s() - begun_s < 0.4
            await asyncio.sleep(3)
            assert LIMIT - 2 <= members[busy].used <= LIMIT
        for load in loads:
            load.want(3 * LIMIT)
        await asyncio.sleep(3)
        assert all(6 <= each.seats <= 8 for each in members)
        assert LIMIT - 1 <= sum(each.used for each in members) <= LIMIT
        for load in loads:
            load.want(0)
        await asyncio.sleep(1)

    assert LIMIT - 1 <= Load.most <= LIMIT
    assert 0 == Load.running


@virtually
async def test_a_busy_fleet_leaves_its_store_alone() -> None:
    """Members that have what there is look once a period, though all their requests wait."""
    shelf = Shelf()
    shelf.late_s = 0.002
    async with AsyncExitStack() as stack:
        members = [
            await stack.enter_async_context(member(shelf, f"m{number}")) for number in range(4)
        ]
        for each in members:
            Load(each, service_s=1.0).want(3 * LIMIT)
        await asyncio.sleep(20)
        reads, writes = shelf.reads, shelf.writes
        await asyncio.sleep(100)

        assert shelf.reads - reads <= 1.5 * 4 * 100
        assert shelf.writes - writes <= 1.2 * 4 * 100
        for each in members:
            each.membership.stop()
