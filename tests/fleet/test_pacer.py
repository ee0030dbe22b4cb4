"""When a member looks: each rule by itself, without a clock."""

from __future__ import annotations

import math

import pytest

from apfproxy.fleet.pacer import JITTER, LEAST_PAUSE_S, SPREAD_S, Pacer, Step


def pacer(chance: float = 0.0) -> Pacer:
    """One that has just written, at 100 s, with a period of 1 s and a lease of 5 s."""
    found = Pacer(1.0, 5.0, lambda most: chance * most)
    assert Step.LOOK is found.next_step(0.0)
    found.begin(0.0)
    assert found.is_due
    found.wrote(100.0, 3)
    found.settle(100.0, is_somebody_short=False)
    return found


def test_a_period() -> None:
    for chance in (0.0, 1.0):
        one = pacer(chance)
        due_s = 101.0 - chance * JITTER
        assert due_s == one.due_s == one.next_s()
        assert Step.REST is one.next_step(due_s - 0.01)
        assert Step.LOOK is one.next_step(due_s)
        one.begin(due_s)
        assert one.is_due
        assert one.due_s == due_s + 1.0 - chance * JITTER  # if this one fails


def test_what_changed_is_looked_at_at_once() -> None:
    """News are a write: the next one is due a period after it."""
    one = pacer()
    one.wake()
    assert -math.inf == one.next_s()
    assert Step.LOOK is one.next_step(100.2)
    one.begin(100.2)
    assert not one.is_due
    assert 101.0 == one.next_s()
    one.wrote(100.3, 3)
    assert 101.3 == one.due_s


def test_what_is_urgent() -> None:
    one = pacer(0.5)
    assert one.urgent(100.0, 4)
    assert not one.urgent(100.0, 4)
    assert 100.0 + 0.5 * 4 * SPREAD_S == one.next_s()
    assert Step.LOOK is one.next_step(one.next_s())
    one.begin(100.01)
    assert one.urgent(100.01, 0)
    assert 100.01 + LEAST_PAUSE_S == one.next_s()


def test_what_waits() -> None:
    """A look that brings nothing is repeated after twice the pause, up to a period."""
    one = pacer()
    time_s, pauses_s = 100.0, []
    for _ in range(12):
        one.wrote(time_s + 1.0, 3)  # so that what is due, or can be spared, comes later
        one.settle(time_s + 1.0, is_somebody_short=False)
        assert one.short(time_s)
        assert not one.short(time_s)
        pauses_s.append(round(one.next_s() - time_s, 3))
        time_s = one.next_s()
        assert Step.GAIN is one.next_step(time_s)
        one.hope(time_s)
    assert [0.0, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, 1.0] == pauses_s

    one.gained()
    one.short(time_s)
    assert time_s + LEAST_PAUSE_S == one.next_s()


def test_what_waits_in_vain_is_not_considered_all_the_time() -> None:
    """Requests that no look would help come by the thousand."""
    one = pacer()
    assert one.short(100.0)
    assert Step.GAIN is one.next_step(100.0)
    assert one.short(100.001)
    assert 100.0 + LEAST_PAUSE_S == one.next_s()


@pytest.mark.parametrize(("is_short", "pause_s"), [(True, 0.1), (False, 1.0)])
def test_what_it_can_spare(is_short: bool, pause_s: float) -> None:
    one = pacer()
    one.wrote(100.5, 3)
    one.settle(100.2, is_somebody_short=is_short)
    assert 100.2 + pause_s == one.next_s()
    assert Step.SPARE is one.next_step(one.next_s())


def test_others_are_faster() -> None:
    """It leaves the store to those whose writes are due, until its own is."""
    one = pacer(0.5)
    one.responded(0.1)
    one.responded(0.7)
    one.lost(100.0, 4)
    assert pytest.approx(100.2) == one.next_s()
    assert Step.REST is one.next_step(100.1)
    assert Step.LOOK is one.next_step(100.21)

    one.lost(100.8, 40)
    assert one.due_s == one.next_s()


def test_a_pause_that_the_store_asks_for() -> None:
    """Nothing is done before, whatever happens; a lease is the longest."""
    for pause_s, expected_s in ((3.0, 103.0), (1e6, 105.0)):
        one = pacer()
        one.paused(100.0, pause_s)
        one.wake()
        one.short(100.0)
        assert expected_s == one.next_s() == one.due_s


@pytest.mark.parametrize(
    ("round_trip_s", "members", "period_s", "least_lease_s"),
    [
        pytest.param(0.001, 20, 1.0, 0.08, id="near"),
        pytest.param(0.1, 10, 1.5, 4.0, id="far"),
        pytest.param(0.2, 20, 1.875, 16.0, id="too-far"),
    ],
)
def test_a_store_that_is_far_away(
    round_trip_s: float, members: int, period_s: float, least_lease_s: float
) -> None:
    """All together cannot write once a period; with a short lease they try to, all the same."""
    one = pacer()
    assert 0 == one.round_trip_s
    one.responded(round_trip_s)
    one.wrote(100.0, members)
    assert pytest.approx(100.0 + period_s) == one.due_s
    assert pytest.approx(least_lease_s) == one.least_lease_s(members)


@pytest.mark.parametrize(("lease_s", "in_time_s"), [(5.0, 1.0), (60.0, 2.0)])
def test_the_time_of_a_response(lease_s: float, in_time_s: float) -> None:
    assert in_time_s == Pacer(1.0, lease_s, lambda most: most).in_time_s
