"""A gateway whose servers die, hang, are slow, fail, leave and return: the load test, in short."""

from __future__ import annotations

import asyncio
import json
from argparse import Namespace
from typing import TYPE_CHECKING

import pytest

from loadtest.clients import Outcome
from loadtest.gateway import Event, Notes, Phase, judge, measure
from loadtest.origin import Entry

if TYPE_CHECKING:
    from pathlib import Path


def test_no_write_is_doubled(tmp_path: Path) -> None:
    """Every request has an end, and what went wrong is said."""
    options = Namespace(servers=3, requests=600, rate=600)

    results, _ = asyncio.run(measure(options, tmp_path))

    assert json.dumps(results)
    totals = results["totals"]
    assert (600, 0) == (totals["requests"], totals["doubled_writes"])
    assert totals["good"] > 0
    assert 600 == sum(totals[name] for name in ("good", "own", "bad"))


def phases() -> list[Phase]:
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
