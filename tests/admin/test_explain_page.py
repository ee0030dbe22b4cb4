"""Questions to `/debug/explain`."""

from __future__ import annotations

import pytest

from apfproxy.admin.explain_page import (
    MAX_PARAMETERS,
    question,
)
from loadtest.objects import flow_schema, group_subject
from tests.admin.scene import Scene


def judge(method: str, _target: bytes) -> None:
    if method == "TRACE":
        raise ValueError("the proxy would answer 405")


@pytest.fixture
def scene() -> Scene:
    """One request executes."""
    scene = Scene((flow_schema("everyone", "catch-all", group_subject("everyone")),))
    scene.ticket("ann")
    return scene


@pytest.mark.parametrize(
    ("query", "name", "groups", "verb", "path"),
    [
        ("target=/a", *("system:anonymous", "system:unauthenticated"), *("get", "/a")),
        (
            "target=%2Fa%2520b&method=POST&user=a%FF",
            *("a\udcff", "system:authenticated", "post", "/a b"),
        ),
        (
            "target=/a&user=system:serviceaccount:x:y",
            "system:serviceaccount:x:y",
            "system:serviceaccounts system:serviceaccounts:x system:authenticated",
            *("get", "/a"),
        ),
        ("target=/a&user=header:al", *("header:al", "system:unauthenticated"), *("get", "/a")),
    ],
    ids=["anonymous", "bytes", "service-account", "unverified-name"],
)
def test_question(query: str, name: str, groups: str, verb: str, path: str) -> None:
    """The query says who asks for what; the user has the groups that Kubernetes adds."""
    found, attributes, headers = question(query, judge)

    assert (name, tuple(groups.split())) == (found.name, found.groups)
    assert (verb, path, ()) == (attributes.verb, attributes.path, headers)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        pytest.param("method=GET", "say what is asked for: target=/path", id="no-target"),
        pytest.param("target=/a&target=/b", "target is given twice; keep one", id="twice"),
        pytest.param("target=/a&method=G%20T", "expected a method such as GET", id="method"),
        pytest.param("target=/a&method=TRACE", "would answer 405", id="refused"),
        pytest.param("target=a", "malformed request target", id="target"),
        pytest.param("target=/a&group=g", "group needs user", id="group"),
        pytest.param("target=/a&path=/", "expected the parameters method", id="unknown"),
        pytest.param("target=/a&header=x", "expected a header such as X-Team:red", id="header"),
        pytest.param("&".join(["a=b"] * 300), f"more than {MAX_PARAMETERS}", id="many"),
    ],
)
def test_refused_question(query: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        question(query, judge)
