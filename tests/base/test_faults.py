"""Errors of the program that were contained."""

from __future__ import annotations

import asyncio
import logging

import pytest

from apfproxy.base.faults import PART, Faults, Part, contained, report
from apfproxy.base.tasks import spawn
from tests.virtual_clock import VirtualClock

S = 1_000_000_000


def divide(text: str) -> None:
    """Raise, always from this line."""
    raise ZeroDivisionError(text)


def caught(text: str) -> Exception:
    """An error that was raised."""
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
