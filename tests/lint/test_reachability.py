"""Which FlowSchemas are told to be out of reach, judged by the classifier itself.

Which sets of requests hold which, and which meet, is judged by rules tried one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from apfproxy.flowcontrol.classifier import Classifier, matching_order
from apfproxy.flowcontrol.mismatch import match_url
from apfproxy.lint import reachability
from apfproxy.lint.dead_rules import (
    dead_in_resource_rule,
    dead_in_url_rule,
    dead_rules,
    why_no_api_group,
    why_no_subject,
    why_no_url,
)
from apfproxy.lint.findings import NO_SUCH_RESOURCE, NO_SUCH_SCOPE
from apfproxy.lint.known_resources import KNOWN_GROUPS, is_of_kubernetes
from apfproxy.lint.reachability import (
    ALL_USERS,
    AUTHENTICATED,
    MOST_LOOKED_AT,
    MOST_PIECES,
    UNAUTHENTICATED,
    Identity,
    RequestSet,
    Who,
    can_meet,
    holders,
    resource_requests,
    same_precedence,
    unreachable,
    url_holds,
    url_requests,
    urls_meet,
)
from apfproxy.objects.types import (
    FlowSchema,
    FlowSchemaSpec,
    NonResourcePolicyRule,
    PolicyRulesWithSubjects,
    ResourcePolicyRule,
    Subject,
)
from apfproxy.request.attributes import parse_attributes
from tests.flowcontrol.plain_walk import resource_rule_matches, url_rule_matches
from tests.lint.configurations import (
    REQUESTS,
    USERS_WITH_GROUPS,
    configurations,
    resource_rules,
    some,
    url_rules,
)
from tests.support.builders import (
    EVERY_RESOURCE,
    EVERY_URL,
    flow_schema,
    group_subject,
    user_subject,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.request.attributes import User

    Rule = ResourcePolicyRule | NonResourcePolicyRule
    from collections.abc import Callable, Iterator


PODS = ResourcePolicyRule(verbs=("get",), api_groups=("",), resources=("pods",), namespaces=("*",))
ALICE = user_subject("alice")


def out_of_reach(schemas: Iterable[FlowSchema]) -> set[str]:
    return {each.name for each in unreachable(sorted(schemas, key=matching_order))}


def chosen(schemas: Iterable[FlowSchema], users: Iterable[User]) -> set[str]:
    classifier = Classifier(schemas)
    found = (classifier.classify(user, request) for user in users for request in REQUESTS)
    return {schema.metadata.name for schema in found if schema is not None}


@given(schemas=configurations)
def test_unreachable_is_never_chosen(schemas: list[FlowSchema]) -> None:
    """No alarm is false: the classifier never chooses what is told to be out of reach."""
    assert set() == out_of_reach(schemas) & chosen(schemas, USERS_WITH_GROUPS)


def schema(
    name: str, precedence: int, subject: Subject = ALICE, rule: ResourcePolicyRule = PODS
) -> FlowSchema:
    none = NonResourcePolicyRule(verbs=("get",), non_resource_urls=("/version",))
    return flow_schema(
        name, "l", subject, precedence=precedence, resource_rule=rule, non_resource_rule=none
    )


def rule_of(*verbs: str, namespace: str = "*", resource: str = "pods") -> ResourcePolicyRule:
    return ResourcePolicyRule(
        verbs=verbs, api_groups=("",), resources=(resource,), namespaces=(namespace,)
    )


@pytest.mark.parametrize(
    ("schemas", "messages"),
    [
        pytest.param([schema("a", 2), schema("b", 3)], ["a"], id="the-same"),
        pytest.param([schema("b", 3), schema("a", 3)], ["a"], id="by-name"),
        pytest.param([schema("b", 2), schema("a", 3)], ["b"], id="by-precedence"),
        pytest.param(
            [
                schema("a", 2, rule=rule_of("get")),
                schema("b", 2, rule=rule_of("list")),
                schema("c", 3, rule=rule_of("list", "get")),
            ],
            ["a, b"],
            id="by-two-together",
        ),
        pytest.param(
            [
                schema("a", 2, group_subject("system:authenticated")),
                schema("b", 2, group_subject("system:unauthenticated")),
                schema("c", 3, user_subject("*")),
            ],
            ["a, b"],
            id="by-everybody-in-two-groups",
        ),
        pytest.param(
            [
                *(schema(name, 2, rule=rule_of("get", namespace=name)) for name in "abcd"),
                schema(
                    "e",
                    3,
                    rule=ResourcePolicyRule(
                        verbs=("get",),
                        api_groups=("",),
                        resources=("pods",),
                        namespaces=("a", "b", "c", "d"),
                    ),
                ),
            ],
            ["a, b, c and 1 more"],
            id="by-many",
        ),
        ([schema("a", 2, rule=rule_of("get", namespace="x")), schema("b", 3)], []),
        pytest.param([schema("a", 2, user_subject("bob")), schema("b", 3)], [], id="not-for-all"),
    ],
)  # fmt: skip
def test_by_what(schemas: list[FlowSchema], messages: list[str]) -> None:
    found = [each.message for each in unreachable(sorted(schemas, key=matching_order))]
    assert [f"all that it can match is matched before by {by}" for by in messages] == found


def test_too_many_parts() -> None:
    groups, resources = ([f"{kind}{number}" for number in range(50)] for kind in "gr")
    first, second, both = (
        ResourcePolicyRule(
            verbs=verbs, api_groups=tuple(groups), resources=tuple(resources), namespaces=("*",)
        )
        for verbs in (("get",), ("list",), ("get", "list"))
    )
    by_two = [schema("a", 2, rule=first), schema("b", 2, rule=second), schema("c", 3, rule=both)]
    by_one = [schema("a", 2, rule=both), schema("b", 3, rule=both), schema("c", 3, rule=first)]

    assert set() == out_of_reach(by_two)
    assert {"b", "c"} == out_of_reach(by_one)


def test_too_many_earlier_ones() -> None:
    """A FlowSchema after thousands of others of the same user is not looked at."""
    schemas = [
        schema(f"s{number:05}", 2, rule=rule_of("get", namespace=f"n{number}"))
        for number in range(MOST_LOOKED_AT + 1)
    ]
    assert [] == list(unreachable([*schemas, schema("z", 3, rule=rule_of("get", namespace="n0"))]))


@pytest.mark.parametrize(
    ("one", "other", "is_told"),
    [
        pytest.param(schema("a", 2), schema("b", 2), True, id="same"),
        pytest.param(schema("a", 2), schema("b", 3), False, id="another-precedence"),
        (schema("a", 2), schema("b", 2, group_subject("devs")), True),
        pytest.param(schema("a", 2), schema("b", 2, user_subject("bob")), False, id="two-users"),
        pytest.param(
            schema("a", 2),
            flow_schema("b", "l", ALICE, precedence=2, resource_rule=rule_of("list")),
            True,
            id="urls",
        ),
    ],
)
def test_same_precedence(*, one: FlowSchema, other: FlowSchema, is_told: bool) -> None:
    """Only where a request can match both it matters whose name sorts first."""
    assert is_told == bool(list(same_precedence([one, other])))


def of_many_users(name: str, count: int) -> FlowSchema:
    one = schema(name, 2)
    subjects = tuple(user_subject(f"u{number}") for number in range(count))
    rules = tuple(structs.replace(rule, subjects=subjects) for rule in one.spec.rules)
    return structs.replace(one, spec=structs.replace(one.spec, rules=rules))


def test_same_precedence_of_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """FlowSchemas of many pieces are compared, as long as all pairs are not too many."""
    schemas = [of_many_users(name, 50) for name in "abc"]
    told = [each.name for each in same_precedence(schemas)]
    monkeypatch.setattr(reachability, "MOST_PAIRS", 10_000)
    assert (["b", "c"], ["b"]) == (told, [each.name for each in same_precedence(schemas)])


def test_too_many_pieces() -> None:
    """A FlowSchema of too many pieces neither shadows others nor is told to be shadowed."""
    many = [of_many_users(name, MOST_PIECES + 1) for name in "ab"]
    few = of_many_users("c", 1)
    assert [] == [*unreachable([*many, few]), *same_precedence([*many, few])]


def with_header(flow_schema: FlowSchema, value: str) -> FlowSchema:
    annotations = {"apfproxy.io/match-header": f"X-Priority: {value}"}
    return structs.replace(
        flow_schema, metadata=structs.replace(flow_schema.metadata, annotations=annotations)
    )


def test_a_condition_lets_requests_through() -> None:
    first, second = with_header(schema("a", 2), "x"), schema("b", 3)
    assert [] == list(unreachable([first, second]))
    assert ["a"] == [each.name for each in unreachable([second, first])]


URLS = ("*", "/", "/*", "/a", "/a/", "/a/*", "/a/b", "/a/b/*", "/ab", "/a/..", "/a/../b/*", "/a/.b")
PATHS = (
    *(url for url in URLS if url != "*"),
    "",
    "*",
    "/a/b/c",
    "/a/../b",
    "/a/../b/c",
    "/a/./b",
    "/a/../*",
    "/a/b/..",
    "/abc",
    "/b",
)


def paths_of(url: str) -> set[str]:
    return {path for path in PATHS if match_url((url,), path)}


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("other", URLS)
def test_urls(url: str, other: str) -> None:
    if url_holds(url, other):
        assert paths_of(other) - paths_of(url) == set()
        assert urls_meet(url, other)
    if paths_of(url) & paths_of(other):
        assert urls_meet(url, other)


@pytest.mark.parametrize(
    ("url", "other", "expected"),
    [
        pytest.param("*", "/a", True, id="all"),
        pytest.param("/a", "/a/*", True, id="below"),
        pytest.param("/a/*", "/a", False, id="not-the-path-itself"),
        pytest.param("/", "*", False, id="what-is-no-path"),
        pytest.param("/", "/a/../b", True, id="dots-below-the-root"),
        pytest.param("/a", "/a/../b", False, id="dots-elsewhere"),
    ],
)
def test_url_holds(*, url: str, other: str, expected: bool) -> None:
    assert expected == url_holds(url, other)


def sets_of(rule: Rule) -> list[RequestSet]:
    if isinstance(rule, ResourcePolicyRule):
        return list(resource_requests(rule))
    return [url_requests(rule)]


def matched(rule: Rule) -> set[int]:
    found = set()
    for number, request in enumerate(REQUESTS):
        if isinstance(rule, ResourcePolicyRule):
            is_matched = request.is_resource_request and resource_rule_matches(rule, request)
        else:
            is_matched = not request.is_resource_request and url_rule_matches(rule, request)
        if is_matched:
            found.add(number)
    return found


any_rule = st.one_of(resource_rules, url_rules)


@given(rule=any_rule, other=any_rule)
def test_sets(rule: Rule, other: Rule) -> None:
    holds = all(
        any(larger.kind is each.kind and larger.holds(part) for larger in sets_of(rule))
        for each in sets_of(other)
        for part in each.parts() or ()
    )
    meets = any(one.can_meet(each) for one in sets_of(rule) for each in sets_of(other))

    assert not holds or matched(other) <= matched(rule)
    assert meets or not matched(rule) & matched(other)


USER_ALICE = Identity(Who.USER, "alice")
BOB = Identity(Who.USER, "bob")
DEVS = Identity(Who.GROUP, "devs")
OPS = Identity(Who.GROUP, "ops")
BUILDER = Identity(Who.USER, "system:serviceaccount:ci:builder")
CI = Identity(Who.USER_PREFIX, "system:serviceaccount:ci:")
OTHERS = Identity(Who.USER_PREFIX, "system:serviceaccount:other:")
ACCOUNTS = Identity(Who.GROUP, "system:serviceaccounts")
CI_ACCOUNTS = Identity(Who.GROUP, "system:serviceaccounts:ci")


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        pytest.param(USER_ALICE, {AUTHENTICATED}, id="user"),
        pytest.param(DEVS, {AUTHENTICATED}, id="group"),
        pytest.param(Identity(Who.USER, "system:anonymous"), {UNAUTHENTICATED}, id="anonymous"),
        pytest.param(Identity(Who.USER, "header:al"), {UNAUTHENTICATED}, id="unverified-name"),
        pytest.param(UNAUTHENTICATED, set(), id="unauthenticated"),
        pytest.param(AUTHENTICATED, set(), id="authenticated"),
        pytest.param(ALL_USERS, set(), id="everybody"),
        pytest.param(BUILDER, {CI, CI_ACCOUNTS, ACCOUNTS, AUTHENTICATED}, id="account"),
        pytest.param(CI, {CI_ACCOUNTS, ACCOUNTS, AUTHENTICATED}, id="accounts"),
        pytest.param(CI_ACCOUNTS, {ACCOUNTS, AUTHENTICATED}, id="group-of-accounts"),
        pytest.param(Identity(Who.USER, "system:serviceaccount:ci"), {AUTHENTICATED}, id="half"),
    ],
)
def test_holders(identity: Identity, expected: set[Identity]) -> None:
    """Sets that hold another, by the groups that authentication gives."""
    assert set(holders(identity)) == {identity, ALL_USERS} | expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(USER_ALICE, USER_ALICE, True, id="one-user"),
        pytest.param(USER_ALICE, BOB, False, id="two-users"),
        pytest.param(USER_ALICE, DEVS, True, id="user-and-group"),
        pytest.param(DEVS, OPS, True, id="two-groups"),
        pytest.param(AUTHENTICATED, UNAUTHENTICATED, False, id="known-and-not"),
        pytest.param(BUILDER, CI, True, id="account-of-the-namespace"),
        pytest.param(BUILDER, OTHERS, False, id="account-of-another-namespace"),
        pytest.param(CI, CI, True, id="one-namespace"),
        pytest.param(CI, OTHERS, False, id="two-namespaces"),
        pytest.param(USER_ALICE, ALL_USERS, True, id="everybody"),
        pytest.param(CI, DEVS, True, id="accounts-and-group"),
    ],
)
def test_can_meet(*, one: Identity, other: Identity, expected: bool) -> None:
    """Everybody has one name and any groups, and the answer does not depend on the order."""
    assert (expected, expected) == (can_meet(one, other), can_meet(other, one))


FINE = {
    "user": """alice * team-* system:kube-scheduler system:node:node-1
        system:serviceaccount:ci:builder system:cloud-controller-manager""",
    "group": """devs * system:masters system:serviceaccounts system:serviceaccounts:ci
        system:serviceaccounts:a system:aggregators""",
    "url": """* / /api /api/v1 /api/* /api/v1/ /apis/apps/* /apis/apps/v1""",
    "API group": "* apps example.com",
}
"""Names of which nothing is told, by what they are of."""
DEAD = {
    "user": {
        "system:node:*": "no user has a *",
        "system:masters": "a group, and no user",
        "system:serviceaccounts:ci": "a group, and no user",
        "system:serviceaccount:ci": "no service account",
        "system:serviceaccount:CI:builder": "no service account",
        "system:kube-schedular": 'did you mean "system:kube-scheduler"?',
    },
    "group": {
        "system:serviceaccounts:*": "no group has a *",
        "system:anonymous": "a user, and no group",
        "system:serviceaccount:ci:x": "a user, and no group",
        "system:node:node-1": "a user, and no group",
        "system:serviceaccounts:CI": "no group",
        "system:node": 'did you mean "system:nodes"?',
    },
    "url": {
        **dict.fromkeys(("/api/v1/*", "/api/shop/*", "/apis/apps/v1/*"), "what is below are paths"),
        **dict.fromkeys(
            ("/api/v1/pods", "/api/v1/pods/*", "/api/v1/watch", "/apis/apps/v1/deployments"),
            "this is a path of resources",
        ),
        **dict.fromkeys(("/healthz?verbose", "/healthz#top"), "a path ends before"),
    },
    "API group": {
        "core": 'the name of the core group is ""',
        **dict.fromkeys(("v1", "apps/v1"), "without its version"),
        **dict.fromkeys(("Apps", "ap ps"), "small letters"),
    },
}
"""Names that nothing has, with what is told of them."""
WHY: dict[str, Callable[[str], str]] = {
    "user": lambda name: why_no_subject(user_subject(name)),
    "group": lambda name: why_no_subject(group_subject(name)),
    "url": why_no_url,
    "API group": why_no_api_group,
}


@pytest.mark.parametrize("of", FINE)
def test_names(of: str) -> None:
    """Names are compared as they are, and some are known to be no one's."""
    names = dict.fromkeys(FINE[of].split(), "") | DEAD[of]
    told = {name: WHY[of](name) for name in names}
    assert {name for name in names if names[name]} == {name for name in names if told[name]}
    assert [] == [(name, told[name]) for name in names if names[name] not in told[name]]


def rule(
    resource: str,
    *groups: str,
    verbs: tuple[str, ...] = ("*",),
    cluster_scope: bool = True,
    namespaces: tuple[str, ...] = ("*",),
) -> ResourcePolicyRule:
    return ResourcePolicyRule(
        verbs=verbs,
        api_groups=groups,
        resources=(resource,),
        cluster_scope=cluster_scope,
        namespaces=namespaces,
    )


RESOURCES = {
    ("*", ("",)): "",
    ("pods", ("",)): "",
    ("pods/log", ("",)): "",
    ("events", ("", "events.k8s.io")): "",
    ("deployments", ("", "apps")): "",
    ("widgets", ("",)): "",
    ("deployments", ("extensions",)): "",
    ("pods", ("*",)): "",
    ("pods/*", ("",)): "* is for all only",
    ("*/status", ("*",)): "* is for all only",
    ("pods/", ("*",)): "RESOURCE/SUBRESOURCE",
    ("", ("*",)): "RESOURCE/SUBRESOURCE",
    ("pods/log/x", ("*",)): "RESOURCE/SUBRESOURCE",
    ("Pods", ("*",)): "small letters",
    ("po ds", ("*",)): "small letters",
    ("pods/logs", ("",)): "pods are attach, binding, ",
    ("secrets/status", ("",)): "no subresources",
    ("deployments", ("",)): "of the core group, but of apps",
    ("pod", ("",)): "here pods (core group)",
    ("deployment", ("",)): "deployments (apps)",
    ("ingress", ("networking.k8s.io",)): "here ingresses (",
    ("networkpolicy", ("networking.k8s.io",)): "here networkpolicies (",
}


