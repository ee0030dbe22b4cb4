from __future__ import annotations

from typing import Any

import click
import msgspec
import pytest

from apfproxy.cli.explain import explanation_lines, verdict
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.explanation import Explanation, explain
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.objects.types import QueuingConfiguration
from apfproxy.request.attributes import User, parse_attributes
from apfproxy.request.rules import KUBERNETES, RequestRules
from loadtest.objects import flow_schema, group_subject, priority_level, user_subject
from tests.support.clocks import VirtualClock

EVIL = User("ann\x1b[2J", ("dev", "system:authenticated"))
QUEUING = QueuingConfiguration(queues=8, hand_size=2, queue_length_limit=5)


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
    lines = explanation_lines(explanation, is_verbose=is_verbose)
    return [click.unstyle(line) for line in lines]


TEXT = r"""would execute at once in level queues, as flow ann\x1b[2J of FlowSchema devs
because         it needs 1 seat, and 0 of 7 seats are in use

request         list pods in all namespaces
path            /api/v1/pods
user            ann\x1b[2J of dev, system:authenticated

FlowSchemas in the order in which they are tried:
 no     1  exempt     spec.rules[0].subjects: the user is not in group "system:masters"
 no    50  two        spec.rules[0].subjects: the user is not user "bob" (and 1 more: -v)
yes    90  devs       chosen: priority level queues
  -   100  all        would match, but an earlier one is chosen
  - 10000  catch-all  would match, but an earlier one is chosen
  not used: lost, whose priority level nowhere does not exist

FlowSchema      devs
priority level  queues (8 queues of 5, hands of 2)
  seats         0 in use of 7 now; nominal 7, from 7 to 7
  requests      0 executing, 0 waiting
flow            user ann\x1b[2J (hash b3b1ab47c042386d)
  hand          queue    5  1
                waiting  0  0
                seats    0  0
estimate        1 seat
  because       nothing is known about how many objects there are, so one seat
"""


def test_text() -> None:
    """All parts have their lines, in order; what could move the cursor is escaped."""
    explanation = explained(EVIL)
    lines = lines_of(explanation)

    assert TEXT.splitlines() == lines
    long = lines_of(explanation, is_verbose=True)
    assert long[9].endswith('spec.rules[0].subjects: the user is not user "bob"')
    assert long[10].strip() == 'spec.rules[1].subjects: the user is not user "bob"'


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"decision": "wait", "ahead": 48}, "would wait in queue 3 of level queues, behind 48 re"),
        ({"decision": "wait"}, "would wait in queue 3 of level queues, as the first, as flow"),
        (
            {"decision": "reject", "text": "rejected with 429, queue-full: it has too many"},
            "would be rejected with 429, queue-full, by level queues, as flow",
        ),
        ({"decision": "else", "text": "a later version"}, "a later version, as flow"),
    ],
)
def test_verdict(changes: dict[str, Any], expected: str) -> None:
    """The first line says what would happen, in which level and as which flow."""
    explanation = explained(EVIL)
    outcome = msgspec.structs.replace(explanation.outcome, queue=3, **changes)

    assert verdict(msgspec.structs.replace(explanation, outcome=outcome)).startswith(expected)


def test_exempt() -> None:
    """Where nothing tells flows apart, the FlowSchema alone is named; there is no limit."""
    found = explained(User("root", ("system:masters",)))

    assert "would execute at once in level exempt, by FlowSchema exempt" == verdict(found)
    assert "  seats         0 in use, without a limit; nominal 0" in lines_of(found)


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/api/v1/namespaces/x/pods", "list pods in namespace x"),
        ("GET", "/api/v1/pods?watch=1", "watch pods in all namespaces"),
        ("GET", "/api/v1/pods/p", "get pods p in no namespace"),
        ("DELETE", "/apis/a.io/v1/things", "deletecollection things.a.io in all namespaces, or in"),
        ("OPTIONS", "/api/v1/pods", "(no verb) pods in no namespace"),
        ("GET", "/apis/a.io/v1/namespaces/x/things/t/log", "get things.a.io/log t in namespace x"),
        ("GET", "/y/healthz", "get /y/healthz, which is no resource"),
        ("GET", "/y/api/v1/pods", "list pods in all namespaces"),
    ],
)
def test_requests(method: str, target: str, expected: str) -> None:
    """A request without a namespace is for all of them where its resource is in namespaces."""
    below = RequestRules(api_prefixes=["/{x}"]) if target.startswith("/y") else KUBERNETES
    lines = lines_of(explained(EVIL, target.encode(), method, below))

    assert lines[3].startswith(f"request         {expected}")
    assert ("below           /y" in lines) is target.startswith("/y")


def test_parts_that_are_seldom() -> None:
    replace = msgspec.structs.replace
    explanation = explained(EVIL)
    found = replace(
        explanation,
        user=replace(explanation.user, groups=()),
        flow=replace(explanation.flow, distinguished_by="", hand=()),
        estimate=replace(
            explanation.estimate, initial_seats=2, final_seats=3, additional_latency_seconds=0.005
        ),
        additions=("An addition.",),
        notes=("a note",),
    )

    assert {
        "user            ann\\x1b[2J of no group",
        f"flow            one for the whole FlowSchema (hash {explanation.flow.hash})",
        "estimate        2 seats, then 3 for 5 ms after its end",
        "addition        An addition.",
        "note            a note",
    } <= set(lines_of(found))
    lasting = lines_of(explained(EVIL, b"/apis/a.io/v1/namespaces/x/things/t/proxy"))
    assert "estimate        no seats: it may last as long as its client likes" in lasting
