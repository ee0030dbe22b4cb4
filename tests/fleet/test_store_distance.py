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
    assert (0.0, 1.0) == (at().round_trip_s, at().period_s(100, 1.0))
    assert not at().is_lease_short(0.1, 100)


def test_one_late_answer() -> None:
    """An answer that came late does not make a store far; all of them do."""
    assert 0.25 == at(0.25, 30.0, 0.5).round_trip_s
    assert 30.0 == at(0.25, *[30.0] * 8).round_trip_s


@pytest.mark.parametrize(
    ("round_trip_s", "members", "period_s", "is_short"),
    [
        pytest.param(0.001, 50, 1.0, False, id="near"),
        pytest.param(0.25, 2, 1.0, False, id="few"),
        pytest.param(0.25, 4, 1.5, False, id="some"),
        pytest.param(0.25, 16, 6.0, True, id="many"),
    ],
)
def test_turns(round_trip_s: float, members: int, period_s: float, is_short: bool) -> None:
    """Members write less often than the settings say, if not all could in that time."""
    assert period_s == at(round_trip_s).period_s(members, 1.0)
    assert is_short == at(round_trip_s).is_lease_short(5.0, members)


def test_a_lease_is_long_enough_some_time() -> None:
    """Where a store hardly answers, a lease does not grow for ever."""
    assert at(2.0).is_lease_short(LONGEST_LEASE_S - 1, 500)
    assert not at(2.0).is_lease_short(LONGEST_LEASE_S, 500)
