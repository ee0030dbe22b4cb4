"""Tests of apfproxy.flowcontrol.explanation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from apfproxy.flowcontrol.classifier import Classifier
from apfproxy.flowcontrol.controller import Checked, Controller, Digest
from apfproxy.flowcontrol.explanation import Explanation, explain
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.flowcontrol.ticket import Ticket, WorkEstimate
from apfproxy.objects.types import FlowSchema, QueuingConfiguration
from apfproxy.request.attributes import RequestAttributes, parse_attributes
from apfproxy.request.user import User
from loadtest.objects import flow_schema, group_subject, priority_level, user_subject
from tests.conformance import vectors
from tests.conformance.test_classification import without_nulls
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from apfproxy.objects.types import FlowControlObject

CASES = vectors.load("classification")
QUEUING = QueuingConfiguration(queues=8, hand_size=3, queue_length_limit=2)
NARROW = priority_level("narrow", shares=1, queuing=QUEUING)
PODS = parse_attributes("GET", b"/api/v1/namespaces/x/pods")
ALICE = User("alice", ("dev", "system:authenticated"))
COSTS = LearnedCosts(lambda: 0)


def controller_of(
    *objects: FlowControlObject, seats: int = 1, is_prompt: bool = False
) -> Controller:
    """A controller with these objects beside the mandatory ones."""
    controller = Controller(VirtualClock(), seats, 1, is_prompt=is_prompt)
    controller.commit(controller.digest(objects))
    return controller


def digest_of(controller: Controller, flow_schemas: list[FlowSchema]) -> Digest:
    """A digest of exactly these FlowSchemas, valid or not, with the levels that they name."""
    names = {schema.spec.priority_level_configuration.name for schema in flow_schemas}
    levels = [priority_level(name) for name in names - {"exempt", "catch-all"}]
    digest = controller.digest(levels)
    checked = {("FlowSchema", schema.metadata.name): Checked(schema) for schema in flow_schemas}
    return replace(
        digest,
        checked={**digest.checked, **checked},
        flow_schemas={schema.metadata.name: schema for schema in flow_schemas},
        classifier=Classifier(flow_schemas),
    )


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_agrees_with_the_reference(case: dict[str, Any]) -> None:
    """The chosen FlowSchema is the first without a mismatch, and the one that Kubernetes takes."""
    controller = controller_of()
    flow_schemas = msgspec.convert(without_nulls(case["flow_schemas"]), list[FlowSchema])
    controller.commit(digest_of(controller, flow_schemas))
    for request in case["requests"]:
        is_listing = request["verb"] in {"list", "watch"}
        attributes = RequestAttributes(
            **{name: request[name] for name in request if hasattr(PODS, name)},
            list_options=PODS.list_options if is_listing else None,
        )
        user = User(request["user"], tuple(request["groups"]))
        found = explain(controller, COSTS, user, attributes)

        assert request["flow_schema"] == found.flow_schema
        assert [request["flow_schema"]] == [
            part.name for part in found.flow_schemas if part.is_chosen
        ]
        assert request["flow_schema"] == next(
            part.name for part in found.flow_schemas if not part.mismatches
        )


def everybody(level: str = "narrow", **changes: Any) -> FlowSchema:  # noqa: ANN401 - as there
    """A FlowSchema for all that are known."""
    return flow_schema("everybody", level, group_subject("system:authenticated"), **changes)


def ask(controller: Controller, seats: int = 1) -> Ticket:
    """Have a request of alice's."""
    found = controller.classify(ALICE, PODS)
    result = found.level.queue_set.admit(found.flow, WorkEstimate(seats), lambda _: None)
    assert isinstance(result, Ticket)
    return result


