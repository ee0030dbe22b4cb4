"""The queue set dispatches what, when and from where Kubernetes does."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from apfproxy.flowcontrol.meters import FlowSchemaCounters, SeatDemand
from apfproxy.flowcontrol.queue_set import QueueSet, QueueSetConfig, QueueSetKind
from apfproxy.flowcontrol.ticket import Flow, RejectReason, Ticket, WorkEstimate
from tests.conformance import vectors
from tests.support.clocks import VirtualClock

CASES = vectors.load("fair_queuing")


def config_of(entry: dict[str, int]) -> QueueSetConfig:
    if entry["queues"] == 0:
        return QueueSetConfig(QueueSetKind.REJECT)
    return QueueSetConfig(
        QueueSetKind.QUEUE, entry["queues"], entry["hand_size"], entry["queue_length_limit"]
    )


class Run:
    """One case on a virtual clock; events at one time happen in the order of their arming."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.clock = VirtualClock()
        self.counters = FlowSchemaCounters("level", "schema")
        self.outcomes: dict[int, dict[str, Any]] = {}
        self.dispatch_order: list[int] = []
        first, *later = case["configs"]
        self.queue_set = QueueSet(
            "level", self.clock, config_of(first), first["concurrency_limit"], SeatDemand()
        )
        for entry in later:
            self.clock.call_at(entry["t_ns"], partial(self.reconfigure, entry))
        for arrival in case["arrivals"]:
            self.clock.call_at(arrival["t_ns"], partial(self.arrive, arrival))
        self.clock.run()

    def reconfigure(self, entry: dict[str, int]) -> None:
        self.queue_set.reconfigure(config_of(entry), entry["concurrency_limit"])

    def arrive(self, arrival: dict[str, Any]) -> None:
        self.outcomes[arrival["id"]] = outcome = {
            "id": arrival["id"],
            "outcome": "",
            "queue": -1,
            "dispatch_t_ns": -1,
            "finish_t_ns": -1,
            "seats_in_use_after_dispatch": 0,
        }
        ticket = self.queue_set.admit(
            Flow(int(arrival["hash"]), arrival["flow"], self.counters),
            WorkEstimate(
                arrival["initial_seats"], arrival["final_seats"], arrival["additional_latency_ns"]
            ),
            self.dispatched,
            arrival,
        )
        if isinstance(ticket, RejectReason):
            outcome["outcome"] = f"rejected-{ticket}"
            return
        if ticket.queue is not None:
            outcome["queue"] = ticket.queue.index
        if ticket.is_executing:
            self.dispatched(ticket)
        else:
            deadline_ns = arrival["t_ns"] + arrival["wait_limit_ns"]
            self.clock.call_at(deadline_ns, partial(self.time_out, ticket))

    def dispatched(self, ticket: Ticket) -> None:
        arrival = ticket.details
        outcome = self.outcomes[arrival["id"]]
        outcome["outcome"] = "dispatched"
        outcome["dispatch_t_ns"] = self.clock.now_ns()
        outcome["seats_in_use_after_dispatch"] = self.queue_set.seats_in_use
        self.dispatch_order.append(arrival["id"])
        self.clock.call_at(
            self.clock.now_ns() + arrival["service_ns"], partial(self.finish, ticket)
        )

    def finish(self, ticket: Ticket) -> None:
        self.outcomes[ticket.details["id"]]["finish_t_ns"] = self.clock.now_ns()
        self.queue_set.finish(ticket)

    def time_out(self, ticket: Ticket) -> None:
        outcome = self.outcomes[ticket.details["id"]]
        if outcome["outcome"] == "":
            outcome["outcome"] = "timed-out"
            outcome["finish_t_ns"] = self.clock.now_ns()
            self.queue_set.withdraw(ticket, RejectReason.TIME_OUT)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_fair_queuing(case: dict[str, Any]) -> None:
    run = Run(case)

    assert case["outcomes"] == [run.outcomes[expected["id"]] for expected in case["outcomes"]]
    assert case["dispatch_order"] == run.dispatch_order
    assert run.queue_set.is_idle
    assert run.queue_set.seats_in_use == 0
