"""Tests of apfproxy.flowcontrol.level_summary."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.level_summary import (
    LevelSummary,
    Sums,
    kept_for_nobody,
    shortfalls,
    summarize_levels,
)
from apfproxy.flowcontrol.preset import HTTP
from apfproxy.objects.bootstrap import bootstrap_objects
from apfproxy.objects.types import QueuingConfiguration
from loadtest.objects import priority_level
from tests.virtual_clock import VirtualClock

SMALL = "global-default, leader-election, system"
ALL_SMALL = "global-default, leader-election, node-high, system, workload-high, workload-low"
ALL_LENT = "global-default, workload-high, workload-low"
LENT = "by rounding all may be lent, so that the limit is 0 while the level is idle"
ROUNDED = "the shares buy less than one seat, which is rounded up; 25 are enough"
BY_SHARES = "workload-low, node-high, workload-high, system, global-default, leader-election"
SMALLER = "system, global-default, leader-election"
OF_TWO_SEATS = (
    "their shares differ, and each has 2 seats; 25 are enough, or give them an apfproxy.io/priority"
)
ALIKE = (
    "their shares differ, and each has 1 seat; 25 are enough, or give them an apfproxy.io/priority"
)
QUEUING = QueuingConfiguration(queues=4, hand_size=2, queue_length_limit=5)


def test_levels_and_sums() -> None:
    """Each level has its shares and bounds, in the order of names; the sums are over all."""
    controller = Controller(VirtualClock(), 100, 0)
    limited = priority_level(
        "b", shares=15, queuing=QUEUING, lendable_percent=50, borrowing_limit_percent=20
    )
    controller.commit(
        controller.digest([limited, priority_level("a", shares=20, borrowing_limit_percent=None)])
    )
    summary = summarize_levels(controller)

    assert ["a", "b", "catch-all", "exempt"] == [level.name for level in summary.levels]
    first, second, _, exempt = summary.levels
    assert (50, 0, 100, 150) == (first.nominal, first.lendable, first.borrowing, first.maximum)
    expected = LevelSummary(
        name="b",
        type="Limited",
        is_quiescing=False,
        shares=15,
        lendable_percent=50,
        borrowing_limit_percent=20,
        nominal=38,
        lendable=19,
        borrowing=8,
        minimum=19,
        maximum=46,
        current=controller.levels["b"].current_limit,
        seats_in_use=0,
        is_reachable=False,
    )
    assert expected == second
    assert ("Exempt", None, None) == (exempt.type, exempt.borrowing, exempt.maximum)
    current = sum(level.current_limit for level in controller.levels.values())
    assert summary.sums == Sums(
        shares=40, nominal=101, lendable=19, minimum=82, current=current, seats_in_use=0
    )
    assert summary.server_concurrency_limit == 100


@pytest.mark.parametrize(
    ("seats", "expected"),
    [
        pytest.param(
            1,
            [
                f"1 seat is too few for {ALL_LENT}: {LENT}; 13 are enough",
                f"1 seat is too few for {ALL_SMALL}: {ROUNDED}",
                f"1 seat is too few to tell {BY_SHARES} apart: {ALIKE}",
            ],
            id="one",
        ),
        pytest.param(
            8,
            [
                f"8 seats are too few for global-default, workload-low: {LENT}; 13 are enough",
                f"8 seats are too few for {SMALL}: {ROUNDED}",
                f"8 seats are too few to tell {SMALLER} apart: {ALIKE}",
            ],
            id="far-too-few",
        ),
        pytest.param(
            13,
            [
                f"13 seats are too few for leader-election: {ROUNDED}",
                f"13 seats are too few to tell system, global-default apart: {OF_TWO_SEATS}",
            ],
            id="too-few-for-small-levels",
        ),
        pytest.param(25, [], id="enough"),
    ],
)
def test_shortfalls(seats: int, expected: list[str]) -> None:
    """Which levels have too little is told, and how many seats would do."""
    controller = Controller(VirtualClock(), seats, 0)
    controller.commit(controller.digest(bootstrap_objects()))

    assert expected == shortfalls(summarize_levels(controller))


def test_levels_with_a_priority_are_not_alike() -> None:
    """What is less than a seat they have in turns, and in order."""
    controller = Controller(VirtualClock(), 4, 0)
    controller.commit(controller.digest(HTTP.objects()))
    summary = summarize_levels(controller)

    assert {"interactive": 300, "default": 200, "batch": 100, "background": 50} == {
        level.name: level.priority for level in summary.levels if level.priority is not None
    }
    assert [f"4 seats are too few for health: {ROUNDED.replace('25', '20')}"] == shortfalls(summary)


@pytest.mark.parametrize(
    ("seats", "knows_users", "expected"),
    [
        (20, True, None),
        (
            20,
            False,
            "leader-election, node-high, system, workload-high, workload-low keep 9 of the",
        ),
    ],
)
def test_kept_for_nobody(seats: int, expected: str | None, *, knows_users: bool) -> None:
    """What levels that no request can come to do not lend is told, and what to do."""
    controller = Controller(VirtualClock(), seats, 0)
    controller.commit(controller.digest(bootstrap_objects()))

    found = kept_for_nobody(summarize_levels(controller, knows_users=knows_users))

    assert (found is None) is (expected is None)
    assert (found or "").startswith(expected or "")


def test_one_level_keeps_seats_for_nobody() -> None:
    """In the singular; one that lends all keeps none."""
    controller = Controller(VirtualClock(), 20, 0)
    levels = [
        priority_level("kept", shares=5),
        priority_level("lent", shares=5, lendable_percent=100),
    ]
    controller.commit(controller.digest(levels))

    found = kept_for_nobody(summarize_levels(controller))

    assert found is not None
    assert found.startswith("kept keeps 7 of the server's 20 seats, ")