@pytest.mark.parametrize(("resource", "groups"), RESOURCES)
def test_resources(resource: str, groups: tuple[str, ...]) -> None:
    """Only resources of Kubernetes' own groups are doubted, and whatever cannot be a name."""
    found, is_alive = dead_in_resource_rule(rule(resource, *groups))
    expected = RESOURCES[resource, groups]
    assert is_alive == (not expected)
    assert [NO_SUCH_RESOURCE] * bool(expected) == [kind for kind, _, _ in found]
    assert [] == [message for _, _, message in found if expected not in message]


CLUSTER, NAMESPACED = {"namespaces": ()}, {"cluster_scope": False}


@pytest.mark.parametrize(
    ("resource", "verbs", "scope", "is_dead"),
    [
        ("nodes", "*", NAMESPACED, True),
        ("nodes", "*", {}, False),
        ("namespaces", "*", NAMESPACED, False),
        ("namespaces", "get delete", CLUSTER, True),
        ("namespaces", "get list", CLUSTER, False),
        ("namespaces", "list create", NAMESPACED, True),
        ("namespaces/finalize", "*", CLUSTER, True),
        ("namespaces/finalize", "*", NAMESPACED, False),
        ("widgets", "*", NAMESPACED, False),
        ("pods", "get", CLUSTER, True),
        ("pods", "get list", CLUSTER, False),
        ("pods/log", "*", CLUSTER, True),
        ("pods", "get", {}, False),
    ],
)
def test_scopes(resource: str, verbs: str, scope: dict[str, Any], *, is_dead: bool) -> None:
    """Objects of the cluster are in no namespace, others are in one unless all are asked for."""
    found, is_alive = dead_in_resource_rule(
        structs.replace(rule(resource, "", verbs=tuple(verbs.split())), **scope)
    )
    assert (not is_dead, [NO_SUCH_SCOPE] * is_dead) == (is_alive, [kind for kind, _, _ in found])


