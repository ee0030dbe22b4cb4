"""Tests of `apfproxy.app.found_limit`: who of a fleet looks for the limit, and at what."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from apfproxy.app.found_limit import FoundLimit
from apfproxy.fleet.record import Member, decode
from apfproxy.settings import (
    AUTO_SEATS,
    OBSERVE,
    AutoLimitSettings,
    FleetSettings,
    FlowControlSettings,
    Settings,
)
from apfproxy.upstream.counters import PoolCounters, UpstreamCounters, UpstreamFailure
from tests.fleet.virtual import LIMIT, One, Shelf, virtually
from tests.flowcontrol.scene import GET_POD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from apfproxy.flowcontrol.limit_finder import Load

MOST = 1000
FLOW_CONTROL = FlowControlSettings(
    server_concurrency_limit=AUTO_SEATS, auto_limit=AutoLimitSettings(max=MOST, initial=LIMIT)
)
BY_ITSELF = Settings(flow_control=FLOW_CONTROL)
IN_A_FLEET = replace(BY_ITSELF, fleet=FleetSettings(store="redis://shelf"))


class Finding(One):
    """A member that looks for the limit, though its finder only learns what `set` says."""

    def __init__(self, shelf: Shelf, name: str) -> None:
        super().__init__(shelf, name, 1.0, 5.0, queues=True)
        loop, ledger = asyncio.get_running_loop(), self.membership.ledger
        self.counters = PoolCounters()
        self.found = FoundLimit(
            IN_A_FLEET, self.controller, self.counters, loop, lambda: ledger, self.follow
        )
        self.found.finder.look = lambda *_: None  # type: ignore[method-assign]
        self.limit = self.found.limit

    def follow(self) -> None:
        self.limit = self.found.limit
        self.membership.look()

    def set(self, limit: int) -> None:
        self.found.finder.limit = limit
        self.follow()

    @property
    def shared_limit(self) -> int:
        return self.membership.ledger.limit


@asynccontextmanager
async def fleet(*names: str) -> AsyncIterator[tuple[Shelf, list[Finding]]]:
    shelf = Shelf()
    members = [Finding(shelf, name) for name in names]
    try:
        for each in members:
            await join(each)
        await asyncio.sleep(5)
        yield shelf, members
    finally:
        for each in members:
            await leave(each)


async def join(member: Finding) -> None:
    await member.membership.join()
    member.found.start()


async def leave(member: Finding) -> None:
    if not member.slot.is_closed:
        member.found.stop()
        member.membership.stop()
        await member.membership.leave()


def leaders(members: list[Finding]) -> list[str]:
    return [each.membership.key.partition("#")[0] for each in members if each.found.is_leading]


async def limits_for(seconds: float, member: Finding) -> set[int]:
    found = set()
    for _ in range(round(seconds * 20)):
        await asyncio.sleep(0.05)
        found.add(member.shared_limit)
    return found


def entries(shelf: Shelf) -> dict[str, Member]:
    assert shelf.data is not None
    return {key.partition("#")[0]: each for key, each in decode(shelf.data).members.items()}


@virtually
async def test_one_leads() -> None:
    """Its limit is in the record, beside the most that the others allow."""
    async with fleet("a", "b", "c") as (shelf, members):
        assert ["a"] == leaders(members)
        assert {"a": LIMIT, "b": MOST, "c": MOST} == {
            name: each.limit for name, each in entries(shelf).items()
        }
        for limit in (30, 10, 50):
            members[0].set(limit)
            await asyncio.sleep(3)
            assert {limit} == {each.shared_limit for each in members}
            assert {limit} == {each.found.finder.limit for each in members}
            assert limit >= sum(each.membership.ledger.in_force() for each in members)


@virtually
async def test_idle_members_do_not_take_turns() -> None:
    async with fleet("a", "b") as (shelf, members):
        writes = shelf.writes
        for _ in range(600):
            await asyncio.sleep(0.1)
            assert ["a"] == leaders(members)
        assert shelf.writes - writes <= 2 * 60 + 10  # one a member and second, as ever


@virtually
async def test_an_idle_one_yields() -> None:
    """A member with requests sees more; it begins at the limit that the other one found."""
    async with fleet("a", "b", "c") as (_, members):
        first, second, third = members
        first.set(30)
        await asyncio.sleep(3)
        tickets = second.admit(2)
        limits = await limits_for(5, third)
        assert ["b"] == leaders(members)
        assert ({30}, 30) == (limits, second.found.finder.limit)

        first.admit(2)  # as good a leader now, but there is one
        await asyncio.sleep(5)
        assert ["b"] == leaders(members)

        for ticket in tickets:
            second.end(ticket)
        await asyncio.sleep(5)
        assert ["a"] == leaders(members)
        assert {30} == {each.shared_limit for each in members}


@pytest.mark.parametrize("is_killed", [False, True], ids=["leaves", "is-killed"])
def test_the_leader_goes(is_killed: bool) -> None:
    """Another one takes over at its limit, and no limit but that is in force meanwhile."""

    @virtually
    async def run() -> None:
        async with fleet("a", "b", "c") as (_, members):
            first, second, _ = members
            first.set(30)
            await asyncio.sleep(3)
            if is_killed:
                first.found.stop()
                first.membership.stop()
            else:
                await leave(first)
            assert {30} == await limits_for(15, second)
            assert ["b"] == leaders(members[1:])
            second.set(40)
            await asyncio.sleep(3)
            assert {40} == {each.shared_limit for each in members[1:]}

    run()


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_newcomer_follows(is_busy: bool) -> None:
    """A member that starts again does not begin again, even if it is to lead."""

    @virtually
    async def run() -> None:
        async with fleet("b", "c") as (shelf, members):
            members[0].set(300)
            await asyncio.sleep(3)
            newcomer = Finding(shelf, "a")
            members.append(newcomer)
            newcomer.admit(3 * is_busy)
            await join(newcomer)

            assert {300} == await limits_for(5, members[0])
            assert [*("a" if is_busy else "b")] == leaders(members)
            assert 300 == newcomer.shared_limit

    run()


@virtually
async def test_without_the_store() -> None:
    """The limit stays; each has its safe share of it."""
    async with fleet("a", "b") as (shelf, members):
        first, second = members
        first.set(30)
        await asyncio.sleep(3)
        shelf.problem = "it is away"
        assert {30} == await limits_for(30, second)
        assert ["a"] == leaders(members)
        assert {15} == {each.seats for each in members}

        shelf.problem = ""
        await asyncio.sleep(10)
        assert (["a"], 30) == (leaders(members), second.shared_limit)


@virtually
async def test_a_fixed_limit_elsewhere() -> None:
    """Members with other settings bound it, as ever, and what is sought while they are there."""
    async with fleet("b") as (shelf, members):
        other = One(shelf, "c", 1.0, 5.0, queues=True)
        other.limit = 7
        await other.membership.join()
        await asyncio.sleep(3)
        leader = members[0].found
        assert 7 == members[0].shared_limit
        assert ([*"b"], 7, 2, 7) == (leaders(members), leader.limit, *bounds_of(leader))
        other.limit = 1
        await asyncio.sleep(3)
        assert (1, 1, 1) == (leader.limit, *bounds_of(leader))
        assert MOST == leader.view().max
        other.membership.stop()
        await other.membership.leave()
        await asyncio.sleep(3)
        assert (2, 2, MOST) == (leader.limit, *bounds_of(leader))


def bounds_of(found: FoundLimit) -> tuple[int, int]:
    """The limits between which the best one is sought."""
    return found.finder.settings.least, found.finder.settings.most


# What is looked at


class Looks:
    def __init__(self, settings: Settings = BY_ITSELF, limit: int | None = None) -> None:
        self.one = One(Shelf(), "one", 1.0, 5.0, queues=True)
        self.counters = PoolCounters()
        self.limits: list[int] = []
        self.found = FoundLimit(
            settings,
            self.one.controller,
            self.counters,
            asyncio.get_running_loop(),
            lambda: None,
            lambda: self.limits.append(self.found.limit),
            limit,
        )
        self.loads: list[Load] = []
        self.found.finder.look = self.take  # type: ignore[method-assign]
        self.found.start()

    def take(self, now_s: float, load: Load) -> None:
        assert now_s == asyncio.get_running_loop().time()
        self.loads.append(load)


@virtually
async def test_load() -> None:
    looks = Looks()
    looks.one.admit(LIMIT + 3)
    looks.found.meter.add(GET_POD, 1000, 2, 50_000_000)
    endpoint = looks.counters.endpoints["a"] = UpstreamCounters()
    for failure in UpstreamFailure:
        endpoint.fail(failure, "")
    endpoint.answers |= {200: 7, 503: 9}  # of exempt requests, too
    looks.found.meter.distress += 7
    await asyncio.sleep(0.15)
    looks.counters.leave("a")
    await asyncio.sleep(0.1)
    looks.found.stop()
    await asyncio.sleep(1)

    first, second = looks.loads
    assert first.duration_s == pytest.approx(0.1)
    assert (LIMIT - 1, True) == (first.seats, first.is_waiting)
    assert {("get", "pods", 5): (2.0, 0.1)} == first.responses
    endpoint.fail(UpstreamFailure.ANSWER_TIMEOUT, "", is_telling=False)
    # Three failures of six, as a server that is not there is not in distress.
    assert 3 + 7 == first.distress
    assert 0 == second.distress
    assert not second.responses
    assert looks.found.problem() is None


@virtually
async def test_load_that_is_only_observed() -> None:
    """Requests go on without seats: as many are under way as their times say."""
    settings = replace(BY_ITSELF, flow_control=replace(FLOW_CONTROL, enforcement=OBSERVE))
    looks = Looks(settings)
    looks.found.meter.add(GET_POD, 1000, 1, 500_000_000)
    await asyncio.sleep(0.15)
    looks.found.stop()

    (load,) = looks.loads
    assert load.seats == pytest.approx(5.0)


@virtually
async def test_another_limit() -> None:
    looks = Looks(limit=5000)
    assert MOST == looks.found.limit  # one that was found before, within new bounds

    looks.found.finder.look = lambda *_: setattr(looks.found.finder, "limit", 12)  # type: ignore[method-assign]
    await asyncio.sleep(0.35)
    looks.found.stop()
    assert [12] == looks.limits


@virtually
async def test_endpoints() -> None:
    looks = Looks()
    factors: list[float] = []

    def resize(factor: float) -> None:
        factors.append(factor)

    looks.found.finder.resize = resize  # type: ignore[method-assign]
    for healthy in (2, 2, 3, 0, 1, 4):
        looks.found.has_endpoints(healthy)
    looks.found.stop()

    assert [1.5, 1 / 3, 4.0] == factors
