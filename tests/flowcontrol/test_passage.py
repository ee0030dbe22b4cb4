"""Passages through flow control: what happens in which state, and that all is given back once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.base.transitions import Event, TransitionError
from apfproxy.flowcontrol import passage as passage_module
from apfproxy.flowcontrol.controller import Classification, Controller
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.flowcontrol.meters import KindMeter, RequestCount
from apfproxy.flowcontrol.observed_passage import Caller, ObservedPassage
from apfproxy.flowcontrol.passage import (
    DONE,
    EXECUTING,
    NEW,
    OUTSIDE,
    SEATLESS,
    TRANSITIONS,
    WAITING,
    FlowControl,
    Passage,
    PassageState,
    RequestDigest,
    WorkEstimator,
)
from apfproxy.flowcontrol.priority_level import WAIT_DIVISOR, PriorityLevel
from apfproxy.flowcontrol.queue_set import Flow, RejectReason, Ticket, WorkEstimate
from apfproxy.request.attributes import User, parse_attributes
from tests.conformance.test_fair_queuing import CASES, Run
from tests.simulation.scene import objects
from tests.virtual_clock import VirtualClock

S = 1_000_000_000
USER = User("u", ("system:authenticated",))
GET, WATCH = b"/api/v1/namespaces/a/pods/b", b"/api/v1/pods?watch=1"
LOG = b"/api/v1/namespaces/a/pods/b/log?follow=1"
LIMITED = 'apfproxy.io/long-running-limit: "1"'


class Request:
    """A waiter; says what it was told."""

    def __init__(
        self, bench: Bench, target: bytes, timeout_ns: int, callers: list[Caller] | None = None
    ) -> None:
        attributes = parse_attributes("GET", target)
        kind = bench.kinds.kinds[attributes.is_mutating]
        fixed = bench.control.estimator.fixed(attributes)
        digest = RequestDigest(USER, attributes, timeout_ns, kind, fixed)
        if bench.control.is_observing:
            found = [] if callers is None else callers
            self.passage: Passage = ObservedPassage(bench.control, digest, found)
        else:
            self.passage = Passage(bench.control, digest)
        self.told: list[str] = []
        self._bench = bench

    def on_seats(self) -> None:
        self.told.append("seats")

    def on_time_out(self) -> None:
        self.told.append("time-out")

    def fail(self, error: Exception) -> None:
        self.told.append(repr(error))
        self.passage.cancel(self._bench.clock.now_ns())


class Bench:
    """A level with one seat and one queue of two, before which requests come."""

    def __init__(
        self, *, is_observing: bool = False, schema: str = "", seats: int = 1, queuing: str = ""
    ) -> None:
        self.clock = VirtualClock()
        self.errors: list[Exception] = []
        self.controller = Controller(self.clock, seats, 0)
        self.controller.commit(self.controller.digest(objects(schema=schema, queuing=queuing)))
        self.kinds = KindMeter(0)
        costs = LearnedCosts(self.clock.now_ns)
        self.control = FlowControl(
            self.controller,
            WorkEstimator(costs.object_stats, costs.watch_count),
            costs,
            self.kinds,
            self.clock,
            unix_s=lambda: S + self.clock.now_ns() // S,
            on_error=self.errors.append if is_observing else None,
        )
        self.queue_set = self.controller.levels["level"].queue_set

    def arrive(
        self,
        target: bytes = GET,
        timeout_ns: int = 8 * S,
        callers: list[Caller] | None = None,
    ) -> Request:
        """Have a request come, on a connection of its own unless `callers` are given."""
        request = Request(self, target, timeout_ns, callers)
        goes_on = request.passage.acquire(request)
        assert goes_on == (
            self.control.is_observing or request.passage.state in (EXECUTING, SEATLESS)
        )
        return request

    def wait(self, seconds: float) -> None:
        self.clock.run_until(self.clock.now_ns() + round(seconds * S))

    @property
    def use(self) -> tuple[int, int]:
        """Seats in use, and requests that wait."""
        return self.queue_set.seats_in_use, self.queue_set.requests_waiting

    def assert_at_rest(self) -> None:
        assert (0, 0) == self.use
        assert not self.queue_set.executing
        assert all(usage.count == 0 for usage in self.kinds._executing)  # noqa: SLF001  nothing else tells
        assert all(usage.count == 0 for usage in self.kinds._waiting)  # noqa: SLF001  as above
        limits = self.control.classify(Request(self, LOG, S).passage.digest).limits
        assert limits is None or {} == limits.long_running


# The table.


def test_every_pair_is_in_the_table_or_refused() -> None:
    events = [each for each in vars(passage_module).values() if isinstance(each, Event)]
    assert {name for row in TRANSITIONS.values() for name in row} == {e.name for e in events}
    for state in PassageState:
        for event in events:
            if event.name in TRANSITIONS[state]:
                assert TRANSITIONS[state][event.name] is event[state]
            else:
                with pytest.raises(TransitionError, match=f"{event.name} in state {state}"):
                    event[state]


def test_every_state_leads_to_the_end() -> None:
    """Each is reached from the first, and the last from each."""
    reached = {NEW}
    while more := {after for state in reached for after in TRANSITIONS[state].values()} - reached:
        reached |= more
    leading = {DONE}
    while (
        more := {state for state, row in TRANSITIONS.items() if leading & {*row.values()}} - leading
    ):
        leading |= more

    assert set(PassageState) == reached == leading


# One request.


def test_goes_through() -> None:
    bench = Bench()
    request = bench.arrive()
    assert (EXECUTING, 1, True) == (
        request.passage.state,
        request.passage.seats,
        request.passage.has_seats,
    )
    assert ("u", "get") == (request.passage.user_name, request.passage.attributes.verb)
    assert "" == request.passage.digest.header("X-Tenant")
    assert (1, 0) == bench.use
    request.passage.release(bench.clock.now_ns())

    bench.assert_at_rest()
    assert "<Passage of <RequestDigest get /api/v1/namespaces/a/pods/b>, done>" == repr(
        request.passage
    )


def test_its_turn_comes() -> None:
    bench = Bench()
    first, second = bench.arrive(), bench.arrive()
    assert (WAITING, (1, 1)) == (second.passage.state, bench.use)
    bench.wait(1)
    first.passage.release(bench.clock.now_ns())

    assert (["seats"], EXECUTING) == (second.told, second.passage.state)
    second.passage.cancel(bench.clock.now_ns())
    bench.assert_at_rest()
    second.passage.cancel(bench.clock.now_ns())  # harmless


class Noting:
    """An observer of flows that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def on_seats_back(self, ticket: Ticket, now_ns: int) -> None:
        self.told.append(("executed", now_ns - ticket.dispatched_ns))

    def on_no_seats(self, flow: Flow, waited_ns: int, *, is_rejected: bool) -> None:
        self.told.append((f"{flow.distinguisher} {is_rejected}", waited_ns))