@pytest.mark.parametrize(
    ("verbs", "urls", "fields", "alive"),
    [
        ("get", "/a", [], True),
        ("*", "*", [], True),
        ("get list", "/a", ["verbs[1]"], True),
        ("update", "/a", ["verbs[0]"], False),
        ("get", "/api/v1/a /a", ["nonResourceURLs[0]"], True),
        ("get", "/api/v1/a", ["nonResourceURLs[0]"], False),
    ],
)
def test_url_rules(*, verbs: str, urls: str, fields: list[str], alive: bool) -> None:
    """A rule is dead if all of its verbs are, or all of its URLs."""
    found, is_alive = dead_in_url_rule(
        NonResourcePolicyRule(verbs=tuple(verbs.split()), non_resource_urls=tuple(urls.split()))
    )
    assert (fields, alive) == ([field for _, field, _ in found], is_alive)


def paths_in_earnest() -> Iterator[tuple[str, str]]:
    """Methods and paths of all that clients of Kubernetes ask of its own resources."""
    for group, resources in KNOWN_GROUPS.items():
        root = f"/apis/{group}/v1" if group else "/api/v1"
        for name, known in resources.items():
            place = f"{root}/namespaces/ci" if known.is_namespaced else root
            lists = [f"{root}/{name}", f"{root}/watch/{name}"]
            lists += [f"{where}/{name}?watch=1" for where in (root, place)]
            yield from (("GET", path) for path in lists)
            yield from ((method, f"{place}/{name}") for method in ("GET", "POST", "DELETE"))
            item = f"{place}/{name}/ci"
            items = [item, *(f"{item}/{each}" for each in sorted(known.subresources))]
            yield from (
                (method, path)
                for path in items
                for method in ("GET", "PUT", "POST" if path != item else "GET", "PATCH", "DELETE")
            )


