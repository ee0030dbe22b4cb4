"""Tests of why a FlowSchema or its condition does not match."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from apfproxy.flowcontrol.classifier import Classifier
from apfproxy.flowcontrol.controller import Controller
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
    EVERY_RESOURCE,
    EVERY_URL,
    flow_schema,
    group_subject,
    priority_level,
    user_subject,
)
from tests.virtual_clock import VirtualClock

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
    """A rule with alice and these subjects, or those alone."""
    return PolicyRulesWithSubjects(
        subjects=subjects or (user_subject("alice"),),
        **rules,  # type: ignore[arg-type]
    )


def account(namespace: str, name: str) -> Subject:
    """A subject that is a service account."""
    return Subject(
        kind="ServiceAccount",
        service_account=ServiceAccountSubject(namespace=namespace, name=name),
    )


MANY = tuple(user_subject(f"u{number}") for number in range(8))


@pytest.mark.parametrize(
    ("rule", "attributes", "field", "reason"),
    [
        pytest.param(
            rule_of(user_subject("bob")),
            PODS,
            "subjects",
            'the user is not user "bob"',
            id="user",
        ),
        pytest.param(
            rule_of(group_subject("ops"), account("a", "*"), account("b", "c")),
            PODS,
            "subjects",
            'the user is not in group "ops", a service account in "a" or service account "c"'
            ' in "b"',
            id="subjects",
        ),
        pytest.param(
            rule_of(*MANY),
            PODS,
            "subjects",
            'the user is not user "u0", user "u1", user "u2", user "u3", user "u4" or any of 3'
            " others",
            id="many",
        ),
        pytest.param(
            rule_of(Subject(kind="User")),
            PODS,
            "subjects",
            "the user is not what a subject without its part of the union says",
            id="broken-subject",
        ),
        pytest.param(
            PolicyRulesWithSubjects(),
            PODS,
            "subjects",
            "the user is not in the list, which is empty",
            id="no-subject",
        ),
        pytest.param(
            rule_of(non_resource_rules=(EVERY_URL,)),
            PODS,
            "resourceRules",
            "there is none, and the request is for a resource",
            id="no-resource-rule",
        ),
        pytest.param(
            rule_of(resource_rules=(EVERY_RESOURCE,)),
            HEALTH,
            "nonResourceRules",
            "there is none, and the request is for no resource",
            id="no-url-rule",
        ),
        pytest.param(
            rule_of(resource_rules=(resource(verbs=("get", "watch")),)),
            PODS,
            "resourceRules[0].verbs",
            '"list" is not "get" or "watch"',
            id="verbs",
        ),
        pytest.param(
            rule_of(resource_rules=(resource(resources=("pods",)),)),
            LOG,
            "resourceRules[0].resources",
            '"pods/log" is not "pods"',
            id="subresource",
        ),
        pytest.param(
            rule_of(resource_rules=(resource(api_groups=("apps",)),)),
            PODS,
            "resourceRules[0].apiGroups",
            '"" is not "apps"',
            id="group",
        ),
        pytest.param(
            rule_of(resource_rules=(resource(namespaces=("y",)),)),
            PODS,
            "resourceRules[0].namespaces",
            '"x" is not "y"',
            id="namespace",
        ),
        pytest.param(
            rule_of(resource_rules=(resource(cluster_scope=False),)),
            NODES,
            "resourceRules[0].clusterScope",
            "it is false, and the request has no namespace",
            id="scope",
        ),
        pytest.param(
            rule_of(
                non_resource_rules=(
                    NonResourcePolicyRule(verbs=("post",), non_resource_urls=("*",)),
                )
            ),
            HEALTH,
            "nonResourceRules[0].verbs",
            '"get" is not "post"',
            id="url-verb",
        ),
        pytest.param(
            rule_of(
                non_resource_rules=(
                    NonResourcePolicyRule(verbs=("*",), non_resource_urls=("/livez",)),
                )
            ),
            HEALTH,
            "nonResourceRules[0].nonResourceURLs",
            '"/healthz" is not "/livez"',
            id="url",
        ),
    ],
)
def test_reason(
    rule: PolicyRulesWithSubjects, attributes: RequestAttributes, field: str, reason: str
) -> None:
    expected = (Mismatch(field=f"spec.rules[0].{field}", reason=reason),)

    assert expected == mismatches(schema(rule), ALICE, attributes)


def test_cluster_scope() -> None:
    """A request without a namespace needs a rule for the scope of the cluster."""
    assert () == mismatches(schema(rule_of(resource_rules=(EVERY_RESOURCE,))), ALICE, NODES)


def test_no_rules() -> None:
    expected = (Mismatch(field="spec.rules", reason="there is no rule"),)

    assert expected == mismatches(schema(), ALICE, PODS)


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


def test_one_rule_is_enough() -> None:
    flow_schema = schema(
        rule_of(user_subject("bob")),
        rule_of(resource_rules=(EVERY_RESOURCE,), non_resource_rules=(EVERY_URL,)),
    )

    assert ((), ()) == (
        mismatches(flow_schema, ALICE, PODS),
        mismatches(flow_schema, ALICE, HEALTH),
    )


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


DEVELOPER = User("alice", ("dev",))
POST = parse_attributes("POST", b"/orders")
POST_PODS = parse_attributes("POST", b"/api/v1/namespaces/x/pods")
BATCH = {"x-priority": "batch"}


def conditional(name: str, precedence: int, **annotations: str) -> FlowSchema:
    """A FlowSchema for group `dev`; `_` in names of annotations stands for `-`."""
    found = flow_schema(name, "a", group_subject("dev"), precedence=precedence)
    named = {f"apfproxy.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return replace(found, metadata=replace(found.metadata, annotations=named))


@pytest.mark.parametrize(
    ("condition", "headers", "expected"),
    [
        pytest.param(Condition(), {}, None, id="nothing-asked"),
        pytest.param(
            Condition(is_broken=True),
            BATCH,
            (MATCH_HEADER, "a condition cannot be read, and so is never met"),
            id="broken",
        ),
        pytest.param(Condition(frozenset({"post", "put"})), {}, None, id="method"),
        pytest.param(
            Condition(frozenset({"get", "head"})),
            {},
            (MATCH_METHODS, "POST is not GET or HEAD"),
            id="other-method",
        ),
        pytest.param(Condition(header="x-priority"), BATCH, None, id="any-value"),
        pytest.param(
            Condition(header="x-priority"),
            {"x-priority": " "},
            (MATCH_HEADER, "the request has no header x-priority"),
            id="no-value",
        ),
        pytest.param(Condition(None, "x-priority", frozenset({"batch"})), BATCH, None, id="value"),
        pytest.param(
            Condition(None, "x-priority", frozenset({"Batch", "a"})),
            BATCH,
            (MATCH_HEADER, "x-priority is batch, not Batch or a"),
            id="other-case",
        ),
        pytest.param(
            Condition(None, "x-priority", frozenset({"a"})),
            {"x-priority": "b" * 999},
            (MATCH_HEADER, "x-priority is another, not a"),
            id="long-value",
        ),
    ],
)
def test_unmet(
    condition: Condition, headers: dict[str, str], expected: tuple[str, str] | None
) -> None:
    """The annotation that fails, and why."""

    def header_of(name: str) -> str:
        return headers.get(name, "")

    assert expected == unmet(condition, POST, header_of)


def test_methods_are_of_other_urls() -> None:
    """Requests for resources have verbs."""
    assert unmet(Condition(frozenset({"get"})), POST_PODS, lambda _: "") is None


@pytest.mark.parametrize(
    ("headers", "expected"), [(BATCH, "batch"), ({"x-priority": "b"}, "rest"), ({}, "rest")]
)
def test_classified_by_a_header(headers: dict[str, str], expected: str) -> None:
    """A FlowSchema whose condition is not met leaves the request to the next."""
    schemas = [conditional("batch", 1, match_header="X-Priority: batch"), conditional("rest", 2)]

    def header_of(name: str) -> str:
        return headers.get(name, "")

    chosen = Classifier(schemas).classify(DEVELOPER, POST, header_of)

    assert chosen is not None
    assert expected == chosen.metadata.name
    failed = mismatches(schemas[0], DEVELOPER, POST, header_of)
    assert (expected == "rest") == bool(failed)
    assert ["metadata.annotations[apfproxy.io/match-header]"] * len(failed) == [
        each.field for each in failed
    ]


def test_a_condition_that_cannot_be_read_matches_nothing() -> None:
    """Without it the FlowSchema would match everything; the problem says so."""
    controller = Controller(VirtualClock(), 10, 0)
    digest = controller.digest(
        [
            priority_level("a"),
            conditional("broken", 2, match_methods="post"),
            conditional("rest", 3),
        ]
    )
    controller.commit(digest)

    assert "rest" == controller.classify(DEVELOPER, POST).flow_schema.metadata.name
    (problem,) = digest.problems
    assert "as it is, the FlowSchema matches no request" in problem


def test_the_controller_asks_for_headers() -> None:
    """As it does where flows are told apart by one."""
    controller = Controller(VirtualClock(), 10, 0)
    schemas = [conditional("batch", 2, match_header="X-Priority: batch"), conditional("rest", 3)]
    controller.commit(controller.digest([priority_level("a"), *schemas]))

    found = controller.classify(DEVELOPER, POST, lambda name: BATCH[name])

    assert "batch" == found.flow_schema.metadata.name
