"""Tests of why a FlowSchema or its condition does not match."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.flowcontrol.classifier import Classifier
from apfproxy.flowcontrol.mismatch import Mismatch, mismatches, unmet
from apfproxy.objects.additions import MATCH_HEADER, MATCH_METHODS, Condition
from apfproxy.objects.types import (
    FlowSchema,
    FlowSchemaSpec,
    NonResourcePolicyRule,
    PolicyRulesWithSubjects,
    ResourcePolicyRule,
    ServiceAccountSubject,
    Subject,
)
from apfproxy.request.attributes import RequestAttributes, User, parse_attributes
from loadtest.objects import (
    flow_schema,
    group_subject,
    priority_level,
    user_subject,
)
from tests.flowcontrol.scene import Scene, annotated

ALICE = User("alice", ("dev",))
PODS = parse_attributes("GET", b"/api/v1/namespaces/x/pods")
LOG = parse_attributes("GET", b"/api/v1/namespaces/x/pods/p/log")
NODES = parse_attributes("GET", b"/api/v1/nodes")
HEALTH = parse_attributes("GET", b"/healthz")


def schema(*rules: PolicyRulesWithSubjects) -> FlowSchema:
    return FlowSchema(spec=FlowSchemaSpec(rules=rules))


def resource(**changes: object) -> ResourcePolicyRule:
    """A resource rule that matches everything but for what is changed."""
    fields = {
        "verbs": ("*",),
        "api_groups": ("*",),
        "resources": ("*",),
        "cluster_scope": True,
        "namespaces": ("*",),
        **changes,
    }
    return ResourcePolicyRule(**fields)  # type: ignore[arg-type]


def rule_of(*subjects: Subject, **rules: object) -> PolicyRulesWithSubjects:
    return PolicyRulesWithSubjects(
        subjects=subjects or (user_subject("alice"),),
        **rules,  # type: ignore[arg-type]
    )


def account(namespace: str, name: str) -> Subject:
    return Subject(
        kind="ServiceAccount",
        service_account=ServiceAccountSubject(namespace=namespace, name=name),
    )


def urls(*non_resource_urls: str, verbs: tuple[str, ...] = ("*",)) -> PolicyRulesWithSubjects:
    rule = NonResourcePolicyRule(verbs=verbs, non_resource_urls=non_resource_urls)
    return rule_of(non_resource_rules=(rule,))


def resources(**changes: object) -> PolicyRulesWithSubjects:
    return rule_of(resource_rules=(resource(**changes),))


BROKEN = "the user is not what a subject without its part of the union says"
ACCOUNTS = group_subject("o"), account("a", "*"), account("b", "c")


@pytest.mark.parametrize(
    ("rule", "attributes", "field", "reason"),
    [
        (rule_of(user_subject("bob")), PODS, "subjects", 'the user is not user "bob"'),
        (
            rule_of(*ACCOUNTS),
            PODS,
            "subjects",
            'the user is not in group "o", a service account in "a" or service account "c" in "b"',
        ),
        (
            rule_of(*(user_subject(str(number)) for number in range(8))),
            PODS,
            "subjects",
            'the user is not user "0", user "1", user "2", user "3", user "4" or any of 3 others',
        ),
        (rule_of(Subject(kind="User")), PODS, "subjects", BROKEN),
        (
            PolicyRulesWithSubjects(),
            PODS,
            "subjects",
            "the user is not in the list, which is empty",
        ),
        (urls("*"), PODS, "resourceRules", "there is none, and the request is for a resource"),
        (
            resources(),
            HEALTH,
            "nonResourceRules",
            "there is none, and the request is for no resource",
        ),
        (
            resources(verbs=("get", "watch")),
            PODS,
            "resourceRules[0].verbs",
            '"list" is not "get" or "watch"',
        ),
        (
            resources(resources=("pods",)),
            LOG,
            "resourceRules[0].resources",
            '"pods/log" is not "pods"',
        ),
        (resources(api_groups=("apps",)), PODS, "resourceRules[0].apiGroups", '"" is not "apps"'),
        (resources(namespaces=("y",)), PODS, "resourceRules[0].namespaces", '"x" is not "y"'),
        (
            resources(cluster_scope=False),
            NODES,
            "resourceRules[0].clusterScope",
            "it is false, and the request has no namespace",
        ),
        (
            urls("*", verbs=("post",)),
            HEALTH,
            "nonResourceRules[0].verbs",
            '"get" is not "post"',
        ),
        (
            urls("/livez"),
            HEALTH,
            "nonResourceRules[0].nonResourceURLs",
            '"/healthz" is not "/livez"',
        ),
    ],
)
def test_reason(
    rule: PolicyRulesWithSubjects, attributes: RequestAttributes, field: str, reason: str
) -> None:
    expected = (Mismatch(field=f"spec.rules[0].{field}", reason=reason),)

    assert expected == mismatches(schema(rule), ALICE, attributes)


def test_every_rule_is_named() -> None:
    verbs = resource(verbs=("get",))
    found = mismatches(
        schema(
            rule_of(user_subject("bob"), resource_rules=(verbs,)),
            rule_of(resource_rules=(verbs, resource(namespaces=("y",)))),
        ),
        ALICE,
        PODS,
    )

    assert [
        "spec.rules[0].subjects",
        "spec.rules[1].resourceRules[0].verbs",
        "spec.rules[1].resourceRules[1].namespaces",
    ] == [mismatch.field for mismatch in found]
    assert ["spec.rules"] == [mismatch.field for mismatch in mismatches(schema(), ALICE, PODS)]


def lists_of(*values: str) -> st.SearchStrategy[tuple[str, ...]]:
    """Lists as rules have them, wildcards in any place among them."""
    return st.lists(st.sampled_from(("*", *values)), max_size=3).map(tuple)


SUBJECTS = st.lists(
    st.sampled_from(
        [
            user_subject("alice"),
            user_subject("*"),
            group_subject("dev"),
            group_subject("*"),
            account("x", "*"),
            account("x", "a"),
            Subject(kind="Group"),
        ]
    ),
    max_size=2,
).map(tuple)
RULES = st.builds(
    PolicyRulesWithSubjects,
    subjects=SUBJECTS,
    resource_rules=st.lists(
        st.builds(
            ResourcePolicyRule,
            verbs=lists_of("get", "list"),
            api_groups=lists_of("", "apps"),
            resources=lists_of("pods", "pods/log"),
            cluster_scope=st.booleans(),
            namespaces=lists_of("x", "y"),
        ),
        max_size=2,
    ).map(tuple),
    non_resource_rules=st.lists(
        st.builds(
            NonResourcePolicyRule,
            verbs=lists_of("get", "post"),
            non_resource_urls=lists_of("/healthz", "/a/*", "/a/"),
        ),
        max_size=2,
    ).map(tuple),
)


@given(
    rules=st.lists(RULES, max_size=3),
    user=st.sampled_from(
        [ALICE, User("bob", ("dev", "ops")), User("system:serviceaccount:x:a", ())]
    ),
    attributes=st.sampled_from(
        [PODS, LOG, NODES, HEALTH, parse_attributes("GET", b"/a/../healthz")]
    ),
)
def test_agrees_with_the_classifier(
    rules: list[PolicyRulesWithSubjects], user: User, attributes: RequestAttributes
) -> None:
    flow_schema = schema(*rules)

    assert (Classifier([flow_schema]).classify(user, attributes) is not None) == (
        mismatches(flow_schema, user, attributes) == ()
    )


POST = parse_attributes("POST", b"/orders")
POST_PODS = parse_attributes("POST", b"/api/v1/namespaces/x/pods")
BATCH = {"x-priority": "batch"}


def asking(*values: str) -> Condition:
    return Condition(None, "x-priority", frozenset(values))


@pytest.mark.parametrize(
    ("condition", "headers", "expected"),
    [
        (Condition(), {}, None),
        (Condition(is_broken=True), BATCH, (MATCH_HEADER, "a condition cannot be read, and so is")),
        (Condition(frozenset({"post", "put"})), {}, None),
        (Condition(frozenset({"get", "head"})), {}, (MATCH_METHODS, "POST is not GET or HEAD")),
        (asking(), BATCH, None),
        (asking(), {"x-priority": " "}, (MATCH_HEADER, "the request has no header x-priority")),
        (asking("batch"), BATCH, None),
        (asking("Batch", "a"), BATCH, (MATCH_HEADER, "x-priority is batch, not Batch or a")),
        (asking("a"), {"x-priority": "b" * 999}, (MATCH_HEADER, "x-priority is another, not a")),
    ],
)
def test_unmet(
    condition: Condition, headers: dict[str, str], expected: tuple[str, str] | None
) -> None:
    found = unmet(condition, POST, lambda name: headers.get(name, ""))

    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert expected[0] == found[0]
        assert found[1].startswith(expected[1])


def test_methods_are_of_urls_and_resources_have_verbs() -> None:
    assert unmet(Condition(frozenset({"get"})), POST_PODS, lambda _: "") is None


def conditional(name: str, precedence: int, **additions: str) -> FlowSchema:
    found = flow_schema(name, "a", group_subject("dev"), precedence=precedence)
    return annotated(found, **additions)


@pytest.mark.parametrize(
    ("headers", "expected"), [(BATCH, "batch"), ({"x-priority": "b"}, "rest"), ({}, "rest")]
)
def test_a_request_that_does_not_meet_a_condition_goes_to_the_next(
    headers: dict[str, str], expected: str
) -> None:
    batch = conditional("batch", 2, match_header="X-Priority: batch")
    scene = Scene(priority_level("a"), batch, conditional("rest", 3))

    def header_of(name: str) -> str:
        return headers.get(name, "")

    chosen = scene.controller.classify(ALICE, POST, header_of).flow_schema

    assert expected == chosen.metadata.name
    failed = mismatches(batch, ALICE, POST, header_of)
    assert ["metadata.annotations[apfproxy.io/match-header]"] * (expected == "rest") == [
        each.field for each in failed
    ]


def test_a_condition_that_cannot_be_read_matches_nothing() -> None:
    scene = Scene()
    digest = scene.commit(
        priority_level("a"),
        conditional("broken", 2, match_methods="post"),
        conditional("rest", 3),
    )

    assert "rest" == scene.controller.classify(ALICE, POST).flow_schema.metadata.name
    (problem,) = digest.problems
    assert "as it is, the FlowSchema matches no request" in problem