IN_EARNEST = [
    parse_attributes(method, path.encode()) for method, path in dict.fromkeys(paths_in_earnest())
]
NAMED = sorted({name for resources in KNOWN_GROUPS.values() for name in resources})
resource_names = st.sampled_from(
    [
        *("*", "pod", "pods/*", "*/scale", "Pods", "namespaces/status", "namespaces/finalize"),
        *("pods/log", "pods/status", "nodes/proxy", "deployments/scale", "deployments/log"),
        *NAMED,
    ]
)


@given(
    tried=st.builds(
        ResourcePolicyRule,
        verbs=some("get", "list", "watch", "create", "update", "patch", "delete", "proxy"),
        api_groups=some("", "core", "apps", "v1", "batch", "networking.k8s.io"),
        resources=st.lists(resource_names, min_size=1, max_size=3, unique=True).map(tuple),
        cluster_scope=st.booleans(),
        namespaces=some("ci", "x") | st.just(()),
    )
)
def test_dead_parts_match_no_request(tried: ResourcePolicyRule) -> None:
    """No request in earnest is matched by what is told to match none."""
    found, is_alive = dead_in_resource_rule(tried)
    kinds = {field: kind for kind, field, _ in found}
    groups = [each for i, each in enumerate(tried.api_groups) if f"apiGroups[{i}]" in kinds]
    resources = [each for i, each in enumerate(tried.resources) if f"resources[{i}]" in kinds]
    dead = [structs.replace(tried, api_groups=(each,)) for each in groups]
    dead += [structs.replace(tried, resources=(each,)) for each in resources]
    if not is_alive:
        dead.append(tried)

    assert [] == [
        each
        for each in IN_EARNEST
        for rule in dead
        if each.is_resource_request and resource_rule_matches(rule, each)
    ]


