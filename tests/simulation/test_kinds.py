"""Kinds of requests."""

from __future__ import annotations

import pytest

from apfproxy.request.attributes import AttributesError, DeadlineError, User
from apfproxy.simulation.kinds import essence, kind_of

USER = User("u", ())


def test_kind_of() -> None:
    """A kind has the attributes and the time of its target."""
    kind = kind_of("c", USER, "GET", "/api/v1/pods?timeout=8s", 3)

    assert ("c", "list", 8_000_000_000, 3) == (
        kind.client,
        kind.attributes.verb,
        kind.timeout_ns,
        kind.seats,
    )
    assert 60_000_000_000 == kind_of("c", USER, "GET", "/version").timeout_ns


@pytest.mark.parametrize(
    ("method", "first", "second", "are_alike"),
    [
        pytest.param("GET", "pods/a", "pods/b", True, id="read-names"),
        pytest.param("GET", "pods/a", "nodes/a", False, id="resources"),
        pytest.param("GET", "pods/a/status", "pods/a", False, id="subresources"),
        pytest.param("PUT", "pods/a", "pods/b", False, id="written-names"),
        pytest.param("GET", "pods?limit=5", "pods?limit=6", False, id="limits"),
        pytest.param("GET", "pods?continue=a&limit=5", "pods?continue=b&limit=5", True, id="pages"),
        pytest.param("GET", "pods?watch=1", "pods", False, id="verbs"),
        pytest.param("GET", "pods?timeout=1s", "pods", False, id="times"),
        pytest.param(
            "GET",
            "pods?watch=1&fieldSelector=spec.nodeName%3Da",
            "pods?watch=1",
            False,
            id="selectors",
        ),
    ],
)
def test_essence(method: str, first: str, second: str, are_alike: bool) -> None:
    """Requests are alike if nothing that decides anything is different."""
    one, other = (
        essence(kind_of("c", USER, method, f"/api/v1/{target}"), with_names=True)
        for target in (first, second)
    )

    assert are_alike == (one == other)


def test_essence_without_names() -> None:
    """Where there are too many kinds, names of written objects are given up; paths are not."""
    pods = {
        essence(kind_of("c", USER, "PUT", f"/api/v1/pods/{name}"), with_names=False)
        for name in "ab"
    }
    paths = {essence(kind_of("c", USER, "GET", f"/{name}"), with_names=False) for name in "ab"}

    assert (1, 2) == (len(pods), len(paths))


@pytest.mark.parametrize(
    ("target", "error"),
    [
        pytest.param("api", AttributesError, id="no-target"),
        pytest.param("/api?timeout=x", DeadlineError, id="no-time"),
    ],
)
def test_wrong_targets(target: str, error: type[Exception]) -> None:
    """What the proxy would refuse is no kind."""
    with pytest.raises(error):
        kind_of("c", USER, "GET", target)
