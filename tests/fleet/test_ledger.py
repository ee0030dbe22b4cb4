"""Tests of apfproxy.fleet.ledger: what members claim and use, case by case."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import pytest

from apfproxy.fleet.division import LevelRules, seats_of
from apfproxy.fleet.ledger import FAILED_PART, HELD, LeaseState, Ledger, Report
from apfproxy.fleet.record import (
    MAX_MEMBERS,
    VERSION,
    Member,
    Record,
    RecordFullError,
    decode,
    encode,
)

if TYPE_CHECKING:
    from apfproxy.fleet.ledger import Plan

LIMIT = 10
LEASE_S = 4.0
ONE_LEVEL = {"a": LevelRules(1, 0, None, is_exempt=False)}


@dataclass
class SharedStore:
    """One record, swapped as a whole, by the number of writes; None while there is none."""

    data: bytes | None = None
    version: int = 0

    def read(self) -> tuple[Record | None, int]:
        return None if self.data is None else decode(self.data), self.version

    def swap(self, record: Record, version: int) -> bool:
        if version != self.version:
            return False
        self.put(encode(record))
        return True

    def put(self, data: bytes | None) -> None:
        self.data = data
        self.version += 1

    def claims(self) -> int:
        record, _ = self.read()
        return 0 if record is None else sum(each.claim for each in record.members.values())


class SharingMember:
    """A member that refreshes when it is told to.

    Attributes:
        demand: What its requests use and want, by level.
        used: What they use; less than `in_force` when they begin.
    """

    def __init__(
        self, name: str, store: SharedStore, limit: int, *, replicas: int | None = None
    ) -> None:
        self.ledger = Ledger(name, limit, lease_s=LEASE_S, replicas=replicas)
        self.store = store
        self.limit = limit
        self.levels = ONE_LEVEL
        self.demand: dict[str, int] = {}
        self.used = 0

    def report(self) -> Report:
        return Report(limit=self.limit, levels=self.levels, demand=self.demand, used=self.used)

    def plan(self, now_s: float) -> tuple[Plan, int]:
        record, version = self.store.read()
        return self.ledger.plan(record, self.report(), now_s), version

    def refresh(self, now_s: float) -> Plan:
        plan, version = self.plan(now_s)
        assert self.store.swap(plan.record, version)
        self.ledger.written(plan)
        return plan

    def fail(self, now_s: float) -> None:
        self.ledger.failed(self.limit, now_s)

    def in_force(self, now_s: float) -> int:
        self.ledger.advance(now_s)
        return self.ledger.in_force()

    def allotted(self) -> int:
        return seats_of(self.ledger.allotment(self.report()), self.levels)


def settled(*members: SharingMember, begin_s: float = 0.0) -> float:
    """Have members join and refresh until they know each other; the time then."""
    now_s = begin_s
    for _ in range(10):
        for each in members:
            each.refresh(now_s)
        now_s += 1.0
    return now_s


def two(store: SharedStore) -> tuple[SharingMember, SharingMember]:
    return SharingMember("m#1", store, LIMIT), SharingMember("n#1", store, LIMIT)


# Joining


def test_a_newcomer_starts_with_a_share() -> None:
    """The record may have been lost, and others be there, until it has watched for a lease."""
    member = SharingMember("m#1", SharedStore(), LIMIT)
    member.demand = {"a": 20}

    member.refresh(0.0)
    assert LIMIT // 2 == member.in_force(0.0)
    member.refresh(LEASE_S - 1)
    assert LIMIT // 2 == member.in_force(LEASE_S - 1)
    member.refresh(LEASE_S)
    assert LIMIT == member.in_force(LEASE_S)


def test_the_replicas_that_are_meant_to_be_there() -> None:
    """They make the share of a newcomer, where their number is known."""
    member = SharingMember("m#1", SharedStore(), LIMIT, replicas=5)
    member.refresh(0.0)

    assert 2 == member.in_force(0.0)


def test_the_least_limit_counts() -> None:
    """Members may have others in their settings."""
    store = SharedStore()
    one, other = two(store)
    other.limit = 6
    now_s = settled(one, other)

    assert 6 == one.ledger.limit == other.ledger.limit
    assert 6 == one.in_force(now_s) + other.in_force(now_s)


# Demand


def test_seats_go_where_they_are_wanted() -> None:
    """Two refreshes of each after the demand changed, at most."""
    store = SharedStore()
    one, other = two(store)
    now_s = settled(one, other)
    one.demand = {"a": 20}

    assert one.ledger.foreseen(one.report()) > one.ledger.in_force()
    assert one.refresh(now_s).is_urgent
    assert 5 == one.in_force(now_s)
    given = other.refresh(now_s)
    assert given.is_urgent
    assert given.is_news
    assert 0 == other.in_force(now_s)
    assert not one.refresh(now_s).is_urgent
    assert LIMIT == one.in_force(now_s) == one.allotted()
    assert one.ledger.foreseen(one.report()) <= one.ledger.in_force()


def test_seats_in_use_are_given_when_they_are_free() -> None:
    """Nothing new begins on them; their claim ends as they do."""
    store = SharedStore()
    one, other = two(store)
    other.demand = {"a": 20}
    now_s = settled(one, other)
    other.used = LIMIT
    one.demand = {"a": 20}

    one.refresh(now_s)
    other.refresh(now_s)
    one.refresh(now_s)
    assert (0, 5) == (one.in_force(now_s), other.in_force(now_s))
    assert LIMIT == other.ledger.claim
    other.used = 7
    other.refresh(now_s)
    one.refresh(now_s)
    assert (3, 5) == (one.in_force(now_s), other.in_force(now_s))
    other.used = 2
    other.refresh(now_s)
    one.refresh(now_s)
    assert (5, 5) == (one.in_force(now_s), other.in_force(now_s))


# Time


def test_the_dead_are_taken_out_in_spite_of_conflicts() -> None:
    """A lease that is over stays over, though the record still has the member."""
    store = SharedStore()
    one, other = two(store)
    now_s = settled(one, other)
    one.refresh(now_s)
    other.refresh(now_s)
    other.refresh(now_s + LEASE_S / 2)
    now_s += LEASE_S + 0.1

    for _ in range(3):
        assert {"n#1"} == other.plan(now_s)[0].record.members.keys()  # which is not written
    other.demand = {"a": 20}
    other.refresh(now_s)
    assert LIMIT == other.in_force(now_s)
    assert 1 == other.ledger.lost
    assert {} == other.ledger.others


def test_the_store_goes_away() -> None:
    """The claim until the lease ends, then the less of it and the safe share, then that."""
    store = SharedStore()
    one, other = two(store)
    one.demand = {"a": 20}
    now_s = settled(one, other)
    one.refresh(now_s)
    other.refresh(now_s)

    assert (10, 0) == (one.in_force(now_s), other.in_force(now_s))
    for each in (one, other):
        each.fail(now_s + 1)
    assert (10, 0) == (one.in_force(now_s + 3.1), other.in_force(now_s + 3.1))
    assert (5, 0) == (one.in_force(now_s + 3.2), other.in_force(now_s + 3.2))
    assert math.inf == one.ledger.next_change_s()
    assert (5, 0) == (one.in_force(now_s + 9), other.in_force(now_s + 9))
    for each in (one, other):
        each.fail(now_s + 5)
    assert (5, 5) == (one.in_force(now_s + 5), other.in_force(now_s + 5))
    assert 5 == one.allotted()


def test_who_has_not_looked_for_a_lease_is_not_alone() -> None:
    """The first failure after it says nothing of the others, which have looked since."""
    store = SharedStore()
    one, other = two(store)
    other.demand = {"a": 20}
    now_s = settled(one, other)
    one.refresh(now_s)
    other.refresh(now_s + LEASE_S / 2)
    now_s += LEASE_S + 0.5
    one.fail(now_s)

    assert (0, 10) == (one.in_force(now_s), other.in_force(now_s))


def test_what_is_taken_away_is_so_at_once() -> None:
    """Even if another member writes first."""
    store = SharedStore()
    one, other = two(store)
    one.demand = {"a": 20}
    now_s = settled(one, other)
    other.demand = {"a": 20}
    other.refresh(now_s)
    one.plan(now_s)

    assert 5 == one.in_force(now_s)


def test_time_without_the_store_is_hardly_of_a_lease() -> None:
    """Who is the first to find it back does not take what the others could not ask for."""
    store = SharedStore()
    one, other = two(store)
    now_s = settled(one, other)
    one.refresh(now_s)
    other.refresh(now_s)
    other.fail(now_s + 1)
    other.refresh(now_s + LEASE_S - 0.1)
    now_s += LEASE_S + 0.1
    other.refresh(now_s)
    assert {"m#1", "n#1"} == store.read()[0].members.keys()  # type: ignore[union-attr]

    rest_s = LEASE_S * (1 - FAILED_PART) - 0.2
    other.refresh(now_s + rest_s - 0.1)
    assert {"m#1", "n#1"} == store.read()[0].members.keys()  # type: ignore[union-attr]
    other.refresh(now_s + rest_s + 0.1)
    assert {"n#1"} == store.read()[0].members.keys()  # type: ignore[union-attr]


def test_a_store_that_often_fails() -> None:
    """Where each second look fails, the dead are found as well, some time."""
    store = SharedStore()
    one, other = two(store)
    now_s = settled(one, other)
    one.refresh(now_s)
    other.refresh(now_s)
    looks = 0
    while "m#1" in store.read()[0].members:  # type: ignore[union-attr]
        other.fail(now_s + looks + 0.5)
        looks += 1
        other.refresh(now_s + looks)

    assert abs(looks - 1 / FAILED_PART) <= 1


def test_a_newcomer_watches_for_the_longest_lease() -> None:
    """A member with that may be there, though the record does not have it yet."""
    store = SharedStore()
    one, other = two(store)
    one.ledger.lease_s = 3 * LEASE_S  # as its settings have it
    other.demand = {"a": 20}
    one.refresh(0.0)
    now_s = 0.0
    while now_s < 3 * LEASE_S:
        other.refresh(now_s)
        assert other.in_force(now_s) <= 5
        one.refresh(now_s)
        now_s += 1.0
    other.refresh(now_s)
    one.refresh(now_s)
    other.refresh(now_s)

    assert LIMIT == other.in_force(now_s)


def test_a_lease_ends_earlier_for_its_holder() -> None:
    """It stops before the others take the seats."""
    store = SharedStore()
    one, other = two(store)
    one.demand = other.demand = {"a": 20}
    now_s = settled(one, other)
    one.refresh(now_s)
    other.refresh(now_s)

    assert now_s + HELD * LEASE_S == one.ledger.next_change_s()
    one.fail(now_s + HELD * LEASE_S)
    assert LeaseState.EXPIRED is one.ledger.state
    other.refresh(now_s + LEASE_S / 2)
    other.refresh(now_s + LEASE_S)
    assert 5 == other.in_force(now_s + LEASE_S)
    other.refresh(now_s + LEASE_S + 0.1)
    assert LIMIT == other.in_force(now_s + LEASE_S + 0.1)
    assert 1 == other.ledger.lost
    assert "m#1" not in store.read()[0].members  # type: ignore[union-attr]


# States


# The record


def test_a_lost_record() -> None:
    """A member that knew the others counts on them, and keeps its claim."""
    store = SharedStore()
    one, other = two(store)
    one.demand = {"a": 20}
    now_s = settled(one, other)
    store.put(None)

    one.refresh(now_s)
    assert (10, 0) == (one.in_force(now_s), other.in_force(now_s))
    assert {"m#1"} == store.read()[0].members.keys()  # type: ignore[union-attr]
    newcomer = SharingMember("o#1", store, LIMIT)
    newcomer.demand = {"a": 20}
    newcomer.refresh(now_s)
    assert 0 == newcomer.in_force(now_s)


def test_a_claim_that_was_lost_before_the_others_saw_it() -> None:
    """Its holder keeps what those have left who wrote since."""
    store = SharedStore()
    one, other = two(store)
    now_s = settled(one, other)
    one.demand = {"a": 20}
    one.refresh(now_s)
    other.refresh(now_s)
    one.refresh(now_s)
    store.put(None)
    other.demand = {"a": 20}

    other.refresh(now_s)
    assert 5 == other.in_force(now_s)
    one.used = 10
    one.refresh(now_s)
    assert (5, 5) == (one.in_force(now_s), other.in_force(now_s))
    assert store.claims() <= LIMIT


def test_a_record_that_is_rolled_back() -> None:
    """Claims that it does not have are not counted on, neither by their holders nor by others."""
    store = SharedStore()
    one, other = two(store)
    now_s = settled(one, other)
    before = store.data
    one.demand = {"a": 20}
    one.refresh(now_s)
    other.refresh(now_s)
    one.refresh(now_s)
    assert (10, 0) == (one.in_force(now_s), other.in_force(now_s))
    store.put(before)

    one.refresh(now_s)
    assert store.claims() <= LIMIT
    assert one.in_force(now_s) <= 5
    other.refresh(now_s)
    one.refresh(now_s)
    assert (10, 0) == (one.in_force(now_s), other.in_force(now_s))


def test_a_member_that_a_rollback_has_lost() -> None:
    """It has not left: members that saw it count on it for a lease."""
    store = SharedStore()
    one, other = two(store)
    now_s = settled(one)
    before = store.data
    now_s = settled(one, other, begin_s=now_s)
    one.demand = {"a": 20}
    store.put(before)

    one.refresh(now_s)
    assert 5 == one.in_force(now_s)
    one.refresh(now_s + LEASE_S / 2)
    one.refresh(now_s + LEASE_S + 0.1)
    assert 10 == one.in_force(now_s + LEASE_S + 0.1)


def test_a_member_leaves() -> None:
    """Its seats are free at once."""
    store = SharedStore()
    one, other = two(store)
    one.demand = {"a": 20}
    other.demand = {"a": 20}
    now_s = settled(one, other)
    record, version = store.read()
    assert record is not None
    members = {"m#1": record.members["m#1"]}
    assert store.swap(msgspec.structs.replace(record, members=members), version)
    one.refresh(now_s)

    assert 10 == one.in_force(now_s)
    assert 0 == one.ledger.lost


def test_a_full_record() -> None:
    """A newcomer goes on alone, and takes the place of who ended when their leases are over."""
    ended = Member(beat=1, lease_ms=4000, limit=LIMIT)
    members = {f"m#{number}": ended for number in range(MAX_MEMBERS)}
    full = Record(version=VERSION, born="x", writes=9, members=members)
    ledger = Ledger("n#1", LIMIT, lease_s=LEASE_S)
    report = Report(limit=LIMIT, levels=ONE_LEVEL)
    for now_s in range(5):
        with pytest.raises(RecordFullError, match="512 members already"):
            ledger.plan(full, report, now_s)
        ledger.failed(LIMIT, now_s, is_full=True)
        assert now_s or ledger.state is LeaseState.PARTITIONED

    assert {"n#1"} == set(ledger.plan(full, report, 5.0).record.members)


def test_the_entry() -> None:
    """What the others get to know."""
    member = SharingMember("m#1", SharedStore(), LIMIT)
    member.demand, member.used = {"a": 4, "b": 0}, 2

    assert (
        Member(beat=1, lease_ms=4000, limit=LIMIT, claim=5, used=2, demand={"a": 4})
        == member.refresh(0.0).entry
    )
    assert 2 == member.refresh(1.0).entry.beat


# Limits


def test_a_lower_limit_while_the_store_is_away() -> None:
    """No member uses more than the server has."""
    store = SharedStore()
    member = SharingMember("m#1", store, LIMIT)
    member.demand = {"a": 20}
    now_s = settled(member)
    member.limit = 4
    member.fail(now_s)

    assert 4 == member.in_force(now_s)