def test_flows_are_noted() -> None:
    """What executes, gives up and is rejected is told to whoever gathers what flows take."""
    bench = Bench()
    noting = bench.control.top_flows = Noting()
    requests = [bench.arrive() for _ in range(6)]
    bench.wait(1)
    for request in reversed(requests):
        request.passage.cancel(bench.clock.now_ns())

    assert [("u True", 0), *[("u False", S)] * 4, ("executed", S)] == noting.told


def test_waits_too_long() -> None:
    bench = Bench()
    first, second = bench.arrive(), bench.arrive()
    bench.wait(2)

    refusal = second.passage.refusal
    assert refusal is not None
    assert (["time-out"], OUTSIDE) == (second.told, second.passage.state)
    assert (RejectReason.TIME_OUT, 1) == (refusal.reason, refusal.retry_after_s)
    second.passage.release(bench.clock.now_ns())
    first.passage.release(bench.clock.now_ns())
    bench.assert_at_rest()


def test_limits_of_the_flow() -> None:
    """What additions refuse is counted, and never asks for seats."""
    bench = Bench(schema="apfproxy.io/request-rate: '1'")
    passages = [bench.arrive().passage for _ in range(2)]
    for passage in passages:
        passage.cancel(bench.clock.now_ns())

    refusal = passages[1].refusal
    assert refusal is not None
    assert (RejectReason.RATE, 1) == (refusal.reason, passages[1].seats)
    bench.assert_at_rest()


