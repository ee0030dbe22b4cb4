"""Errors of the program that were contained, and logs that one cause cannot fill."""

from __future__ import annotations

import asyncio
import logging

import pytest

from apfproxy.base import rare_log
from apfproxy.base.faults import PART, Faults, Part, contained, guarded, report
from apfproxy.base.rare_log import RareLog
from apfproxy.base.tasks import spawn
from tests.support.clocks import VirtualClock

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
    return {part: total for part, total in faults.totals.items() if total}


async def test_each_is_counted_and_one_a_minute_logged(caplog: pytest.LogCaptureFixture) -> None:
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


async def test_what_the_loop_contains_by_itself() -> None:
    faults = Faults()
    loop = asyncio.get_running_loop()
    faults.watch(loop)
    loop.call_soon(divide, "callback")

    async def fail() -> None:
        divide("task")

    await asyncio.wait([spawn(fail(), name="work")])
    await asyncio.sleep(0)

    assert {Part.LOOP: 1, Part.TASK: 1} == found(faults)


async def test_contained_error_ends_there_but_cancelling_does_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faults = Faults()
    faults.watch(asyncio.get_running_loop())
    with contained(Part.POOL):
        divide("within")
    with pytest.raises(asyncio.CancelledError), contained(Part.POOL):
        raise asyncio.CancelledError

    assert {Part.POOL: 1} == found(faults)
    assert [logging.ERROR] == [each.levelno for each in caplog.records]


async def test_a_loop_without_anybody_who_counts(caplog: pytest.LogCaptureFixture) -> None:
    report(Part.CONTROLLER, caught("x"), "starts over")

    assert "starts over" in caplog.text
    assert f"{PART}: {Part.CONTROLLER!r}" in caplog.text
    assert "ZeroDivisionError: x" in caplog.text


class Connection:
    def __init__(self) -> None:
        self.errors: list[Exception] = []

    def fail(self, error: Exception) -> None:
        self.errors.append(error)

    @guarded
    def divide(self, by: int) -> float:
        return 1 / by


def test_guarded_event_ends_the_connection_with_its_error() -> None:
    connection = Connection()

    assert (0.5, None) == (connection.divide(2), connection.divide(0))
    assert [ZeroDivisionError] == [type(error) for error in connection.errors]
    assert "divide" == Connection.divide.__name__


SECOND_NS = 1_000_000_000
logger = logging.getLogger("rare")


@pytest.fixture(autouse=True)
def _levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def test_one_line_a_period_counts_the_others(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    rare = RareLog(logger, clock.now_ns, period_s=60)
    seconds = [0, 1, 59, 60, 61, 120, 180]
    for second in seconds:
        clock.run_until(second * SECOND_NS)
        rare.log(logging.INFO, "a", "at %s", second)

    assert ["at 0", "at 60 (2 more since)", "at 120 (1 more since)", "at 180"] == caplog.messages


def test_quiet_keys_give_way_but_those_with_a_count_do_not(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
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
