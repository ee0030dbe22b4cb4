"""The cost of a request at a queue set does not grow with its queues or what waits.

Steps are instructions of the interpreter, which come out the same on every machine.
"""

from __future__ import annotations

import gc
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from apfproxy.flowcontrol.ticket import ONE_SEAT, Flow, RejectReason, Ticket
from tests.flowcontrol.level import MS, Level, queues

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

LIMIT = 8
FLOWS = 64

STEPS_PER_LEVEL = 150
"""More than an operation takes for each level of the tournament: up to three walks, up or down,
of some thirty instructions a level.  Visiting all of 512 queues would take ten thousand."""


def steps(act: Callable[[], object]) -> int:
    count = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:  # noqa: ANN401  as Python's
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    gc.disable()  # whose callbacks would count
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


class Crowd:
    def __init__(self, number: int, waiting: int) -> None:
        self.level = Level(queues(number, 4, 1_000_000), LIMIT)
        self.queue_set, self.clock = self.level.queue_set, self.level.clock
        counters = self.level.counters
        self.flows = [Flow(i * 0x9E3779B97F4A7C15 % 2**64, str(i), counters) for i in range(FLOWS)]
        self.executing: list[Ticket] = []
        self.waiting: list[Ticket] = []
        for request in range(LIMIT + waiting):
            self.arrive(request)

    def arrive(self, number: int) -> None:
        self.clock.run_until(self.clock.now_ns() + MS // 7)
        ticket = self.queue_set.admit(self.flows[number % FLOWS], ONE_SEAT, self.executing.append)
        assert not isinstance(ticket, RejectReason)
        (self.executing if ticket.is_executing else self.waiting).append(ticket)

    def finish(self) -> None:
        self.clock.run_until(self.clock.now_ns() + MS // 3)
        self.queue_set.finish(self.executing.pop(0))

    def time_out(self) -> Callable[[], None]:
        self.waiting = [ticket for ticket in self.waiting if ticket.dispatched_ns < 0]
        ticket = self.waiting.pop(len(self.waiting) // 2)
        return partial(self.queue_set.withdraw, ticket, RejectReason.TIME_OUT)

    def worst(self) -> dict[str, int]:
        worst = {"arrival": 0, "finish": 0, "time-out": 0}
        for number in range(20):
            worst["arrival"] = max(worst["arrival"], steps(partial(self.arrive, number)))
            worst["finish"] = max(worst["finish"], steps(self.finish))
            self.arrive(number)
            worst["time-out"] = max(worst["time-out"], steps(self.time_out()))
        return worst


def test_steps_grow_with_the_logarithm_of_the_queues() -> None:
    few, many = Crowd(number=8, waiting=600).worst(), Crowd(number=512, waiting=600).worst()
    for operation, steps_of_few in few.items():
        assert many[operation] <= steps_of_few + 6 * STEPS_PER_LEVEL, operation


def test_steps_do_not_grow_with_what_waits() -> None:
    few, many = Crowd(number=64, waiting=10).worst(), Crowd(number=64, waiting=10_000).worst()
    for operation, steps_of_few in few.items():
        assert many[operation] <= steps_of_few + STEPS_PER_LEVEL, operation


def test_a_request_that_fits_takes_no_more_steps_with_more_queues() -> None:
    few, many = (
        [
            steps(crowd.finish) + steps(partial(crowd.arrive, turn))
            for crowd in [Crowd(number, waiting=0)]
            for turn in range(20)
        ]
        for number in (8, 512)
    )

    # A branch more or less where a flow shares its queue with another, or does not.
    assert max(many) <= max(few) + 30


def test_steps_are_counted() -> None:
    """The measure sees loops: without that, the other tests would prove nothing."""
    assert steps(lambda: [number for number in range(1000)]) > 2000  # noqa: C416  a loop
