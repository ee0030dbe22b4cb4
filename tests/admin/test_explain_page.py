"""Questions to `/debug/explain`."""

from __future__ import annotations

import pytest

from apfproxy.admin.explain_page import (
    MAX_PARAMETERS,
    explanation_json,
    header_in,
    parse_header,
    question,
)
from apfproxy.flowcontrol.explanation import explain
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.request.attributes import ANONYMOUS, User, parse_attributes
from loadtest.objects import flow_schema, group_subject
from tests.admin.scene import POD, Scene

COSTS = LearnedCosts(lambda: 0)


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
    ("query", "user", "verb", "path"),
    [
        pytest.param("target=/a", ANONYMOUS, "get", "/a", id="anonymous"),
        pytest.param(
            "target=%2Fa%2520b&method=POST&user=a%FF",
            User("a\udcff", ("system:authenticated",)),
            "post",
            "/a b",
            id="bytes",
        ),
        pytest.param(
            "target=/a&user=system:serviceaccount:x:y",
            User(
                "system:serviceaccount:x:y",
                ("system:serviceaccounts", "system:serviceaccounts:x", "system:authenticated"),
            ),
            "get",
            "/a",
            id="service-account",
        ),
        pytest.param(
            "target=/a&user=header:al",
            User("header:al", ("system:unauthenticated",)),
            "get",
            "/a",
            id="unverified-name",
        ),
    ],
)
def test_question(query: str, user: User, verb: str, path: str) -> None:
    """The query says who asks for what; the user has the groups that Kubernetes adds."""
    found, attributes, headers = question(query, judge)

    assert (user, verb, path, ()) == (found, attributes.verb, attributes.path, headers)


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


def test_headers() -> None:
    """Headers are found by their name in any case; the first of several counts."""
    headers = (parse_header("X-Team: red "), parse_header("x-team:blue"))

    assert ("red", "") == (header_in(headers, "x-team"), header_in(headers, "x-other"))


def test_text_that_is_no_unicode(scene: Scene) -> None:
    """JSON can carry names that came as bytes of any kind."""
    user = User("a\udcff", ())
    text = explanation_json(explain(scene.controller, COSTS, user, parse_attributes("GET", POD)))

    assert '"a\\udcff"' in text
