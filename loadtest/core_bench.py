"""Prints what admission to a queue set costs, in nanoseconds of one core.

Each figure is the best of several rounds, since anything else on the machine only adds to it.
The clock is the system's monotonic one, read once an event, as in the proxy.

    python -m loadtest.core_bench
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from apfproxy.flowcontrol.counters import FlowSchemaCounters
from apfproxy.flowcontrol.demand import SeatDemand
from apfproxy.flowcontrol.queue_set import QueueSet, QueueSetConfig, QueueSetKind
from apfproxy.flowcontrol.ticket import ONE_SEAT, Flow, Ticket

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 7
REQUESTS = 20_000
FLOWS = 50


class MonotonicClock:
    """The system's monotonic clock, without timers: no request here lingers."""

    now_ns = staticmethod(time.monotonic_ns)

    def call_at(self, deadline_ns: int, callback: Callable[[], None]) -> Any:  # noqa: ANN401
        """Not needed."""
        raise NotImplementedError


def nothing(_ticket: Ticket) -> None:
    """Take notice of a dispatch."""


def level(config: QueueSetConfig, concurrency_limit: int) -> tuple[QueueSet, list[Flow]]:
    """A queue set and flows with hashes all over the range."""
    queue_set = QueueSet("bench", MonotonicClock(), config, concurrency_limit, SeatDemand())
    counters = FlowSchemaCounters("bench", "bench")
    flows = [Flow(i * 0x9E3779B97F4A7C15 % 2**64, str(i), counters) for i in range(FLOWS)]
    return queue_set, flows


def at_once(config: QueueSetConfig, executing: int) -> tuple[float, float]:
    """Nanoseconds per admit and per finish while others execute and nothing waits."""
    queue_set, flows = level(config, 600)
    for i in range(executing):
        queue_set.admit(flows[i % FLOWS], ONE_SEAT, nothing)
    admit_ns = finish_ns = float("inf")
    batch = [flows[i % FLOWS] for i in range(100)]
    admit, finish = queue_set.admit, queue_set.finish
    for _ in range(ROUNDS):
        in_admit = in_finish = 0
        for _ in range(REQUESTS // len(batch)):
            start = time.perf_counter_ns()
            tickets: list[Any] = [admit(flow, ONE_SEAT, nothing) for flow in batch]
            middle = time.perf_counter_ns()
            for ticket in tickets:
                finish(ticket)
            in_admit += middle - start
            in_finish += time.perf_counter_ns() - middle
        admit_ns = min(admit_ns, in_admit / REQUESTS)
        finish_ns = min(finish_ns, in_finish / REQUESTS)
    return admit_ns, finish_ns


def congested(queues: int, waiting: int) -> tuple[float, float]:
    """Nanoseconds per admit into a queue, and per finish that dispatches another request."""
    queue_set, flows = level(QueueSetConfig(QueueSetKind.QUEUE, queues, 4, 1 << 30), 20)
    executing: list[Ticket] = []
    for i in range(20 + waiting):
        ticket = queue_set.admit(flows[i % FLOWS], ONE_SEAT, executing.append)
        assert isinstance(ticket, Ticket)
        if ticket.is_executing:
            executing.append(ticket)
    admit_ns = finish_ns = float("inf")
    batch = [flows[i % FLOWS] for i in range(10)]
    admit, finish = queue_set.admit, queue_set.finish
    for _ in range(ROUNDS):
        in_admit = in_finish = 0
        for _ in range(REQUESTS // len(batch)):
            start = time.perf_counter_ns()
            for flow in batch:
                admit(flow, ONE_SEAT, executing.append)
            middle = time.perf_counter_ns()
            for ticket in executing[: len(batch)]:
                finish(ticket)
            in_admit += middle - start
            in_finish += time.perf_counter_ns() - middle
            del executing[: len(batch)]
        admit_ns = min(admit_ns, in_admit / REQUESTS)
        finish_ns = min(finish_ns, in_finish / REQUESTS)
    return admit_ns, finish_ns


def main() -> None:
    """Print a table."""
    queuing = QueueSetConfig(QueueSetKind.QUEUE, 64, 6, 50)
    rows = {
        "nothing waiting, 10 executing": at_once(queuing, 10),
        "nothing waiting, 400 executing": at_once(queuing, 400),
        "exempt": at_once(QueueSetConfig(QueueSetKind.EXEMPT), 10),
        "no queues": at_once(QueueSetConfig(QueueSetKind.REJECT), 10),
    }
    for queues in (8, 128, 512):
        for waiting in (100, 10_000):
            rows[f"{waiting} waiting in {queues} queues"] = congested(queues, waiting)
    print(f"{'ns per':32}{'admit':>8}{'finish':>8}{'both':>8}")
    for name, (admit_ns, finish_ns) in rows.items():
        print(f"{name:32}{admit_ns:8.0f}{finish_ns:8.0f}{admit_ns + finish_ns:8.0f}")


if __name__ == "__main__":
    main()
