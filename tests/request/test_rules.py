"""What is long-running, and where APIs begin."""

from __future__ import annotations

import pytest

from apfproxy.request.attributes import decode_path, parse_attributes, plain_attributes
from apfproxy.request.rules import KUBERNETES, NONE, PATTERN, PathPrefixes, RequestRules

PREFIXES = PathPrefixes(
    [
        "/clusters/{workspace}",
        "/k8s/clusters/{cluster}",
        "/k8s/clusters/{cluster}/api-proxy",
        "/k8s/clusters/local",
        "/services/v1.0/all",
    ]
)


@pytest.mark.parametrize(
    ("path", "prefix", "value"),
    [
        pytest.param(b"/clusters/root:a/api/v1/pods", b"/clusters/root:a", "root:a", id="below"),
        pytest.param(b"/clusters/a", b"/clusters/a", "a", id="the-prefix-alone"),
        pytest.param(b"/k8s/clusters/c-m-1/v3", b"/k8s/clusters/c-m-1", "c-m-1", id="constants"),
        (b"/k8s/clusters/c/api-proxy/api", b"/k8s/clusters/c/api-proxy", "c"),
        pytest.param(b"/k8s/clusters/c/api-prox", b"/k8s/clusters/c", "c", id="no-whole-segment"),
        pytest.param(b"/k8s/clusters/local/x", b"/k8s/clusters/local", "", id="all-constant"),
        pytest.param(b"/services/v1.0/all/api", b"/services/v1.0/all", "", id="with-a-dot"),
        pytest.param(b"/services/v1x0/all/api", b"", "", id="a-dot-is-no-pattern"),
        pytest.param(b"/c%6Custers/%61%3a/x", b"/c%6Custers/%61%3a", "a:", id="escaped"),
        pytest.param(b"/clusters", b"", "", id="no-variable-part"),
        pytest.param(b"/clusters/", b"", "", id="empty"),
        pytest.param(b"/clusters//api", b"", "", id="empty-before-others"),
        pytest.param(b"/clusters/../api", b"", "", id="dots"),
        pytest.param(b"/clusters/%2e%2E/api", b"", "", id="escaped-dots"),
        pytest.param(b"/clusters/a%2Fb/api", b"", "", id="escaped-slash"),
        pytest.param(b"/clusters%2fa/api", b"", "", id="escaped-slash-before"),
        pytest.param(b"/clusters/a%252e/api", b"", "", id="escaped-twice"),
        pytest.param(b"/clusters/a;b/api", b"", "", id="parameter"),
        pytest.param(b"/clusters/a\\b/api", b"", "", id="backslash"),
        pytest.param(b"/clusters/%c3%a9/api", b"", "", id="not-ascii"),
        pytest.param(b"/clusters/a%00/api", b"", "", id="control-character"),
        pytest.param(b"/x/clusters/a/api", b"", "", id="not-at-the-begin"),
        pytest.param(b"*", b"", "", id="star"),
    ],
)
def test_find(path: bytes, prefix: bytes, value: str) -> None:
    """A prefix is found by whole segments, whose variable part no server takes for another one."""
    assert (decode_path(prefix), value) == PREFIXES.find(path, decode_path(path))


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(b"/../b/api/v1/pods", id="dots"),
        pytest.param(b"/%2e%2e/b", id="escaped-dots"),
        pytest.param(b"/..;/b", id="parameter"),
        pytest.param(b"/%252e%252e/b", id="escaped-twice"),
        pytest.param(b"/%c0%ae%c0%ae/b", id="overlong"),
        pytest.param("/\N{FULLWIDTH FULL STOP}./b".encode(), id="looks-like-dots"),
    ],
)
def test_paths_that_may_lead_elsewhere(rest: bytes) -> None:
    """A path that some server might take for one below another prefix has no variable part."""
    path = b"/clusters/a" + rest

    assert ("/clusters/a", "") == PREFIXES.find(path, decode_path(path))


@pytest.mark.parametrize(
    ("pattern", "is_one"),
    [
        ("/clusters/{workspace}", True),
        ("/{a}", True),
        ("/a/{b1}/c", True),
        ("/a", True),
        ("/a:b/~x", True),
        ("", False),
        ("/", False),
        ("/a/", False),
        ("/a//{b}", False),
        ("/a/{b}/{c}", False),
        ("/a/x{b}", False),
        ("/a/{b", False),
        ("/a/..", False),
        ("/a/*", False),
        ("/a\n", False),
    ],
)
def test_patterns(pattern: str, is_one: bool) -> None:
    assert is_one == bool(PATTERN.fullmatch(pattern))


RULES = RequestRules(
    ("get",), ("console", "vnc"), ("/events", "/feeds/", "/apis/builds.io/v1", "/debug/pprof/")
)
VM = b"/apis/kubevirt.io/v1/namespaces/a/vms/v"


@pytest.mark.parametrize(
    ("method", "target", "why"),
    [
        pytest.param("GET", b"/a", "its verb is get (request.longRunning.verbs)", id="verb"),
        pytest.param("PUT", VM + b"/vnc", "its subresource is vnc", id="subresource"),
        pytest.param("PUT", b"/vnc", "", id="no-subresource"),
        pytest.param("PUT", b"/events", "its path begins with /events", id="path"),
        pytest.param("PUT", b"/events/a?b=c", "its path begins with /events", id="below"),
        pytest.param("PUT", b"/feeds/a", "its path begins with /feeds/", id="only-below"),
        pytest.param("PUT", b"/feeds", "", id="not-itself"),
        pytest.param("PUT", b"/ev%65nts/a", "its path begins with /events", id="escaped"),
        pytest.param("PUT", b"/events/../a", "", id="dots"),
        pytest.param("PUT", b"/events/..;/a", "", id="parameter-of-a-segment"),
        ("PUT", b"/apis/builds.io/v1/x", "its path begins with /apis/builds.io/v1"),
        pytest.param("PUT", b"/api/v1/events/a", "", id="another-resource"),
    ],
)
def test_why(method: str, target: bytes, why: str) -> None:
    found = parse_attributes(method, target, RULES)

    assert found.long_running_by.startswith(why)
    assert bool(why) is found.long_running is bool(found.long_running_by)


def test_plain_requests_and_none() -> None:
    assert plain_attributes("GET", b"/a", RULES).long_running_by.startswith("its verb is get (")
    assert "its path begins with /events (request.longRunning.pathPrefixes)" == (
        plain_attributes("POST", b"/events/a", RULES).long_running_by
    )
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
