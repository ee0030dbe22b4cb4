from __future__ import annotations

import asyncio
import io
import json
import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec
import pytest

from apfproxy.admin.explain_page import TOLD_APART
from apfproxy.app.process import ProxyProcess
from apfproxy.cli.explain import explanation_lines, verdict
from apfproxy.cli.main import main
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.explanation import Explanation, explain
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.objects.types import QueuingConfiguration
from apfproxy.request.attributes import User, parse_attributes
from apfproxy.request.rules import KUBERNETES, RequestRules
from tests.simulation.scene import LEVEL
from tests.support.builders import flow_schema, group_subject, priority_level, user_subject
from tests.support.clocks import VirtualClock
from tests.support.objects import level_yaml
from tests.support.processes import settings_for

if TYPE_CHECKING:
    from pathlib import Path


def explained(arguments: str, capsys: pytest.CaptureFixture[str]) -> Any:  # noqa: ANN401 - any JSON
    assert main(["explain", "-o", "json", *arguments.split()]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param("list pods -n x", id="words"),
        pytest.param("--verb list --path /api/v1/namespaces/x/pods", id="verb-and-path"),
        pytest.param("--path /api/v1/namespaces/x/pods?limit=5", id="path"),
        pytest.param("-", id="raw"),
    ],
)
def test_ways_to_ask(
    arguments: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = b"GET /api/v1/namespaces/x/pods HTTP/1.1\nHost: a\n\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    found = explained(f"{arguments} --as alice --as-group dev --hash-seed 7", capsys)

    assert ("list", "pods", "x") == (
        found["request"]["verb"],
        found["request"]["resource"],
        found["request"]["namespace"],
    )
    assert {"name": "alice", "groups": ["dev", "system:authenticated"]} == found["user"]
    assert ("global-default", "execute", []) == (
        found["flowSchema"],
        found["outcome"]["decision"],
        found["notes"],
    )


PODZ = "no resource of Kubernetes is called podz; did you mean pods?"


@pytest.mark.parametrize(
    ("arguments", "notes"),
    [
        pytest.param("--path /x --preset http", [TOLD_APART], id="anonymous"),
        pytest.param("--path /x --preset http --as key:0a", [], id="with-a-key"),
        pytest.param("--path /x --preset kubernetes", [], id="where-all-are-one"),
        pytest.param("list podz", [PODZ], id="misspelt"),
        pytest.param("list podz --as alice", [PODZ], id="misspelt-with-user"),
    ],
)
def test_notes(arguments: str, notes: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert notes == explained(f"{arguments} --hash-seed 7", capsys)["notes"]


async def test_online(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A running proxy explains by its own configuration, with every byte that was asked about."""
    process = ProxyProcess(settings_for(1))
    await process.start()
    url = f"http://127.0.0.1:{process.admin_port}"
    arguments = ["--path", "/a&b=c?d=%26+e", "--as", "al\udcffice", "--header", "X-A:b"]
    raw = b"GET /raw HTTP/1.1\nHost: a\n%b: 1\nReferer: %b\n" % (b"x" * 99, b"y" * 30_000)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    found = []
    try:
        for more in (arguments, arguments[:2], ["-"]):
            code = await asyncio.to_thread(main, ["explain", *more, "--admin", url, "-o", "json"])
            found.append((code, json.loads(capsys.readouterr().out)))
    finally:
        await process.stop()
    (code, named), (_, anonymous), (_, wide) = found

    assert (0, "/a&b=c", "al\udcffice") == (code, named["request"]["path"], named["user"]["name"])
    assert ["system:authenticated"] == named["user"]["groups"]
    assert "system:anonymous" == anonymous["user"]["name"]
    assert [] == anonymous["notes"]
    assert "/raw" == wide["request"]["path"]


@pytest.mark.parametrize(
    ("flag", "limit", "decision"),
    [("", 1, "execute"), ("--limit-adjustment kubernetes", 0, "wait")],
)
def test_a_level_that_may_lend_all(
    flag: str, limit: int, decision: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = explained(f"get pods a -n x --as u --server-concurrency-limit 8 {flag}", capsys)

    assert limit == found["priorityLevel"]["currentLimit"]
    assert decision == found["outcome"]["decision"]


COMPLETION = "--preset http --verb POST --path /v1/chat/completions"


@pytest.mark.parametrize(
    ("condition", "flags", "level"),
    [
        ("match-model: llama*", f"{COMPLETION} --model llama3", "level"),
        ("match-model: llama*", f"{COMPLETION} --model gpt", "catch-all"),
        ("match-model: llama*", COMPLETION, "catch-all"),
        ("match-query: format=csv", "--preset http --path /x?format=csv", "level"),
        ("match-query: format=csv", "--preset http --path /x?format=json", "catch-all"),
        ("match-query: 'limit=!, 0'", "list pods -A", "level"),
        ("match-query: 'limit=!, 0'", "--path /api/v1/pods?limit=500", "catch-all"),
    ],
)
def test_conditions(
    condition: str, flags: str, level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = LEVEL.replace("LEVEL_ANNOTATIONS", "")
    text = text.replace("SCHEMA_ANNOTATIONS", f"apfproxy.io/{condition}")
    (tmp_path / "a.yaml").write_text(text)
    found = explained(f"{flags} --no-suggested-objects --objects {tmp_path} --as u", capsys)

    assert level == found["priorityLevel"]["name"]


def test_a_model_of_no_completion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A proxy reads no other bodies, so none of its FlowSchemas would match by the model."""
    text = LEVEL.replace("LEVEL_ANNOTATIONS", "")
    text = text.replace("SCHEMA_ANNOTATIONS", "apfproxy.io/match-model: llama*")
    (tmp_path / "a.yaml").write_text(text)
    asked = f"--preset http --no-suggested-objects --objects {tmp_path} --as u --model llama3"
    found = explained(f"--path /v1/chat/completions {asked}", capsys)

    assert "catch-all" == found["priorityLevel"]["name"]
    assert "the model does not count" in found["notes"][0]


def test_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The objects of files are in force; prefixes and the seed are those of the flags."""
    (tmp_path / "a.yaml").write_text(level_yaml("a"))
    flags = f"--objects {tmp_path} --no-suggested-objects --server-concurrency-limit 12"
    flags += " --path-prefix /clusters/{workspace} --path-prefix /k8s/{a}"
    path = "--path /clusters/root:a/api/v1/pods"
    found, *others = [explained(f"{path} {flags} --hash-seed {n}", capsys) for n in (1, 1, 2)]

    assert ["exempt", "catch-all"] == [each["name"] for each in found["flowSchemas"]]
    assert ("catch-all", 5) == tuple(
        found["priorityLevel"][each] for each in ("name", "nominalLimit")
    )
    assert ("list", "pods", "/clusters/root:a") == tuple(
        found["request"][each] for each in ("verb", "resource", "pathPrefix")
    )
    assert [True, False] == [found["flow"]["hash"] == each["flow"]["hash"] for each in others]


EVIL = User("ann\x1b[2J", ("dev", "system:authenticated"))
QUEUING = QueuingConfiguration(queues=8, hand_size=2, queue_length_limit=5)


def explanation_of(
    user: User,
    target: bytes = b"/api/v1/pods",
    method: str = "GET",
    rules: RequestRules = KUBERNETES,
) -> Explanation:
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
    explanation = explanation_of(EVIL)
    long = lines_of(explanation, is_verbose=True)

    assert TEXT.splitlines() == lines_of(explanation)
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
    explanation = explanation_of(EVIL)
    outcome = msgspec.structs.replace(explanation.outcome, queue=3, **changes)

    assert verdict(msgspec.structs.replace(explanation, outcome=outcome)).startswith(expected)


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
    below = RequestRules(api_prefixes=["/{x}"]) if target.startswith("/y") else KUBERNETES
    lines = lines_of(explanation_of(EVIL, target.encode(), method, below))

    assert lines[3].startswith(f"request         {expected}")
    assert ("below           /y" in lines) is target.startswith("/y")


def test_parts_that_are_seldom() -> None:
    replace = msgspec.structs.replace
    explanation = explanation_of(EVIL)
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
    exempt = lines_of(explanation_of(User("root", ("system:masters",))))
    assert "would execute at once in level exempt, by FlowSchema exempt" == exempt[0]
    assert "  seats         0 in use, without a limit; nominal 0" in exempt
    lasting = lines_of(explanation_of(EVIL, b"/apis/a.io/v1/namespaces/x/things/t/proxy"))
    assert "estimate        no seats: it may last as long as its client likes" in lasting
