"""Tests of the choice of a FlowSchema, and of what tells flows apart."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.classifier import (
    LONGEST_VALUE,
    Classifier,
    added_distinguisher,
    flow_hash,
    no_header,
)
from apfproxy.objects.additions import Distinguisher, DistinguisherKind
from apfproxy.objects.decode import bootstrap_objects
from apfproxy.objects.types import (
    FlowSchema,
    NonResourcePolicyRule,
    ResourcePolicyRule,
    ServiceAccountSubject,
    Subject,
)
from apfproxy.request.attributes import User, parse_attributes
from apfproxy.request.rules import RequestRules
from loadtest import objects
from loadtest.objects import EVERY_RESOURCE, EVERY_URL, group_subject

ALICE = User("alice", ("ops", "system:authenticated"))
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


def test_order() -> None:
    """The lowest matching precedence wins, then the name, however they were given."""
    schemas = [schema("b"), schema("a"), schema("z", precedence=1), schema("y", precedence=10_000)]

    for remaining in ("z", "a", "b", "y"):
        chosen = Classifier(schemas).classify(ALICE, GET_PODS)
        assert chosen is not None
        assert remaining == chosen.metadata.name
        schemas.remove(chosen)

    assert Classifier(schemas).classify(ALICE, GET_PODS) is None


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
    """The first group that not everybody has."""
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
        pytest.param(
            USER_AGENT,
            {"user-agent": "kubectl/v1.36.0 (linux/amd64) kubernetes/abc"},
            "kubectl",
            id="program",
        ),
        pytest.param(USER_AGENT, {"user-agent": "Go-http-client"}, "Go-http-client", id="bare"),
        pytest.param(USER_AGENT, {"user-agent": "/"}, "", id="no-program"),
        pytest.param(USER_AGENT, {}, "", id="no-user-agent"),
        pytest.param(USER_AGENT, {"user-agent": "a" * 200}, "a" * LONGEST_VALUE, id="long-name"),
    ],
)
def test_headers(distinguisher: Distinguisher, headers: dict[str, str], expected: str) -> None:
    """The value of a header, or the program that User-Agent names; both bounded."""
    user = User("u", ())

    assert expected == added_distinguisher(
        distinguisher, user, PODS, lambda name: headers.get(name, "")
    )


def test_whoever_knows_no_headers() -> None:
    """All requests are of one flow then."""
    assert "" == added_distinguisher(TENANT, User("u", ()), PODS, no_header)


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
    """The variable part of the prefix that a path has, bounded."""
    attributes = parse_attributes("GET", path, BELOW_CLUSTERS)

    assert expected == added_distinguisher(PATH_PREFIX, User("u", ()), attributes, no_header)
