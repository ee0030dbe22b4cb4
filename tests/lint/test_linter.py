"""The configuration as a whole, and each kind of finding by the least that raises it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from msgspec.structs import replace

from apfproxy.flowcontrol.preset import HTTP
from apfproxy.lint.differences import differences, yaml_lines
from apfproxy.lint.findings import FINDING_KINDS, GIVEN_UP, Severity
from apfproxy.lint.levels import level_findings
from apfproxy.lint.linter import AUTO_UPDATE, crowded_leases, ended, lint, managed, other_api
from apfproxy.objects.additions import (
    COST,
    MATCH_HEADER,
    MATCH_MODEL,
    PRIORITY,
    TOKEN_RATE,
    UNTIL,
    WEIGHT,
    field_of,
)
from apfproxy.objects.decode import decode_documents, mandatory_objects, suggested_objects
from apfproxy.objects.types import (
    FlowControlObject,
    FlowSchema,
    NonResourcePolicyRule,
    PriorityLevelConfiguration,
    QueuingConfiguration,
    ResourcePolicyRule,
    kind_of,
)
from tests.support.builders import flow_schema, group_subject, priority_level, user_subject

if TYPE_CHECKING:
    from collections.abc import Iterable

AnyObject = TypeVar("AnyObject", bound=FlowControlObject)


SCHEMA = """apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: NAME}
spec:
  matchingPrecedence: PRECEDENCE
  priorityLevelConfiguration: {name: LEVEL}
  rules:
"""
RULE = """  - subjects: [SUBJECT]
    resourceRules:
    - {verbs: ["*"], apiGroups: [GROUP], resources: [RESOURCE], SCOPE}
"""
URLS = """  - subjects: [SUBJECT]
    nonResourceRules: [{verbs: VERBS, nonResourceURLs: [PATH]}]
