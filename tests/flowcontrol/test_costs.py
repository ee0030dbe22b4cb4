"""Levels that count costs: flows share tokens, or what a header says, in place of time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.costs import FIRST_NS_PER_TOKEN, FIRST_OUTPUT_TOKENS, LevelCosts
from apfproxy.flowcontrol.observed_passage import Caller, ObservedPassage
from apfproxy.flowcontrol.passage import (
    FlowControl,
    Passage,
    RequestDigest,
    is_completion,
)
from apfproxy.flowcontrol.ticket import ONE_SEAT, SERVICE_GUESS_NS, RejectReason, WorkEstimate
from apfproxy.objects.additions import TOKENS, Cost
from apfproxy.request.attributes import User, parse_attributes, plain_attributes
from apfproxy.request.completion import NEVER_NS, Completion
from tests.simulation.scene import objects
from tests.support.clocks import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable

S = 1_000_000_000
COMPLETIONS = plain_attributes("POST", b"/v1/chat/completions")
TOKENS_COST = "apfproxy.io/cost: tokens"
HEADER_COST = "apfproxy.io/cost: 'header:X-Cost'"


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/v1/chat/completions", True),
        ("POST", "/openai/v1/completions", True),
        ("POST", "/v1/responses", True),
        ("POST", "/v1/messages", True),
        ("POST", "/api/chat", True),
        ("POST", "/api/generate", True),
        ("GET", "/v1/chat/completions", False),
        ("POST", "/v1/models", False),
        ("POST", "/v1/chat/completions/1", False),
    ],
)
def test_paths_of_completions(method: str, path: str, *, expected: bool) -> None:
    assert expected == is_completion(plain_attributes(method, path.encode()))
    assert not is_completion(parse_attributes(method, path.encode()))


class Digest(RequestDigest):
    cost = ""

    def header(self, name: str) -> str:
        return self.cost if name == "x-cost" else ""


class Bench:
    """A level of some seats before which tenants have a number of requests each."""

    def __init__(self, annotations: str = TOKENS_COST, seats: int = 8, *, schema: str = "") -> None:
        self.clock = VirtualClock()
        self.controller = Controller(self.clock, seats, 0)
        self.configure(annotations, schema)
        self.control = FlowControl(
            self.controller, self.clock, unix_s=lambda: S + self.clock.now_ns() // S
        )
        self.kinds = self.control.kinds
        self.tokens: dict[str, int] = {}

    def configure(self, annotations: str, schema: str = "") -> None:
        queuing = "queues: 64, handSize: 4, queueLengthLimit: 100"
        digest = self.controller.digest(objects(level=annotations, schema=schema, queuing=queuing))
        assert not digest.problems
        self.controller.commit(digest)

    @property
    def costs(self) -> LevelCosts:
        return self.controller.levels["level"].costs

    def passage(self, user: str = "u", completion: Completion | None = None) -> Passage:
        return self.passage_of(self.digest(user), completion)

    def passage_of(self, digest: Digest, completion: Completion | None = None) -> Passage:
        passage = Passage(self.control, digest)
        passage.completion = completion
        return passage

    def digest(self, user: str) -> Digest:
        user_ = User(user, ("system:authenticated",))
        return Digest(user_, COMPLETIONS, 4_000_000 * S, self.kinds.kinds[True], ONE_SEAT)


class Tenant:
    """A client that always has a request, or a few, of so many tokens that take so long."""

    def __init__(self, bench: Bench, name: str, tokens: int, service_ns: int) -> None:
        self._bench = bench
        self._tokens = tokens
        self._service_ns = service_ns
        self._digest = bench.digest(name)
        self._digest.cost = str(tokens)
        self.served = 0

    def ask(self) -> None:
        Ask(self, self._bench.passage_of(self._digest, Completion(40)))

    def begin(self, passage: Passage) -> None:
        clock = self._bench.clock
        clock.call_at(clock.now_ns() + self._service_ns, partial(self._end, passage))

    def _end(self, passage: Passage) -> None:
        assert passage.completion is not None
        passage.completion.count(10, self._tokens - 10)
        self.served += self._tokens
        passage.release(self._bench.clock.now_ns())
        self.ask()


class Ask:
    def __init__(self, tenant: Tenant, passage: Passage) -> None:
        self._tenant = tenant
        self._passage = passage
        if passage.acquire(self):
            self.on_seats()

    def on_seats(self) -> None:
        self._tenant.begin(self._passage)

    def on_time_out(self) -> None:
        raise AssertionError

    def fail(self, error: Exception) -> None:
        raise error


def by_tokens(tokens: int) -> int:
    return tokens * S // 1000


def alike(_tokens: int) -> int:
    return S // 2


@pytest.mark.parametrize("service_ns", [by_tokens, alike])
@pytest.mark.parametrize("annotations", [TOKENS_COST, HEADER_COST])
def test_tenants_share_tokens(annotations: str, service_ns: Callable[[int], int]) -> None:
    bench = Bench(annotations)
    tenants = [Tenant(bench, f"t{each}", each, service_ns(each)) for each in (200, 2000)]
    for _ in range(20):
        for tenant in tenants:
            tenant.ask()
    bench.clock.run_until(400 * S)

    few, many = (tenant.served for tenant in tenants)
    assert few == pytest.approx(many, rel=0.1)


def test_without_cost_they_share_time() -> None:
    bench = Bench("")
    tenants = [Tenant(bench, f"t{each}", each, S // 2) for each in (200, 2000)]
    for _ in range(20):
        for tenant in tenants:
            tenant.ask()
    bench.clock.run_until(400 * S)

    few, many = (tenant.served for tenant in tenants)
    assert 10 * few == pytest.approx(many, rel=0.1)


class Going:
    def on_seats(self) -> None:
        raise AssertionError

    on_time_out = on_seats

    def fail(self, error: Exception) -> None:
        raise error


def test_expected_output() -> None:
    """The flow's own counts first, then the level's, and no more than the client allows."""
    bench = Bench()
    expected = []
    for user, most, said in (
        ("a", 0, 100), ("a", 0, 150), ("b", 0, -1), ("a", 50, -1), ("a", 0, -1),
    ):  # fmt: skip
        completion = Completion(40, "m", most, 2)
        passage = bench.passage(user, completion)
        assert passage.acquire(Going())
        expected.append(completion.estimated - 10)
        completion.count(-1, said)
        passage.release(bench.clock.now_ns())

    assert [2 * FIRST_OUTPUT_TOKENS, 100, 110, 100, 110] == expected


def work_of(passage: Passage) -> int:
    """Seat ticks that the flow's queue is charged for a passage, from its dispatch to now."""
    assert passage.ticket is not None
    assert passage.ticket.queue is not None
    return passage.ticket.queue.next_dispatch_r - passage.ticket.arrival_r