def test_a_place_goes_back_with_the_refusal() -> None:
    """A watch for which there are no seats does not count as long-running."""
    bench = Bench(schema='apfproxy.io/long-running-limit: "9"')
    for _ in range(5):
        bench.arrive()
    rejected = bench.arrive(WATCH).passage
    log = bench.arrive(LOG).passage

    found = rejected.classification
    assert found is not None
    assert found.limits is not None
    assert {"u": 1} == found.limits.long_running
    assert (SEATLESS, 0) == (log.state, log.seats)
    log.release(bench.clock.now_ns())
    assert {} == found.limits.long_running


def test_the_upstream_works_on() -> None:
    """The place goes back with the client, the seats with the upstream."""
    bench = Bench(schema=LIMITED)
    watch = bench.arrive(WATCH).passage
    watch.leave_to_upstream(bench.clock.now_ns())
    assert (1, 0) == bench.use
    assert SEATLESS is bench.arrive(LOG).passage.state
    watch.release(bench.clock.now_ns())

    assert (0, 0) == bench.use


class Fussy:
    """An observer of flows that fails."""

    def on_seats_back(self, ticket: Ticket, now_ns: int) -> None:
        raise ZeroDivisionError((ticket, now_ns))

    def on_no_seats(self, flow: Flow, waited_ns: int, *, is_rejected: bool) -> None:
        raise ZeroDivisionError((flow, waited_ns, is_rejected))


def test_errors() -> None:
    bench = Bench(schema=LIMITED)
    first, second = bench.arrive(), bench.arrive(WATCH)
    bench.control.top_flows = Fussy()
    bench.wait(2)
    assert ["ZeroDivisionError"] == [told.partition("(")[0] for told in second.told]
    assert DONE is second.passage.state
    with pytest.raises(ZeroDivisionError):
        first.passage.release(bench.clock.now_ns())

    bench.assert_at_rest()


@pytest.mark.interpreted
@pytest.mark.parametrize("is_waiting", [False, True])
def test_an_error_of_a_count(monkeypatch: pytest.MonkeyPatch, is_waiting: bool) -> None:
    """The seat, or the place in the queue, is back all the same."""
    bench = Bench()
    passage = bench.arrive().passage
    if is_waiting:
        passage = bench.arrive().passage
    monkeypatch.setattr(RequestCount, "end", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        passage.cancel(bench.clock.now_ns())

    assert (is_waiting, 0) == bench.use


def test_an_error_of_a_turn_is_nobody_elses() -> None:
    """Who gives the seat back knows nothing of it."""
    bench = Bench()
    first, second = bench.arrive(), bench.arrive()

    def fail() -> None:
        raise ZeroDivisionError("a bug")

    second.on_seats = fail  # type: ignore[method-assign]
    first.passage.release(bench.clock.now_ns())

    assert ["ZeroDivisionError('a bug')"] == second.told
    bench.assert_at_rest()


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("arrive"), st.tuples(st.sampled_from([GET, WATCH, LOG]), st.integers(0, 3))
        ),
        st.tuples(
            st.sampled_from(["release_seats", "leave_to_upstream", "release", "cancel"]),
            st.integers(0),
        ),
        st.tuples(st.just("wait"), st.sampled_from([0.1, 1.0, 3.0])),
    ),
    max_size=40,
)


