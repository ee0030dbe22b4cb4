"""Leases that change while they run, and what counts of them: nobody uses what others may have."""

from __future__ import annotations

import pytest

from apfproxy.fleet.ledger import FAILED_PART, HELD
from apfproxy.fleet.standing import Standing
from tests.fleet.shared_store import LEASE_S, SharedStore, SharingMember, settled

LIMIT = 10


def two(store: SharedStore) -> tuple[SharingMember, SharingMember, float]:
    """Two members that want more than there is, and have half of it each; and the time then."""
    one, other = (SharingMember(key, store, LIMIT) for key in ("m#1", "n#1"))
    one.demand = other.demand = {"a": 20}
    return one, other, settled(one, other)


@pytest.mark.parametrize("is_heard", [True, False])
def test_a_shorter_lease(is_heard: bool) -> None:
    """Its holder counts it from before the write, whether it hears of that or not."""
    store = SharedStore()
    one, other, now_s = two(store)
    one.ledger.lease_s = 4 * LEASE_S
    one.refresh(now_s)
    other.refresh(now_s)
    one.ledger.lease_s = LEASE_S
    plan, version = one.plan(now_s + 1)
    assert store.swap(plan.record, version)
    if is_heard:
        one.ledger.written(plan)
    else:
        one.fail(now_s + 1)
    other.refresh(now_s + 1)

    assert now_s + 1 + HELD * LEASE_S == one.ledger.next_change_s()
    assert 5 == one.in_force(now_s + 1.1)
    other.refresh(now_s + 1.1 + LEASE_S / 2)
    other.refresh(now_s + 1.1 + LEASE_S)
    assert LIMIT == other.in_force(now_s + 1.1 + LEASE_S)


def test_a_shorter_lease_that_is_not_written() -> None:
    """The others count the longer one, its holder the shorter one."""
    store = SharedStore()
    one, other, now_s = two(store)
    one.ledger.lease_s = 2 * LEASE_S
    one.refresh(now_s)
    other.refresh(now_s)
    one.ledger.lease_s = LEASE_S
    one.plan(now_s + 1)
    other.refresh(now_s + LEASE_S / 2)
    other.refresh(now_s + LEASE_S)
    other.refresh(now_s + LEASE_S + 1.1)

    assert now_s + 1 + HELD * LEASE_S == one.ledger.next_change_s()
    assert 5 == other.in_force(now_s + LEASE_S + 1.1)


def test_a_longer_lease() -> None:
    """It is in force with the write that says it."""
    store = SharedStore()
    one, other, now_s = two(store)
    one.refresh(now_s)
    one.ledger.lease_s = 2 * LEASE_S
    plan, version = one.plan(now_s + 1)

    assert now_s + HELD * LEASE_S == one.ledger.next_change_s()
    assert store.swap(plan.record, version)
    one.ledger.written(plan)
    other.refresh(now_s + 1)
    assert now_s + 1 + HELD * 2 * LEASE_S == one.ledger.next_change_s()
    assert 2 * LEASE_S == other.ledger.others["m#1"].lease_s


def test_a_store_that_loses_a_longer_lease() -> None:
    """Who wrote it still counts on it, so the others leave it that."""
    store = SharedStore()
    one, other, now_s = two(store)
    before = store.data
    one.ledger.lease_s = 4 * LEASE_S
    one.refresh(now_s)
    other.refresh(now_s)
    store.put(before)
    for after_s in range(9):
        other.refresh(now_s + after_s)

    assert 5 == one.in_force(now_s + 8)
    assert 5 == other.in_force(now_s + 8)


def test_time_without_the_store_is_hardly_of_a_lease() -> None:
    """Who is the first to find it back does not take what the others could not ask for."""
    store = SharedStore()
    one, other = (SharingMember(key, store, LIMIT) for key in ("m#1", "n#1"))
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
    one, other = (SharingMember(key, store, LIMIT) for key in ("m#1", "n#1"))
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
    """Whoever has that may be there, though the record does not have it yet."""
    store = SharedStore()
    one, other = (SharingMember(key, store, LIMIT) for key in ("m#1", "n#1"))
    one.ledger.lease_s = 3 * LEASE_S
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
    one, other = (SharingMember(key, store, LIMIT) for key in ("m#1", "n#1"))
    one.demand = other.demand = {"a": 20}
    now_s = settled(one, other)
    one.refresh(now_s)
    other.refresh(now_s)

    assert now_s + HELD * LEASE_S == one.ledger.next_change_s()
    one.fail(now_s + HELD * LEASE_S)
    assert Standing.LAPSED is one.ledger.standing
    other.refresh(now_s + LEASE_S / 2)
    other.refresh(now_s + LEASE_S)
    assert 5 == other.in_force(now_s + LEASE_S)
    other.refresh(now_s + LEASE_S + 0.1)
    assert LIMIT == other.in_force(now_s + LEASE_S + 0.1)
    assert 1 == other.ledger.lost
    assert "m#1" not in store.read()[0].members  # type: ignore[union-attr]
