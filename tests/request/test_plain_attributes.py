"""Tests of the attributes of requests to APIs that are not Kubernetes."""

from __future__ import annotations

import pytest

from apfproxy.request.attributes import AttributesError
from apfproxy.request.plain_attributes import plain_attributes
from apfproxy.request.rules import RequestRules


@pytest.mark.parametrize(
    ("method", "target", "path", "is_mutating"),
    [
        (
            "GET",
            b"/api/v1/namespaces/x/pods?watch=1&timeout=soon",
            "/api/v1/namespaces/x/pods",
            False,
        ),
        ("HEAD", b"/", "/", False),
        ("OPTIONS", b"*", "*", False),
        ("POST", b"/apis/apps/v1/deployments", "/apis/apps/v1/deployments", True),
        ("LIST", b"/a%20b", "/a b", True),
        ("WATCH", b"http://host/debug/pprof/profile", "/debug/pprof/profile", True),
    ],
)
def test_method_and_path(method: str, target: bytes, path: str, *, is_mutating: bool) -> None:
    """Nothing else has a meaning."""
    found = plain_attributes(method, target)

    assert (method.lower(), path, is_mutating) == (found.verb, found.path, found.is_mutating)
    assert (True, False, False) == (
        found.is_plain,
        found.is_resource_request,
        found.long_running,
    )
    assert ("", {}, None) == (found.resource, dict(found.query), found.list_options)


def test_no_target() -> None:
    """What is no target is none here either."""
    with pytest.raises(AttributesError, match="target"):
        plain_attributes("GET", b"/%zz")


def test_prefixes() -> None:
    """Of a path below a prefix only its variable part is told."""
    rules = RequestRules(api_prefixes=["/tenants/{tenant}"])
    found = plain_attributes("GET", b"/tenants/a/api/v1/pods", rules)

    assert ("/tenants/a/api/v1/pods", False) == (found.path, found.is_resource_request)
    assert ("/tenants/a", "a") == (found.path_prefix, found.prefix_value)
    assert "" == plain_attributes("GET", b"/x/a", rules).prefix_value