"""
LEVEL = """apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: NAME}
spec: {type: Limited, limited: {nominalConcurrencyShares: SHARES, limitResponse: {type: Reject}}}
"""
ALICE = "{kind: User, user: {name: alice}}"


DEFAULTS = {
    "name": "a",
    "precedence": "700",
    "level": "workload-low",
    "subject": ALICE,
    "group": '"*"',
    "resource": '"*"',
    "scope": 'namespaces: ["*"]',
    "verbs": "[get]",
    "path": "/version",
}


def schema(rules: str = RULE, **values: str) -> str:
    """A FlowSchema; by default it matches what a user asks about resources in namespaces."""
    text = SCHEMA + rules
    for key, value in (DEFAULTS | values).items():
        text = text.replace(key.upper(), value)
    return text


def level(name: str = "workload-low", *, shares: int = 100) -> str:
    return LEVEL.replace("NAME", name).replace("SHARES", str(shares))


def annotated(text: str, annotation: str, value: str) -> str:
    return text.replace("}\nspec", f', annotations: {{{annotation}: "{value}"}}}}\nspec', 1)


BOOTSTRAP = (*mandatory_objects(), *suggested_objects())


def found(text: str) -> list[tuple[str, str, str]]:
    """Id, object and field of what is found, with the objects over the built-in ones."""
    decoded = decode_documents(text.encode(), "test")
    assert decoded.problems == []
    objects = {(kind_of(each), each.metadata.name): each for each in (*BOOTSTRAP, *decoded.objects)}
    return [(each.found.id, each.name, each.field) for each in lint(objects.values())]


def user(name: str) -> str:
    return f'{ALICE}, {{kind: User, user: {{name: "{name}"}}}}'


IN_RULE = "spec.rules[0].resourceRules[0]"
IN_URL_RULE = "spec.rules[0].nonResourceRules[0]"
LEVEL_NAME = "spec.priorityLevelConfiguration.name"
PRECEDENCE = "spec.matchingPrecedence"
DEVELOPERS = "{kind: Group, group: {name: developers}}"
NODES = "{kind: Group, group: {name: 'system:nodes'}}"
LEASES = {"group": "coordination.k8s.io", "resource": "leases"}
AUTO = f"metadata.annotations[{AUTO_UPDATE}]"
RATE = "apfproxy.io/request-rate"
CHROME = "User-Agent: Mozilla/5.0 (X11) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/*"
EXAMPLES = {
    "APF101": (schema(level="nowhere"), "a", LEVEL_NAME),
    "APF102": (
        f"{schema()}---\n{schema(name='b', precedence='701', resource='pods')}",
        *("b", PRECEDENCE),
    ),
    "APF104": (f"{schema()}---\n{schema(name='b', subject=DEVELOPERS)}", "b", PRECEDENCE),
    "APF110": (schema("").replace("  rules:\n", ""), "a", "spec.rules"),
    "APF111": (schema(subject=user("system:masters")), "a", "spec.rules[0].subjects[1]"),
    "APF112": (schema(URLS, verbs="[get, create]"), "a", f"{IN_URL_RULE}.verbs[1]"),
    "APF113": (
        schema(URLS, path="/version, /api/v1/pods"),
        *("a", f"{IN_URL_RULE}.nonResourceURLs[1]"),
    ),
    "APF114": (schema(group="apps, apps/v1"), "a", f"{IN_RULE}.apiGroups[1]"),
    "APF115": (schema(group='""', resource="pods, pods/logs"), "a", f"{IN_RULE}.resources[1]"),
    "APF116": (schema(group='""', resource="pods, nodes"), "a", f"{IN_RULE}.resources[1]"),
    "APF117": (annotated(level(), AUTO_UPDATE, "true"), "workload-low", AUTO),
    "APF204": (level("a"), "a", ""),
    "APF301": (schema(subject=NODES, precedence="150", **LEASES), "a", LEVEL_NAME),
    "APF401": (annotated(schema(), RATE, "fast"), "a", f"metadata.annotations[{RATE}]"),
    "APF402": (annotated(schema(), TOKEN_RATE, "600"), "a", field_of(TOKEN_RATE)),
    "APF405": (annotated(schema(level="exempt"), WEIGHT, "3"), "a", field_of(WEIGHT)),
    "APF404": (annotated(schema(), MATCH_HEADER, CHROME), "a", field_of(MATCH_HEADER)),
}
"""Id to objects that have this finding alone, with the name and field of where it is."""

ELSEWHERE = {
    *("APF001", "APF002", "APF003", "APF004", "APF211", "APF403", "APF501", "APF502", "APF503"),
    *("APF201", "APF202", "APF203", "APF205", "APF207", "APF208", "APF209", "APF210", "APF212"),
}
"""Found where files are read and compared, beside what is wrong with a FlowSchema, or in levels."""


def test_built_in_configuration_is_clean() -> None:
    assert lint(BOOTSTRAP) == []


@pytest.mark.parametrize(
    ("id_", "text", "name", "field"),
    [pytest.param(id_, *example, id=id_) for id_, example in EXAMPLES.items()],
)
def test_examples(id_: str, text: str, name: str, field: str) -> None:
    assert found(text) == [(id_, name, field)]


QUEUING_LEVEL = level().replace(
    "{type: Reject}", "{type: Queue, queuing: {queues: 64, handSize: 6}}"
)


@pytest.mark.parametrize(
    ("queues", "weights", "message"),
    [
        ("64", ("3", "1"), None),
        ("64", ("3", "3"), 'all flows of level "x" have this weight'),
        ("1", ("3", "1"), 'all flows of level "x" wait in one queue'),
        (None, ("3", "1"), 'nothing waits in level "x"'),
    ],
)
def test_weights(queues: str | None, weights: tuple[str, str], message: str | None) -> None:
    text = (QUEUING_LEVEL if queues else level()).replace("workload-low", "x")
    text = text.replace("queues: 64, handSize: 6", f"queues: {queues}, handSize: 1")
    for name, weight in zip("ab", weights, strict=True):
        text += f"---\n{annotated(schema(name=name, level='x'), WEIGHT, weight)}"
    given = decode_documents(text.encode(), "test").objects
    found = [each.message for each in lint(given) if each.found.id == "APF405"]

    assert [message] * (weights.count("3") if message else 0) == found


@pytest.mark.parametrize(
    "text", [annotated(QUEUING_LEVEL, COST, "tokens"), annotated(schema(), MATCH_MODEL, "*")]
)
def test_tokens_are_of_other_apis(text: str) -> None:
    given = decode_documents(text.encode(), "test").objects
    before = [each.message for each in lint(given) if each.found.id == "APF402"]
    assert ["requests to a Kubernetes API are no completions"] == before
    assert "APF402" not in {each.found.id for each in lint(given, preset=HTTP)}


def test_objects_that_have_ended() -> None:
    """An object is in force before its end, and no longer at it."""
    text = (
        annotated(schema(), UNTIL, "1970-01-01T00:01:00Z") + "---\n" + annotated(level(), RATE, "1")
    )
    given = decode_documents(text.encode(), "test").objects

    assert [] == list(ended(given, 59.9))
    assert [("APF403", "a", field_of(UNTIL), "it ended at 1970-01-01T00:01:00Z")] == [
        (each.found.id, each.name, each.field, each.message) for each in ended(given, 60.0)
    ]


def test_a_level_that_is_misspelt() -> None:
    schema = flow_schema("a", "golbal-default", user_subject("*"))
    messages = [each.message for each in lint([*BOOTSTRAP, schema])]
    assert any(each.endswith('did you mean "global-default"?') for each in messages)


def test_every_kind_has_an_example() -> None:
    assert FINDING_KINDS.keys() == EXAMPLES.keys() | ELSEWHERE


@pytest.mark.parametrize(("lendable", "expected"), [("0", True), ("100", False)])
def test_seats_for_nobody(lendable: str, *, expected: bool) -> None:
    """A level whose only FlowSchema is out of reach, and that lends not all of its seats."""
    own = level("own").replace("limited: {", f"limited: {{lendablePercent: {lendable}, ")
    text = f"{schema(level='own', precedence='9999')}---\n{own}"
    first = schema(name="first", precedence="3", subject="{kind: User, user: {name: '*'}}")
    ids = {(id_, name) for id_, name, _ in found(f"{first}---\n{text}")}
    assert expected == (("APF211", "own") in ids)
    assert ("APF102", "a") in ids


def test_words() -> None:
    kinds = list(FINDING_KINDS.values())
    assert sorted(FINDING_KINDS) == [kind.id for kind in kinds]
    assert set() == GIVEN_UP & FINDING_KINDS.keys()
    assert all(re.fullmatch(r"APF[0-5][0-9]{2}", kind.id) for kind in kinds)
    assert all(kind.meaning.endswith(".") and kind.advice.endswith(".") for kind in kinds)


def managed_object(obj: AnyObject, value: str, annotation: str = AUTO_UPDATE) -> AnyObject:
    return replace(obj, metadata=replace(obj.metadata, annotations={annotation: value}))


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(managed_object(priority_level("a"), "true"), ["delete"], id="of-ones-own"),
        pytest.param(managed_object(priority_level("system"), "true"), ["undo"], id="suggested"),
        pytest.param(managed_object(priority_level("system"), "false"), [], id="kept"),
        pytest.param(managed_object(priority_level("catch-all"), "true"), [], id="mandatory"),
    ],
)
def test_managed(obj: FlowControlObject, expected: list[str]) -> None:
    assert expected == [each.message.split()[3] for each in managed([obj])]


ANYBODY = user_subject("*")


def for_path(url: str) -> FlowSchema:
    schema = flow_schema("a", "system", ANYBODY)
    rule = NonResourcePolicyRule(verbs=("*",), non_resource_urls=(url,))
    rules = (replace(schema.spec.rules[0], resource_rules=(), non_resource_rules=(rule,)),)
    return replace(schema, spec=replace(schema.spec, rules=rules))


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param(flow_schema("a", "interactive", ANYBODY), ["the level"], id="level-of-http"),
        pytest.param(flow_schema("a", "system", ANYBODY), [], id="resources"),
        pytest.param(for_path("/healthz"), [], id="path-of-kubernetes"),
        pytest.param(for_path("/v1/x"), ["no rule"], id="other-path"),
    ],
)
def test_objects_for_another_api(schema: FlowSchema, expected: list[str]) -> None:
    found = list(other_api([schema, priority_level("mine")]))
    assert expected == [" ".join(each.message.split()[:2]) for each in found]


def test_errors_are_worst() -> None:
    assert [0, 1, 2] == [Severity(each).rank for each in ("error", "warning", "info")]


KEPT = ("system-leader-election", "system-node-high")


def found_in(objects: Iterable[FlowControlObject]) -> list[tuple[str, str, str]]:
    objects = tuple(objects)
    levels = {each.metadata.name: each for each in objects if not isinstance(each, FlowSchema)}
    schemas = [each for each in objects if isinstance(each, FlowSchema)]
    return [(each.found.id, each.name, each.message) for each in crowded_leases(schemas, levels)]


ALL_HOLDERS = "kube-controller-manager, kube-scheduler, controllers in kube-system, nodes"
ALL_OTHERS = "pods, pods that elect leaders, people, strangers"
CROWDED = f'leases of {ALL_HOLDERS} share level "catch-all" with what {ALL_OTHERS} ask'
LEASES_OF_ALL = flow_schema(
    "a",
    "leader-election",
    group_subject("system:authenticated"),
    precedence=2,
    resource_rule=ResourcePolicyRule(
        verbs=("*",), api_groups=("coordination.k8s.io",), resources=("leases",), namespaces=("*",)
    ),
    non_resource_rule=NonResourcePolicyRule(verbs=("get",), non_resource_urls=("/version",)),
)
CROWDED_BY_LEASES = (
    f'leases of {ALL_HOLDERS} share level "leader-election" with what pods that elect leaders ask'
)
SCHEDULER = flow_schema("a", "system", user_subject("system:kube-scheduler"))


WITHOUT_LEASES = [each for each in BOOTSTRAP if each.metadata.name not in KEPT]
FIRST = flow_schema("first", "exempt", group_subject("system:authenticated"), precedence=1)
LEVELS = [each for each in BOOTSTRAP if not isinstance(each, FlowSchema)]


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(mandatory_objects(), [("APF301", "catch-all", CROWDED)], id="mandatory"),
        pytest.param(WITHOUT_LEASES, [], id="no-leases"),
        pytest.param([*BOOTSTRAP, FIRST], [], id="exempt"),
        ([*BOOTSTRAP, LEASES_OF_ALL], [("APF301", "a", CROWDED_BY_LEASES)]),
        pytest.param([], [], id="nothing"),
        pytest.param([*LEVELS, SCHEDULER], [], id="others-are-not-classified"),
    ],
)
def test_leases(objects: Iterable[FlowControlObject], expected: list[tuple[str, str, str]]) -> None:
    """Leases are to have a level without what pods, people and their holders ask."""
    assert expected == found_in(objects)


OTHERS = priority_level("others", shares=90)
BORROWS = {"borrowing_limit_percent": None}
LENGTH = "queue_length_limit"
LONG, LONG_OF_ONE = (
    (
        "APF209",
        f"one flow may have {waiting} requests wait, and at most {served} before they time out",
    )
    for waiting, served in (
        (60006, "60000 are served by 10 seats"),
        (6006, "6000 are served by 1 seat"),
    )
)
ENOUGH = "which are rounded up to one; 10 seats of the server are enough"
KEEPS, ON = " it keeps one", " on it keeps one"
ROUNDED = (
    "1 of 200 shares buy 0.5 of 100 seats, which are rounded up to one; 200 seats of the server are"
    " enough"
)
QUEUING = QueuingConfiguration(queues=64, hand_size=6, queue_length_limit=50)
EXEMPT = next(
    each
    for each in mandatory_objects()
    if not isinstance(each, FlowSchema) and each.metadata.name == "exempt"
)


def messages(
    *levels: PriorityLevelConfiguration, used: tuple[str, ...] = ("a", "others"), limit: int = 100
) -> list[tuple[str, str]]:
    by_name = {level.metadata.name: level for level in levels}
    return [
        (each.found.id, each.message)
        for each in level_findings(by_name, dict.fromkeys(used, ()), used, limit)
    ]


NONE = ("APF201", "no seat of 100 is its own, and it may not borrow any")
IN_VAIN = ("APF202", "no seat of 100 is its own, and it has only what others lend")
COMMON = ("APF205", "any two flows have 1 or more of 11 queues in common")
WIDE = ("APF207", "a hand of 6 for 5 seats: no request counts as more than one seat")
SHARED = ("APF208", "all flows wait in one queue")


@pytest.mark.parametrize(
    ("fields", "queuing", "expected"),
    [
        pytest.param({}, {}, [], id="all-right"),
        pytest.param({"shares": 0}, {}, [NONE], id="no-seats"),
        pytest.param({"shares": 0, **BORROWS}, None, [IN_VAIN], id="rejects-all"),
        pytest.param({}, {"hand_size": 1, "queues": 1}, [SHARED], id="one-queue"),
        pytest.param({}, {"queues": 11}, [COMMON], id="large-hand"),
        pytest.param({}, {"queues": 12}, [], id="half-a-hand"),
        pytest.param({"shares": 5}, {}, [], id="hand-as-large-as-the-level"),
        pytest.param({"shares": 4}, {}, [WIDE], id="hand-larger-than-the-level"),
        pytest.param({"shares": 0}, {LENGTH: 1001}, [NONE, LONG_OF_ONE], id="long-without-seats"),
        pytest.param({}, {LENGTH: 10_000}, [], id="queue-that-is-worked-off"),
        pytest.param({}, {LENGTH: 10_001}, [LONG], id="long-queue"),
        pytest.param(BORROWS, {LENGTH: 10_001}, [], id="long-queue-that-may-borrow"),
    ],
)
def test_level(
    fields: dict[str, Any], queuing: dict[str, int] | None, expected: list[tuple[str, str]]
) -> None:
    queues = None if queuing is None else replace(QUEUING, **queuing)
    assert expected == messages(priority_level("a", queuing=queues, **fields), OTHERS)


def test_priorities_are_not_rounded() -> None:
    """Levels with a priority have in turns what is less than a seat, and differ by order."""
    levels = [
        priority_level(name, shares=shares, queuing=QUEUING, lendable_percent=50)
        for name, shares in (("a", 2), ("b", 1))
    ]
    annotated = [
        replace(level, metadata=replace(level.metadata, annotations={PRIORITY: "5"}))
        for level in levels
    ]

    assert ["APF212", *["APF203", "APF210"] * 2] == few_seats(*levels, OTHERS)
    assert [] == few_seats(*annotated, OTHERS)


def few_seats(*levels: PriorityLevelConfiguration) -> list[str]:
    by_name = {level.metadata.name: level for level in levels}
    found = [
        each.found.id
        for each in level_findings(by_name, dict.fromkeys(by_name, ()), by_name, 8, HTTP)
    ]
    return [each for each in found if each != "APF209"]


WORKLOAD_LOW = next(each for each in BOOTSTRAP if each.metadata.name == "workload-low")


def test_changed() -> None:
    assert not isinstance(WORKLOAD_LOW, FlowSchema)
    assert WORKLOAD_LOW.spec.limited is not None
    limited = replace(WORKLOAD_LOW.spec.limited, nominal_concurrency_shares=7)
    changed = replace(WORKLOAD_LOW, spec=replace(WORKLOAD_LOW.spec, limited=limited))
    others = [each for each in BOOTSTRAP if each != WORKLOAD_LOW]

    (difference,) = differences([*others, changed])
    assert [line for line in difference.lines if line[0] in "-+"] == [
        "--- built-in PriorityLevelConfiguration/workload-low",
        "+++ given PriorityLevelConfiguration/workload-low",
        "-    nominalConcurrencyShares: 100",
        "+    nominalConcurrencyShares: 7",
    ]
    assert difference.finding().found.id == "APF501"


def test_missing() -> None:
    found = differences(mandatory_objects())
    assert {"APF502"} == {each.finding().found.id for each in found}
    assert len(BOOTSTRAP) - len(mandatory_objects()) == len(found)
    assert {"-"} == {line[0] for each in found for line in each.lines if line[0] != "@"} - {"+"}


def test_added() -> None:
    """An object of one's own is shown as a whole, with the annotations that mean something."""
    annotations = {"apfproxy.io/ban": "true", "example.com/owner": "me"}
    level = priority_level("a", shares=0)
    level = replace(level, metadata=replace(level.metadata, annotations=annotations))

    (difference,) = differences([*BOOTSTRAP, level])
    assert difference.finding().found.id == "APF503"
    assert difference.lines[3:] == (
        "+apiVersion: flowcontrol.apiserver.k8s.io/v1",
        "+kind: PriorityLevelConfiguration",
        "+metadata:",
        "+  name: a",
        "+  annotations: {apfproxy.io/ban: 'true'}",
        "+spec:",
        "+  type: Limited",
        "+  limited:",
        "+    nominalConcurrencyShares: 0",
        "+    limitResponse: {type: Reject}",
        "+    lendablePercent: 0",
        "+    borrowingLimitPercent: 0",
    )