def test_everything_about_a_request() -> None:
    """The parts say what the controller has."""
    controller = controller_of(
        NARROW, everybody(), flow_schema("lost", "nowhere", user_subject("x"))
    )
    found = explain(controller, COSTS, ALICE, PODS)
    classification = controller.classify(ALICE, PODS)

    assert ("alice", ALICE.groups) == (found.user.name, found.user.groups)
    assert ("list", "pods", "x") == (
        found.request.verb,
        found.request.resource,
        found.request.namespace,
    )
    assert ["exempt", "everybody", "catch-all"] == [part.name for part in found.flow_schemas]
    assert [False, True, True] == [part.matches for part in found.flow_schemas]
    assert {"lost": "nowhere"} == found.dangling
    assert ("narrow", "queue", 8, 3, 2) == (
        found.priority_level.name,
        found.priority_level.kind,
        found.priority_level.queues,
        found.priority_level.hand_size,
        found.priority_level.queue_length_limit,
    )
    assert ("ByUser", "alice", f"{classification.flow.hash:016x}") == (
        found.flow.distinguished_by,
        found.flow.distinguisher,
        found.flow.hash,
    )
    assert (1, 0, 0.0, True) == (
        found.estimate.initial_seats,
        found.estimate.final_seats,
        found.estimate.additional_latency_seconds,
        found.estimate.takes_seats,
    )
    assert ((), ()) == (found.additions, found.notes)
    assert found == msgspec.convert(msgspec.to_builtins(found), Explanation)


def test_hand_is_the_one_dealt() -> None:
    """The hand is that of a request which is really there, with what its queues hold."""
    controller = controller_of(NARROW, everybody())
    ticket = ask(controller)
    found = explain(controller, COSTS, ALICE, PODS)

    assert ticket.flow.hand == tuple(queue.index for queue in found.flow.hand)
    assert ticket.queue is not None
    assert {ticket.queue.index: 1} == {
        queue.index: queue.seats_in_use for queue in found.flow.hand if queue.seats_in_use
    }


def test_now() -> None:
    """One executes, others wait as long as there is room, then none is let in."""
    controller = controller_of(NARROW, everybody())
    texts = []
    for _ in range(8):
        found = explain(controller, COSTS, ALICE, PODS)
        texts.append(found.outcome)
        if found.outcome.decision != "reject":
            ask(controller)

    assert ["execute", *["wait"] * 6, "reject"] == [outcome.decision for outcome in texts]
    assert texts[0].text == "executes at once: it needs 1 seat, and 0 of 1 seats are in use"
    assert [0, 0, 0, 1, 1, 1] == [outcome.ahead for outcome in texts[1:7]]
    queue = texts[4].queue
    assert texts[4].text == (
        f"waits in queue {queue}, behind 1 request: it needs 1 seat, and 1 of 1 seats are in use"
    )
    assert texts[1].text.startswith(f"waits in queue {texts[1].queue}, first: ")
    assert texts[7].reason == "queue-full"
    assert texts[7].text == (
        f"rejected with 429, queue-full: queue {texts[7].queue}, the best of its hand, has 2"
        " requests waiting, as many as it may, and 1 of 1 seats are in use"
    )


def test_limit_that_does_not_stay() -> None:
    """A level that has lent all executes nevertheless, and a note says why."""
    lent = priority_level("narrow", shares=1, lendable_percent=100, queuing=QUEUING)
    controllers = {
        is_prompt: controller_of(lent, everybody(), is_prompt=is_prompt)
        for is_prompt in (True, False)
    }
    for controller in controllers.values():
        level = controller.levels["narrow"]
        level.current_limit = 0
        level.queue_set.set_concurrency_limit(0)
    note = (
        "the level's limit is 0 now; a request that would wait gets idle seats of other levels at"
        " once, and a level that has lent all that it has serves one request at a time"
        " (flowControl.limitAdjustment: prompt)"
    )
    found = {
        is_prompt: explain(controller, COSTS, ALICE, PODS)
        for is_prompt, controller in controllers.items()
    }

    assert ("execute", (note,)) == (found[True].outcome.decision, found[True].notes)
    assert ("wait", ()) == (found[False].outcome.decision, found[False].notes)


def test_without_queues() -> None:
    """A level that rejects says so; flows are not told apart there."""
    controller = controller_of(priority_level("narrow", shares=1), everybody())
    ask(controller)
    found = explain(controller, COSTS, ALICE, PODS)

    assert ("reject", (), "") == (
        found.priority_level.kind,
        found.flow.hand,
        found.flow.distinguisher,
    )
    assert found.outcome.text == (
        "rejected with 429, concurrency-limit: it needs 1 seat, 1 of 1 seats are in use, and level"
        ' "narrow" has no queues'
    )


