"""Requests replayed through queue sets."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from apfproxy.flowcontrol.counters import FlowSchemaCounters
from apfproxy.flowcontrol.demand import SeatDemand
from apfproxy.flowcontrol.queue_set import QueueSet, QueueSetConfig, QueueSetKind
from apfproxy.flowcontrol.ticket import ONE_SEAT, Flow, RejectReason, Ticket, WorkEstimate
from apfproxy.simulation.replay import Lane, Replay
from apfproxy.simulation.virtual_clock import VirtualClock
from tests.conformance import vectors
from tests.conformance.test_fair_queuing import config_of

COUNTERS = FlowSchemaCounters("level", "schema")


class NumberedLane(Lane):
    """A lane for one request of a case."""

    __slots__ = ("number",)

    def __init__(self, number: int, queue_set: QueueSet, flow: Flow, wait_limit_ns: int) -> None:
        super().__init__(queue_set, flow, wait_limit_ns=wait_limit_ns)
        self.number = number


class NotingReplay(Replay):
    """Notes what becomes of each request, in the form of the reference vectors."""

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__(VirtualClock())
        self.outcomes: dict[int, dict[str, Any]] = {}
        self.dispatch_order: list[int] = []
        first, *later = case["configs"]
        self.queue_set = QueueSet(
            "level", self.clock, config_of(first), first["concurrency_limit"], SeatDemand()
        )
        self.sources = 1  # the run ends when nothing is left to happen
        for entry in later:
            self.clock.arm_arrival(entry["t_ns"], self.configure, entry)
        for arrival in case["arrivals"]:
            self.clock.arm_arrival(arrival["t_ns"], self.take, arrival)
        self.clock.run()

    def configure(self, entry: dict[str, int]) -> None:
        """Put a later configuration into force."""
        self.queue_set.reconfigure(config_of(entry), entry["concurrency_limit"])

    def take(self, arrival: dict[str, Any]) -> None:
        """A request of the case arrives."""
        self.outcomes[arrival["id"]] = {
            "id": arrival["id"],
            "outcome": "",
            "queue": -1,
            "dispatch_t_ns": -1,
            "finish_t_ns": -1,
            "seats_in_use_after_dispatch": 0,
        }
        lane = NumberedLane(
            arrival["id"],
            self.queue_set,
            Flow(int(arrival["hash"]), arrival["flow"], COUNTERS),
            arrival["wait_limit_ns"],
        )
        estimate = WorkEstimate(
            arrival["initial_seats"], arrival["final_seats"], arrival["additional_latency_ns"]
        )
        self.arrive(lane, estimate, arrival["service_ns"])
        for queue in self.queue_set.queues:
            for ticket in queue.tickets():
                outcome = self.outcome(ticket)
                if outcome["queue"] < 0:  # else from before others were dropped
                    outcome["queue"] = queue.index
        for reason, count in lane.tally.rejected.items():
            assert count == 1
            self.outcomes[arrival["id"]]["outcome"] = f"rejected-{reason}"

    def outcome(self, ticket: Ticket) -> dict[str, Any]:
        """The outcome of a ticket's request."""
        lane, _, _ = ticket.details
        assert isinstance(lane, NumberedLane)
        return self.outcomes[lane.number]

    def execute(self, ticket: Ticket) -> None:
        """Note the dispatch."""
        outcome = self.outcome(ticket)
        if outcome["queue"] < 0 and ticket.queue is not None:
            outcome["queue"] = ticket.queue.index
        outcome["outcome"] = "dispatched"
        outcome["dispatch_t_ns"] = self.clock.now_ns()
        outcome["seats_in_use_after_dispatch"] = self.queue_set.seats_in_use
        self.dispatch_order.append(outcome["id"])
        super().execute(ticket)

    def finish(self, ticket: Ticket) -> None:
        """Note the end."""
        self.outcome(ticket)["finish_t_ns"] = self.clock.now_ns()
        super().finish(ticket)

    def give_up(self, ticket: Ticket) -> None:
        """Note the time-out, if it is one."""
        outcome = self.outcome(ticket)
        if outcome["outcome"] == "":
            outcome["outcome"] = "timed-out"
            outcome["finish_t_ns"] = self.clock.now_ns()
        super().give_up(ticket)


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case["name"]) for case in vectors.load("fair_queuing")]
)
def test_replays_the_reference_vectors(case: dict[str, Any]) -> None:
    """Every request of Kubernetes' fair queuing has its outcome, queue, times and turn here."""
    run = NotingReplay(case)

    assert case["outcomes"] == [run.outcomes[expected["id"]] for expected in case["outcomes"]]
    assert case["dispatch_order"] == run.dispatch_order
    assert (0, 0) == (run.in_flight, run.queue_set.seats_in_use)


