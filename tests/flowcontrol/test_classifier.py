"""Tests of the choice of a FlowSchema, and of what tells flows apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from apfproxy.flowcontrol.classifier import (
    LONGEST_VALUE,
    MODEL,
    QUERY,
    Classifier,
    Header,
    added_distinguisher,
    flow_hash,
    no_header,
)
from apfproxy.flowcontrol.mismatch import Mismatch, match_url, mismatches, unmet
from apfproxy.objects.additions import (
    MATCH_HEADER,
    MATCH_METHODS,
    MATCH_MODEL,
    MATCH_QUERY,
    Condition,
    Distinguisher,
    DistinguisherKind,
)
from apfproxy.objects.types import (
    FlowSchema,
    FlowSchemaSpec,
    NonResourcePolicyRule,
    PolicyRulesWithSubjects,
    ResourcePolicyRule,
    ServiceAccountSubject,
    Subject,
)
from apfproxy.request.attributes import ANONYMOUS, RequestAttributes, User, parse_attributes
from apfproxy.request.rules import RequestRules
from tests.flowcontrol.plain_walk import first_match
from tests.flowcontrol.scene import annotated
from tests.lint.configurations import REQUESTS, USERS, configurations
from tests.support.builders import flow_schema, group_subject, user_subject
from tests.support.objects import bootstrap_objects

ALICE = User("alice", ("ops", "system:authenticated"))
EVERYBODY = group_subject("*")
GET_PODS = parse_attributes("GET", b"/api/v1/namespaces/n/pods")


def schema(name: str, precedence: int = 100) -> FlowSchema:
    return flow_schema(name, "level", EVERYBODY, precedence=precedence)


def test_order() -> None:
    schemas = [schema("b"), schema("a"), schema("z", 1), schema("y", 10_000)]

    for remaining in ("z", "a", "b", "y"):
        chosen = Classifier(schemas).classify(ALICE, GET_PODS)
        assert chosen is not None
        assert remaining == chosen.metadata.name
        schemas.remove(chosen)

    assert Classifier(schemas).classify(ALICE, GET_PODS) is None


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("system:serviceaccount:ci:robot", True),
        ("system:serviceaccount:ci-2:robot", False),
        ("alice:ci:robot", False),
    ],
)
def test_service_accounts_of_a_namespace(user: str, *, expected: bool) -> None:
    account = ServiceAccountSubject(namespace="ci", name="*")
    subject = Subject(kind="ServiceAccount", service_account=account)
    chosen = Classifier([flow_schema("ci", "level", subject)]).classify(User(user, ()), GET_PODS)

    assert expected == (chosen is not None)


def test_flow_hash() -> None:
    hashes = {
        flow_hash(seed, name, text)
        for seed in (0, 1)
        for name, text in [("a", "b"), ("a", "c"), ("ab", ""), ("", "ab"), ("a", "\udcff")]
    }

    assert len(hashes) == 10
    assert all(0 <= hash_ < 1 << 64 for hash_ in hashes)
    assert flow_hash(1, "a", "b") == flow_hash(1, "a", "b")


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (b"/healthz/ping", "probes"),
        (b"/healthz/../api/v1/pods", "global-default"),
        (b"/healthz/..;/api/v1/pods", "global-default"),
        (b"/healthz/..%5capi/v1/pods", "global-default"),
        (b"/healthz/%252e%252e/api/v1/pods", "global-default"),
        (b"/livez//..;x=y//api/v1/pods", "global-default"),
        (b"/readyz/%ef%bc%8e%ef%bc%8e/api/v1/pods", "global-default"),
    ],
)
def test_no_probe_leads_elsewhere(target: bytes, name: str) -> None:
    """With the built-in objects a path that some server normalises is none of the exempt probes."""
    schemas = [each for each in bootstrap_objects() if isinstance(each, FlowSchema)]
    user = User("u", ("system:authenticated",))
    found = Classifier(schemas).classify(user, parse_attributes("GET", target))
    assert found is not None
    assert name == found.metadata.name


BELOW_CLUSTERS = RequestRules(api_prefixes=["/clusters/{workspace}"])
PODS = parse_attributes("GET", b"/api/v1/pods")
GROUP = Distinguisher(DistinguisherKind.GROUP)
TENANT = Distinguisher(DistinguisherKind.HEADER, "x-tenant")
PATH_PREFIX = Distinguisher(DistinguisherKind.PATH_PREFIX)
USER_AGENT = Distinguisher(DistinguisherKind.USER_AGENT)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        pytest.param(("system:authenticated", "team-b", "team-a"), "team-b", id="first"),
        pytest.param(("system:unauthenticated",), "", id="nobody"),
        pytest.param((), "", id="none"),
        pytest.param(
            ("system:serviceaccounts", "system:serviceaccounts:ci", "system:authenticated"),
            "system:serviceaccounts:ci",
            id="service-account",
        ),
        pytest.param(("system:masters", "system:authenticated"), "system:masters", id="system"),
    ],
)
def test_group(groups: tuple[str, ...], expected: str) -> None:
    assert expected == added_distinguisher(GROUP, User("u", groups), PODS, no_header)


@pytest.mark.parametrize(
    ("distinguisher", "headers", "expected"),
    [
        pytest.param(TENANT, {"x-tenant": "blue"}, "blue", id="header"),
        pytest.param(TENANT, {}, "", id="no-header"),
        pytest.param(TENANT, {"x-tenant": "b" * 1000}, "b" * LONGEST_VALUE, id="long-header"),
        pytest.param(TENANT, {"x-tenant": "10.0.0.1, "}, "10.0.0.1", id="unfinished-list"),
        pytest.param(TENANT, {"x-tenant": "\udcff\u00e9"}, "\ufffd\u00e9", id="no-unicode"),
        pytest.param(USER_AGENT, {"user-agent": "\udcff/1"}, "\ufffd", id="no-unicode-either"),
        (USER_AGENT, {"user-agent": "kubectl/v1.36.0 (linux/amd64) kubernetes/abc"}, "kubectl"),
        pytest.param(USER_AGENT, {"user-agent": "Go-http-client"}, "Go-http-client", id="bare"),
        pytest.param(USER_AGENT, {"user-agent": "/"}, "", id="no-program"),
        pytest.param(USER_AGENT, {}, "", id="no-user-agent"),
        pytest.param(USER_AGENT, {"user-agent": "a" * 200}, "a" * LONGEST_VALUE, id="long-name"),
    ],
)
def test_headers(distinguisher: Distinguisher, headers: dict[str, str], expected: str) -> None:
    user = User("u", ())
    assert expected == added_distinguisher(
        distinguisher, user, PODS, lambda name: headers.get(name, "")
    )


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(b"/clusters/root:a/api/v1/pods", "root:a", id="below"),
        pytest.param(b"/clusters/root:a/version", "root:a", id="no-resource"),
        pytest.param(b"/clusters/a/api/v1/namespaces/../../b/x", "", id="may-lead-elsewhere"),
        pytest.param(b"/api/v1/pods", "", id="elsewhere"),
        pytest.param(b"/clusters/" + b"a" * 1000 + b"/api", "a" * LONGEST_VALUE, id="long"),
    ],
)
def test_path_prefix(path: bytes, expected: str) -> None:
    attributes = parse_attributes("GET", path, BELOW_CLUSTERS)
    assert expected == added_distinguisher(PATH_PREFIX, User("u", ()), attributes, no_header)


ROOT = parse_attributes("GET", b"/")

conditions = st.fixed_dictionaries(
    {},
    optional={
        MATCH_HEADER: st.sampled_from(
            ["X-A: 1", "X-A: 1, 2", "X-A: *", "X-A: 1*", "X-A: 3, *2", "X-B: 1", "X-B: *", "?"]
        ),
        MATCH_METHODS: st.sampled_from(["GET", "DELETE, PATCH", "POST", "get"]),
        MATCH_MODEL: st.sampled_from(["1", "1*, 3", "*", ""]),
        MATCH_QUERY: st.sampled_from(["a=1", "a=!, 2*", "b=*", "b=!"]),
    },
)
headers = st.dictionaries(
    st.sampled_from(["x-a", "x-b", MODEL]), st.sampled_from(["1", " 2\t", "3", " ", "12", "32"])
)
queries = st.lists(st.sampled_from(["a=1", "a", "b=23&a=23", "b;a=1"]), max_size=3).map("&".join)


def conditional(schema: FlowSchema, annotations: dict[str, str]) -> FlowSchema:
    return replace(schema, metadata=replace(schema.metadata, annotations=annotations))


@given(
    schemas=configurations,
    added=st.lists(conditions, min_size=6, max_size=6) | st.just([{}] * 6),
    user=st.sampled_from(USERS),
    fields=headers,
    query=queries,
    most_lines=st.sampled_from([1, 2, 3, 4096]),
)
def test_as_a_plain_walk(
    schemas: list[FlowSchema],
    added: list[dict[str, str]],
    user: User,
    fields: dict[str, str],
    query: str,
    most_lines: int,
) -> None:
    fields[QUERY] = query
    schemas = [conditional(*each) for each in zip(schemas, added, strict=False)]
    classifier = Classifier(schemas, most_lines)

    def header_of(name: str) -> str:
        return fields.get(name, "")

    for request in REQUESTS:
        assert first_match(schemas, user, request, header_of) is classifier.classify(
            user, request, header_of
        )


CSV, NO_LIMIT, ANY = "format=csv, xlsx*", "limit=!, 0", "$expand=*"
QUERIES = [
    (CSV, "format=csv&a=b a&format=xlsx2 f%6Frmat=%63sv format=a&format=csv"),
    (CSV, "a;format=csv format=csv#a"),
    (CSV, "format=csv;a " + "format=a&" * 33),
    (NO_LIMIT, "limit=0 limit limit=&a a=limit Limit=5 limit=1;a limit=1&b=%zz limit=5&limit=0"),
    (NO_LIMIT, "limit=5" + "&" * 1000),
    (ANY, "$expand $expand= %24expand=a&b a&$expand=%zz"),
    ("q=a b*", "q=a+b%2Cc q=a%20b"),
    ("q=%*", "q=%zz q=%25"),
    ("q=*;b", "q=a;b a&q=a%3Bb;c q=;b&c"),
    ("q=*#b", "q=a#b q=a%23b"),
]
OTHER_QUERIES = [
    (CSV, "format formats=csv xformat=csv format=CSV format=acsv a=format=csv format=a&csv"),
    (CSV, "format=a&" * 32),
    (NO_LIMIT, "limit=5 limit=00 a&limit=5"),
    (ANY, "a=$expand expand=a $expand2=b"),
    ("q=a b*", "q=a%2Bb q=%C3%A9"),
]


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        (text, query, expected)
        for table, expected in ((QUERIES, True), (OTHER_QUERIES, False))
        for text, queries in table
        for query in queries.split()
    ]
    + [(CSV, "", False), (NO_LIMIT, "", True), (ANY, "", False)],
)
def test_queries(text: str, query: str, *, expected: bool) -> None:
    given = conditional(schema("s"), {MATCH_QUERY: text})

    def header_of(name: str) -> str:
        return query if name == QUERY else ""

    assert expected == (Classifier([given]).classify(ANONYMOUS, ROOT, header_of) is given)
    assert expected == (mismatches(given, ANONYMOUS, ROOT, header_of) == ())


def header_schema(number: int, text: str) -> FlowSchema:
    """A FlowSchema of everybody with a condition; the number is its precedence too."""
    return conditional(schema(str(number), number), {MATCH_HEADER: text})


@pytest.mark.parametrize(
    ("fields", "expected", "asked"),
    [
        pytest.param({"x-a": "7"}, "7", ["x-a"], id="one-of-many-values"),
        pytest.param({"x-a": "70"}, "1000", ["x-a", "x-b"], id="other-value"),
        pytest.param({"x-b": "1"}, "999", ["x-a", "x-b"], id="other-header"),
        pytest.param({"x-c": "1"}, "1000", ["x-a", "x-b"], id="none"),
    ],
)
def test_each_header_is_asked_for_once(
    fields: dict[str, str], expected: str, asked: list[str]
) -> None:
    schemas = [header_schema(number, f"X-A: {number}") for number in range(1, 64)]
    schemas.append(header_schema(999, "X-B: *"))
    schemas.append(schema("1000", 1000))
    schemas.append(header_schema(2000, "X-C: *"))
    names: list[str] = []

    def header_of(name: str) -> str:
        names.append(name)
        return fields.get(name, "")

    chosen = Classifier(schemas).classify(ANONYMOUS, ROOT, header_of)

    assert chosen is not None
    assert expected == chosen.metadata.name
    assert asked == names


@pytest.mark.parametrize(("value", "unmet"), [("ab", 2), ("a*", 2), ("b", 3), ("", 3), (" cd ", 1)])
def test_patterns_of_a_header(value: str, unmet: int) -> None:
    """A line is met by its pattern; one that is not among those found is not looked at."""
    header = Header("x")
    header.add_condition(frozenset(["a*"]), 1)
    header.add_condition(frozenset(["c*"]), 2)
    header.add_condition(frozenset(["*"]), 4)

    assert unmet == header.unmet(value, 3) & 3


MATCHING = {
    "*": "/a/../b /a/..;/b * x",
    "/*": "/a /a/../b /a/..;/b",
    "/a": "/a /a/b /a/.well-known/b /a//b /a/b.c/..d/e.. /a/b-c_d~e!$&'()*+,=:@f",
    "/a/..": "/a/..",
    "/a/*": "/a/b",
    "//b": "//b //b/c",
}
OTHER = {
    "/a": """/ab b /a/../b /a/%2e%2e/b /a/. /a/... /a/..;/b /a/..;x=y/b /a/;/../b /a/..%5cb /a/..\\b
        /a/%252e%252e/b /a/%25252e./b /a/..%252fb /a/%2e%2e%2fb /a%2f..%2fb /a/%c0%ae%c0%ae/b
        /a/%ef%bc%8e%ef%bc%8e/b /a/..%20/b /a/..%09/b /a/..%00/b /a/%3f/b /a/%23/b""",
    "/a/": "/a",
    "/a/*": "/a /a/..;/b *",
    "/*": "*",
}
"""Paths that a URL matches, and others: what some server could resolve to another path."""


def is_match(urls: tuple[str, ...], path: str) -> bool:
    """Whether any of the URLs matches a path, which an index says too."""
    rule = NonResourcePolicyRule(verbs=("get",), non_resource_urls=urls)
    schema = flow_schema("s", "level", user_subject("*"), non_resource_rule=rule)
    request = RequestAttributes(is_resource_request=False, path=path, verb="get")
    found = Classifier([schema]).classify(ANONYMOUS, request) is not None
    assert found == match_url(urls, path)
    return found


@pytest.mark.parametrize(
    ("url", "path", "expected"),
    [
        (url, path, expected)
        for table, expected in ((MATCHING, True), (OTHER, False))
        for url, paths in table.items()
        for path in paths.split()
    ],
)
def test_urls(url: str, path: str, *, expected: bool) -> None:
    path = parse_attributes("GET", path.encode()).path if path[0] in "/*" else path
    assert expected == is_match((url,), path)
    assert expected == is_match(("/x", url, "/y/*"), path)


def test_long_paths() -> None:
    assert [True, False] == [
        is_match(("/bc", "/d/*"), f"/{name}" + 9999 * "/") for name in ("bc", "c")
    ]


DEVELOPER = User("alice", ("dev",))
PODS_OF_X = parse_attributes("GET", b"/api/v1/namespaces/x/pods")
LOG = parse_attributes("GET", b"/api/v1/namespaces/x/pods/p/log")
NODES = parse_attributes("GET", b"/api/v1/nodes")
HEALTH = parse_attributes("GET", b"/healthz")


def schema_of(*rules: PolicyRulesWithSubjects) -> FlowSchema:
    return FlowSchema(spec=FlowSchemaSpec(rules=rules))


def resource(**changes: object) -> ResourcePolicyRule:
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
    (rule_of(user_subject("bob")), PODS_OF_X, "subjects", 'the user is not user "bob"'),
    (
        rule_of(*ACCOUNTS), PODS_OF_X, "subjects",
        'the user is not in group "o", a service account in "a" or service account "c" in "b"',
    ),
    (
        rule_of(*map(user_subject, "01234567")), PODS_OF_X, "subjects",
        'the user is not user "0", user "1", user "2", user "3", user "4" or any of 3 others',
    ),
    (rule_of(Subject(kind="User")), PODS_OF_X, "subjects", BROKEN),
    (
        PolicyRulesWithSubjects(), PODS_OF_X, "subjects",
        "the user is not in the list, which is empty",
    ),
    (urls("*"), PODS_OF_X, "resourceRules", "there is none, and the request is for a resource"),
    (resources(), HEALTH, "nonResourceRules", "there is none, and the request is for no resource"),
    (
        resources(verbs=("get", "watch")), PODS_OF_X, f"{RULE}.verbs",
        '"list" is not "get" or "watch"',
    ),
    (resources(resources=("pods",)), LOG, f"{RULE}.resources", '"pods/log" is not "pods"'),
    (resources(api_groups=("apps",)), PODS_OF_X, f"{RULE}.apiGroups", '"" is not "apps"'),
    (resources(namespaces=("y",)), PODS_OF_X, f"{RULE}.namespaces", '"x" is not "y"'),
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
    assert (expected,) == mismatches(schema_of(rule), DEVELOPER, attributes)


def test_every_rule_is_named() -> None:
    verbs = resource(verbs=("get",))
    bob = rule_of(user_subject("bob"), resource_rules=(verbs,))
    alice = rule_of(resource_rules=(verbs, resource(namespaces=("y",))))

    assert [
        "spec.rules[0].subjects",
        "spec.rules[1].resourceRules[0].verbs",
        "spec.rules[1].resourceRules[1].namespaces",
    ] == [mismatch.field for mismatch in mismatches(schema_of(bob, alice), DEVELOPER, PODS_OF_X)]
    assert () == mismatches(schema_of(resources()), DEVELOPER, NODES)
    assert ["spec.rules"] == [
        mismatch.field for mismatch in mismatches(schema_of(), DEVELOPER, PODS_OF_X)
    ]


def lists_of(*values: str) -> st.SearchStrategy[tuple[str, ...]]:
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
        [DEVELOPER, User("bob", ("dev", "ops")), User("system:serviceaccount:x:a", ())]
    ),
    attributes=st.sampled_from(
        [PODS_OF_X, LOG, NODES, HEALTH, parse_attributes("GET", b"/a/../healthz")]
    ),
)
def test_agrees_with_the_classifier(
    rules: list[PolicyRulesWithSubjects], user: User, attributes: RequestAttributes
) -> None:
    flow_schema = schema_of(*rules)
    assert (Classifier([flow_schema]).classify(user, attributes) is not None) == (
        mismatches(flow_schema, user, attributes) == ()
    )


POST = parse_attributes("POST", b"/orders")
POST_PODS = parse_attributes("POST", b"/api/v1/namespaces/x/pods")
BATCH = {"x-priority": "batch"}


def asking(*values: str) -> Condition:
    return Condition(None, "x-priority", frozenset(values))


def asked(name: str, *values: str) -> Condition:
    return Condition(parameter=name, parameter_values=frozenset(values))


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
    (Condition(models=frozenset()), "batch", None),
    (Condition(models=frozenset(["b*"])), "batch", None),
    (Condition(models=frozenset(["c", "a"])), "batch", (MATCH_MODEL, "the model is batch, not a")),
    (Condition(models=frozenset()), "", (MATCH_MODEL, "the request is no completion whose")),
    (Condition(None, "x-priority", frozenset(), models=frozenset(["b*"])), "batch", None),
    (asked("limit", "", "0"), "limit=5&limit=6", (MATCH_QUERY, "limit is 5, not missing or 0")),
    (asked("limit"), "a", (MATCH_QUERY, "the query has no parameter limit")),
]


@pytest.mark.parametrize(("condition", "header", "expected"), UNMET)
def test_unmet(condition: Condition, header: str, expected: tuple[str, str] | None) -> None:
    def header_of(name: str) -> str:
        return header if name in ("x-priority", MODEL, QUERY) else ""

    found = unmet(condition, POST, header_of)

    assert expected == (found and (found[0], found[1][: len((expected or "  ")[1])]))
    annotated_schema = annotated(flow_schema("a", "a", group_subject("dev")), match_header="X-A: b")
    assert ["metadata.annotations[apfproxy.io/match-header]"] == [
        each.field for each in mismatches(annotated_schema, DEVELOPER, POST, header_of)
    ]


def test_methods_are_of_urls_and_resources_have_verbs() -> None:
    assert unmet(Condition(frozenset({"get"})), POST_PODS, lambda _: "") is None
