"""Tests of apfproxy.flowcontrol.foresight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.flowcontrol import explanation
from apfproxy.flowcontrol.dealer import Dealer
from apfproxy.flowcontrol.demand import SeatDemand
from apfproxy.flowcontrol.explanation import Decision, Foresight, foresee
from apfproxy.flowcontrol.meters import FlowSchemaCounters
from apfproxy.flowcontrol.queue_set import QueueSet, QueueSetConfig, QueueSetKind
from apfproxy.flowcontrol.ticket import Flow, RejectReason, Ticket, WorkEstimate
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Sequence

MS = 1_000_000
EXEMPT = QueueSetConfig(QueueSetKind.EXEMPT)
REJECT = QueueSetConfig(QueueSetKind.REJECT)
ONE_QUEUE = QueueSetConfig(QueueSetKind.QUEUE, 1, 1, 2)


class Level:
    """A queue set to which requests come, each foreseen first."""

    def __init__(self, config: QueueSetConfig, seats: int) -> None:
        self.clock = VirtualClock()
        demand = SeatDemand(0)
        self.queue_set = QueueSet("level", self.clock, config, seats, demand)
        self.tickets: list[Ticket] = []
        self._counters = FlowSchemaCounters("level", "schema")

    def foresee(self, hash_: int, estimate: WorkEstimate) -> Foresight:
        """What would become of a request of a flow."""
        config = self.queue_set.config
        hand: tuple[int, ...] = ()
        if config.kind is QueueSetKind.QUEUE:
            hand = Dealer(config.queues, config.hand_size).deal(hash_)
        self.queue_set.sync()
        return foresee(self.queue_set, hand, estimate, self.queue_set.seat_limit)

    def admit(self, hash_: int, estimate: WorkEstimate) -> Foresight:
        """What becomes of it, told as if it had been foreseen."""
        flow = Flow(hash_, "", self._counters)
        result = self.queue_set.admit(flow, estimate, lambda _: None)
        if not isinstance(result, Ticket):
            return Foresight(Decision.REJECT, reason=result)
        self.tickets.append(result)
        index = None if result.queue is None else result.queue.index
        if result.is_executing:
            return Foresight(Decision.EXECUTE, index)
        assert result.queue is not None
        ahead = list(result.queue.tickets()).index(result)
        return Foresight(Decision.WAIT, index, ahead)

    def both(self, hash_: int, estimate: WorkEstimate) -> tuple[Foresight, Foresight]:
        """What was foreseen of a request, and what became of it."""
        foreseen = self.foresee(hash_, estimate)
        if foreseen.decision is Decision.REJECT:
            foreseen = Foresight(Decision.REJECT, reason=foreseen.reason)
        return foreseen, self.admit(hash_, estimate)


def test_exempt() -> None:
    """An exempt level has seats for everything."""
    assert Foresight(Decision.EXECUTE) == Level(EXEMPT, 0).foresee(0, WorkEstimate(9))


def test_reject() -> None:
    """A level without queues rejects what does not fit; one wider than it has to be alone."""
    level = Level(REJECT, 2)
    expected = [
        Foresight(Decision.EXECUTE),
        Foresight(Decision.REJECT, reason=RejectReason.CONCURRENCY_LIMIT),
    ]
    found = [level.admit(0, WorkEstimate(3)), level.foresee(0, WorkEstimate(3))]

    assert expected == found


def test_queue_full() -> None:
    """A queue that is full rejects, and is named with what waits there."""
    level = Level(ONE_QUEUE, 1)
    found = [level.both(0, WorkEstimate(1)) for _ in range(3)]

    assert [
        Foresight(Decision.EXECUTE, 0),
        Foresight(Decision.WAIT, 0, 0),
        Foresight(Decision.WAIT, 0, 1),
    ] == [foreseen for foreseen, _ in found]
    expected = Foresight(Decision.REJECT, 0, 2, RejectReason.QUEUE_FULL)
    assert expected == level.foresee(0, WorkEstimate(1))


def test_changes_nothing() -> None:
    """However often it is asked, what follows is the same."""
    level = Level(QueueSetConfig(QueueSetKind.QUEUE, 8, 3, 2), 1)
    for hash_ in range(6):
        level.admit(hash_, WorkEstimate(1))
    before = [(queue.requests_waiting, queue.next_dispatch_r) for queue in level.queue_set.queues]
    first = [level.foresee(hash_, WorkEstimate(2)) for hash_ in range(20)]
    again = [level.foresee(hash_, WorkEstimate(2)) for hash_ in range(20)]

    assert first == again
    assert before == [
        (queue.requests_waiting, queue.next_dispatch_r) for queue in level.queue_set.queues
    ]


SLOW = WorkEstimate(1, 1, 1000 * MS)
SLOWER = WorkEstimate(1, 1, 200_000 * MS)
WIDE_AND_SLOW = WorkEstimate(1, 9, 10_000 * MS)


@pytest.mark.parametrize(
    ("waiting", "hash_", "estimate", "expected"),
    [
        pytest.param([2], 2, SLOW, Foresight(Decision.EXECUTE, 2), id="own-queue"),
        pytest.param([2, 2, 2], 2, SLOW, Foresight(Decision.WAIT, 2, 1), id="own-queue-long"),
        pytest.param([2, 2], 3, SLOWER, Foresight(Decision.WAIT, 3, 0), id="other-queue"),
        pytest.param([2], 3, SLOWER, Foresight(Decision.EXECUTE, 3), id="other-queue-short"),
    ],
)
def test_what_a_withdrawal_left_is_dispatched_first(
    waiting: list[int], hash_: int, estimate: WorkEstimate, expected: Foresight
) -> None:
    """A withdrawal dispatches nothing by itself; the next arrival makes good for it."""
    level = Level(QueueSetConfig(QueueSetKind.QUEUE, 4, 1, 5), 4)
    level.admit(0, WorkEstimate(2))
    level.admit(1, WorkEstimate(3))
    for other in waiting:
        level.admit(other, SLOW)
    level.queue_set.withdraw(level.tickets[1], None)

    assert (expected, expected) == level.both(hash_, estimate)


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many dispatches are gone through; beyond, a request is taken to wait."""
    monkeypatch.setattr(explanation, "MAX_DISPATCHES", 1)
    level = Level(QueueSetConfig(QueueSetKind.QUEUE, 4, 1, 5), 4)
    level.admit(0, WorkEstimate(2))
    level.admit(1, WorkEstimate(3))
    level.admit(2, SLOW)
    level.queue_set.withdraw(level.tickets[1], None)

    assert Foresight(Decision.WAIT, 2, 0) == level.foresee(2, SLOW)