def test_charges_begin_with_the_estimate_and_end_with_what_was_had() -> None:
    bench = Bench()
    completion = Completion(400, "m", 100)
    passage = bench.passage("a", completion)
    assert passage.acquire(Going())
    assert 200 * FIRST_NS_PER_TOKEN == 10 * work_of(passage)
    bench.clock.run_until(4 * S)
    completion.count(100, 300)
    passage.release(bench.clock.now_ns())

    assert 4 * S == 10 * work_of(passage)
    assert S / 100 == bench.costs.ns_per_unit
    slow = bench.passage("b", Completion(400, "m", 100))
    assert slow.acquire(Going())
    assert 2 * S == 10 * work_of(slow)


@pytest.mark.parametrize(
    ("whole_ns", "late_ns"), [(0, 0), (1, 0), (S, 0), (6 * S, 5 * S), (NEVER_NS, 7 * S)]
)
def test_time_that_a_slow_body_takes_is_charged(whole_ns: int, late_ns: int) -> None:
    """It teaches nothing of what a token takes."""
    bench = Bench()
    bench.clock.run_until(S)
    completion = Completion(40)
    passage = bench.passage("a", completion)
    assert passage.acquire(Going())
    completion.whole_ns = whole_ns
    completion.count(10, 90)
    bench.clock.run_until(8 * S)
    passage.release(8 * S)

    assert 7 * S == 10 * work_of(passage)
    learned = (7 * S - late_ns) / 100 or FIRST_NS_PER_TOKEN
    assert learned == bench.costs.ns_per_unit


def test_a_slow_body_costs_time_beside_tokens() -> None:
    bench = Bench()
    for user, whole_ns in (("a", 0), ("b", 5 * S)):
        completion = Completion(40)
        passage = bench.passage(user, completion)
        start_ns = bench.clock.now_ns()
        assert passage.acquire(Going())
        completion.whole_ns = whole_ns
        completion.count(10, 90)
        bench.clock.run_until(start_ns + S + max(whole_ns - start_ns, 0))
        passage.release(bench.clock.now_ns())

    assert 5 * S == 10 * work_of(passage)
    assert S / 100 == bench.costs.ns_per_unit


def test_a_completion_without_a_response_is_charged_by_time() -> None:
    bench = Bench()
    passage = bench.passage("a", Completion(400))
    assert passage.acquire(Going())
    bench.clock.run_until(7 * S)
    passage.cancel(bench.clock.now_ns())

    assert 7 * S == 10 * work_of(passage)
    assert FIRST_NS_PER_TOKEN == bench.costs.ns_per_unit


