"""The configuration as a whole, and each kind of finding by the least that raises it."""

from __future__ import annotations

import pytest

from apfproxy.lint.findings import FINDING_KINDS
from apfproxy.lint.linter import lint
from apfproxy.objects.decode import bootstrap_objects, decode_documents
from apfproxy.objects.types import kind_of

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
spec: {type: Limited, limited: {nominalConcurrencyShares: SHARES, limitResponse: RESPONSE}}
"""
QUEUE = "{type: Queue, queuing: {queues: QUEUES, handSize: HAND, queueLengthLimit: LENGTH}}"
ALICE = "{kind: User, user: {name: alice}}"
LEASES = "system-leader-election"


def schema(  # noqa: PLR0913 - one for each field
    rules: str = RULE,
    *,
    name: str = "a",
    precedence: int = 700,
    level: str = "workload-low",
    subject: str = ALICE,
    group: str = '"*"',
    resource: str = '"*"',
    scope: str = 'namespaces: ["*"]',
    verbs: str = "[get]",
    url: str = "/version",
) -> str:
    """A FlowSchema; by default it matches what a user asks about resources in namespaces."""
    values = {
        "NAME": name,
        "PRECEDENCE": str(precedence),
        "LEVEL": level,
        "SUBJECT": subject,
        "GROUP": group,
        "RESOURCE": resource,
        "SCOPE": scope,
        "VERBS": verbs,
        "PATH": url,
    }
    text = SCHEMA + rules
    for key, value in values.items():
        text = text.replace(key, value)
    return text


def level(
    name: str = "workload-low",
    *,
    shares: int = 100,
    queues: int = 0,
    hand: int = 1,
    length: int = 50,
) -> str:
    """A priority level; it rejects if it has no queues."""
    values = {
        "RESPONSE": QUEUE if queues else "{type: Reject}",
        "NAME": name,
        "SHARES": str(shares),
        "QUEUES": str(queues),
        "HAND": str(hand),
        "LENGTH": str(length),
    }
    text = LEVEL
    for key, value in values.items():
        text = text.replace(key, value)
    return text


def annotated(text: str, annotation: str, value: str) -> str:
    """An object with an annotation."""
    return text.replace("}\nspec", f', annotations: {{{annotation}: "{value}"}}}}\nspec', 1)


def found(text: str, *, without: str = "") -> list[tuple[str, str, str]]:
    """Id, object and field of what is found, with the objects over the built-in ones.

    Args:
        text: Objects as YAML.
        without: Name of built-in FlowSchemas that are not there.
    """
    decoded = decode_documents(text.encode(), "test")
    assert decoded.problems == []
    objects = {
        (kind_of(each), each.metadata.name): each
        for each in (*bootstrap_objects(), *decoded.objects)
    }
    if without:
        del objects["FlowSchema", without]
    return [(each.found.id, each.name, each.field) for each in lint(objects.values())]


def user(name: str) -> str:
    """A user as subject, beside one that exists."""
    return f'{ALICE}, {{kind: User, user: {{name: "{name}"}}}}'


EXAMPLES = {
    "APF101": (schema(level="nowhere"), "a", "spec.priorityLevelConfiguration.name"),
    "APF102": (
        schema() + "---\n" + schema(name="b", precedence=701, resource="pods"),
        "b",
        "spec.matchingPrecedence",
    ),
    "APF103": (
        schema(
            precedence=9500,
            subject="{kind: ServiceAccount, serviceAccount: {namespace: ci, name: builder}}",
        ),
        "a",
        "spec.matchingPrecedence",
    ),
    "APF104": (
        schema() + "---\n" + schema(name="b", subject="{kind: Group, group: {name: developers}}"),
        "b",
        "spec.matchingPrecedence",
    ),
    "APF110": (schema("").replace("  rules:\n", ""), "a", "spec.rules"),
    "APF111": (schema(subject=user("system:masters")), "a", "spec.rules[0].subjects[1]"),
    "APF112": (
        schema(URLS, verbs="[get, create]"),
        "a",
        "spec.rules[0].nonResourceRules[0].verbs[1]",
    ),
    "APF113": (
        schema(URLS, url="/version, /api/v1/pods"),
        "a",
        "spec.rules[0].nonResourceRules[0].nonResourceURLs[1]",
    ),
    "APF114": (
        schema(group="apps, apps/v1"),
        "a",
        "spec.rules[0].resourceRules[0].apiGroups[1]",
    ),
    "APF115": (
        schema(group='""', resource="pods, pods/logs"),
        "a",
        "spec.rules[0].resourceRules[0].resources[1]",
    ),
    "APF116": (
        schema(group='""', resource="pods, nodes"),
        "a",
        "spec.rules[0].resourceRules[0].resources[1]",
    ),
    "APF117": (
        annotated(level(), "apf.kubernetes.io/autoupdate-spec", "true"),
        "workload-low",
        "metadata.annotations[apf.kubernetes.io/autoupdate-spec]",
    ),
    "APF201": (
        level(shares=0, queues=128, hand=6),
        "workload-low",
        "spec.limited.nominalConcurrencyShares",
    ),
    "APF202": (level(shares=0), "workload-low", "spec.limited.nominalConcurrencyShares"),
    "APF203": (
        level("a", shares=1) + "---\n" + schema(level="a") + "---\n" + level(shares=1000),
        "a",
        "spec.limited.nominalConcurrencyShares",
    ),
    "APF204": (level("a"), "a", ""),
    "APF210": (
        level("a", shares=1).replace("limited: {", "limited: {lendablePercent: 90, ")
        + "---\n"
        + schema(level="a"),
        "a",
        "spec.limited.lendablePercent",
    ),
    "APF205": (
        level(queues=4, hand=4),
        "workload-low",
        "spec.limited.limitResponse.queuing.handSize",
    ),
    "APF206": (
        level(queues=7, hand=4),
        "workload-low",
        "spec.limited.limitResponse.queuing.handSize",
    ),
    "APF207": (
        level(shares=1, queues=128, hand=6),
        "workload-low",
        "spec.limited.limitResponse.queuing.handSize",
    ),
    "APF208": (
        level(queues=1),
        "workload-low",
        "spec.limited.limitResponse.queuing.queues",
    ),
    "APF209": (
        level(queues=128, hand=6, length=10_000_000),
        "workload-low",
        "spec.limited.limitResponse.queuing.queueLengthLimit",
    ),
    "APF212": (
        level("a", shares=601) + "---\n" + schema(level="a") + "---\n" + level(shares=602),
        "workload-low",
        "spec.limited.nominalConcurrencyShares",
    ),
    "APF301": (
        schema(
            subject="{kind: Group, group: {name: 'system:nodes'}}",
            precedence=150,
            group="coordination.k8s.io",
            resource="leases",
        ),
        "a",
        "spec.priorityLevelConfiguration.name",
    ),
    "APF302": (
        schema(
            subject="{kind: User, user: {name: 'system:kube-scheduler'}}",
            precedence=50,
            level="workload-high",
            group="coordination.k8s.io",
            resource="leases",
        ),
        "a",
        "spec.priorityLevelConfiguration.name",
    ),
    "APF401": (
        annotated(schema(), "apfproxy.io/request-rate", "fast"),
        "a",
        "metadata.annotations[apfproxy.io/request-rate]",
    ),
}
"""Id to objects that have this finding alone, with the name and field of where it is."""

ELSEWHERE = {"APF001", "APF002", "APF003", "APF211", "APF501", "APF502", "APF503"}
"""Found where files are read and compared, or beside what is wrong with a FlowSchema."""


def test_built_in_configuration_is_clean() -> None:
    """Nobody is told to change what Kubernetes suggests."""
    assert lint(bootstrap_objects()) == []


@pytest.mark.parametrize(
    ("id_", "text", "name", "field"),
    [pytest.param(id_, *example, id=id_) for id_, example in EXAMPLES.items()],
)
def test_examples(id_: str, text: str, name: str, field: str) -> None:
    """Each kind of finding has an example that has it alone."""
    assert found(text) == [(id_, name, field)]


def test_every_kind_has_an_example() -> None:
    """Nothing is said to be found that is not."""
    assert FINDING_KINDS.keys() == EXAMPLES.keys() | ELSEWHERE


@pytest.mark.parametrize(("lendable", "expected"), [("0", True), ("100", False)])
def test_seats_for_nobody(lendable: str, *, expected: bool) -> None:
    """A level whose only FlowSchema is out of reach, and that lends not all of its seats."""
    own = level("own").replace("limited: {", f"limited: {{lendablePercent: {lendable}, ")
    text = f"{schema(level='own', precedence=9999)}---\n{own}"
    first = schema(name="first", precedence=3, subject="{kind: User, user: {name: '*'}}")

    ids = {(id_, name) for id_, name, _ in found(f"{first}---\n{text}")}

    assert expected == (("APF211", "own") in ids)
    assert ("APF102", "a") in ids


def test_order() -> None:
    """Findings come in the order of their ids."""
    ids = [each[0] for each in found(level("b") + "---\n" + schema(level="nowhere"))]

    assert ids == ["APF101", "APF204"]


def test_ban_is_meant() -> None:
    """A level that says that it lets nothing through is told nothing."""
    assert found(annotated(level(shares=0), "apfproxy.io/ban", "true")) == []


def test_leases_without_their_flow_schema() -> None:
    """Without the suggested FlowSchema leases share a level with what their holders ask."""
    assert [(each[0], each[1]) for each in found("", without=LEASES)] == [
        ("APF204", "leader-election"),
        ("APF302", "kube-controller-manager"),
        ("APF302", "kube-scheduler"),
        ("APF302", "kube-system-service-accounts"),
    ]
