"""Kinds of requests."""

from __future__ import annotations

import pytest

from apfproxy.request.attributes import AttributesError
from apfproxy.request.deadline import DeadlineError
from apfproxy.request.user import User
from apfproxy.simulation.kinds import kind_of

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