@given(STEPS, st.booleans(), st.sampled_from(["", LIMITED, 'apfproxy.io/request-rate: "2"']))
def test_all_is_given_back_once(
    steps: list[tuple[str, Any]], is_observing: bool, schema: str
) -> None:
    """However requests end, and whenever, nothing of them is left in the end."""
    bench = Bench(is_observing=is_observing, schema=schema)
    connections: list[list[Caller]] = [[], [], []]
    there: list[Request] = []
    for step, value in steps:
        now_ns = bench.clock.now_ns()
        if step == "arrive":
            target, place = value
            there.append(bench.arrive(target, callers=[*connections, None][place]))
        elif step == "wait":
            bench.wait(value)
        elif there:
            request = there[value % len(there)]
            passage = request.passage
            if step == "release_seats" and passage.has_seats:
                passage.release_seats(now_ns)
            elif step == "leave_to_upstream" and passage.has_seats:
                there.remove(request)
                passage.leave_to_upstream(now_ns)
                bench.wait(0.5)
                passage.release(bench.clock.now_ns())
            elif step in ("release", "cancel"):
                there.remove(request)
                getattr(passage, step)(now_ns)
        seats = sum(
            ticket.estimate.max_seats for ticket in bench.queue_set.executing if ticket.is_executing
        )
        assert seats == bench.queue_set.seats_in_use
    for request in there:
        request.passage.release(bench.clock.now_ns())
    bench.wait(3600)

    bench.assert_at_rest()
    callers = [caller for connection in connections for caller in connection]
    assert all(passage.state is DONE for caller in callers for passage in caller)
    assert not bench.errors


# As Kubernetes has it.


class PassingRun(Run):
    """A case of Kubernetes' fair queuing, each request in a passage."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.bench = Bench()
        super().__init__(case)

    def arrive(self, arrival: dict[str, Any]) -> None:
        Passing(self, arrival).enter()


class Passing:
    """A request of a case."""

    def __init__(self, run: PassingRun, arrival: dict[str, Any]) -> None:
        self._run, self._arrival = run, arrival
        control = run.bench.control
        control.clock = run.clock
        digest = Request(run.bench, GET, S).passage.digest
        known = control.classify(digest)
        route = control.controller._routes[known.flow_schema.metadata.name]  # noqa: SLF001  for another flow
        flow = Flow(int(arrival["hash"]), arrival["flow"], run.counters)
        found = Classification(route, flow, known.generation)
        found.level = PriorityLevel(found.level.configuration, run.queue_set, found.level.demand)
        digest.timeout_ns = WAIT_DIVISOR * arrival["wait_limit_ns"]
        digest.classification = found
        digest.fixed_estimate = WorkEstimate(
            arrival["initial_seats"], arrival["final_seats"], arrival["additional_latency_ns"]
        )
        self.passage = Passage(control, digest)
        self.outcome = run.outcomes[arrival["id"]] = {
            "id": arrival["id"],
            "outcome": "",
            "queue": -1,
            "dispatch_t_ns": -1,
            "finish_t_ns": -1,
            "seats_in_use_after_dispatch": 0,
        }

    def enter(self) -> None:
        passage, outcome = self.passage, self.outcome
        goes_on = passage.acquire(self)
        if passage.ticket is not None and passage.ticket.queue is not None:
            outcome["queue"] = passage.ticket.queue.index
        if passage.refusal is not None:
            outcome["outcome"] = f"rejected-{passage.refusal.reason}"
        elif goes_on:
            self.on_seats()

    def on_seats(self) -> None:
        """Execute for as long as the case says."""
        run, outcome = self._run, self.outcome
        now_ns = run.clock.now_ns()
        outcome["outcome"] = "dispatched"
        outcome["dispatch_t_ns"] = now_ns
        outcome["seats_in_use_after_dispatch"] = run.queue_set.seats_in_use
        run.dispatch_order.append(outcome["id"])
        run.clock.call_at(now_ns + self._arrival["service_ns"], self.end)

    def end(self) -> None:
        now_ns = self.outcome["finish_t_ns"] = self._run.clock.now_ns()
        self.passage.release(now_ns)

    def on_time_out(self) -> None:
        self.outcome["outcome"] = "timed-out"
        self.outcome["finish_t_ns"] = self._run.clock.now_ns()

    def fail(self, error: Exception) -> None:
        raise error


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_the_reference_vectors(case: dict[str, Any]) -> None:
    """Every request of Kubernetes' fair queuing has its outcome, queue, times and turn."""
    run = PassingRun(case)

    assert case["outcomes"] == [run.outcomes[expected["id"]] for expected in case["outcomes"]]
    assert case["dispatch_order"] == run.dispatch_order
