"""What is told to match nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from apfproxy.lint.dead_rules import (
    dead_in_resource_rule,
    dead_in_url_rule,
    dead_rules,
    why_no_api_group,
    why_no_subject,
    why_no_url,
)
from apfproxy.lint.findings import NO_SUCH_RESOURCE, NO_SUCH_SCOPE
from apfproxy.lint.known_resources import KNOWN_GROUPS, groups_of, is_of_kubernetes
from apfproxy.objects.types import (
    FlowSchema,
    FlowSchemaSpec,
    NonResourcePolicyRule,
    PolicyRulesWithSubjects,
    ResourcePolicyRule,
    ServiceAccountSubject,
    Subject,
)
from apfproxy.request.attributes import parse_attributes
from loadtest.objects import EVERY_RESOURCE, EVERY_URL, group_subject, user_subject
from tests.flowcontrol.plain_walk import resource_rule_matches
from tests.lint.configurations import some

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("alice", "", id="plain"),
        pytest.param("*", "", id="all"),
        pytest.param("team-*", "", id="somebody-may-be-called-so"),
        pytest.param("system:kube-scheduler", "", id="component"),
        pytest.param("system:node:node-1", "", id="node"),
        pytest.param("system:serviceaccount:ci:builder", "", id="account"),
        pytest.param("system:node:*", "no user has a *", id="pattern"),
        pytest.param("system:masters", "a group, and no user", id="group"),
        pytest.param("system:serviceaccounts:ci", "a group, and no user", id="group-of-accounts"),
        pytest.param("system:serviceaccount:ci", "no service account", id="half-an-account"),
        pytest.param("system:serviceaccount:CI:builder", "no service account", id="capitals"),
        pytest.param(
            "system:kube-schedular", 'did you mean "system:kube-scheduler"?', id="misspelt"
        ),
        pytest.param("system:cloud-controller-manager", "", id="another-component"),
    ],
)
def test_users(name: str, expected: str) -> None:
    """A user's name is compared as it is, and some names are known to be no user's."""
    message = why_no_subject(user_subject(name))

    assert (bool(expected), True) == (bool(message), expected in message)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("devs", "", id="plain"),
        pytest.param("*", "", id="all"),
        pytest.param("system:masters", "", id="masters"),
        pytest.param("system:serviceaccounts", "", id="all-accounts"),
        pytest.param("system:serviceaccounts:ci", "", id="accounts"),
        pytest.param("system:serviceaccounts:*", "no group has a *", id="pattern"),
        pytest.param("system:anonymous", "a user, and no group", id="user"),
        pytest.param("system:serviceaccount:ci:x", "a user, and no group", id="account"),
        pytest.param("system:node:node-1", "a user, and no group", id="node"),
        pytest.param("system:serviceaccounts:CI", "no group", id="no-namespace"),
        pytest.param("system:serviceaccounts:a", "", id="short-namespace"),
        pytest.param("system:node", 'did you mean "system:nodes"?', id="misspelt"),
        pytest.param("system:aggregators", "", id="another-group"),
    ],
)
def test_groups(name: str, expected: str) -> None:
    """A group's name is compared as it is, and some names are known to be no group's."""
    message = why_no_subject(group_subject(name))

    assert (bool(expected), True) == (bool(message), expected in message)


def test_service_account() -> None:
    """A service account that is valid may exist."""
    account = ServiceAccountSubject(namespace="ci", name="*")

    assert why_no_subject(Subject(kind="ServiceAccount", service_account=account)) == ""


@pytest.mark.parametrize(
    ("url", "is_dead"),
    [
        pytest.param("*", False, id="all"),
        pytest.param("/", False, id="root"),
        pytest.param("/api", False, id="api"),
        pytest.param("/api/v1", False, id="discovery"),
        pytest.param("/api/*", False, id="below-api"),
        pytest.param("/api/v1/", False, id="discovery-with-a-slash"),
        pytest.param("/api/v1/*", True, id="below-a-version"),
        pytest.param("/api/shop/*", True, id="below-what-only-looks-like-one"),
        pytest.param("/apis/apps/*", False, id="below-a-group"),
        pytest.param("/apis/apps/v1/*", True, id="below-a-version-of-a-group"),
        pytest.param("/api/v1/pods", True, id="resource"),
        pytest.param("/api/v1/pods/*", True, id="below-a-resource"),
        pytest.param("/api/v1/watch", True, id="refused"),
        pytest.param("/apis/apps/v1", False, id="discovery-of-a-group"),
        pytest.param("/apis/apps/v1/deployments", True, id="resource-of-a-group"),
        pytest.param("/healthz?verbose", True, id="query"),
        pytest.param("/healthz#top", True, id="fragment"),
    ],
)
def test_urls(*, url: str, is_dead: bool) -> None:
    """A URL below which all is a resource matches nothing; so does what is no path."""
    assert is_dead == bool(why_no_url(url))


@pytest.mark.parametrize(
    ("group", "is_dead"),
    [
        pytest.param("*", False, id="all"),
        pytest.param("", False, id="core"),
        pytest.param("apps", False, id="known"),
        pytest.param("example.com", False, id="others"),
        pytest.param("core", True, id="core-by-name"),
        pytest.param("v1", True, id="version"),
        pytest.param("apps/v1", True, id="with-version"),
        pytest.param("Apps", True, id="capital"),
        pytest.param("ap ps", True, id="space"),
    ],
)
def test_api_groups(*, group: str, is_dead: bool) -> None:
    """A group is named without version, in small letters."""
    assert is_dead == bool(why_no_api_group(group))


def rule(
    resource: str,
    *groups: str,
    verbs: tuple[str, ...] = ("*",),
    cluster_scope: bool = True,
    namespaces: tuple[str, ...] = ("*",),
) -> ResourcePolicyRule:
    """A rule for one resource."""
    return ResourcePolicyRule(
        verbs=verbs,
        api_groups=groups,
        resources=(resource,),
        cluster_scope=cluster_scope,
        namespaces=namespaces,
    )


@pytest.mark.parametrize(
    ("resource", "groups", "expected"),
    [
        pytest.param("*", ("",), "", id="all"),
        pytest.param("pods", ("",), "", id="known"),
        pytest.param("pods/log", ("",), "", id="known-subresource"),
        pytest.param("events", ("", "events.k8s.io"), "", id="in-both"),
        pytest.param("deployments", ("", "apps"), "", id="in-one"),
        pytest.param("widgets", ("",), "", id="unknown"),
        pytest.param("deployments", ("extensions",), "", id="in-an-unknown-group"),
        pytest.param("pods", ("*",), "", id="in-any-group"),
        pytest.param("pods/*", ("",), "* is for all only", id="pattern"),
        pytest.param("*/status", ("*",), "* is for all only", id="pattern-of-resources"),
        pytest.param("pods/", ("*",), "RESOURCE/SUBRESOURCE", id="no-subresource"),
        pytest.param("", ("*",), "RESOURCE/SUBRESOURCE", id="no-name"),
        pytest.param("pods/log/x", ("*",), "RESOURCE/SUBRESOURCE", id="two-slashes"),
        pytest.param("Pods", ("*",), "small letters", id="capital"),
        pytest.param("po ds", ("*",), "small letters", id="space"),
        pytest.param("pods/logs", ("",), "pods are attach, binding, ", id="no-such-subresource"),
        pytest.param("secrets/status", ("",), "no subresources", id="no-subresources"),
        pytest.param("deployments", ("",), "of the core group, but of apps", id="in-another-group"),
        pytest.param("pod", ("",), "here pods (core group)", id="singular"),
        pytest.param("deployment", ("",), "deployments (apps)", id="singular-of-another-group"),
        pytest.param(
            "ingress",
            ("networking.k8s.io",),
            "here ingresses (",
            id="singular-es",
        ),
        pytest.param(
            "networkpolicy", ("networking.k8s.io",), "here networkpolicies (", id="singular-ies"
        ),
    ],
)
def test_resources(resource: str, groups: tuple[str, ...], expected: str) -> None:
    """Only resources of Kubernetes' own groups are doubted, and whatever cannot be a name."""
    found, is_alive = dead_in_resource_rule(rule(resource, *groups))

    assert is_alive == (not expected)
    assert [NO_SUCH_RESOURCE] * bool(expected) == [kind for kind, _, _ in found]
    assert [] == [message for _, _, message in found if expected not in message]


