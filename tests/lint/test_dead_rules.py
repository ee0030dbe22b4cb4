"""What is told to match nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
from apfproxy.lint.known_resources import KNOWN_GROUPS, is_of_kubernetes
from apfproxy.objects.types import (
    FlowSchema,
    FlowSchemaSpec,
    NonResourcePolicyRule,
    PolicyRulesWithSubjects,
    ResourcePolicyRule,
)
from apfproxy.request.attributes import parse_attributes
from loadtest.objects import EVERY_RESOURCE, EVERY_URL, group_subject, user_subject
from tests.flowcontrol.plain_walk import resource_rule_matches
from tests.lint.configurations import some

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
    """Names are compared as they are, and some are known to be nobody's."""
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
