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


def test_cancelled_stopped_and_late() -> None:
    """A cancelled timer does nothing; a run goes on from where it ended, never backwards."""
    clock = VirtualClock(100)
    seen: list[tuple[str, int]] = []
    clock.call_at(105, lambda: seen.append(("cancelled", 105))).cancel()
    clock.arm(50, lambda _: seen.append(("late", clock.now_ns())), None)
    clock.arm(108, lambda _: clock.stop(), None)
    clock.arm(109, lambda _: seen.append(("next run", clock.now_ns())), None)
    clock.run()

    assert [("late", 100)] == seen
    clock.run()
    assert [("late", 100), ("next run", 109)] == seen
