"""Which paths URLs match, by themselves and in an index."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.classifier import Classifier
from apfproxy.flowcontrol.mismatch import match_url
from apfproxy.objects.types import NonResourcePolicyRule
from apfproxy.request.attributes import RequestAttributes, parse_attributes
from apfproxy.request.user import ANONYMOUS
from loadtest.objects import flow_schema, user_subject


def matches(urls: tuple[str, ...], path: str) -> bool:
    """Whether any of the URLs matches a path; an index says the same."""
    found = match_url(urls, path)
    rule = NonResourcePolicyRule(verbs=("get",), non_resource_urls=urls)
    schema = flow_schema("s", "level", user_subject("*"), non_resource_rule=rule)
    request = RequestAttributes(is_resource_request=False, path=path, verb="get")
    chosen = Classifier([schema]).classify(ANONYMOUS, request)

    assert found == (chosen is not None)
    return found


@pytest.mark.parametrize(
    ("url", "path", "is_match"),
    [
        ("*", b"/a/../b", True),
        ("/*", b"/a", True),
        ("/*", b"/a/../b", True),
        ("/a", b"/a", True),
        ("/a", b"/ab", False),
        ("/a", b"/a/b", True),
        ("/a/", b"/a", False),
        ("/a/*", b"/a/b", True),
        ("/a/*", b"/a", False),
        ("/a", b"/a/.well-known/b", True),
        ("/a", b"/a/../b", False),
        ("/a", b"/a/%2e%2e/b", False),
        ("/a", b"/a/.", False),
        ("/a", b"/a/...", False),
        ("/a/..", b"/a/..", True),
        ("/a", b"/a/..;/b", False),
        ("/a", b"/a/..;x=y/b", False),
        ("/a", b"/a/;/../b", False),
        ("/a", b"/a/..%5cb", False),
        ("/a", b"/a/..\\b", False),
        ("/a", b"/a/%252e%252e/b", False),
        ("/a", b"/a/%25252e./b", False),
        ("/a", b"/a/..%252fb", False),
        ("/a", b"/a/%2e%2e%2fb", False),
        ("/a", b"/a%2f..%2fb", False),
        ("/a", b"/a/%c0%ae%c0%ae/b", False),
        ("/a", b"/a/%ef%bc%8e%ef%bc%8e/b", False),
        ("/a", b"/a/..%20/b", False),
        ("/a", b"/a/..%09/b", False),
        ("/a", b"/a/..%00/b", False),
        ("/a", b"/a/%3f/b", False),
        ("/a", b"/a/%23/b", False),
        ("/a/*", b"/a/..;/b", False),
        ("*", b"/a/..;/b", True),
        ("/*", b"/a/..;/b", True),
        ("/a", b"/a//b", True),
        ("/a", b"/a/b.c/..d/e..", True),
        ("/a", b"/a/b-c_d~e!$&'()*+,=:@f", True),
    ],
)
def test_a_url(url: str, path: bytes, is_match: bool) -> None:
    """A URL matches itself and what is below it, unless a server might take that for another."""
    assert is_match == matches((url,), parse_attributes("GET", path).path)


@pytest.mark.parametrize(
    ("path", "is_match"),
    [
        ("*x", True),
        ("*", False),
        ("", False),
        ("/a/b/c", True),
        ("/a", False),
        ("//b", True),
        ("/bc/d", True),
        ("/bc" + 9999 * "/", True),
        ("/c" + 9999 * "/", False),
    ],
)
def test_several(path: str, is_match: bool) -> None:
    """One of them is enough; what is no path has to be named."""
    assert is_match == matches(("/a/b/*", "/bc", "//b", "*x"), path)


def test_all_beside_others() -> None:
    """A wildcard counts in any place."""
    assert matches(("/a", "*"), "*")