@pytest.mark.parametrize(
    ("dead", "is_dead"),
    [
        pytest.param(rule("nodes", "", cluster_scope=False), True, id="nodes-in-namespaces"),
        pytest.param(rule("nodes", ""), False, id="nodes"),
        pytest.param(rule("namespaces", "", cluster_scope=False), False, id="namespace"),
        pytest.param(
            rule("namespaces", "", verbs=("get", "delete"), namespaces=()),
            True,
            id="a-namespace-in-none",
        ),
        pytest.param(
            rule("namespaces", "", verbs=("get", "list"), namespaces=()),
            False,
            id="namespaces-in-none",
        ),
        pytest.param(
            rule("namespaces", "", verbs=("list", "create"), cluster_scope=False),
            True,
            id="namespaces-in-one",
        ),
        pytest.param(
            rule("namespaces/finalize", "", namespaces=()), True, id="part-of-a-namespace-in-none"
        ),
        pytest.param(
            rule("namespaces/finalize", "", cluster_scope=False), False, id="part-of-a-namespace"
        ),
        pytest.param(rule("nodes", "*", cluster_scope=False), False, id="any-group"),
        pytest.param(rule("widgets", "", cluster_scope=False), False, id="unknown"),
        pytest.param(
            rule("pods", "", verbs=("get",), namespaces=()), True, id="pods-in-no-namespace"
        ),
        pytest.param(
            rule("pods", "", verbs=("get", "list"), namespaces=()), False, id="pods-of-all"
        ),
        pytest.param(rule("pods/log", "", namespaces=()), True, id="logs-in-no-namespace"),
        pytest.param(rule("pods", "", verbs=("get",)), False, id="pods-of-both"),
    ],
)
def test_scopes(*, dead: ResourcePolicyRule, is_dead: bool) -> None:
    """Objects of the cluster are in no namespace, others are in one unless all are asked for."""
    found, is_alive = dead_in_resource_rule(dead)

    assert (not is_dead, [NO_SUCH_SCOPE] * is_dead) == (is_alive, [kind for kind, _, _ in found])


