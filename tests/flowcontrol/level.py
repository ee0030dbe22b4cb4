"""A queue set on a virtual clock, for the tests of what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.flowcontrol.meters import FlowSchemaCounters, SeatDemand
from apfproxy.flowcontrol.queue_set import QueueSet, QueueSetConfig, QueueSetKind
from apfproxy.flowcontrol.ticket import ONE_SEAT, Flow, Ticket, WorkEstimate
from tests.support.clocks import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable

MS = 1_000_000
EXEMPT = QueueSetConfig(QueueSetKind.EXEMPT)
REJECT = QueueSetConfig(QueueSetKind.REJECT)
ONE_QUEUE = QueueSetConfig(QueueSetKind.QUEUE, 1, 1, 50)


def queues(number: int, hand_size: int = 1, queue_length_limit: int = 50) -> QueueSetConfig:
    return QueueSetConfig(QueueSetKind.QUEUE, number, hand_size, queue_length_limit)


class Level:
    def __init__(self, config: QueueSetConfig, limit: int) -> None:
        self.clock = VirtualClock()
        self.demand = SeatDemand()
        self.counters = FlowSchemaCounters("level", "schema")
        self.queue_set = QueueSet("level", self.clock, config, limit, self.demand)
        self.dispatched: list[Ticket] = []

    def flow(self, queue: int = 0) -> Flow:
        return Flow(queue, f"flow-{queue}", self.counters)

    def admit(
        self,
        estimate: WorkEstimate = ONE_SEAT,
        queue: int = 0,
        on_dispatch: Callable[[Ticket], None] | None = None,
    ) -> Ticket:
        ticket = self.queue_set.admit(
            self.flow(queue), estimate, on_dispatch or self.dispatched.append
        )
        assert isinstance(ticket, Ticket)
        return ticket

    @property
    def waiting(self) -> list[Ticket]:
        return [ticket for queue in self.queue_set.queues for ticket in queue.tickets()]

    def wait(self, duration_ns: int) -> None:
        self.clock.run_until(self.clock.now_ns() + duration_ns)