DEAD_URLS = NonResourcePolicyRule(verbs=("list",), non_resource_urls=("*",))
DEAD_RESOURCES = rule("pods", "core")


@pytest.mark.parametrize(
    ("subjects", "resources", "urls", "ids"),
    [
        ("alice system:masters", [DEAD_RESOURCES, EVERY_RESOURCE], [DEAD_URLS], "111 114 112"),
        ("system:masters", [], [EVERY_URL], "111 110"),
        ("alice", [DEAD_RESOURCES], [DEAD_URLS], "114 112 110"),
    ],
    ids=["partly", "no-subject", "no-rule-of-a-subject"],
)
def test_flow_schema(
    subjects: str,
    resources: list[ResourcePolicyRule],
    urls: list[NonResourcePolicyRule],
    ids: str,
) -> None:
    """A FlowSchema matches nothing if each of its rules lacks subjects or requests."""
    rules = PolicyRulesWithSubjects(
        subjects=tuple(map(user_subject, subjects.split())),
        resource_rules=tuple(resources),
        non_resource_rules=tuple(urls),
    )
    told = dead_rules(FlowSchema(spec=FlowSchemaSpec(rules=(rules,))))

    assert [f"APF{each}" for each in ids.split()] == [each.found.id for each in told]
    assert ["APF110"] == [each.found.id for each in dead_rules(FlowSchema())]


@pytest.mark.parametrize(
    ("target", "expected"),
    [("/api/v1/pods", True), ("/apis/a.b/v1/c", True), ("/api/v1/users", False), ("/x", False)],
)
def test_requests_of_kubernetes(target: str, *, expected: bool) -> None:
    """A resource of the core group has a name that is known; another API has such paths, too."""
    assert expected == is_of_kubernetes(parse_attributes("GET", target.encode()))