@pytest.mark.parametrize(
    ("verbs", "urls", "fields", "alive"),
    [
        pytest.param(("get",), ("/a",), [], True, id="alive"),
        pytest.param(("*",), ("*",), [], True, id="wildcards"),
        pytest.param(("get", "list"), ("/a",), ["verbs[1]"], True, id="a-verb"),
        pytest.param(("update",), ("/a",), ["verbs[0]"], False, id="all-verbs"),
        pytest.param(("get",), ("/api/v1/a", "/a"), ["nonResourceURLs[0]"], True, id="a-url"),
        pytest.param(("get",), ("/api/v1/a",), ["nonResourceURLs[0]"], False, id="all-urls"),
    ],
)
def test_url_rules(
    *, verbs: tuple[str, ...], urls: tuple[str, ...], fields: list[str], alive: bool
) -> None:
    """A rule is dead if all of its verbs are, or all of its URLs."""
    found, is_alive = dead_in_url_rule(NonResourcePolicyRule(verbs=verbs, non_resource_urls=urls))

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


NOBODY = user_subject("system:masters")
DEAD_URLS = NonResourcePolicyRule(verbs=("list",), non_resource_urls=("*",))
DEAD_RESOURCES = rule("pods", "core")


@pytest.mark.parametrize(
    ("rules", "ids"),
    [
        pytest.param((), ["APF110"], id="no-rules"),
        pytest.param(
            (
                PolicyRulesWithSubjects(
                    subjects=(user_subject("alice"), NOBODY),
                    resource_rules=(DEAD_RESOURCES, EVERY_RESOURCE),
                    non_resource_rules=(DEAD_URLS,),
                ),
            ),
            ["APF111", "APF114", "APF112"],
            id="partly",
        ),
        pytest.param(
            (PolicyRulesWithSubjects(subjects=(NOBODY,), non_resource_rules=(EVERY_URL,)),),
            ["APF111", "APF110"],
            id="no-subject",
        ),
        pytest.param(
            (
                PolicyRulesWithSubjects(
                    subjects=(user_subject("alice"),),
                    resource_rules=(DEAD_RESOURCES,),
                    non_resource_rules=(DEAD_URLS,),
                ),
            ),
            ["APF114", "APF112", "APF110"],
            id="no-rule-of-a-subject",
        ),
    ],
)
def test_flow_schema(rules: tuple[PolicyRulesWithSubjects, ...], ids: list[str]) -> None:
    """A FlowSchema matches nothing if each of its rules lacks subjects or requests."""
    schema = FlowSchema(spec=FlowSchemaSpec(rules=rules))

    assert ids == [each.found.id for each in dead_rules(schema)]


def test_known_resources() -> None:
    """The lists are written as they are read; a name may be that of several groups."""
    named = [
        (name, subresource)
        for resources in KNOWN_GROUPS.values()
        for name, resource in resources.items()
        for subresource in ("x", *resource.subresources)
    ]

    assert [] == [each for each in named if not (each[0].isalpha() and each[1].isalpha())]
    assert (True, frozenset({"scale", "status"})) == KNOWN_GROUPS["apps"]["deployments"]
    assert (None, frozenset({"finalize", "status"})) == KNOWN_GROUPS[""]["namespaces"]
    assert ["", "events.k8s.io"] == groups_of("events")


@pytest.mark.parametrize(
    ("target", "expected"),
    [("/api/v1/pods", True), ("/apis/a.b/v1/c", True), ("/api/v1/users", False), ("/x", False)],
)
def test_requests_of_kubernetes(target: str, *, expected: bool) -> None:
    """A resource of the core group has a name that is known; another API has such paths, too."""
    assert expected == is_of_kubernetes(parse_attributes("GET", target.encode()))
