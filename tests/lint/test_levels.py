"""What is told of priority levels."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from apfproxy.flowcontrol.preset import HTTP
from apfproxy.lint.levels import level_findings
from apfproxy.objects.additions import PRIORITY
from apfproxy.objects.decode import mandatory_objects
from apfproxy.objects.types import FlowSchema, PriorityLevelConfiguration, QueuingConfiguration
from loadtest.objects import priority_level

OTHERS = priority_level("others", shares=90)
BORROWS = {"borrowing_limit_percent": None}
LENGTH = "queue_length_limit"
LONG, LONG_OF_ONE = (
    (
        "APF209",
        f"one flow may have {waiting} requests wait, and at most {served} before they time out",
    )
    for waiting, served in (
        (60006, "60000 are served by 10 seats"),
        (6006, "6000 are served by 1 seat"),
    )
)
ENOUGH = "which are rounded up to one; 10 seats of the server are enough"
KEEPS = " it keeps one"
ROUNDED = (
    "1 of 200 shares buy 0.5 of 100 seats, which are rounded up to one; 200 seats of the server are"
    " enough"
)
QUEUING = QueuingConfiguration(queues=64, hand_size=6, queue_length_limit=50)
EXEMPT = next(
    each
    for each in mandatory_objects()
    if not isinstance(each, FlowSchema) and each.metadata.name == "exempt"
)


def messages(
    *levels: PriorityLevelConfiguration, used: tuple[str, ...] = ("a", "others"), limit: int = 100
) -> list[tuple[str, str]]:
    by_name = {level.metadata.name: level for level in levels}
    return [
        (each.found.id, each.message)
        for each in level_findings(by_name, dict.fromkeys(used, ()), used, limit)
    ]


NONE = ("APF201", "no seat of 100 is its own, and it may not borrow any")
IN_VAIN = ("APF202", "no seat of 100 is its own, and it has only what others lend")
COMMON = ("APF205", "any two flows have 1 or more of 11 queues in common")
WIDE = ("APF207", "a hand of 6 for 5 seats: no request counts as more than one seat")
SHARED = ("APF208", "all flows wait in one queue")


@pytest.mark.parametrize(
    ("fields", "queuing", "expected"),
    [
        pytest.param({}, {}, [], id="all-right"),
        pytest.param({"shares": 0}, {}, [NONE], id="no-seats"),
        pytest.param({"shares": 0, **BORROWS}, None, [IN_VAIN], id="rejects-all"),
        pytest.param({}, {"hand_size": 1, "queues": 1}, [SHARED], id="one-queue"),
        pytest.param({}, {"queues": 11}, [COMMON], id="large-hand"),
        pytest.param({}, {"queues": 12}, [], id="half-a-hand"),
        pytest.param({"shares": 5}, {}, [], id="hand-as-large-as-the-level"),
        pytest.param({"shares": 4}, {}, [WIDE], id="hand-larger-than-the-level"),
        pytest.param({"shares": 0}, {LENGTH: 1001}, [NONE, LONG_OF_ONE], id="long-without-seats"),
        pytest.param({}, {LENGTH: 10_000}, [], id="queue-that-is-worked-off"),
        pytest.param({}, {LENGTH: 10_001}, [LONG], id="long-queue"),
        pytest.param(BORROWS, {LENGTH: 10_001}, [], id="long-queue-that-may-borrow"),
    ],
)
def test_level(
    fields: dict[str, Any], queuing: dict[str, int] | None, expected: list[tuple[str, str]]
) -> None:
    """Seats, hand and queues of a level are judged by what it gets of the server's seats."""
    queues = None if queuing is None else replace(QUEUING, **queuing)

    assert expected == messages(priority_level("a", queuing=queues, **fields), OTHERS)


@pytest.mark.parametrize(
    ("limit", "percent", "expected"),
    [
        (5, 50, f"10 of 100 shares buy 0.5 of 5 seats, {ENOUGH}"),
        (5, 50, f"of 5 seats of the server it has 1, and may lend it; from 11 on{KEEPS}"),
        (10, 50, f"of 10 seats of the server it has 1, and may lend it; from 11 on{KEEPS}"),
        (11, 50, ""),
        (
            50,
            90,
            f"of 50 seats of the server it has 5, and may lend all of them; from 51 on{KEEPS}",
        ),
        (51, 90, ""),
        (100, 100, ""),
    ],
)
def test_too_few_seats(limit: int, percent: int, expected: str) -> None:
    """A level that may lend all by rounding is told of it, with the limit that would be enough."""
    level = priority_level("a", shares=10, lendable_percent=percent)
    told = [message for _, message in messages(level, OTHERS, limit=limit)]

    assert (expected in told) if expected else told == []


def test_priorities_are_not_rounded() -> None:
    """Levels with a priority have in turns what is less than a seat, and differ by order."""
    levels = [
        priority_level(name, shares=shares, queuing=QUEUING, lendable_percent=50)
        for name, shares in (("a", 2), ("b", 1))
    ]
    annotated = [
        replace(level, metadata=replace(level.metadata, annotations={PRIORITY: "5"}))
        for level in levels
    ]

    assert ["APF212", *["APF203", "APF210"] * 2] == few_seats(*levels, OTHERS)
    assert [] == few_seats(*annotated, OTHERS)


def few_seats(*levels: PriorityLevelConfiguration) -> list[str]:
    """The ids of what is found at a server of 8 seats, but for the lengths of queues."""
    by_name = {level.metadata.name: level for level in levels}
    found = [
        each.found.id
        for each in level_findings(by_name, dict.fromkeys(by_name, ()), by_name, 8, HTTP)
    ]
    return [each for each in found if each != "APF209"]


def test_unused() -> None:
    """A level that nobody sends requests to has seats in vain, unless it is mandatory."""
    assert messages(priority_level("a"), OTHERS, EXEMPT, used=("others",)) == [
        ("APF204", "no FlowSchema uses it, and it has 10 of 100 seats")
    ]


def test_additions() -> None:
    """A ban is meant, and a shorter wait makes a queue longer."""
    ban = priority_level("a", shares=0)
    banned = replace(ban, metadata=replace(ban.metadata, annotations={"apfproxy.io/ban": "true"}))
    queue = priority_level("a", queuing=QUEUING)
    annotations = {"apfproxy.io/wait-limit": "200ms"}
    short = replace(queue, metadata=replace(queue.metadata, annotations=annotations))

    assert messages(banned, OTHERS) == []
    assert [each[0] for each in messages(short, OTHERS)] == ["APF209"]
