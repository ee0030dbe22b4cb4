"""Tests of `apfproxy.request.rules`."""

from __future__ import annotations

import pytest

from apfproxy.request.attributes import decode_path
from apfproxy.request.rules import PATTERN, PathPrefixes

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
        pytest.param(b"/clusters/a/", b"/clusters/a", "a", id="nothing-below"),
        pytest.param(b"/clusters/a", b"/clusters/a", "a", id="the-prefix-alone"),
        pytest.param(b"/k8s/clusters/c-m-1/v3", b"/k8s/clusters/c-m-1", "c-m-1", id="constants"),
        pytest.param(
            b"/k8s/clusters/c/api-proxy/api", b"/k8s/clusters/c/api-proxy", "c", id="the-longest"
        ),
        pytest.param(b"/k8s/clusters/c/api-prox", b"/k8s/clusters/c", "c", id="no-whole-segment"),
        pytest.param(b"/k8s/clusters/local/x", b"/k8s/clusters/local", "", id="all-constant"),
        pytest.param(b"/k8s/clusters/locale/x", b"/k8s/clusters/locale", "locale", id="longer"),
        pytest.param(b"/services/v1.0/all/api", b"/services/v1.0/all", "", id="with-a-dot"),
        pytest.param(b"/services/v1x0/all/api", b"", "", id="a-dot-is-no-pattern"),
        pytest.param(b"/c%6Custers/%61%3a/x", b"/c%6Custers/%61%3a", "a:", id="escaped"),
        pytest.param(b"/clusters/.a./x", b"/clusters/.a.", ".a.", id="dots-among-others"),
        pytest.param(b"/clusters", b"", "", id="no-variable-part"),
        pytest.param(b"/clusters/", b"", "", id="empty"),
        pytest.param(b"/clusters//api", b"", "", id="empty-before-others"),
        pytest.param(b"//clusters/a/api", b"", "", id="two-slashes"),
        pytest.param(b"/clusters/../api", b"", "", id="dots"),
        pytest.param(b"/clusters/%2e%2E/api", b"", "", id="escaped-dots"),
        pytest.param(b"/clusters/a%2Fb/api", b"", "", id="escaped-slash"),
        pytest.param(b"/clusters%2fa/api", b"", "", id="escaped-slash-before"),
        pytest.param(b"/clusters/a%252e/api", b"", "", id="escaped-twice"),
        pytest.param(b"/clusters/a;b/api", b"", "", id="parameter"),
        pytest.param(b"/clusters/a\\b/api", b"", "", id="backslash"),
        pytest.param(b"/clusters/a%5cb/api", b"", "", id="escaped-backslash"),
        pytest.param(b"/clusters/%c3%a9/api", b"", "", id="not-ascii"),
        pytest.param(b"/clusters/a%00/api", b"", "", id="control-character"),
        pytest.param(b"/Clusters/a/api", b"", "", id="case"),
        pytest.param(b"/x/clusters/a/api", b"", "", id="not-at-the-begin"),
        pytest.param(b"*", b"", "", id="star"),
        pytest.param(b"", b"", "", id="no-path"),
    ],
)
def test_find(path: bytes, prefix: bytes, value: str) -> None:
    """A prefix is found by whole segments, whose variable part no server takes for another one."""
    assert (decode_path(prefix), value) == PREFIXES.find(path, decode_path(path))


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(b"/../b/api/v1/pods", id="dots"),
        pytest.param(b"/api/v1/namespaces/x/..", id="dots-at-the-end"),
        pytest.param(b"/%2e%2e/b", id="escaped-dots"),
        pytest.param(b"/..;/b", id="parameter"),
        pytest.param(b"/..%5cb", id="escaped-backslash"),
        pytest.param(b"/%252e%252e/b", id="escaped-twice"),
        pytest.param(b"/%c0%ae%c0%ae/b", id="overlong"),
        pytest.param("/\N{FULLWIDTH FULL STOP}./b".encode(), id="looks-like-dots"),
    ],
)
def test_paths_that_may_lead_elsewhere(rest: bytes) -> None:
    """What some server might take for a path below another prefix has no variable part."""
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
        ("a", False),
        ("/a//{b}", False),
        ("/a/{b}/{c}", False),
        ("/a/x{b}", False),
        ("/a/{}", False),
        ("/a/{b", False),
        ("/a/..", False),
        ("/a/%41", False),
        ("/a/*", False),
        ("/a?b", False),
        ("/a\n", False),
    ],
)
def test_patterns(pattern: str, is_one: bool) -> None:
    """A pattern has whole segments, of which one at most is variable."""
    assert is_one == bool(PATTERN.fullmatch(pattern))
