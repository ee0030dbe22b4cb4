"""Tests of what members of a fleet do less often where their store is far away."""

from __future__ import annotations

import pytest

from apfproxy.fleet.store_distance import LONGEST_LEASE_S, StoreDistance


def at(*took_s: float) -> StoreDistance:
    """A store whose last answers took so long."""
    distance = StoreDistance()
    for each in took_s:
        distance.note(each)
    return distance


def test_nothing_is_known() -> None:
    """What the settings say is so until something is."""
    assert (0.0, 1.0) == (at().round_trip_s, at().period_s(100, 1.0, 5.0))
    assert 5.0 == at().lease_s(5.0, 5.0, 100)


def test_one_late_answer() -> None:
    """An answer that came late does not make a store far; all of them do."""
    assert 0.25 == at(0.25, 30.0, 0.5).round_trip_s
    assert 30.0 == at(0.25, *[30.0] * 8).round_trip_s


@pytest.mark.parametrize(
    ("round_trip_s", "members", "period_s", "lease_s"),
    [
        pytest.param(0.001, 50, 1.0, 5.0, id="near"),
        pytest.param(0.25, 2, 1.0, 5.0, id="few"),
        pytest.param(0.25, 4, 1.5, 5.0, id="some"),
        pytest.param(0.25, 16, 6.0, 20.0, id="many"),
        pytest.param(2.0, 500, 22.5, LONGEST_LEASE_S, id="hardly-answers"),
    ],
)
def test_turns(round_trip_s: float, members: int, period_s: float, lease_s: float) -> None:
    """Members write less often than the settings say, if not all could in that time."""
    assert lease_s == at(round_trip_s).lease_s(5.0, 5.0, members)
    assert period_s == at(round_trip_s).period_s(members, 1.0, lease_s)


def test_a_write_before_the_lease_ends() -> None:
    """Where a lease is short for the distance, its holder does not wait for its turn."""
    assert 0.375 * 5.0 == at(2.0).period_s(500, 1.0, 5.0)
    assert 6.0 == at(2.0).period_s(500, 6.0, 5.0)


def test_a_lease_of_ones_own_choice() -> None:
    """It is kept, however long it is, and wherever the store is."""
    assert 300.0 == at(2.0).lease_s(300.0, 300.0, 500)
    assert 300.0 == at(0.001).lease_s(300.0, 300.0, 2)


def test_a_store_that_is_near_again() -> None:
    """The lease is short again when all answers come soon, and not before."""
    late = [0.75] * 7

    assert 40.0 == at(0.01, *late).lease_s(40.0, 5.0, 10)
    assert 5.0 == at(*late, *[0.01] * 8).lease_s(40.0, 5.0, 10)
    assert 20.0 == at(*late, *[0.15] * 8).lease_s(40.0, 5.0, 10)


def test_it_says_how_far_it_is() -> None:
    """In milliseconds."""
    assert "<StoreDistance: 12.5 ms>" == repr(at(0.0125, 0.3))