class Script:
    """A replay through one queue set, with requests at given times; notes what clients hear."""

    def __init__(self, kind: QueueSetKind = QueueSetKind.QUEUE, seats: int = 1) -> None:
        self.replay = Replay(VirtualClock())
        config = (
            QueueSetConfig(kind, 1, 1, 1) if kind is QueueSetKind.QUEUE else QueueSetConfig(kind)
        )
        self.queue_set = QueueSet("level", self.replay.clock, config, seats, SeatDemand())
        self.heard: list[tuple[int, int]] = []

    def lane(self, *, timeout_ns: int = 0, watch_seats_ns: int = -1) -> Lane:
        """A lane where one may wait 100 ns."""
        return Lane(
            self.queue_set,
            Flow(0, "", COUNTERS),
            wait_limit_ns=100,
            timeout_ns=timeout_ns,
            watch_seats_ns=watch_seats_ns,
        )

    def run(self, lane: Lane, *requests: tuple[int, int]) -> None:
        """Let requests arrive at times, each with a service time."""
        self.replay.sources = 1
        for at_ns, service_ns in requests:
            self.replay.clock.arm_arrival(at_ns, partial(self.request, lane), service_ns)
        last_ns = max(at_ns for at_ns, _ in requests)
        self.replay.clock.arm(last_ns, lambda _: self.replay.source_ended(), None)
        self.replay.clock.run()

    def request(self, lane: Lane, service_ns: int) -> None:
        """Let one arrive."""
        self.replay.arrive(lane, ONE_SEAT, service_ns, self)

    def on_end(self, retry_after_s: int) -> None:
        """Note when a request ended, and how."""
        self.heard.append((self.replay.clock.time_ns, retry_after_s))

    def on_open(self, end_ns: int) -> None:
        """Note when a request will end."""
        self.heard.append((end_ns, 0))


def test_waits_and_gives_up() -> None:
    """One executes, one waits until its turn or its limit, one finds the queue full."""
    script = Script()
    lane = script.lane()
    script.run(lane, (0, 250), (0, 10), (10, 10), (160, 10))

    tally = lane.tally
    assert [(10, 1), (100, 1), (250, 0), (260, 0)] == script.heard
    assert {RejectReason.QUEUE_FULL: 1, RejectReason.TIME_OUT: 1} == tally.rejected
    assert (2, 2, 4) == (tally.executed, tally.queued, tally.requests)
    assert (260, 260, 90) == (tally.seat_ns, tally.service_ns, tally.waits.total_ns)
    assert 0 == script.replay.in_flight


@pytest.mark.parametrize(
    ("timeout_ns", "ends_ns", "cut_off"),
    [
        pytest.param(0, [90, 120], 0, id="no-limit"),
        pytest.param(200, [90, 120], 0, id="in-time"),
        pytest.param(100, [90, 100], 1, id="cut-off"),
        pytest.param(80, [80, 80], 2, id="cut-off-at-once"),
    ],
)
def test_ends(timeout_ns: int, ends_ns: list[int], cut_off: int) -> None:
    """A request ends when it is served, or its time is over."""
    script = Script()
    lane = script.lane(timeout_ns=timeout_ns)
    script.run(lane, (0, 90), (0, 30))

    assert ends_ns == [at_ns for at_ns, _ in script.heard]
    assert cut_off == lane.tally.cut_off


def test_watches_give_their_seats_back_before_they_end() -> None:
    """The next gets the seat once a watch has begun; its client knows when it will end."""
    script = Script()
    lane = script.lane(timeout_ns=5, watch_seats_ns=20)
    script.run(lane, (0, 90), (0, 30), (40, 10))

    assert (50, 50, 0) == (script.replay.clock.time_ns, lane.tally.seat_ns, lane.tally.cut_off)
    assert [(90, 0), (50, 0), (50, 0)] == script.heard


def test_rejects_at_a_level_without_queues() -> None:
    """The last end, even of a rejection, ends the run."""
    script = Script(QueueSetKind.REJECT)
    lane = script.lane()
    script.run(lane, (0, 5), (0, 9), (5, 7))

    assert [(0, 1), (5, 1), (5, 0)] == script.heard
    assert {RejectReason.CONCURRENCY_LIMIT: 2} == lane.tally.rejected
    assert "<Replay: 0 requests in flight at 5 ns>" == repr(script.replay)
    assert "<Lane of <Flow schema/ 0x0> to level>" == repr(lane)


def test_giving_up_may_be_the_end() -> None:
    """Where nobody ever gets a seat, the last to give up ends the run."""
    script = Script(seats=0)
    lane = script.lane()
    script.run(lane, (0, 5))

    assert [(100, 1)] == script.heard
    assert 100 == script.replay.clock.now_ns()


class Stubborn(Script):
    """Whoever gives up asks again at once, once."""

    def on_end(self, retry_after_s: int) -> None:
        """Ask again after the first rejection."""
        super().on_end(retry_after_s)
        if len(self.heard) == 1:
            self.request(self.again, 5)

    again: Lane


def test_waits_that_begin_as_others_end() -> None:
    """Each gives up at its own time."""
    script = Stubborn(seats=0)
    script.again = lane = script.lane()
    script.run(lane, (0, 5))

    assert [(100, 1), (200, 1)] == script.heard
