"""Tests of explanations: what becomes of a request, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.flowcontrol import explanation
from apfproxy.flowcontrol.classifier import MODEL
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.dealer import Dealer
from apfproxy.flowcontrol.explanation import (
    NO_COMPLETION,
    Decision,
    Explanation,
    Foresight,
    estimate_source,
    explain,
    foresee,
)
from apfproxy.flowcontrol.learned_costs import LearnedCosts, ObjectStats
from apfproxy.flowcontrol.queue_set import QueueSetConfig, QueueSetKind
from apfproxy.flowcontrol.ticket import Ticket, WorkEstimate
from apfproxy.objects.types import FlowControlObject, FlowSchema, QueuingConfiguration
from apfproxy.request.attributes import RequestAttributes, User, parse_attributes, plain_attributes
from apfproxy.request.completion import Completion
from tests.flowcontrol.level import EXEMPT, MS, REJECT, Level, queues
from tests.flowcontrol.scene import annotated
from tests.support.builders import flow_schema, group_subject, priority_level, user_subject
from tests.support.clocks import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Sequence


QUEUING = QueuingConfiguration(queues=8, hand_size=3, queue_length_limit=2)
NARROW = priority_level("narrow", shares=1, queuing=QUEUING)
PODS = parse_attributes("GET", b"/api/v1/namespaces/x/pods")
ALICE = User("alice", ("dev", "system:authenticated"))
COSTS = LearnedCosts(lambda: 0)


def controller_of(
    *objects: FlowControlObject, seats: int = 1, is_prompt: bool = False
) -> Controller:
    controller = Controller(VirtualClock(), seats, 1, is_prompt=is_prompt)
    controller.commit(controller.digest(objects))
    return controller


def everybody(level: str = "narrow", **changes: Any) -> FlowSchema:  # noqa: ANN401 - as there
    return flow_schema("everybody", level, group_subject("system:authenticated"), **changes)


def ask(controller: Controller, seats: int = 1) -> Ticket:
    found = controller.classify(ALICE, PODS)
    result = found.level.queue_set.admit(found.flow, WorkEstimate(seats), lambda _: None)
    assert isinstance(result, Ticket)
    return result


def test_everything_about_a_request() -> None:
    lost = flow_schema("lost", "nowhere", user_subject("x"))
    controller = controller_of(NARROW, everybody(), lost)
    found = explain(controller, COSTS, ALICE, PODS)
    flow_hash = controller.classify(ALICE, PODS).flow.hash

    assert ("alice", ALICE.groups) == (found.user.name, found.user.groups)
    request, level, flow = found.request, found.priority_level, found.flow
    assert ("list", "pods", "x") == (request.verb, request.resource, request.namespace)
    assert ["exempt", "everybody", "catch-all"] == [part.name for part in found.flow_schemas]
    assert [False, True, True] == [part.matches for part in found.flow_schemas]
    assert {"lost": "nowhere"} == found.dangling
    assert ("narrow", "queue", 8, 3, 2) == (
        level.name, level.kind, level.queues, level.hand_size, level.queue_length_limit,
    )  # fmt: skip
    assert ("ByUser", "alice") == (flow.distinguished_by, flow.distinguisher)
    assert f"{flow_hash:016x}" == flow.hash
    assert (1, 0, 0.0, True) == msgspec.structs.astuple(found.estimate)[:4]
    assert ((), ()) == (found.additions, found.notes)
    assert found == msgspec.convert(msgspec.to_builtins(found), Explanation)


def test_now() -> None:
    controller = controller_of(NARROW, everybody())
    texts = []
    for _ in range(8):
        found = explain(controller, COSTS, ALICE, PODS)
        texts.append(found.outcome)
        if found.outcome.decision != "reject":
            ask(controller)

    assert ["execute", *["wait"] * 6, "reject"] == [outcome.decision for outcome in texts]
    assert texts[0].text == "executes at once: it needs 1 seat, and 0 of 1 seat is in use"
    assert found.flow.hand == tuple(
        explanation.QueuePart(card, 2, int(card == texts[0].queue), int(card == texts[0].queue))
        for card in controller.classify(ALICE, PODS).flow.hand
    )
    assert [0, 0, 0, 1, 1, 1] == [outcome.ahead for outcome in texts[1:7]]
    queue = texts[4].queue
    assert texts[4].text == (
        f"waits in queue {queue}, behind 1 request: it needs 1 seat, and 1 of 1 seat is in use"
    )
    assert texts[1].text.startswith(f"waits in queue {texts[1].queue}, first: ")
    assert texts[7].reason == "queue-full"
    assert texts[7].text == (
        f"rejected with 429, queue-full: queue {texts[7].queue}, the best of its hand, has 2"
        " requests waiting, as many as it may, and 1 of 1 seat is in use"
    )


@pytest.mark.parametrize(("is_prompt", "decision"), [(True, "execute"), (False, "wait")])
def test_limit_that_does_not_stay(decision: str, *, is_prompt: bool) -> None:
    lent = priority_level("narrow", shares=1, lendable_percent=100, queuing=QUEUING)
    controller = controller_of(lent, everybody(), is_prompt=is_prompt)
    level = controller.levels["narrow"]
    level.current_limit = 0
    level.queue_set.set_concurrency_limit(0)
    found = explain(controller, COSTS, ALICE, PODS)

    assert decision == found.outcome.decision
    assert [True] * is_prompt == [
        note.startswith("the level's limit is 0 now; a request that would wait gets idle seats")
        for note in found.notes
    ]


def test_without_queues() -> None:
    controller = controller_of(priority_level("narrow", shares=1), everybody())
    ask(controller)
    found = explain(controller, COSTS, ALICE, PODS)
    exempt = explain(controller, COSTS, User("root", ("system:masters",)), PODS)

    assert ("reject", ()) == (found.priority_level.kind, found.flow.hand)
    assert found.outcome.text == (
        "rejected with 429, concurrency-limit: it needs 1 seat, 1 of 1 seat is in use, and level"
        ' "narrow" has no queues'
    )
    assert ("exempt", "execute") == (exempt.priority_level.kind, exempt.outcome.decision)
    assert exempt.outcome.text == (
        "executes at once: it needs 1 seat, and 0 seats are in use, and none is counted against a"
        " limit"
    )


def test_takes_no_seats() -> None:
    controller = controller_of(priority_level("narrow", shares=1), everybody())
    ask(controller)
    log = parse_attributes("GET", b"/api/v1/namespaces/x/pods/p/log")
    found = explain(controller, COSTS, ALICE, log)

    assert (False, "execute", True) == (
        found.estimate.takes_seats,
        found.outcome.decision,
        found.request.long_running,
    )
    why = "its subresource is log (request.longRunning.subresources)"
    assert why == found.request.long_running_by
    assert found.outcome.text.endswith(f"so it takes no seats; {why}")


def test_additions() -> None:
    controller = controller_of(
        annotated(NARROW, wait_limit="5s"),
        annotated(everybody(), distinguisher="header:X-Team"),
    )
    found = explain(controller, COSTS, ALICE, PODS, lambda name: {"x-team": "red"}.get(name, ""))

    assert (
        "Flows are told apart by the header x-team (apfproxy.io/distinguisher).",
        "A request waits in its queue for 5 s at most (apfproxy.io/wait-limit).",
    ) == found.additions
    assert ("header x-team", "red") == (found.flow.distinguished_by, found.flow.distinguisher)


def test_wrong_additions() -> None:
    controller = controller_of(
        annotated(NARROW, ban="yes"),
        annotated(everybody(), request_rate="fast", wait_limit="5s"),
    )
    found = explain(controller, COSTS, ALICE, PODS)

    assert () == found.additions
    assert [
        ('of FlowSchema "everybody" this does not count', "apfproxy.io/wait-limit"),
        ('of FlowSchema "everybody" this does not count', "apfproxy.io/request-rate"),
        ('of PriorityLevelConfiguration "narrow" this does not count', "apfproxy.io/ban"),
    ] == [
        (note.partition(":")[0], note[note.index("[") + 1 : note.index("]")])
        for note in found.notes
    ]


def test_refusals_of_a_flow() -> None:
    level = annotated(priority_level("narrow", shares=0), ban="true")
    ban = explain(controller_of(level, everybody()), COSTS, ALICE, PODS).outcome
    assert ("reject", "ban") == (ban.decision, ban.reason)
    assert ban.text == "rejected with 403, ban: the priority level rejects every request"

    log = parse_attributes("GET", b"/api/v1/namespaces/x/pods/p/log")
    limited = annotated(
        everybody(),
        request_rate="1", request_burst="3", long_running_limit="1", flow_requests_limit="3",
    )  # fmt: skip
    controller = controller_of(NARROW, limited, seats=100)
    limits = controller.classify(ALICE, PODS).limits
    assert limits is not None
    reasons = []
    for is_long_running in (True, False, False, False):
        reasons += [explain(controller, COSTS, ALICE, each).outcome.reason for each in (log, PODS)]
        limits.refusal("alice", 0, is_long_running=is_long_running)
    reasons.append(explain(controller, COSTS, ALICE, PODS).outcome.reason)
    limits.requests.take("alice")
    reasons.append(explain(controller, COSTS, ALICE, PODS).outcome.reason)

    assert [
        "",
        "",
        *["long-running", ""] * 2,
        "long-running",
        "rate",
        "rate",
        "flow-requests",
    ] == reasons


def test_a_completion_of_a_flow_that_owes_tokens() -> None:
    limited = annotated(everybody(), token_rate="60")  # noqa: S106  no password
    controller = controller_of(NARROW, limited, seats=100)
    asked = plain_attributes("POST", b"/v1/chat/completions")
    limits = controller.classify(ALICE, asked).limits
    assert limits is not None
    completion = Completion(4)
    completion.estimated = 99
    assert limits.refusal("alice", 0, is_long_running=False, completion=completion) is None
    found = explain(controller, COSTS, ALICE, asked)

    assert ("reject", "token-rate") == (found.outcome.decision, found.outcome.reason)
    assert "more tokens than its rate allows" in found.outcome.text
    assert "" == explain(controller, COSTS, ALICE, PODS).outcome.reason


@pytest.mark.parametrize(
    ("method", "level", "notes"), [("POST", "narrow", ()), ("GET", "catch-all", (NO_COMPLETION,))]
)
def test_a_model_counts_for_completions(method: str, level: str, notes: tuple[str, ...]) -> None:
    schema = annotated(everybody(), match_model="llama*", match_header="x-a: b")
    controller = controller_of(NARROW, schema, seats=100)
    asked = plain_attributes(method, b"/v1/chat/completions")
    headers = {MODEL: "llama3", "x-a": "b"}
    found = explain(controller, COSTS, ALICE, asked, lambda name: headers.get(name, ""))

    assert (level, notes) == (found.priority_level.name, found.notes)


def test_a_completion_is_charged_for_tokens() -> None:
    level = annotated(NARROW, cost="tokens")
    controller = controller_of(level, everybody(), seats=100)
    asked = plain_attributes("POST", b"/v1/chat/completions")
    found = controller.classify(ALICE, asked)
    expected: list[str] = []
    for output, ns_per_unit in ((0.0, 1e7), (99.6, 2_345_678.0)):
        found.flow.output_tokens, found.level.costs.ns_per_unit = output, ns_per_unit
        expected += explain(controller, COSTS, ALICE, asked).notes

    said = "a response of this flow is expected to have {} tokens, if the client allows as many"
    assert [f"{said.format(n)}; a token counts for {ms} ms of a seat" for n, ms in (
        (256, "10"), (100, "2.35"),
    )] == expected  # fmt: skip
    assert () == explain(controller, COSTS, ALICE, PODS).notes


def test_nothing_matches() -> None:
    found = explain(controller_of(), COSTS, User("nobody", ()), PODS)
    assert ["catch-all"] == [part.name for part in found.flow_schemas if part.is_chosen]
    assert not any(part.matches for part in found.flow_schemas)
    assert ("no FlowSchema matches; such a request goes where the one named catch-all says",) == (
        found.notes
    )


class Bench(Level):
    def __init__(self, config: QueueSetConfig, seats: int) -> None:
        super().__init__(config, seats)
        self.tickets: list[Ticket] = []

    def foresee(self, hash_: int, estimate: WorkEstimate) -> Foresight:
        config = self.queue_set.config
        hand: tuple[int, ...] = ()
        if config.kind is QueueSetKind.QUEUE:
            hand = Dealer(config.queues, config.hand_size).deal(hash_)
        self.queue_set.sync()
        return foresee(self.queue_set, hand, estimate, self.queue_set.seat_limit)

    def happens(self, hash_: int, estimate: WorkEstimate) -> Foresight:
        result = self.queue_set.admit(self.flow(hash_), estimate, lambda _: None)
        if not isinstance(result, Ticket):
            return Foresight(Decision.REJECT, reason=result)
        self.tickets.append(result)
        index = None if result.queue is None else result.queue.index
        if result.is_executing:
            return Foresight(Decision.EXECUTE, index)
        assert result.queue is not None
        return Foresight(Decision.WAIT, index, list(result.queue.tickets()).index(result))

    def assert_foreseen(self, hash_: int, estimate: WorkEstimate) -> None:
        foreseen = self.foresee(hash_, estimate)
        if foreseen.decision is Decision.REJECT:
            foreseen = Foresight(Decision.REJECT, reason=foreseen.reason)
        assert foreseen == self.happens(hash_, estimate)


SLOW = WorkEstimate(1, 1, 1000 * MS)
SLOWER = WorkEstimate(1, 1, 200_000 * MS)


@pytest.mark.parametrize(
    ("waiting", "hash_", "estimate", "expected"),
    [
        ([2], 2, SLOW, Foresight(Decision.EXECUTE, 2)),
        ([2, 2, 2], 2, SLOW, Foresight(Decision.WAIT, 2, 1)),
        ([2, 2], 3, SLOWER, Foresight(Decision.WAIT, 3, 0)),
        ([2], 3, SLOWER, Foresight(Decision.EXECUTE, 3)),
    ],
    ids=["own-queue", "own-queue-long", "other-queue", "other-queue-short"],
)
def test_what_a_withdrawal_left_is_dispatched_first(
    waiting: list[int],
    hash_: int,
    estimate: WorkEstimate,
    expected: Foresight,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(queues(4, 1, 5), 4)
    for queue, request in (
        (0, WorkEstimate(2)),
        (1, WorkEstimate(3)),
        *((2, SLOW) for _ in waiting),
    ):
        bench.happens(queue, request)
    bench.queue_set.withdraw(bench.tickets[1], None)

    with monkeypatch.context() as patch:
        patch.setattr(explanation, "MAX_DISPATCHES", 1)
        assert Decision.WAIT is bench.foresee(hash_, estimate).decision
    assert (expected, expected) == (bench.foresee(hash_, estimate), bench.happens(hash_, estimate))


ESTIMATES = st.builds(
    WorkEstimate, st.integers(1, 6), st.sampled_from([0, 0, 1, 3, 9]), st.sampled_from([0, 5 * MS])
)
STEPS = st.one_of(
    st.tuples(st.just("admit"), st.integers(0, 6), ESTIMATES),
    st.tuples(st.just("admit"), st.integers(0, 6), st.just(WorkEstimate(1))),
    st.tuples(st.sampled_from(["finish", "withdraw"]), st.integers(0, 99), st.none()),
    st.tuples(st.just("wait"), st.integers(1, 20), st.none()),
    st.tuples(st.just("limit"), st.integers(0, 6), st.none()),
    st.tuples(st.just("queues"), st.integers(1, 8), st.none()),
)


@pytest.mark.parametrize(
    "config",
    [EXEMPT, REJECT, queues(1, 1, 2), queues(4, 2, 3), queues(7, 3, 2)],
    ids=["exempt", "reject", "one-queue", "four-queues", "seven-queues"],
)
@given(steps=st.lists(STEPS, max_size=50), seats=st.integers(0, 8))
def test_foresees_what_happens(
    config: QueueSetConfig, steps: Sequence[tuple[str, int, WorkEstimate | None]], seats: int
) -> None:
    bench = Bench(config, seats)
    for step, number, estimate in steps:
        if step == "admit":
            assert estimate is not None
            bench.assert_foreseen(number * 2_654_435_761, estimate)
        elif step == "wait":
            bench.wait(number * MS)
        elif step == "limit":
            bench.queue_set.set_concurrency_limit(number)
        elif step == "queues":
            if config.kind is QueueSetKind.QUEUE:
                changed = queues(number, 1, number)
                bench.queue_set.reconfigure(changed, bench.queue_set.concurrency_limit)
        elif bench.tickets:
            ticket = bench.tickets.pop(number % len(bench.tickets))
            if step == "finish" and ticket.is_executing:
                bench.queue_set.finish(ticket)
            else:
                bench.queue_set.withdraw(ticket, None)


OF_X = b"/api/v1/namespaces/x/pods"


class Known:
    def __init__(self, stats: ObjectStats | None = None, watches: int = 0) -> None:
        self.stats = stats
        self.watches = watches

    def object_stats(self, _attributes: RequestAttributes) -> ObjectStats | None:
        return self.stats

    def watch_count(self, _attributes: RequestAttributes) -> int:
        return self.watches


def get(query: bytes = b"") -> RequestAttributes:
    return parse_attributes("GET", OF_X + query)


TOKEN = parse_attributes("POST", b"/api/v1/namespaces/x/serviceaccounts/a/token")


@pytest.mark.parametrize(
    ("attributes", "known", "max_seats", "expected"),
    [
        pytest.param(get(b"/p"), Known(), 9, "'get' is no list", id="get"),
        (get(b"?watch=1&resourceVersion=7"), Known(), 9, "begins without the objects"),
        pytest.param(get(), Known(), 9, "nothing is known", id="unknown"),
        pytest.param(get(b"?limit=x"), Known(), 9, "cannot be decoded", id="undecodable"),
        pytest.param(
            get(),
            Known(ObjectStats(500, 1000)),
            9,
            "500 objects of 1000 bytes are known; a seat for each 100 kB of those that are read at"
            " once, 9 at most here",
            id="known",
        ),
        (get(b"?limit=x"), Known(), 101, "dearest list, 100 at most (flowControl.maxListSeats)"),
        (get(), Known(ObjectStats(1, 1000)), 0, "1 object of 1000 bytes is known;"),
        (parse_attributes("DELETE", OF_X + b"/p"), Known(watches=9), 9, "it is 9"),
        (parse_attributes("PUT", OF_X + b"/p"), Known(watches=40), 3, "40 watches are"),
        pytest.param(TOKEN, Known(watches=40), 3, "no watch is told of", id="no-event"),
        (plain_attributes("GET", OF_X), Known(), 9, "one seat (preset: http or llm)"),
    ],
)
def test_source(attributes: RequestAttributes, known: Known, max_seats: int, expected: str) -> None:
    assert expected in estimate_source(attributes, cast("LearnedCosts", known), max_seats, 100)
