"""Errors of the program that were contained, and logs that one cause cannot fill."""

from __future__ import annotations

import asyncio
import logging

import pytest

from apfproxy.base import rare_log
from apfproxy.base.faults import PART, Faults, Part, contained, guarded, report
from apfproxy.base.rare_log import RareLog
from apfproxy.base.tasks import spawn
from tests.virtual_clock import VirtualClock

S = 1_000_000_000


def divide(text: str) -> None:
    raise ZeroDivisionError(text)


def caught(text: str) -> Exception:
    try:
        divide(text)
    except ZeroDivisionError as error:
        return error
    raise AssertionError(text)


def found(faults: Faults) -> dict[Part, int]:
    """Parts that had errors, and how many."""
    return {part: total for part, total in faults.totals.items() if total}


async def test_each_is_counted_and_one_a_minute_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Of one place one is logged, with its traceback and the number of those left out."""
    clock = VirtualClock()
    faults = Faults(clock.now_ns)
    faults.watch(asyncio.get_running_loop())
    for second in (0, 1, 59, 60):
        clock.run_until(second * S)
        report(Part.OBJECTS, caught(str(second)), "not taken")
    report(Part.OBJECTS, ValueError("elsewhere"))

    assert {Part.OBJECTS: 5} == found(faults)
    assert [
        "objects: not taken",
        "objects: not taken (2 more since)",
        "objects: an error of the proxy itself",
    ] == caplog.messages
    assert [("0",), ("60",), ("elsewhere",)] == [
        each.exc_info[1].args for each in caplog.records if each.exc_info and each.exc_info[1]
    ]
    assert "<Faults: 5 so far>" == repr(faults)


async def test_what_the_loop_contains_by_itself() -> None:
    """An error in a callback, and one of a task that nobody awaits, are counted too."""
    faults = Faults()
    loop = asyncio.get_running_loop()
    faults.watch(loop)
    loop.call_soon(divide, "callback")

    async def fail() -> None:
        divide("task")

    await asyncio.wait([spawn(fail(), name="work")])
    await asyncio.sleep(0)

    assert {Part.LOOP: 1, Part.TASK: 1} == found(faults)


async def test_what_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """What the loop is told of without an exception is in its own log, and not counted."""
    faults = Faults()
    loop = asyncio.get_running_loop()
    faults.on_error(loop, {"message": "something was left open"})

    assert {} == found(faults)
    assert [("asyncio", "something was left open")] == [
        (each.name, each.getMessage()) for each in caplog.records
    ]


async def test_contained(caplog: pytest.LogCaptureFixture) -> None:
    """An error within ends there; cancelling does not."""
    faults = Faults()
    faults.watch(asyncio.get_running_loop())
    with contained(Part.POOL):
        divide("within")
    with pytest.raises(asyncio.CancelledError), contained(Part.POOL):
        raise asyncio.CancelledError

    assert {Part.POOL: 1} == found(faults)
    assert [logging.ERROR] == [each.levelno for each in caplog.records]


async def test_a_loop_without_anybody_who_counts(caplog: pytest.LogCaptureFixture) -> None:
    """Commands that serve no proxy have it in their log all the same, part and traceback."""
    report(Part.CONTROLLER, caught("x"), "starts over")

    assert "starts over" in caplog.text
    assert f"{PART}: {Part.CONTROLLER!r}" in caplog.text
    assert "ZeroDivisionError: x" in caplog.text


class Connection:
    """Divides.

    Attributes:
        errors: That ended it.
    """

    def __init__(self) -> None:
        self.errors: list[Exception] = []

    def fail(self, error: Exception) -> None:
        self.errors.append(error)

    @guarded
    def divide(self, by: int) -> float:
        """Have an event."""
        return 1 / by


def test_guarded() -> None:
    """What an event returns is returned; its error ends the connection, and no more."""
    connection = Connection()

    assert (0.5, None) == (connection.divide(2), connection.divide(0))
    assert [ZeroDivisionError] == [type(error) for error in connection.errors]
    assert "Have an event." == Connection.divide.__doc__


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


def test_more_keys_than_room(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys beyond the bound share one line a period, and the table grows no further."""
    monkeypatch.setattr(rare_log, "MAX_KEYS", 2)
    rare = RareLog(logger, VirtualClock().now_ns)
    for key in range(1000):
        rare.log(logging.INFO, str(key), "%d", key)

    assert ["0", "1", "2"] == caplog.messages
    assert "<RareLog to rare: 3 keys, 997 left out>" == repr(rare)


def test_quiet_keys_give_way(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full table forgets keys whose period is over, but none with a count to tell."""
    monkeypatch.setattr(rare_log, "MAX_KEYS", 2)
    clock = VirtualClock()
    rare = RareLog(logger, clock.now_ns)
    for key in "aab":
        rare.log(logging.INFO, key, key)
    clock.run_until(60 * SECOND_NS)
    for key in "ccdda":
        rare.log(logging.INFO, key, key)

    # a has a count, so it stays; c takes the place of b, and d has none.
    assert ["a", "b", "c", "d", "a (1 more since)"] == caplog.messages