def test_exempt() -> None:
    """Who is exempt executes whatever there is."""
    root = User("root", ("system:masters",))
    found = explain(controller_of(), COSTS, root, PODS)

    assert ("exempt", "execute", None) == (
        found.priority_level.kind,
        found.outcome.decision,
        found.outcome.queue,
    )
    assert found.outcome.text == (
        "executes at once: it needs 1 seat, and 0 seats are in use, and none is counted against a"
        " limit"
    )


def test_takes_no_seats() -> None:
    """What may last for ever goes past the queues, however full they are."""
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


def test_nothing_matches() -> None:
    """What no FlowSchema matches is noted, and goes where catch-all says."""
    found = explain(controller_of(), COSTS, User("nobody", ()), PODS)

    assert (["catch-all"], False) == (
        [part.name for part in found.flow_schemas if part.is_chosen],
        any(part.matches for part in found.flow_schemas),
    )
    assert [
        "no FlowSchema matches; such a request goes where the one named catch-all says"
    ] == list(found.notes)


def test_one_flow() -> None:
    """Without a distinguisher the FlowSchema is one flow."""
    found = explain(controller_of(NARROW, everybody(distinguish_by=None)), COSTS, ALICE, PODS)

    assert ("", "") == (found.flow.distinguished_by, found.flow.distinguisher)


def annotated(object_: Any, **annotations: str) -> Any:  # noqa: ANN401 - either kind
    """An object with additions."""
    named = {f"apfproxy.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
    metadata = msgspec.structs.replace(object_.metadata, annotations=named)
    return msgspec.structs.replace(object_, metadata=metadata)


def test_additions() -> None:
    """What annotations add is told, and counts: here the flow is that of a header."""
    controller = controller_of(
        annotated(NARROW, wait_limit="5s"), annotated(everybody(), distinguisher="header:X-Team")
    )
    found = explain(controller, COSTS, ALICE, PODS, {"x-team": "red"}.__getitem__)

    assert (
        "Flows are told apart by the header x-team (apfproxy.io/distinguisher).",
        "A request waits in its queue for 5 s at most (apfproxy.io/wait-limit).",
    ) == found.additions
    assert ("header x-team", "red") == (found.flow.distinguished_by, found.flow.distinguisher)


def test_wrong_additions() -> None:
    """Whoever wonders why an addition does nothing is told that it does not count."""
    controller = controller_of(
        annotated(NARROW, ban="yes"), annotated(everybody(), request_rate="fast", wait_limit="5s")
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


def test_ban() -> None:
    """A level that bans rejects."""
    banned = priority_level("narrow", shares=0)
    found = explain(
        controller_of(annotated(banned, ban="true"), everybody()), COSTS, ALICE, PODS
    ).outcome

    assert ("reject", "ban") == (found.decision, found.reason)
    assert found.text == "rejected with 403, ban: the priority level rejects every request"


def test_rate() -> None:
    """A flow without a token is rejected; to ask takes none."""
    controller = controller_of(
        NARROW, annotated(everybody(), request_rate="1", request_burst="2"), seats=100
    )
    found = controller.classify(ALICE, PODS)
    assert found.limits is not None
    reasons = []
    for _ in range(3):
        reasons += [explain(controller, COSTS, ALICE, PODS).outcome.reason for _ in range(2)]
        found.limits.refusal("alice", 0, is_long_running=False)

    assert ["", "", "", "", "rate", "rate"] == reasons


def test_long_running_limit() -> None:
    """A flow with as many long-running requests as it may have gets no more, but others."""
    controller = controller_of(NARROW, annotated(everybody(), long_running_limit="1"))
    log = parse_attributes("GET", b"/api/v1/namespaces/x/pods/p/log")
    limits = controller.classify(ALICE, log).limits
    assert limits is not None
    reasons = []
    for _ in range(2):
        reasons += [explain(controller, COSTS, ALICE, each).outcome.reason for each in (log, PODS)]
        limits.refusal("alice", 0, is_long_running=True)

    assert ["", "", "long-running", ""] == reasons
