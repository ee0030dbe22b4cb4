"""A gateway whose servers die, hang, are slow, fail, leave and return: the load test, in short."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from loadtest.clients import Outcome
from loadtest.gateway import measure
from loadtest.gateway_phases import Event, Notes, Phase, WatchEnd, judge
from loadtest.origin import Entry
from tests.end_to_end.programs import installed

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("by", ["apfproxy", "haproxy"])
def test_no_write_is_doubled(by: str, tmp_path: Path) -> None:
    """Every request has an end, and what went wrong is said."""
    if by == "haproxy":
        installed("haproxy")

    results, _ = asyncio.run(measure(by, 3, requests=600, rate=600.0, directory=tmp_path))

    assert json.dumps(results)
    totals = results["totals"]
    assert (600, 0) == (totals["requests"], totals["doubled_writes"])
    assert totals["good"] > 0
    assert 600 == sum(totals[name] for name in ("good", "own", "bad"))


def phases() -> list[Phase]:
    """All well, then `a` dies, then it is back."""
    return [
        Phase(Event.ALL, begun_s=0, done_s=0, end_s=10),
        Phase(Event.KILLED, 0, begun_s=10, done_s=10.1, end_s=20),
        Phase(Event.BACK, 0, begun_s=20, done_s=20, end_s=30),
    ]


@pytest.mark.parametrize(
    ("outcome", "seen_by", "message"),
    [
        pytest.param(Outcome(1, "GET", 1, 1.1, "200", "a"), "a", "", id="good"),
        pytest.param(Outcome(1, "GET", 1, 1.1, "200", "a"), "b", "not seen", id="forged"),
        pytest.param(Outcome(1, "GET", 1, 1.1, "502", ""), "a", "own: {'502': 1}", id="bad"),
        pytest.param(Outcome(1, "POST", 9.9, 10.1, "502", ""), "a", "", id="dies-under-way"),
        pytest.param(Outcome(1, "POST", 9.9, 10.1, "lost", ""), "", "", id="never-read"),
        pytest.param(Outcome(1, "POST", 9.9, 10.1, "502", ""), "b", "own: {'502'", id="of-another"),
        pytest.param(Outcome(1, "GET", 11, 11.1, "502", ""), "", "own: {'502'", id="known-by-then"),
        pytest.param(Outcome(1, "GET", 9.9, 10.1, "200", "b"), "ab", "", id="read-repeated"),
        pytest.param(
            Outcome(1, "PUT", 9.9, 10.1, "200", "b"), "ab", "seen by [0, 1]", id="doubled"
        ),
    ],
)
def test_what_is_whose_fault(outcome: Outcome, seen_by: str, message: str) -> None:
    """Only what was under way at the server that died is its own."""
    journals = [
        [Entry(outcome.due_s, 1, outcome.is_write)] if name in seen_by else [] for name in "abc"
    ]

    wrong, totals = judge(phases(), Notes([outcome]), journals)

    assert [message in each for each in wrong] == ([True] if message else [])
    assert 1 == totals["requests"]


@pytest.mark.parametrize(
    ("end", "is_wrong"),
    [
        pytest.param(WatchEnd(5, "b", is_clean=True), False, id="in-order"),
        pytest.param(WatchEnd(5, "b", is_clean=False), True, id="broken"),
        pytest.param(WatchEnd(10.1, "a", is_clean=False), False, id="its-server-died"),
        pytest.param(WatchEnd(10.1, "b", is_clean=False), True, id="another-died"),
    ],
)
def test_watches(end: WatchEnd, *, is_wrong: bool) -> None:
    """A watch may break with its server only."""
    wrong, totals = judge(phases(), Notes(watch_ends=[end]), [[], [], []])

    assert ([f"1 watches of {end.origin} were broken off"] if is_wrong else []) == wrong
    assert 1 == totals["watches_ended"]


def test_a_server_that_gets_less_than_its_share() -> None:
    """Beyond a tenth that is wrong; a server that is gone has no share."""
    journals = [
        [Entry(at_s, 0, is_write=False)] * count for at_s, count in ((9.0, 900), (29.0, 700))
    ]
    others = [Entry(at_s, 0, is_write=False) for at_s in (9.0, 19.0, 29.0) for _ in range(900)]

    wrong, _ = judge(phases(), Notes(), [journals[0] + journals[1], others, others])

    assert ["back a: the shares of servers that are well differ by 16%"] == wrong
