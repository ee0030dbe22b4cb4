"""Explanations as text."""

from __future__ import annotations

from typing import Any

import click
import msgspec
import pytest

from apfproxy.cli.explanation_text import explanation_lines, verdict
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.explanation import Explanation, explain
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.objects.types import QueuingConfiguration
from apfproxy.request.attributes import User, parse_attributes
from apfproxy.request.rules import KUBERNETES, RequestRules
from loadtest.objects import flow_schema, group_subject, priority_level, user_subject
from tests.virtual_clock import VirtualClock

EVIL = User("ann\x1b[2J", ("dev", "system:authenticated"))
QUEUING = QueuingConfiguration(queues=8, hand_size=2, queue_length_limit=5)
MARK = "because         "


def explained(
    user: User,
    target: bytes = b"/api/v1/pods",
    method: str = "GET",
    rules: RequestRules = KUBERNETES,
) -> Explanation:
    """An explanation of a request, with a level of queues for those of a group."""
    controller = Controller(VirtualClock(), 10, 1)
    one_rule = flow_schema("two", "queues", user_subject("bob"), precedence=50)
    two_rules = msgspec.structs.replace(
        one_rule, spec=msgspec.structs.replace(one_rule.spec, rules=one_rule.spec.rules * 2)
    )
    controller.commit(
        controller.digest(
            [
                priority_level("queues", queuing=QUEUING),
                two_rules,
                flow_schema("lost", "nowhere", user_subject("x")),
                flow_schema("devs", "queues", group_subject("dev"), precedence=90),
                flow_schema("all", "catch-all", group_subject("*"), distinguish_by="ByNamespace"),
            ]
        )
    )
    attributes = parse_attributes(method, target, rules)
    return explain(controller, LearnedCosts(lambda: 0), user, attributes)


def lines_of(explanation: Explanation, *, is_verbose: bool = False) -> list[str]:
    """Its lines without colours."""
    lines = explanation_lines(explanation, is_verbose=is_verbose)
    return [click.unstyle(line) for line in lines]


def test_request_with_queues() -> None:
    """All parts have their lines, in order; what could move the cursor is escaped."""
    explanation = explained(EVIL)
    lines = lines_of(explanation)
    labels = [line[: len(MARK)].rstrip() for line in lines]
    first, second = (queue.index for queue in explanation.flow.hand)

    assert lines[0] == (
        "would execute at once in level queues, as flow ann\\x1b[2J of FlowSchema devs"
    )
    assert lines[1].startswith("because         it needs 1 seat, and 0 of ")
    assert labels[2:7] == ["", "request", "path", "user", ""]
    assert labels[labels.index("FlowSchema") :] == [
        "FlowSchema", "priority level", "  seats", "  requests", "flow", "  hand", "", "",
        "estimate", "  because",
    ]  # fmt: skip
    assert lines[3] == "request         list pods in all namespaces"
    assert lines[5] == "user            ann\\x1b[2J of dev, system:authenticated"
    assert "\x1b" not in "".join(lines)
    assert "  not used: lost, whose priority level nowhere does not exist" in lines
    assert f"  hand          queue    {first}  {second}" in lines
    assert lines[labels.index("flow")] == (
        f"flow            user ann\\x1b[2J (hash {explanation.flow.hash})"
    )


def test_flow_schemas() -> None:
    """Each FlowSchema has its precedence and its verdict; only if asked, every reason."""
    explanation = explained(EVIL)
    short, long = lines_of(explanation), lines_of(explanation, is_verbose=True)
    at = short.index("FlowSchemas in the order in which they are tried:")

    assert [
        ["no", "1", "exempt"],
        ["no", "50", "two"],
        ["yes", "90", "devs"],
        ["-", "100", "all"],
        ["-", "10000", "catch-all"],
    ] == [line.split()[:3] for line in short[at + 1 : at + 6]]
    reason = 'spec.rules[0].subjects: the user is not user "bob"'
    assert short[at + 2].endswith(f"{reason} (and 1 more: -v)")
    assert long[at + 2].endswith(reason)
    assert long[at + 3].strip() == 'spec.rules[1].subjects: the user is not user "bob"'


