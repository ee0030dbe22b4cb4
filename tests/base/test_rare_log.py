"""Tests of `apfproxy.base.rare_log`."""

from __future__ import annotations

import logging

import pytest

from apfproxy.base.rare_log import RareLog
from tests.virtual_clock import VirtualClock

SECOND_NS = 1_000_000_000
logger = logging.getLogger("rare")


@pytest.fixture(autouse=True)
def _levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def test_one_line_a_period(caplog: pytest.LogCaptureFixture) -> None:
    """The second of two equal events is counted in the next line, and in that one alone."""
    clock = VirtualClock()
    rare = RareLog(logger, clock.now_ns, period_s=60)
    seconds = [0, 1, 59, 60, 61, 120, 180]
    for second in seconds:
        clock.run_until(second * SECOND_NS)
        rare.log(logging.INFO, "a", "at %s", second)

    assert ["at 0", "at 60 (2 more since)", "at 120 (1 more since)", "at 180"] == caplog.messages


def test_keys_apart(caplog: pytest.LogCaptureFixture) -> None:
    """An event of one key hides none of another."""
    rare = RareLog(logger, VirtualClock().now_ns)
    for key in "aabb":
        rare.log(logging.INFO, key, key)

    assert ["a", "b"] == caplog.messages


def test_level_that_is_off(caplog: pytest.LogCaptureFixture) -> None:
    """What is not logged anyway takes no key's line away, and is not counted."""
    rare = RareLog(logger, VirtualClock().now_ns)
    rare.log(logging.DEBUG, "a", "unseen")
    rare.log(logging.WARNING, "a", "seen")

    assert [("rare", logging.WARNING, "seen")] == caplog.record_tuples
    assert "<RareLog to rare: 1 keys, 0 left out>" == repr(rare)


def test_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """An error's traceback is in the line."""
    error = ValueError("broken")
    RareLog(logger, VirtualClock().now_ns).log(logging.ERROR, "a", "failed", exc_info=error)

    (record,) = caplog.records
    assert record.exc_info is not None
    assert error is record.exc_info[1]


def test_more_keys_than_room(caplog: pytest.LogCaptureFixture) -> None:
    """Keys beyond the bound share one line a period, and the table grows no further."""
    rare = RareLog(logger, VirtualClock().now_ns, max_keys=2)
    for key in range(1000):
        rare.log(logging.INFO, str(key), "%d", key)

    assert ["0", "1", "2"] == caplog.messages
    assert "<RareLog to rare: 3 keys, 997 left out>" == repr(rare)


def test_quiet_keys_give_way(caplog: pytest.LogCaptureFixture) -> None:
    """A full table forgets keys whose period is over, but none with a count to tell."""
    clock = VirtualClock()
    rare = RareLog(logger, clock.now_ns, max_keys=2)
    for key in "aab":
        rare.log(logging.INFO, key, key)
    clock.run_until(60 * SECOND_NS)
    for key in "ccdda":
        rare.log(logging.INFO, key, key)

    # a has a count, so it stays; c takes the place of b, and d has none.
    assert ["a", "b", "c", "d", "a (1 more since)"] == caplog.messages
