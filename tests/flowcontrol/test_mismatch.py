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
    user_subject,
)
from tests.flowcontrol.scene import annotated

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


RULE = "resourceRules[0]"
URL_RULE = "nonResourceRules[0]"
REASONS = [
    (rule_of(user_subject("bob")), PODS, "subjects", 'the user is not user "bob"'),
    (
        rule_of(*ACCOUNTS), PODS, "subjects",
        'the user is not in group "o", a service account in "a" or service account "c" in "b"',
    ),
    (
        rule_of(*map(user_subject, "01234567")), PODS, "subjects",
        'the user is not user "0", user "1", user "2", user "3", user "4" or any of 3 others',
    ),
    (rule_of(Subject(kind="User")), PODS, "subjects", BROKEN),
    (PolicyRulesWithSubjects(), PODS, "subjects", "the user is not in the list, which is empty"),
    (urls("*"), PODS, "resourceRules", "there is none, and the request is for a resource"),
    (resources(), HEALTH, "nonResourceRules", "there is none, and the request is for no resource"),
    (
        resources(verbs=("get", "watch")), PODS, f"{RULE}.verbs", '"list" is not "get" or "watch"'
    ),
    (resources(resources=("pods",)), LOG, f"{RULE}.resources", '"pods/log" is not "pods"'),
    (resources(api_groups=("apps",)), PODS, f"{RULE}.apiGroups", '"" is not "apps"'),
    (resources(namespaces=("y",)), PODS, f"{RULE}.namespaces", '"x" is not "y"'),
    (
        resources(cluster_scope=False), NODES, f"{RULE}.clusterScope",
        "it is false, and the request has no namespace",
    ),
    (urls("*", verbs=("post",)), HEALTH, f"{URL_RULE}.verbs", '"get" is not "post"'),
    (urls("/livez"), HEALTH, f"{URL_RULE}.nonResourceURLs", '"/healthz" is not "/livez"'),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "attributes", "field", "reason"), REASONS)
def test_reason(
    rule: PolicyRulesWithSubjects, attributes: RequestAttributes, field: str, reason: str
) -> None:
    expected = Mismatch(field=f"spec.rules[0].{field}", reason=reason)

    assert (expected,) == mismatches(schema(rule), ALICE, attributes)


def test_every_rule_is_named() -> None:
    verbs = resource(verbs=("get",))
    bob = rule_of(user_subject("bob"), resource_rules=(verbs,))
    alice = rule_of(resource_rules=(verbs, resource(namespaces=("y",))))

    assert [
        "spec.rules[0].subjects",
        "spec.rules[1].resourceRules[0].verbs",
        "spec.rules[1].resourceRules[1].namespaces",
    ] == [mismatch.field for mismatch in mismatches(schema(bob, alice), ALICE, PODS)]
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


BROKEN_CONDITION = (MATCH_HEADER, "a condition cannot be read, and so is")
UNMET: list[tuple[Condition, str, tuple[str, str] | None]] = [
    (Condition(), "", None),
    (Condition(is_broken=True), "batch", BROKEN_CONDITION),
    (Condition(frozenset({"post", "put"})), "", None),
    (Condition(frozenset({"get", "head"})), "", (MATCH_METHODS, "POST is not GET or HEAD")),
    (asking(), "batch", None),
    (asking(), " ", (MATCH_HEADER, "the request has no header x-priority")),
    (asking("batch"), "batch", None),
    (asking("Batch", "a"), "batch", (MATCH_HEADER, "x-priority is batch, not Batch or a")),
    (asking("a"), "b" * 999, (MATCH_HEADER, "x-priority is another, not a")),
]


@pytest.mark.parametrize(("condition", "header", "expected"), UNMET)
def test_unmet(condition: Condition, header: str, expected: tuple[str, str] | None) -> None:
    def header_of(name: str) -> str:
        return header if name == "x-priority" else ""

    found = unmet(condition, POST, header_of)

    assert expected == (found and (found[0], found[1][: len((expected or "  ")[1])]))
    annotated_schema = annotated(flow_schema("a", "a", group_subject("dev")), match_header="X-A: b")
    assert ["metadata.annotations[apfproxy.io/match-header]"] == [
        each.field for each in mismatches(annotated_schema, ALICE, POST, header_of)
    ]


def test_methods_are_of_urls_and_resources_have_verbs() -> None:
    assert unmet(Condition(frozenset({"get"})), POST_PODS, lambda _: "") is None
