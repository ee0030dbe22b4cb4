"""The queue set does exactly what its rules say, however it gets there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.flowcontrol.meters import FlowSchemaCounters, SeatDemand
from apfproxy.flowcontrol.queue_set import QueueSet, QueueSetConfig, QueueSetKind
from apfproxy.flowcontrol.ticket import Flow, RejectReason, Ticket, WorkEstimate
from tests.flowcontrol.plain_queue_set import PlainQueueSet, PlainRequest
from tests.support.clocks import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Sequence

MS = 1_000_000


def queuing(
    queues: int, hand_size: int, queue_length_limit: int, *, has_weights: bool = False
) -> QueueSetConfig:
    hand_size = min(hand_size, queues)
    kind = QueueSetKind.QUEUE
    return QueueSetConfig(
        kind, queues, hand_size, queue_length_limit, has_weights=has_weights and queues > 1
    )


configs = st.one_of(
    st.builds(queuing, st.integers(1, 9), st.integers(1, 3), st.integers(1, 4)),
    st.builds(
        queuing,
        st.integers(1, 9),
        st.integers(1, 3),
        st.integers(1, 4),
        has_weights=st.just(True),
    ),
    st.sampled_from([QueueSetConfig(QueueSetKind.REJECT), QueueSetConfig(QueueSetKind.EXEMPT)]),
)
limits = st.integers(0, 6)
flows = [
    Flow(i * 0x9E3779B97F4A7C15 % 2**64, str(i), FlowSchemaCounters("level", "schema"))
    for i in range(6)
]
widths = st.one_of(st.just(1), st.integers(1, 8))
final_seats = st.one_of(st.just((0, 0)), st.tuples(st.integers(1, 8), st.integers(1, 5 * MS)))
weights = st.sampled_from([1, 2, 5])
actions = st.one_of(
    st.tuples(st.just("admit"), st.sampled_from(flows), widths, final_seats, weights),
    st.tuples(st.just("admit"), st.sampled_from(flows), st.just(1), st.just((0, 0)), weights),
    st.tuples(st.just("finish"), st.integers(0, 50)),
    st.tuples(st.just("finish"), st.integers(0, 50)),
    st.tuples(st.just("withdraw"), st.integers(0, 50)),
    st.tuples(st.just("pass"), st.integers(0, 6 * MS)),
    st.tuples(st.just("limit"), limits),
    st.tuples(st.just("reconfigure"), configs, limits),
)


class Pair:
    def __init__(self, config: QueueSetConfig, limit: int) -> None:
        self.clocks = VirtualClock(), VirtualClock()
        self.plain = PlainQueueSet(self.clocks[1], config, limit)
        self.queue_set = QueueSet("level", self.clocks[0], config, limit, SeatDemand())
        self.requests: list[tuple[Ticket, PlainRequest]] = []
        self.names = 0
        self.dispatch_order: list[int] = []

    def admit(self, flow: Flow, initial: int, final: tuple[int, int], weight: int) -> None:
        self.names += 1
        weight = weight if self.plain.config.has_weights else 1
        request = PlainRequest(self.names, flow.hash, initial, *final, weight)
        self.plain.admit(request)
        estimate = WorkEstimate(initial, *final, weight=weight)
        result = self.queue_set.admit(flow, estimate, self.on_dispatch, self.names)
        if isinstance(result, RejectReason):
            assert request.state == result.value
            return
        self.requests.append((result, request))
        if result.is_executing:
            self.on_dispatch(result)

    def on_dispatch(self, ticket: Ticket) -> None:
        self.dispatch_order.append(ticket.details)

    def pick(self, state: str, number: int) -> tuple[Ticket, PlainRequest] | None:
        candidates = [pair for pair in self.requests if pair[1].state == state]
        return candidates[number % len(candidates)] if candidates else None

    def act(self, action: Sequence[Any]) -> None:
        name, *arguments = action
        if name == "admit":
            self.admit(*arguments)
        elif name == "pass":
            for clock in self.clocks:
                clock.run_until(clock.now_ns() + arguments[0])
        elif name == "limit":
            self.plain.reconfigure(self.plain.config, arguments[0])
            self.queue_set.set_concurrency_limit(arguments[0])
        elif name == "reconfigure":
            self.plain.reconfigure(*arguments)
            self.queue_set.reconfigure(*arguments)
        elif name == "finish":
            if (picked := self.pick("executing", arguments[0])) is not None:
                self.plain.finish(picked[1])
                self.queue_set.finish(picked[0])
        elif (picked := self.pick("waiting", arguments[0])) is not None:
            self.plain.withdraw(picked[1])
            self.queue_set.withdraw(picked[0], None)

    def states(self) -> tuple[Any, Any]:
        self.plain.sync()
        self.queue_set.sync()
        expected = (
            self.plain.current_r,
            self.plain.count("waiting"),
            self.plain.count("executing"),
            self.plain.seats_in_use(),
            [request.state for _, request in self.requests],
            [
                (
                    [request.name for request in queue.those("waiting")],
                    len(queue.those("executing")),
                    sum(request.seats for request in queue.those("executing", "lingering")),
                    sum(request.work for request in queue.those("waiting")),
                    sum(request.seats for request in queue.those("waiting")),
                    sum(request.initial for request in queue.those("waiting")),
                    queue.next_dispatch_r,
                )
                for queue in self.plain.queues
            ],
            sorted(self.plain.dispatch_order),
        )
        names = ["waiting", "executing", "lingering", "done"]
        actual = (
            self.queue_set.current_r,
            self.queue_set.requests_waiting,
            self.queue_set.requests_executing,
            self.queue_set.seats_in_use,
            [
                request.state if request.state == "withdrawn" else names[ticket.state]
                for ticket, request in self.requests
            ],
            [
                (
                    [ticket.details for ticket in queue.tickets()],
                    queue.requests_executing,
                    queue.seats_in_use,
                    queue.work_waiting,
                    queue.seats_waiting,
                    queue.initial_seats_waiting,
                    queue.next_dispatch_r,
                )
                for queue in self.queue_set.queues
            ],
            sorted(self.dispatch_order),
        )
        assert list(range(len(self.queue_set.queues))) == [q.index for q in self.queue_set.queues]
        return expected, actual


@settings(max_examples=150, deadline=None)
@given(config=configs, limit=limits, steps=st.lists(actions, min_size=10, max_size=60))
def test_agrees_with_the_plain_version(
    config: QueueSetConfig, limit: int, steps: list[tuple[Any, ...]]
) -> None:
    pair = Pair(config, limit)
    for step in steps:
        pair.act(step)
        expected, actual = pair.states()
        assert expected == actual