@pytest.mark.parametrize("annotations", [TOKENS_COST, HEADER_COST])
def test_a_request_whose_cost_is_not_known_is_charged_by_time(annotations: str) -> None:
    bench = Bench(annotations)
    passage = bench.passage()
    assert passage.acquire(Going())
    assert passage.ticket is not None
    assert SERVICE_GUESS_NS == passage.ticket.estimate.guess_ns
    bench.clock.run_until(S)
    passage.release(S)
    assert S == 10 * work_of(passage)


@pytest.mark.parametrize(
    ("said", "expected"),
    [("7", 7.0), (" 2.5 ", 2.5), ("0", 0.0), ("-1", 0.0), ("1e3", 0.0), ("9999999999", 1e9)],
)
def test_units_that_a_header_says(said: str, expected: float) -> None:
    costs = LevelCosts()
    costs.configure(Cost("x-cost"))
    estimate = costs.estimate(WorkEstimate(2, 3, 10), None, lambda _name: said)

    assert expected == estimate.units
    guess_ns = round(expected / 2 * SERVICE_GUESS_NS) if expected else SERVICE_GUESS_NS
    assert (2, 3, 10, guess_ns) == (
        estimate.initial_seats,
        estimate.final_seats,
        estimate.additional_latency_ns,
        estimate.guess_ns,
    )
    assert (1, guess_ns, expected) == (
        estimate.cut(1).final_seats,
        estimate.cut(1).guess_ns,
        estimate.cut(1).units,
    )


@pytest.mark.parametrize("after", ["", TOKENS_COST])
def test_another_configuration_while_a_request_is_under_way(after: str) -> None:
    """It is charged by time, and teaches nothing of a unit that it did not count."""
    bench = Bench(HEADER_COST)
    digest = bench.digest("a")
    digest.cost = "1000"
    passage = bench.passage_of(digest)
    assert passage.acquire(Going())
    bench.configure(after)
    bench.clock.run_until(S)
    passage.release(S)

    assert S == 10 * work_of(passage)
    assert FIRST_NS_PER_TOKEN == bench.costs.ns_per_unit


def test_what_is_learned_stays_with_the_unit() -> None:
    costs = LevelCosts()
    for cost, expected in (
        (TOKENS, FIRST_NS_PER_TOKEN), (Cost("a"), SERVICE_GUESS_NS), (None, FIRST_NS_PER_TOKEN),
    ):  # fmt: skip
        costs.configure(cost)
        assert expected == costs.ns_per_unit
        costs.ns_per_unit = 5
        costs.configure(cost)
        assert 5 == costs.ns_per_unit


@pytest.mark.parametrize("is_observed", [False, True])
def test_the_model_is_of_one_request_alone(is_observed: bool) -> None:
    """Requests with the same head share a digest."""
    bench = Bench("", schema="apfproxy.io/match-model: 'llama*'")
    digest = bench.digest("u")
    found = []
    callers: list[Caller] = []
    for model in ("llama3", "", "gpt", "llama3:8b"):
        completion = Completion(40, model)
        passage = Passage(bench.control, digest)
        if is_observed:
            passage = ObservedPassage(bench.control, digest, callers)
        passage.completion = completion
        assert passage.acquire(Going())
        assert passage.classification is not None
        found.append(passage.classification.flow_schema.metadata.name)
        passage.release(bench.clock.now_ns())

    assert ["schema", "catch-all", "catch-all", "schema"] == found
    assert bench.controller.reads_completions
    bench.configure("")
    assert not bench.controller.reads_completions


def test_a_token_rate_counts_what_completions_had() -> None:
    bench = Bench("", schema="apfproxy.io/token-rate: '600'")

    def ask(counted: int, *, is_cancelled: bool = False) -> RejectReason | None:
        completion = Completion(40)
        passage = bench.passage("u", completion)
        goes_on = passage.acquire(Going())
        assert goes_on == (passage.refusal is None)
        if goes_on and not is_cancelled:
            completion.count(-1, counted)
        passage.cancel(bench.clock.now_ns())
        return None if passage.refusal is None else passage.refusal.reason

    assert [None, None, None] == [ask(0, is_cancelled=True) for _ in range(3)]
    assert [None, None] == [ask(590), ask(20)]
    assert RejectReason.TOKEN_RATE == ask(0)
    bench.clock.run_until(3 * S)
    assert [None, RejectReason.TOKEN_RATE] == [ask(10), ask(10)]
    other = bench.passage("u")
    assert other.acquire(Going()), "it is no completion"


def test_a_completion_that_never_enters() -> None:
    bench = Bench()
    passage = bench.passage("u", Completion(40))
    passage.cancel(bench.clock.now_ns())
    assert passage.classification is None
