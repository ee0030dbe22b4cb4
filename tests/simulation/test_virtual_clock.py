"""Virtual time."""

from __future__ import annotations

from apfproxy.simulation.virtual_clock import VirtualClock


def test_events_come_in_order() -> None:
    """By time, arrivals before others, then in the order of arming."""
    clock = VirtualClock()
    happened: list[tuple[int, str]] = []

    def note(name: str) -> None:
        happened.append((clock.now_ns(), name))

    clock.arm(20, note, "late")
    clock.arm(10, note, "first")
    clock.call_at(10, lambda: note("second"))
    clock.arm_arrival(10, note, "arrival")
    clock.arm_arrival(10, note, "next arrival")
    clock.run()

    assert [
        (10, "arrival"),
        (10, "next arrival"),
        (10, "first"),
        (10, "second"),
        (20, "late"),
    ] == happened


def test_cancelled_timers_do_nothing() -> None:
    """A timer that was cancelled is not called."""
    clock = VirtualClock()
    called: list[int] = []
    timer = clock.call_at(5, lambda: called.append(1))
    timer.cancel()
    clock.run()

    assert [] == called


def test_stops_and_goes_on() -> None:
    """A run ends where it is told to; the next one goes on from there."""
    clock = VirtualClock(7)
    seen: list[int] = []
    clock.arm(8, lambda _: clock.stop(), None)
    clock.arm(9, seen.append, 1)
    clock.run()
    clock.run()

    assert [1] == seen


def test_time_never_runs_backwards() -> None:
    """What is armed for a time that has passed happens now."""
    clock = VirtualClock(100)
    clock.arm(50, lambda _: None, None)
    clock.run()

    assert 100 == clock.now_ns()