def test_wider_than_the_limit() -> None:
    """What is wider than the limit goes alone, cut to the limit, and then there is no seat left."""
    level = Level(QueueSetConfig(QueueSetKind.QUEUE, 4, 1, 5), 4)
    level.admit(0, WorkEstimate(2, 2, 1000 * MS))
    level.admit(1, WorkEstimate(3))
    level.admit(2, WIDE_AND_SLOW)
    level.queue_set.finish(level.tickets[0])
    level.queue_set.withdraw(level.tickets[1], None)
    expected = Foresight(Decision.WAIT, 3, 0)

    assert (expected, expected) == level.both(3, SLOWER)


ESTIMATES = st.builds(
    WorkEstimate,
    st.integers(1, 6),
    st.sampled_from([0, 0, 1, 3, 9]),
    st.sampled_from([0, 5 * MS]),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), st.integers(0, 6), ESTIMATES),
        st.tuples(st.just("admit"), st.integers(0, 6), st.just(WorkEstimate(1))),
        st.tuples(st.just("finish"), st.integers(0, 99), st.none()),
        st.tuples(st.just("withdraw"), st.integers(0, 99), st.none()),
        st.tuples(st.just("wait"), st.integers(1, 20), st.none()),
        st.tuples(st.just("limit"), st.integers(0, 6), st.none()),
        st.tuples(st.just("queues"), st.integers(1, 8), st.none()),
    ),
    max_size=50,
)


@pytest.mark.parametrize(
    "config",
    [
        EXEMPT,
        REJECT,
        ONE_QUEUE,
        QueueSetConfig(QueueSetKind.QUEUE, 4, 2, 3),
        QueueSetConfig(QueueSetKind.QUEUE, 7, 3, 2),
    ],
    ids=["exempt", "reject", "one-queue", "four-queues", "seven-queues"],
)
@given(steps=STEPS, seats=st.integers(0, 8))
def test_foresees_what_happens(
    config: QueueSetConfig,
    steps: Sequence[tuple[str, int, WorkEstimate | None]],
    seats: int,
) -> None:
    """Whatever came before, a request gets what was foreseen for it."""
    level = Level(config, seats)
    for step, number, estimate in steps:
        if step == "admit":
            assert estimate is not None
            foreseen, found = level.both(number * 2_654_435_761, estimate)
            assert foreseen == found
        elif step == "wait":
            level.clock.run_until(level.clock.now_ns() + number * MS)
        elif step == "limit":
            level.queue_set.set_concurrency_limit(number)
        elif step == "queues":
            if config.kind is QueueSetKind.QUEUE:
                changed = QueueSetConfig(config.kind, number, 1, number)
                level.queue_set.reconfigure(changed, level.queue_set.concurrency_limit)
        elif level.tickets:
            ticket = level.tickets.pop(number % len(level.tickets))
            if step == "finish" and ticket.is_executing:
                level.queue_set.finish(ticket)
            else:
                level.queue_set.withdraw(ticket, None)
