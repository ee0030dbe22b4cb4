"""Tests of what is long-running."""

from __future__ import annotations

import pytest

from apfproxy.request.attributes import parse_attributes, plain_attributes
from apfproxy.request.rules import KUBERNETES, NONE, RequestRules

RULES = RequestRules(
    ("get",), ("console", "vnc"), ("/events", "/feeds/", "/apis/builds.io/v1", "/debug/pprof/")
)
VM = b"/apis/kubevirt.io/v1/namespaces/a/vms/v"


@pytest.mark.parametrize(
    ("method", "target", "why"),
    [
        pytest.param("GET", b"/a", "its verb is get (request.longRunning.verbs)", id="verb"),
        pytest.param("PUT", VM + b"/vnc", "its subresource is vnc", id="subresource"),
        pytest.param("PUT", VM + b"/exec", "", id="not-named-any-more"),
        pytest.param("PUT", b"/vnc", "", id="no-subresource"),
        pytest.param("PUT", b"/events", "its path begins with /events", id="path"),
        pytest.param("PUT", b"/events/a?b=c", "its path begins with /events", id="below"),
        pytest.param("PUT", b"/eventsource", "", id="longer-name"),
        pytest.param("PUT", b"/feeds/a", "its path begins with /feeds/", id="only-below"),
        pytest.param("PUT", b"/feeds/", "its path begins with /feeds/", id="itself-with-a-slash"),
        pytest.param("PUT", b"/feeds", "", id="not-itself"),
        pytest.param("PUT", b"/ev%65nts/a", "its path begins with /events", id="escaped"),
        pytest.param("PUT", b"/events/../a", "", id="dots"),
        pytest.param("PUT", b"/events/%2e%2e/a", "", id="escaped-dots"),
        pytest.param("PUT", b"/events/..;/a", "", id="parameter-of-a-segment"),
        pytest.param("PUT", b"/events/%252e%252e/a", "", id="escaped-twice"),
        pytest.param(
            "PUT", b"/apis/builds.io/v1/x", "its path begins with /apis/builds.io/v1", id="resource"
        ),
        pytest.param("PUT", b"/api/v1/events/a", "", id="another-resource"),
    ],
)
def test_why(method: str, target: bytes, why: str) -> None:
    """A request is long-running by its verb, its subresource or its path, and says so."""
    found = parse_attributes(method, target, RULES)

    assert found.long_running_by.startswith(why)
    assert bool(why) is found.long_running is bool(found.long_running_by)


def test_plain_requests() -> None:
    """Any method and any path can be named; by themselves none is."""
    assert "its verb is get (request.longRunning.verbs)" == (
        plain_attributes("GET", b"/a", RULES).long_running_by
    )
    assert "its path begins with /events (request.longRunning.pathPrefixes)" == (
        plain_attributes("POST", b"/events/a", RULES).long_running_by
    )
    assert "" == plain_attributes("WATCH", b"/debug/pprof/profile").long_running_by


def test_none() -> None:
    """Nothing need be."""
    assert "" == parse_attributes("GET", b"/api/v1/pods?watch=1", NONE).long_running_by


def test_what_kubernetes_has() -> None:
    """Its own, and a build of OpenShift, for which its client uploads what is built."""
    build = b"/apis/build.openshift.io/v1/namespaces/a/buildconfigs/b/instantiatebinary"
    assert parse_attributes("POST", build).long_running
    assert ["watch", "proxy"] == list(KUBERNETES.verbs)
    assert ["attach", "exec", "log", "portforward", "proxy", "instantiatebinary"] == list(
        KUBERNETES.subresources
    )
    assert ["/debug/pprof/"] == list(KUBERNETES.path_prefixes)
