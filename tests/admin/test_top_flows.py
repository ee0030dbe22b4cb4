"""Tests of what the sketch says of sums, against exact ones."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.admin.top_flows import (
    HALF_LIFE_S,
    MAX_BATCH,
    MAX_EXPONENT,
    MAX_NAME,
    MEASURES,
    Sketch,
    TopFlows,
    largest,
)
from apfproxy.flowcontrol.meters import FlowSchemaCounters
from apfproxy.flowcontrol.ticket import EXECUTING, Flow, Ticket, WorkEstimate
from tests.support.clocks import VirtualClock

NS = 1_000_000_000
COUNTERS = FlowSchemaCounters("level", "schema")


def flow(name: str) -> Flow:
    return Flow(hash(name), name, COUNTERS)


class Bench:
    def __init__(self, capacity: int = 8) -> None:
        self.clock = VirtualClock()
        self.top_flows = TopFlows(capacity, self.clock)

    def take(self, taker: Flow, seats: int, seconds: int, waited_s: int = 0) -> None:
        """A request gives seats back that it has had for so long, now."""
        now_ns = self.clock.now_ns()
        started_ns = now_ns - seconds * NS
        arrived_ns = started_ns - waited_s * NS
        estimate = WorkEstimate(seats)
        ticket = Ticket(taker, estimate, None, arrived_ns, None, EXECUTING, started_ns, 0)
        self.top_flows.on_seats_back(ticket, now_ns)


@given(
    capacity=st.integers(1, 6),
    batches=st.lists(
        st.lists(st.tuples(st.integers(0, 30), st.integers(1, 100)), max_size=12), max_size=12
    ),
)
def test_bounds_of_the_sketch(capacity: int, batches: list[list[tuple[int, int]]]) -> None:
    sketch = Sketch(capacity)
    exact: dict[tuple[str, str, str], int] = {}
    for batch in batches:
        for number, weight in batch:
            key = ("", "", str(number))
            sketch.add(key, weight)
            exact[key] = exact.get(key, 0) + weight
        sketch.settle()
        total = sum(exact.values())
        assert total == sketch.total
        assert sketch.error * (capacity + 1) <= total
        assert len(sketch.counts) <= 2 * capacity
        for key, true in exact.items():
            if true * capacity > total:
                assert key in sketch.counts
            if key in sketch.counts:
                assert true <= sketch.estimate(key) <= true + total / capacity
            else:
                assert 0 == sketch.estimate(key)
                assert true <= sketch.error


def test_all_measures() -> None:
    bench = Bench()
    ann, bob, carl = flow("ann"), flow("bob"), flow("carl")
    bench.take(ann, seats=2, seconds=3)
    bench.take(ann, seats=1, seconds=1, waited_s=4)
    bench.take(bob, seats=5, seconds=1)
    bench.top_flows.on_no_seats(carl, 2 * NS, is_rejected=True)
    bench.top_flows.on_no_seats(carl, NS, is_rejected=False)
    bench.top_flows.on_no_seats(ann, 0, is_rejected=True)
    for tokens in 70, -3:
        bench.top_flows.on_tokens(bob, tokens)
    bench.top_flows.on_tokens(carl, -1)

    state = bench.top_flows.state()
    assert [
        ("ann", 7.0, 4.0, 1.0, 0.0),
        ("bob", 5.0, 0.0, 0.0, 67.0),
        ("carl", 0.0, 3.0, 1.0, 0.0),
    ] == [(each.flow, *(getattr(each, name) for name in MEASURES)) for each in state.flows]
    assert ([12.0, 7.0, 2.0, 67.0], [0.0] * 4) == (state.totals, state.errors)
    firsts = [
        [each.flow for each in largest(state, 1, by)]
        for by in (("seat_seconds",), ("wait_seconds",), ("wait_seconds", "seat_seconds"))
    ]
    assert [["ann"], ["ann"], ["ann"]] == firsts
    assert ["ann", "bob"] == [each.flow for each in largest(state, 2, ("seat_seconds",))]


def test_batches_are_gathered_by_one_timer_until_the_end() -> None:
    bench = Bench()
    for _ in range(3):
        bench.take(flow("ann"), seats=1, seconds=1)
    bench.clock.run()
    gathered = repr(bench.top_flows).count("Sketch of 1 keys"), bench.clock.now_ns()
    bench.take(flow("bob"), seats=1, seconds=1)
    bench.top_flows.close()
    bench.top_flows.close()
    bench.clock.run()

    assert (1, NS) == gathered
    assert gathered[0] == repr(bench.top_flows).count("Sketch of 1 keys")


def test_sums_decay() -> None:
    """After a half-life a sum is half as large; what comes then counts as a whole."""
    bench = Bench()
    bench.take(flow("ann"), seats=8, seconds=1)
    bench.top_flows.state()
    bench.clock.run_until(round(HALF_LIFE_S * NS))
    bench.take(flow("bob"), seats=5, seconds=1)

    assert [("bob", 5.0), ("ann", 4.0)] == [
        (each.flow, each.seat_seconds) for each in bench.top_flows.state().flows
    ]
    assert 9.0 == bench.top_flows.state().totals[0]


def test_counts_are_scaled() -> None:
    bench = Bench()
    bench.take(flow("ann"), seats=8, seconds=1)
    bench.top_flows.state()
    for times in (1, 2, 3):
        bench.clock.run_until(round(times * (MAX_EXPONENT + 1) * HALF_LIFE_S * NS))
        bench.take(flow("bob"), seats=5, seconds=1)
        ann, bob = sorted(bench.top_flows.state().flows, key=lambda each: each.flow)

        assert 5.0 == pytest.approx(bob.seat_seconds)
        assert 0.0 == pytest.approx(ann.seat_seconds, abs=1e-9)


def test_memory_is_bounded() -> None:
    bench = Bench(capacity=8)
    numbers = count()
    for _ in range(3 * MAX_BATCH):
        bench.take(flow(f"{next(numbers)}{'x' * 2 * MAX_NAME}"), seats=1, seconds=1)
    whale = flow("whale")
    bench.take(whale, seats=3 * MAX_BATCH, seconds=1)
    found = bench.top_flows.state(1000).flows

    assert 16 >= len(found)
    assert "whale" == found[0].flow
    assert {MAX_NAME, 5} >= {len(str(each.flow)) for each in found}
    state = bench.top_flows.state()
    assert 0 < state.errors[0] <= state.totals[0] / 8


@pytest.mark.interpreted
async def test_an_error_while_gathering(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    with monkeypatch.context() as patch:
        patch.setattr(Sketch, "add", lambda *_: 1 // 0)
        bench.take(flow("ann"), seats=1, seconds=1)
        bench.clock.run()
    bench.take(flow("bob"), seats=1, seconds=1)

    assert ["bob"] == [each.flow for each in bench.top_flows.state().flows]
    assert 1 == caplog.text.count("Traceback")
