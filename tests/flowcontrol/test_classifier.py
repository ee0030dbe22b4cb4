"""Tests of `apfproxy.flowcontrol.classifier`."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.classifier import Classifier, flow_hash
from apfproxy.objects.bootstrap import bootstrap_objects
from apfproxy.objects.types import (
    FlowSchema,
    NonResourcePolicyRule,
    ResourcePolicyRule,
    ServiceAccountSubject,
    Subject,
)
from apfproxy.request.attributes import parse_attributes
from apfproxy.request.user import User
from loadtest import objects
from loadtest.objects import EVERY_RESOURCE, EVERY_URL, group_subject

ALICE = User("alice", ("ops", "system:authenticated"))
ROBOT = User("system:serviceaccount:team-a:robot", ("system:serviceaccounts",))
EVERYBODY = group_subject("*")
GET_PODS = parse_attributes("GET", b"/api/v1/namespaces/n/pods")


def service_account(namespace: str, name: str) -> Subject:
    """A subject that is a service account."""
    return Subject(
        kind="ServiceAccount",
        service_account=ServiceAccountSubject(namespace=namespace, name=name),
    )


def schema(
    name: str = "s",
    subject: Subject = EVERYBODY,
    *,
    precedence: int = 100,
    resource_rule: ResourcePolicyRule = EVERY_RESOURCE,
    non_resource_rule: NonResourcePolicyRule = EVERY_URL,
    distinguish_by: str | None = None,
) -> FlowSchema:
    """A FlowSchema with one rule."""
    return objects.flow_schema(
        name,
        "level",
        subject,
        precedence=precedence,
        distinguish_by=distinguish_by,
        resource_rule=resource_rule,
        non_resource_rule=non_resource_rule,
    )


def is_chosen(flow_schema: FlowSchema, user: User, method: str, target: bytes) -> bool:
    """Whether a classifier with this FlowSchema alone chooses it; `matches` says the same."""
    attributes = parse_attributes(method, target)
    chosen = Classifier([flow_schema]).classify(user, attributes) is flow_schema

    assert chosen == (Classifier([flow_schema]).classify(user, attributes) is not None)
    return chosen


def test_order() -> None:
    """The lowest matching precedence wins, then the name, however they were given."""
    schemas = [schema("b"), schema("a"), schema("z", precedence=1), schema("y", precedence=10_000)]

    for remaining in ("z", "a", "b", "y"):
        chosen = Classifier(schemas).classify(ALICE, GET_PODS)
        assert chosen is not None
        assert remaining == chosen.metadata.name
        schemas.remove(chosen)

    assert Classifier(schemas).classify(ALICE, GET_PODS) is None


@pytest.mark.parametrize(
    ("target", "is_match"),
    [
        pytest.param(b"/apis/apps/v1/namespaces/n/deployments", True, id="match"),
        pytest.param(b"/apis/apps/v1/namespaces/n/deployments/d", False, id="verb"),
        pytest.param(b"/apis/apps/v1/namespaces/m/deployments", False, id="namespace"),
        pytest.param(b"/apis/apps/v1/deployments", False, id="cluster-scope"),
        pytest.param(b"/apis/batch/v1/namespaces/n/deployments", False, id="group"),
        pytest.param(b"/apis/apps/v1/namespaces/n/pods", False, id="resource"),
        pytest.param(b"/apis/apps/v1/namespaces/n/deployments//scale", True, id="subresource"),
        pytest.param(b"/apis/apps/v1/namespaces/n/deployments//status", False, id="another"),
        pytest.param(b"/healthz", False, id="non-resource"),
    ],
)
def test_resource_rule(target: bytes, is_match: bool) -> None:
    """A resource rule matches when every part of it does."""
    flow_schema = schema(
        resource_rule=ResourcePolicyRule(
            verbs=("list",),
            api_groups=("apps",),
            resources=("deployments", "deployments/scale"),
            namespaces=("n",),
        ),
        non_resource_rule=NonResourcePolicyRule(),
    )

    assert is_match == is_chosen(flow_schema, ALICE, "GET", target)


def test_cluster_scope() -> None:
    """Requests without namespace match by cluster scope, not by namespaces."""
    everywhere = schema(
        resource_rule=ResourcePolicyRule(
            verbs=("*",), api_groups=("*",), resources=("*",), cluster_scope=True
        )
    )

    assert is_chosen(everywhere, ALICE, "GET", b"/api/v1/pods")
    assert not is_chosen(everywhere, ALICE, "GET", b"/api/v1/namespaces/n/pods")


def test_wildcard_means_all_only_when_alone() -> None:
    """Beside other values a wildcard is a value like any other."""
    flow_schema = schema(
        resource_rule=ResourcePolicyRule(
            verbs=("*", "get"), api_groups=("*",), resources=("*",), namespaces=("*",)
        )
    )

    assert not is_chosen(flow_schema, ALICE, "GET", b"/api/v1/namespaces/n/pods")


def test_non_resource_verb() -> None:
    """A non-resource rule matches by verb too."""
    rule = NonResourcePolicyRule(verbs=("get",), non_resource_urls=("*",))

    assert not is_chosen(schema(non_resource_rule=rule), ALICE, "POST", b"/a")


def test_flow_hash() -> None:
    """Schema, distinguisher and seed all count, and where one ends and the other begins."""
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
