"""Claims and uses of members, case by case, beside the searches of all states and walks."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from apfproxy.fleet.ledger import FAILED_PART, HELD, LeaseState, Report
from apfproxy.fleet.record import MAX_MEMBERS, VERSION, Member, Record, RecordFullError
from apfproxy.fleet.view import member_views
from tests.fleet.world import LEASE_S, LEVELS, World, claims

if TYPE_CHECKING:
    from apfproxy.fleet.ledger import Plan
    from tests.fleet.world import WorldMember

LIMIT = 10
GREEDY = 20
"""Seats that a member wants which wants more than there are."""


def want(*members: WorldMember, seats: int = GREEDY) -> None:
    for each in members:
        each.waiting["a"] = seats


def look(world: World, member: WorldMember) -> Plan:
    world.ask(member)
    world.plan(member)
    assert member.swap is not None
    plan = member.swap.plan
    world.swap(member)
    world.check()
    return plan


def look_after(world: World, member: WorldMember, pause_s: float) -> int:
    world.wait(pause_s)
    look(world, member)
    return member.in_force()


def used(*members: WorldMember) -> tuple[int, ...]:
    return tuple(each.in_force() for each in members)


def settled(*greedy: bool) -> tuple[World, list[WorldMember]]:
    """Members that know each other, each of which is greedy or idle, and have just refreshed."""
    world = World(LIMIT)
    members = [world.join() for _ in greedy]
    want(*(each for each, is_greedy in zip(members, greedy, strict=True) if is_greedy))
    for _ in range(10):
        for each in members:
            look(world, each)
        world.wait(1.0)
    for each in members:
        look(world, each)
    return world, members


# Joining


def test_a_newcomer_starts_with_a_share() -> None:
    """The record may have been lost, and others be there, until it has watched for a lease."""
    world = World(LIMIT)
    one = world.join()
    want(one)
    assert [5, 5, 10] == [look_after(world, one, pause_s) for pause_s in (0, LEASE_S - 1, 1)]
    few = World(LIMIT, replicas=5)
    assert 2 == look_after(few, few.join(), 0)  # of the five that are meant to be there


def test_a_newcomer_watches_for_the_longest_lease() -> None:
    """A member with that may be there, though the record does not have it yet."""
    world = World(LIMIT)
    one, other = world.join(lease_s=3 * LEASE_S), world.join()
    want(other)
    look(world, one)
    found = []
    for _ in range(round(3 * LEASE_S)):
        found.append(look_after(world, other, 0))
        look_after(world, one, 1)
    look(world, other)
    look(world, one)

    assert max(found) <= 5
    assert LIMIT == look_after(world, other, 0)


# Demand and limits


def test_the_least_limit_counts() -> None:
    world, (one, other) = settled(False, False)
    other.limit = 6
    for each in (other, one, other):
        look(world, each)

    assert 6 == one.ledger.limit == other.ledger.limit == sum(used(one, other))
    one.limit = 4
    one.fail()
    assert one.in_force() <= 4


def test_the_limit_that_the_last_one_found_stays_while_none_names_one() -> None:
    world, (one, other) = settled(False, False)
    one.ledger.assumed = other.ledger.assumed = 7
    for each in (other, one, other):
        look(world, each)

    assert 7 == one.ledger.limit == other.ledger.limit


def test_only_limits_that_are_named_make_members_unlike() -> None:
    """Where the limit is found, the leader names it, and the others say their bounds."""
    world, (one, other) = settled(False, False)
    one.limit = 7
    for each in (one, other):
        look(world, each)
    ledger, report = other.ledger, other.report()

    assert not all(member.is_alike for member in member_views(ledger, report, 0.0, 0.0))
    ledger.assumed = 7
    assert all(member.is_alike for member in member_views(ledger, report, 0.0, 0.0))
    unlike = dataclasses.replace(report, configuration="other")
    assert not all(member.is_alike for member in member_views(ledger, unlike, 0.0, 0.0))


def test_seats_go_where_they_are_wanted() -> None:
    world, (one, other) = settled(False, False)
    want(one)

    assert one.ledger.foreseen(one.report()) > one.ledger.in_force()
    assert look(world, one).is_urgent
    assert (5, 5) == used(one, other)
    given = look(world, other)
    assert (True, True) == (given.is_urgent, given.is_news)
    assert (5, 0) == used(one, other)
    assert not look(world, one).is_urgent
    assert (LIMIT, 0) == used(one, other)
    assert {"a": LIMIT} == one.allotted()
    assert one.ledger.foreseen(one.report()) <= one.ledger.in_force()


def test_seats_in_use_are_given_when_they_are_free() -> None:
    world, (one, other) = settled(False, True)
    other.start()
    want(one)
    found = []
    look(world, one)
    for running in (LIMIT, 7, 2):
        other.running["a"] = running
        look(world, other)
        look(world, one)
        found.append((*used(one, other), other.ledger.claim))

    assert [(0, 5, LIMIT), (3, 5, 7), (5, 5, 5)] == found


# Time


def test_the_dead_are_taken_out_in_spite_of_conflicts() -> None:
    """A lease that is over stays over, though the record still has the member."""
    world, (one, other) = settled(False, True)
    world.die(one)
    look_after(world, other, LEASE_S / 2)
    world.wait(LEASE_S / 2 + 0.1)

    for _ in range(3):
        world.ask(other)
        world.plan(other)
        assert other.swap is not None
        assert {other.key} == other.swap.plan.record.members.keys()  # which is not written
        other.swap = None
    assert LIMIT == look_after(world, other, 0)
    assert (1, {}) == (other.ledger.lost, other.ledger.others)


def test_the_store_goes_away() -> None:
    """The claim until the lease ends, then the less of it and the safe share, then that."""
    world, members = settled(True, False)
    one, other = members
    for each in members:
        each.now_s += 1
        each.fail()
    found = []
    for pause_s in (HELD * LEASE_S - 1.1, 0.1, 0.8):
        world.wait(pause_s)
        found.append(used(*members))
    assert [(10, 0), (5, 0), (5, 0)] == found
    assert math.inf == one.ledger.next_change_s()
    world.wait(1.1)
    for each in members:
        each.fail()

    assert (5, 5) == used(one, other)
    assert {"a": 5} == one.allotted()


def test_a_lease_ends_earlier_for_its_holder() -> None:
    world, (one, other) = settled(True, True)
    assert one.now_s + HELD * LEASE_S == one.ledger.next_change_s()
    one.is_cut = True
    world.wait(HELD * LEASE_S)
    one.fail()
    assert LeaseState.EXPIRED is one.ledger.state
    look(world, other)
    assert 5 == look_after(world, other, LEASE_S * (1 - HELD))
    assert LIMIT == look_after(world, other, 0.1)
    assert 1 == other.ledger.lost
    assert world.entry(one) is None


def test_who_has_not_looked_for_a_lease_is_not_alone() -> None:
    """The first failure after it says nothing of the others, which have looked since."""
    world, (one, other) = settled(False, True)
    look_after(world, other, LEASE_S / 2)
    world.wait(LEASE_S / 2 + 0.5)
    one.fail()
    assert 0 == one.in_force()


def test_time_without_the_store_is_hardly_of_a_lease() -> None:
    world, (one, other) = settled(False, False)
    world.wait(1.0)
    other.fail()
    rest_s = LEASE_S * (1 - FAILED_PART) - 0.2
    is_there = []
    for pause_s in (LEASE_S - 1.1, 0.2, rest_s - 0.1, 0.2):
        look_after(world, other, pause_s)
        is_there.append(world.entry(one) is not None)

    assert [True, True, True, False] == is_there


def test_a_store_that_often_fails() -> None:
    world, (one, other) = settled(False, False)
    looks = 0
    while world.entry(one):
        world.wait(0.5)
        other.fail()
        looks += 1
        look_after(world, other, 0.5)

    assert abs(looks - 1 / FAILED_PART) <= 1


# The record


def test_a_lost_record() -> None:
    world, (one, other) = settled(True, False)
    world.lose()
    look(world, one)
    assert (10, 0) == used(one, other)
    newcomer = world.join(offset_s=one.now_s)
    want(newcomer)

    assert 0 == look_after(world, newcomer, 0)


def test_a_claim_that_was_lost_before_the_others_saw_it() -> None:
    """Its holder keeps what those have left who wrote since."""
    world, (one, other) = settled(False, False)
    want(one)
    for each in (one, other, one):
        look(world, each)
    world.lose()
    want(other)

    assert 5 == look_after(world, other, 0)
    one.start()
    look(world, one)
    assert (5, 5) == used(one, other)
    assert world.record is not None
    assert claims(world.record) <= LIMIT


def test_a_record_that_is_rolled_back() -> None:
    """Claims that it does not have are not counted on, neither by their holders nor by others."""
    world, (one, other) = settled(False, False)
    want(one)
    for each in (one, other, one):
        look(world, each)
    assert (10, 0) == used(one, other)
    world.roll_back(3)

    assert look_after(world, one, 0) <= 5
    look(world, other)
    look(world, one)
    assert (10, 0) == used(one, other)


def test_a_member_that_a_rollback_has_lost() -> None:
    """It has not left: members that saw it count on it for a lease."""
    world, (one,) = settled(False)
    other = world.join(offset_s=one.now_s)
    look(world, other)
    look(world, one)
    want(one)
    world.roll_back(2)

    assert [5, 5, 10] == [look_after(world, one, s) for s in (0, LEASE_S / 2, LEASE_S / 2 + 0.1)]


def test_a_member_leaves() -> None:
    world, (one, other) = settled(True, True)
    world.leave(other)
    assert (10, 0) == (look_after(world, one, 0), one.ledger.lost)


def test_a_member_that_was_taken_out() -> None:
    """Nothing of its claim counts any more, so that it writes at once."""
    world, (one, other) = settled(False, False)
    assert world.record is not None
    without = replace(world.record, members={other.key: world.record.members[other.key]})
    plans = [one.ledger.plan(each, one.report(), one.now_s) for each in (world.record, without)]

    assert [False, True] == [each.is_news for each in plans]


def test_a_slow_store_says_nothing_of_the_others() -> None:
    """A member whose entry was read a lease ago may have come back since."""
    world, (one, other) = settled(False, True)
    world.ask(other)
    world.wait(LEASE_S)
    world.plan(other)

    assert {one.key} == other.ledger.others.keys()


def test_a_full_record() -> None:
    """A newcomer goes on alone, and takes the place of who ended when their leases are over."""
    ended = Member(beat=1, lease_ms=4000, limit=LIMIT)
    members = {f"m#{number}": ended for number in range(MAX_MEMBERS)}
    full = Record(version=VERSION, born="x", writes=9, members=members)
    ledger, report = World(LIMIT).join().ledger, Report(limit=LIMIT, levels=LEVELS[1])
    for now_s in range(5):
        with pytest.raises(RecordFullError, match="512 members already"):
            ledger.plan(full, report, now_s)
        ledger.failed(LIMIT, now_s, is_full=True)
        assert now_s or ledger.state is LeaseState.PARTITIONED

    assert {ledger.key} == set(ledger.plan(full, report, 5.0).record.members)


def test_the_entry() -> None:
    world = World(LIMIT, levels=2)
    one = world.join()
    one.waiting["a"], one.running["a"] = 2, 2

    assert (
        Member(beat=1, lease_ms=4000, limit=LIMIT, claim=5, used=2, demand={"a": 4})
        == look(world, one).entry
    )
    assert 2 == look(world, one).entry.beat