def test_colours() -> None:
    """The verdict stands out; what is at a terminal may have colours."""
    first = next(explanation_lines(explained(EVIL), is_verbose=False))

    assert click.style(click.unstyle(first), fg="green", bold=True) == first


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(
            {"decision": "wait", "queue": 3, "ahead": 48},
            "would wait in queue 3 of level queues, behind 48 requests, as flow",
            id="behind-others",
        ),
        pytest.param(
            {"decision": "wait", "queue": 3},
            "would wait in queue 3 of level queues, as the first, as flow",
            id="first",
        ),
        pytest.param(
            {"decision": "reject", "text": "rejected with 429, queue-full: it has too many"},
            "would be rejected with 429, queue-full, by level queues, as flow",
            id="rejected",
        ),
        pytest.param(
            {"decision": "else", "text": "what a later version does"},
            "what a later version does, as flow",
            id="unknown",
        ),
    ],
)
def test_verdict(changes: dict[str, Any], expected: str) -> None:
    """The first line says what would happen, in which level and as which flow."""
    explanation = explained(EVIL)
    outcome = msgspec.structs.replace(explanation.outcome, **changes)

    assert verdict(msgspec.structs.replace(explanation, outcome=outcome)).startswith(expected)


def test_verdict_without_a_flow() -> None:
    """Where nothing tells flows apart, the FlowSchema alone is named."""
    assert "would execute at once in level exempt, by FlowSchema exempt" == verdict(
        explained(User("root", ("system:masters",)))
    )


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/api/v1/namespaces/x/pods", "list pods in namespace x"),
        ("GET", "/api/v1/pods?watch=1", "watch pods in all namespaces"),
        ("GET", "/api/v1/nodes", "list nodes in no namespace"),
        ("GET", "/api/v1/pods/p", "get pods p in no namespace"),
        (
            "DELETE",
            "/apis/a.io/v1/things",
            "deletecollection things.a.io in all namespaces, or in none",
        ),
        ("OPTIONS", "/api/v1/pods", "(no verb) pods in no namespace"),
        ("GET", "/apis/a.io/v1/namespaces/x/things/t/log", "get things.a.io/log t in namespace x"),
        ("GET", "/healthz", "get /healthz, which is no resource"),
        ("GET", "/y/healthz", "get /y/healthz, which is no resource"),
        ("GET", "/y/api/v1/pods", "list pods in all namespaces"),
    ],
)
def test_requests(method: str, target: str, expected: str) -> None:
    """A request without a namespace is for all of them where its resource is in namespaces."""
    below = RequestRules(api_prefixes=["/{x}"]) if target.startswith("/y") else KUBERNETES
    lines = lines_of(explained(EVIL, target.encode(), method, below))

    assert f"request         {expected}" == lines[3]
    assert ("below           /y" in lines) is target.startswith("/y")


def test_without_seats() -> None:
    """A request that may last takes no seats, and the reason is there."""
    lines = lines_of(explained(EVIL, b"/apis/a.io/v1/namespaces/x/things/t/proxy"))

    assert lines[6] == (
        "long-running    its subresource is proxy (request.longRunning.subresources)"
    )
    assert "estimate        no seats: it may last as long as its client likes" in lines


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        pytest.param(EVIL, "0 in use of 7 now; nominal 7, from 7 to 7", id="limited"),
        pytest.param(
            User("root", ("system:masters",)), "0 in use, without a limit; nominal 0", id="exempt"
        ),
    ],
)
def test_seats(user: User, expected: str) -> None:
    """Seats stand beside their limits, where there are any."""
    assert f"  seats         {expected}" in lines_of(explained(user))


def test_parts_that_are_seldom() -> None:
    """Notes, additions, flows that nothing tells apart, seats after the end, no groups."""
    explanation = explained(EVIL)
    estimate = msgspec.structs.replace(
        explanation.estimate, initial_seats=2, final_seats=3, additional_latency_seconds=0.005
    )
    seldom = msgspec.structs.replace(
        explanation,
        user=msgspec.structs.replace(explanation.user, groups=()),
        flow=msgspec.structs.replace(explanation.flow, distinguished_by="", hand=()),
        estimate=estimate,
        additions=("An addition.",),
        notes=("a note",),
    )
    lines = lines_of(seldom)
    namespace = msgspec.structs.replace(
        explanation.flow, distinguished_by="ByNamespace", distinguisher=""
    )
    other = lines_of(msgspec.structs.replace(explanation, flow=namespace))

    for line in (
        "user            ann\\x1b[2J of no group",
        f"flow            one for the whole FlowSchema (hash {explanation.flow.hash})",
        "estimate        2 seats, then 3 for 5 ms after its end",
        "addition        An addition.",
        "note            a note",
    ):
        assert line in lines
    assert f"flow            no namespace tells it apart (hash {explanation.flow.hash})" in other
