"""Small configurations by chance, and the requests by which to judge what is said of them."""

from __future__ import annotations

from hypothesis import strategies as st

from apfproxy.objects.types import (
    FlowSchema,
    FlowSchemaSpec,
    NonResourcePolicyRule,
    ObjectMeta,
    PolicyRulesWithSubjects,
    PriorityLevelConfigurationReference,
    ResourcePolicyRule,
    ServiceAccountSubject,
    Subject,
)
from apfproxy.objects.validation import validate
from apfproxy.request.attributes import (
    ANONYMOUS,
    RequestAttributes,
    User,
    authenticated,
    parse_attributes,
)
from tests.support.builders import group_subject, user_subject

ACCOUNT_GROUPS = ("system:serviceaccounts", "system:serviceaccounts:ci")

USERS_WITH_GROUPS = (
    ANONYMOUS,
    authenticated(User("alice", ())),
    authenticated(User("alice", ("devs",))),
    authenticated(User("bob", ("devs", "ops"))),
    authenticated(User("system:serviceaccount:ci:builder", ACCOUNT_GROUPS)),
    authenticated(User("system:serviceaccount:ci:tester", ACCOUNT_GROUPS)),
    authenticated(
        User("system:serviceaccount:x:x", ("system:serviceaccounts", "system:serviceaccounts:x"))
    ),
)
"""Users as they authenticate."""

USERS = (
    *USERS_WITH_GROUPS,
    User("alice", ("system:unauthenticated",)),
    User("bob", ("devs", "system:unauthenticated")),
    authenticated(User("system:serviceaccount:ci:builder", ())),
    authenticated(User("system:serviceaccount:ci:builder", ("ops",))),
    authenticated(User("system:serviceaccount:", ())),
    authenticated(User("system:anonymous", ())),
    authenticated(User("system:anonymous", ("devs",))),
)
"""The same, and some who impersonate, or for whom a front proxy vouches."""

TARGETS = (
    "/",
    "/healthz",
    "/healthz/",
    "/healthz/ping",
    "/healthz/../api",
    "/healthz/*",
    "/healthzy",
    "*",
    "/api",
    "/api/v1",
    "/api/v1/",
    "/api/v1/pods",
    "/api/v1/pods?watch=1",
    "/api/v1/nodes/n",
    "/api/v1/nodes/n/status",
    "/api/v1/namespaces",
    "/api/v1/namespaces/ci",
    "/api/v1/namespaces/ci/pods",
    "/api/v1/namespaces/ci/pods/p",
    "/api/v1/namespaces/ci/pods/p/log",
    "/api/v1/namespaces/x/pods/p",
    "/apis/apps/v1/namespaces/x/deployments/d",
    "/apis/apps/v1/pods",
)
REQUESTS: tuple[RequestAttributes, ...] = tuple(
    parse_attributes(method, target.encode())
    for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS")
    for target in TARGETS
)


def some(*values: str) -> st.SearchStrategy[tuple[str, ...]]:
    listed = st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True).map(tuple)
    return st.just(("*",)) | listed


subjects = st.sampled_from(
    [
        user_subject("*"),
        user_subject("alice"),
        user_subject("bob"),
        user_subject("system:anonymous"),
        user_subject("system:serviceaccount:ci:builder"),
        user_subject("system:serviceaccount:"),
        group_subject("*"),
        group_subject("devs"),
        group_subject("ops"),
        group_subject("system:authenticated"),
        group_subject("system:unauthenticated"),
        group_subject("system:serviceaccounts"),
        group_subject("system:serviceaccounts:ci"),
        *(
            Subject(
                kind="ServiceAccount",
                service_account=ServiceAccountSubject(namespace="ci", name=name),
            )
            for name in ("*", "builder")
        ),
    ]
)
resource_rules = st.builds(
    ResourcePolicyRule,
    verbs=some("get", "list", "watch", "create", "delete"),
    api_groups=some("", "apps"),
    resources=some("pods", "pods/log", "nodes", "nodes/status", "namespaces", "deployments"),
    cluster_scope=st.booleans(),
    namespaces=st.just(()) | some("ci", "x"),
).filter(lambda rule: rule.cluster_scope or bool(rule.namespaces))
url_rules = st.builds(
    NonResourcePolicyRule,
    verbs=some("get", "delete", "patch"),
    non_resource_urls=some(
        "/", "/*", "/healthz", "/healthz/", "/healthz/*", "/healthz/ping", "/healthz/../api", "/api"
    ),
)
rules = st.builds(
    PolicyRulesWithSubjects,
    subjects=st.lists(subjects, min_size=1, max_size=2).map(tuple),
    resource_rules=st.lists(resource_rules, max_size=2).map(tuple),
    non_resource_rules=st.lists(url_rules, max_size=1).map(tuple),
).filter(lambda rule: bool(rule.resource_rules or rule.non_resource_rules))


def named(specs: list[FlowSchemaSpec]) -> list[FlowSchema]:
    schemas = [
        FlowSchema(metadata=ObjectMeta(name=name), spec=spec)
        for name, spec in zip("abcdef", specs, strict=False)
    ]
    assert [error for schema in schemas for error in validate(schema)] == []
    return schemas


configurations = st.lists(
    st.builds(
        FlowSchemaSpec,
        priority_level_configuration=st.just(PriorityLevelConfigurationReference(name="catch-all")),
        matching_precedence=st.integers(2, 4),
        rules=st.lists(rules, min_size=1, max_size=2).map(tuple),
    ),
    min_size=2,
    max_size=6,
).map(named)
"""FlowSchemas that often shadow each other."""