@pytest.mark.parametrize("name", ["\x1b[31mred", "\N{RIGHT-TO-LEFT OVERRIDE}", "a\nb"])
def test_names_of_users_are_escaped(name: str) -> None:
    lines = yaml_lines(flow_schema("a", "l", user_subject(name)))
    assert [] == [line for line in lines if not (line.isascii() and line.isprintable())]


@pytest.mark.parametrize(
    ("limit", "percent", "expected"),
    [
        (5, 50, f"10 of 100 shares buy 0.5 of 5 seats, {ENOUGH}"),
        (5, 50, f"of 5 seats of the server it has 1, and may lend it; from 11 on{KEEPS}"),
        (10, 50, f"of 10 seats of the server it has 1, and may lend it; from 11 on{KEEPS}"),
        (50, 90, f"of 50 seats of the server it has 5, and may lend all of them; from 51{ON}"),
    ],
)
def test_too_few_seats(limit: int, percent: int, expected: str) -> None:
    """A level that may lend all by rounding is told of it, with the limit that would be enough."""
    level = priority_level("a", shares=10, lendable_percent=percent)
    assert expected in [message for _, message in messages(level, OTHERS, limit=limit)]
    for enough, part in ((11, 50), (51, 90), (100, 100)):
        level = priority_level("a", shares=10, lendable_percent=part)
        assert [] == messages(level, OTHERS, limit=enough)


def test_unused() -> None:
    assert messages(priority_level("a"), OTHERS, EXEMPT, used=("others",)) == [
        ("APF204", "no FlowSchema uses it, and it has 10 of 100 seats")
    ]
    ban = managed_object(priority_level("a", shares=0), "true", "apfproxy.io/ban")  # is meant
    assert [] == messages(ban, OTHERS)
    short = managed_object(priority_level("a", queuing=QUEUING), "200ms", "apfproxy.io/wait-limit")
    assert ["APF209"] == [each[0] for each in messages(short, OTHERS)]  # too long for that
