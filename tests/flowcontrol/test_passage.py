"""Passages through flow control, also those only observed: all is given back exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.base.transitions import Event, TransitionError
from apfproxy.flowcontrol import passage as passage_module
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.meters import RequestCount
from apfproxy.flowcontrol.observed_passage import MOST_HELD_BACK, Caller, ObservedPassage
from apfproxy.flowcontrol.passage import (
    ABANDONED,
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
)
from apfproxy.flowcontrol.ticket import RejectReason
from apfproxy.request.attributes import User, parse_attributes
from tests.simulation.scene import objects
from tests.support.clocks import VirtualClock

if TYPE_CHECKING:
    from apfproxy.flowcontrol.ticket import Flow, Ticket


S = 1_000_000_000
USER = User("u", ("system:authenticated",))
GET, WATCH = b"/api/v1/namespaces/a/pods/b", b"/api/v1/pods?watch=1"
LOG = b"/api/v1/namespaces/a/pods/b/log?follow=1"
LIMITED = 'apfproxy.io/long-running-limit: "1"'
FEW = 'apfproxy.io/flow-requests-limit: "2"'


class Request:
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
        self.control = FlowControl(
            self.controller,
            self.clock,
            unix_s=lambda: S + self.clock.now_ns() // S,
            on_error=self.errors.append if is_observing else None,
        )
        self.kinds = self.control.kinds
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

    def end(self, passage: Passage) -> None:
        passage.release(self.clock.now_ns())

    def wait(self, seconds: float) -> None:
        self.clock.run_until(self.clock.now_ns() + round(seconds * S))

    @property
    def use(self) -> tuple[int, int]:
        return self.queue_set.seats_in_use, self.queue_set.requests_waiting

    def assert_at_rest(self) -> None:
        assert (0, 0) == self.use
        assert not self.queue_set.executing
        assert all(usage.count == 0 for usage in self.kinds._executing)  # noqa: SLF001  nothing else tells
        assert all(usage.count == 0 for usage in self.kinds._waiting)  # noqa: SLF001  as above
        for limits in self.controller._flow_limits.values():  # noqa: SLF001  as above
            assert not limits.is_in_use


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
    bench.end(request.passage)

    bench.assert_at_rest()


def test_its_turn_comes() -> None:
    bench = Bench()
    first, second = bench.arrive(), bench.arrive()
    assert (WAITING, (1, 1)) == (second.passage.state, bench.use)
    bench.wait(1)
    bench.end(first.passage)

    assert (["seats"], EXECUTING) == (second.told, second.passage.state)
    second.passage.cancel(bench.clock.now_ns())
    bench.assert_at_rest()
    second.passage.cancel(bench.clock.now_ns())  # harmless


class Noting:
    def __init__(self, *, fails: bool = False) -> None:
        self.told: list[tuple[str, int]] = []
        self.fails = fails

    def _note(self, what: str, duration_ns: int) -> None:
        if self.fails:
            raise ZeroDivisionError
        self.told.append((what, duration_ns))

    def on_seats_back(self, ticket: Ticket, now_ns: int) -> None:
        self._note("executed", now_ns - ticket.dispatched_ns)

    def on_no_seats(self, flow: Flow, waited_ns: int, *, is_rejected: bool) -> None:
        self._note(f"{flow.distinguisher} {is_rejected}", waited_ns)

    def on_tokens(self, flow: Flow, tokens: int) -> None:
        self._note(flow.distinguisher, tokens)


def test_flows_are_noted() -> None:
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
    bench.end(second.passage)
    bench.end(first.passage)
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
    assert {"u": 1} == found.limits.long_running.counts
    assert (SEATLESS, 0) == (log.state, log.seats)
    bench.end(log)
    assert {} == found.limits.long_running.counts


@pytest.mark.parametrize(
    ("schema", "target", "counter"),
    [
        ('apfproxy.io/request-rate: "1"', GET, "rejected_rate"),
        (LIMITED, LOG, "rejected_long_running"),
        ('apfproxy.io/flow-requests-limit: "1"', GET, "rejected_flow_requests"),
    ],
)
def test_refusals_of_limits_count(schema: str, target: bytes, counter: str) -> None:
    bench = Bench(schema=schema)
    bench.arrive(target)
    found = bench.arrive(target).passage.classification

    assert found is not None
    assert 1 == bench.queue_set.rejected_total
    assert 1 == getattr(found.flow.counters, counter)


def test_streams_without_seats() -> None:
    """They give their seats back, and count among the long-running requests of their flow."""
    bench = Bench(schema=LIMITED, seats=2)
    first, second = bench.arrive().passage, bench.arrive().passage
    assert first.begin_stream(bench.clock.now_ns()) is None
    assert (1, 0) == bench.use
    refusal = second.begin_stream(bench.clock.now_ns())
    assert refusal is not None
    assert RejectReason.LONG_RUNNING is refusal.reason
    assert refusal is second.refusal
    assert 1 == bench.queue_set.rejected_total
    bench.end(second)
    bench.end(first)
    third = bench.arrive().passage
    assert third.begin_stream(bench.clock.now_ns()) is None
    bench.end(third)
    bench.assert_at_rest()


def test_requests_of_a_flow() -> None:
    """They count while they wait or have seats, also seats kept for an upstream."""
    bench = Bench(schema=f"{FEW}, {LIMITED}", seats=1)

    def come(*, is_refused: bool = False) -> Passage:
        passage = bench.arrive().passage
        assert is_refused == (passage.refusal is not None)
        return passage

    def counts() -> tuple[int, int]:
        [limits] = bench.controller._flow_limits.values()  # noqa: SLF001  nothing else tells
        return limits.requests.counts.get("u", 0), limits.long_running.counts.get("u", 0)

    first, second = come(), come()
    refusal = come(is_refused=True).refusal
    assert refusal is not None
    assert (RejectReason.FLOW_REQUESTS, 1, 1) == (
        refusal.reason, refusal.retry_after_s, refusal.seats,
    )  # fmt: skip
    watch = bench.arrive(WATCH).passage
    assert (2, 1) == counts()
    watch.cancel(bench.clock.now_ns())
    first.leave_to_upstream(bench.clock.now_ns())
    come(is_refused=True)
    bench.end(first)
    assert EXECUTING is second.state
    assert second.begin_stream(bench.clock.now_ns()) is None
    assert (0, 1) == counts()
    third, fourth = come(), come()
    refusal = third.begin_stream(bench.clock.now_ns())
    assert refusal is not None
    assert (2, 1) == counts()
    bench.end(third)
    fourth.release_seats(bench.clock.now_ns())
    assert (0, 1) == counts()
    for passage in (second, fourth):
        bench.end(passage)
    bench.wait(3)
    bench.assert_at_rest()


@pytest.mark.parametrize("is_observing", [False, True])
def test_streams_without_a_limit(is_observing: bool) -> None:
    bench = Bench(is_observing=is_observing)
    passage = bench.arrive().passage
    assert passage.begin_stream(bench.clock.now_ns()) is None
    assert (0, 0) == bench.use
    bench.end(passage)
    bench.assert_at_rest()


def test_the_upstream_works_on() -> None:
    bench = Bench(schema=LIMITED)
    watch = bench.arrive(WATCH).passage
    watch.leave_to_upstream(bench.clock.now_ns())
    assert (1, 0) == bench.use
    assert SEATLESS is bench.arrive(LOG).passage.state
    bench.end(watch)

    assert (0, 0) == bench.use


def test_errors() -> None:
    bench = Bench(schema=LIMITED)
    first, second = bench.arrive(), bench.arrive(WATCH)
    bench.control.top_flows = Noting(fails=True)
    bench.wait(2)
    assert ["ZeroDivisionError"] == [told.partition("(")[0] for told in second.told]
    assert DONE is second.passage.state
    with pytest.raises(ZeroDivisionError):
        bench.end(first.passage)

    bench.assert_at_rest()


@pytest.mark.interpreted
@pytest.mark.parametrize("is_waiting", [False, True])
def test_an_error_of_a_count(monkeypatch: pytest.MonkeyPatch, is_waiting: bool) -> None:
    bench = Bench()
    passage = bench.arrive().passage
    if is_waiting:
        passage = bench.arrive().passage
    monkeypatch.setattr(RequestCount, "end", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        passage.cancel(bench.clock.now_ns())

    assert (is_waiting, 0) == bench.use


def test_an_error_of_a_turn_is_nobody_elses() -> None:
    bench = Bench()
    first, second = bench.arrive(), bench.arrive()

    def fail() -> None:
        raise ZeroDivisionError("a bug")

    second.on_seats = fail  # type: ignore[method-assign]
    bench.end(first.passage)

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
        st.tuples(st.just("reload"), st.sampled_from(["", FEW, LIMITED, f"{FEW}, {LIMITED}"])),
    ),
    max_size=40,
)


@given(STEPS, st.booleans(), st.sampled_from(["", FEW, LIMITED, 'apfproxy.io/request-rate: "2"']))
def test_all_is_given_back_once(
    steps: list[tuple[str, Any]], is_observing: bool, schema: str
) -> None:
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
        elif step == "reload":
            bench.controller.commit(bench.controller.digest(objects(schema=value)))
        elif there:
            request = there[value % len(there)]
            passage = request.passage
            if step == "release_seats" and passage.has_seats:
                passage.begin_stream(now_ns) if value % 2 else passage.release_seats(now_ns)
            elif step == "leave_to_upstream" and passage.has_seats:
                there.remove(request)
                passage.leave_to_upstream(now_ns)
                bench.wait(0.5)
                bench.end(passage)
            elif step in ("release", "cancel"):
                there.remove(request)
                getattr(passage, step)(now_ns)
        seats = sum(
            ticket.estimate.max_seats for ticket in bench.queue_set.executing if ticket.is_executing
        )
        assert seats == bench.queue_set.seats_in_use
    for request in there:
        bench.end(request.passage)
    bench.wait(3600)

    bench.assert_at_rest()
    callers = [caller for connection in connections for caller in connection]
    assert all(passage.state is DONE for caller in callers for passage in caller)
    assert not bench.errors


@pytest.fixture
def bench() -> Bench:
    return Bench(is_observing=True)


def test_goes_on_late(bench: Bench) -> None:
    """A passage that waits holds its seat for as long as its request needed, from its turn on."""
    first, second = bench.arrive().passage, bench.arrive().passage
    bench.wait(0.5)
    bench.end(second)
    assert (WAITING, (1, 1)) == (second.state, bench.use)
    bench.wait(0.5)
    bench.end(first)
    assert (EXECUTING, (1, 0)) == (second.state, bench.use)
    bench.wait(0.49)
    assert str(EXECUTING) == second.state
    bench.wait(0.01)

    assert str(DONE) == str(second.state)
    bench.assert_at_rest()


def test_is_rejected(bench: Bench) -> None:
    first = bench.arrive().passage
    watch = bench.arrive(WATCH).passage
    others = [bench.arrive().passage for _ in range(4)]
    assert [WAITING] * 3 + [OUTSIDE] == [each.state for each in others]
    bench.wait(1)
    watch.release_seats(bench.clock.now_ns())
    bench.wait(1)
    assert (OUTSIDE, 1, 1) == (watch.state, watch.seats, others[-1].seats)
    for each in (first, watch, *others):
        bench.end(each)

    bench.assert_at_rest()


def test_seats_of_limited_levels(bench: Bench) -> None:
    """Also of a request that would have been rejected; an exempt one has none of them."""
    first, *_, last = [bench.arrive().passage for _ in range(6)]
    assert (EXECUTING, 1) == (first.state, first.limited_seats)
    assert (None, 1) == (last.ticket, last.limited_seats)
    before = first.digest
    administrator = User("admin", ("system:masters",))
    digest = RequestDigest(administrator, before.attributes, S, before.kind, before.fixed_estimate)
    exempt = Passage(bench.control, digest)
    assert 0 == exempt.limited_seats
    exempt.acquire(bench.arrive())
    assert (1, 0) == (exempt.seats, exempt.limited_seats)


def test_a_watch_in_time_gives_its_seat_back(bench: Bench) -> None:
    watch = bench.arrive(WATCH).passage
    watch.release_seats(bench.clock.now_ns())
    assert (SEATLESS, (0, 0)) == (watch.state, bench.use)
    bench.end(watch)

    bench.assert_at_rest()


def test_observing_begins_and_ends_while_flows_are_noted(bench: Bench) -> None:
    bench.control.top_flows = noting = Noting()
    enforcing = bench.control.replace(None)
    observing = enforcing.replace(bench.errors.append)

    assert (False, True) == (enforcing.is_observing, observing.is_observing)
    assert noting is observing.top_flows
    assert enforcing.controller is bench.controller


def test_a_watch_ends_before_its_turn(bench: Bench) -> None:
    first, watch = bench.arrive().passage, bench.arrive(WATCH).passage
    bench.wait(0.25)
    watch.release_seats(bench.clock.now_ns())
    bench.wait(0.25)
    bench.end(watch)
    bench.end(first)
    assert (EXECUTING, 1) == (watch.state, watch.seats)
    bench.wait(0.25)

    bench.assert_at_rest()


def test_a_watch_goes_on_late() -> None:
    """It gives the seat back as much later as it waited, and its place when it ends."""
    bench = Bench(is_observing=True, schema=LIMITED)
    first, watch = bench.arrive().passage, bench.arrive(WATCH).passage
    bench.wait(0.25)
    watch.release_seats(bench.clock.now_ns())
    bench.wait(0.75)
    bench.end(first)
    assert (EXECUTING, False, (1, 0)) == (watch.state, watch.has_seats, bench.use)
    bench.wait(0.25)
    assert (SEATLESS, (0, 0)) == (watch.state, bench.use)
    assert OUTSIDE is bench.arrive(LOG).passage.state
    bench.end(watch)

    assert SEATLESS is bench.arrive(LOG).passage.state


def test_the_upstream_works_on_late(bench: Bench) -> None:
    first, second = bench.arrive().passage, bench.arrive().passage
    bench.wait(0.5)
    bench.end(first)
    bench.wait(0.25)
    assert second.has_seats
    second.leave_to_upstream(bench.clock.now_ns())
    bench.wait(0.25)
    bench.end(second)
    assert (ABANDONED, (1, 0)) == (second.state, bench.use)
    bench.wait(0.5)

    bench.assert_at_rest()


def assert_at_rest(bench: Bench, callers: list[Caller]) -> None:
    bench.assert_at_rest()
    assert all(passage.state is DONE for caller in callers for passage in caller)


def unfinished(bench: Bench) -> tuple[Request, list[Caller], Passage]:
    """A request that has the seat for good, and a caller whose passage would wait for it."""
    callers: list[Caller] = []
    first = bench.arrive()
    passage = bench.arrive(callers=callers).passage
    bench.wait(0.1)
    bench.end(passage)
    assert str(WAITING) == passage.state
    return first, callers, passage


def test_the_next_request_is_held_back(bench: Bench) -> None:
    """It is not counted, but for its class, and enters when the one before it ends."""
    first, callers, passage = unfinished(bench)
    following = bench.arrive(callers=callers).passage
    assert (NEW, False, 1, None) == (
        following.state,
        following.has_seats,
        following.seats,
        following.ticket,
    )
    assert following.classification is passage.classification
    assert (1, 1) == bench.use
    bench.end(first.passage)
    bench.wait(0.09)
    assert (EXECUTING, NEW) == (passage.state, following.state)
    bench.wait(0.01)
    assert ("done", EXECUTING, []) == (str(passage.state), following.state, callers)
    bench.end(following)
    assert str(EXECUTING) == following.state
    bench.wait(0.1)

    assert_at_rest(bench, callers)


def test_requests_that_were_held_back_enter_in_turn(bench: Bench) -> None:
    first, callers, passage = unfinished(bench)
    held_back = []
    for number in range(MOST_HELD_BACK + 2):
        held_back.append(bench.arrive(callers=callers).passage)
        bench.wait(0.001 * (1 + number))
        bench.end(held_back[-1])
    last = bench.arrive(callers=callers).passage
    bench.end(first.passage)
    bench.wait(0.1)
    assert str(DONE) == passage.state
    for number, each in enumerate(held_back):
        if number < 2:
            assert str(DONE) == each.state
            continue
        assert str(EXECUTING) == each.state
        bench.wait(0.001 * (1 + number))
        assert str(DONE) == each.state
    assert str(EXECUTING) == last.state
    bench.end(last)
    bench.wait(1)

    assert_at_rest(bench, callers)


def test_a_connection_may_have_several_callers(bench: Bench) -> None:
    """As many as it had requests at once; each has one passage at a time."""
    callers: list[Caller] = []
    first = bench.arrive().passage
    two = [bench.arrive(callers=callers).passage for _ in range(2)]
    for passage in two:
        bench.end(passage)
    more = [bench.arrive(callers=callers).passage for _ in range(3)]

    assert [NEW, NEW, WAITING] == [passage.state for passage in more]
    for passage in (*more, first):
        passage.cancel(bench.clock.now_ns())
    bench.wait(1)
    assert_at_rest(bench, callers)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_rejected_one_is_no_reason_to_ask_at_once(bench: Bench, is_late: bool) -> None:
    """The caller asks again as soon as after a response."""
    first, callers, passage = unfinished(bench)
    following = bench.arrive(callers=callers).passage
    bench.wait(0.2)
    bench.end(following)
    last = bench.arrive(callers=callers).passage
    if is_late:  # its place in the queue is taken when it enters
        passage.cancel(bench.clock.now_ns())
        others = [bench.arrive().passage for _ in range(4)]
        bench.wait(0.19)
        rejected = following
    else:
        others = []
        bench.wait(1.7 + 0.09)
        rejected = passage
    assert (OUTSIDE, NEW) == (rejected.state, last.state)
    bench.wait(0.02)

    assert str(DONE) == rejected.state
    for each in (first.passage, last, following, *others):
        each.cancel(bench.clock.now_ns())
    bench.wait(1)
    assert_at_rest(bench, callers)


def test_who_was_late_stays_so_while_there_are_waits(bench: Bench) -> None:
    first, callers, passage = unfinished(bench)
    bench.end(first.passage)  # the caller is late by 0.1 s
    bench.wait(0.15)
    assert str(DONE) == passage.state
    following = bench.arrive(callers=callers).passage
    bench.wait(0.09)
    assert str(NEW) == following.state
    bench.wait(0.01)
    assert str(EXECUTING) == following.state
    bench.end(following)
    bench.wait(0.1)

    assert (DONE, []) == (following.state, callers)  # it did not wait
    assert EXECUTING is bench.arrive(callers=callers).passage.state


def test_one_that_takes_no_seats_is_held_back(bench: Bench) -> None:
    first, callers, _ = unfinished(bench)
    log = bench.arrive(LOG, callers=callers).passage
    assert (NEW, 0) == (log.state, log.seats)
    bench.end(log)
    last = bench.arrive(callers=callers).passage
    bench.end(first.passage)
    bench.wait(0.1)

    assert (DONE, EXECUTING) == (log.state, last.state)
    last.cancel(bench.clock.now_ns())
    bench.assert_at_rest()


def test_an_error_costs_one_passage() -> None:
    bench = Bench(is_observing=True, schema=LIMITED)
    first, second = bench.arrive(), bench.arrive(WATCH)
    bench.control.top_flows = Noting(fails=True)
    bench.wait(2)
    assert ([ZeroDivisionError], []) == ([type(error) for error in bench.errors], second.told)
    assert DONE is second.passage.state
    second.passage.release_seats(bench.clock.now_ns())
    bench.end(second.passage)
    with pytest.raises(ZeroDivisionError):
        bench.end(first.passage)

    bench.assert_at_rest()


@pytest.mark.parametrize("is_executing", [False, True])
def test_an_error_at_the_end_of_an_unfinished_one(bench: Bench, is_executing: bool) -> None:
    first, callers, passage = unfinished(bench)
    following = bench.arrive(callers=callers).passage
    if is_executing:
        bench.end(first.passage)
    bench.control.top_flows = Noting(fails=True)
    bench.wait(0.1 if is_executing else 1.9)

    assert [ZeroDivisionError] == [type(each) for each in bench.errors]
    assert (DONE, EXECUTING if is_executing else WAITING) == (passage.state, following.state)


@pytest.mark.interpreted
def test_an_error_of_one_that_enters_late(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    first, callers, passage = unfinished(bench)
    following = bench.arrive(callers=callers).passage
    bench.end(first.passage)
    monkeypatch.setattr(Passage, "acquire", lambda *_: 1 / 0)
    monkeypatch.setattr(ObservedPassage, "cancel", lambda *_: 1 / 0)
    bench.wait(0.1)

    assert [ZeroDivisionError] * 2 == [type(each) for each in bench.errors]
    assert (DONE, NEW) == (passage.state, following.state)
    bench.assert_at_rest()
