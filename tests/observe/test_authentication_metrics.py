"""The metrics of who asks."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from prometheus_client import CollectorRegistry

from apfproxy.authn.authenticator import AuthenticationCounters
from apfproxy.observe.authentication_metrics import AuthenticationMetrics


@dataclass(frozen=True)
class Counts:
    """What the questions of a kind have come to."""

    asked_total: int
    failures_total: int
    refused_total: int


def registry_of(reviews: dict[str, Counts]) -> CollectorRegistry:
    """The families, where one client was known, two were anonymous and three refused."""
    counters = AuthenticationCounters()
    counters.authenticated, counters.anonymous, counters.refused = 1, 2, 3
    registry = CollectorRegistry()
    registry.register(AuthenticationMetrics(counters, reviews))
    return registry


@pytest.mark.parametrize(
    ("result", "count"),
    [
        pytest.param("authenticated", 1, id="authenticated"),
        pytest.param("anonymous", 2, id="anonymous"),
        pytest.param("refused", 3, id="refused"),
    ],
)
def test_authentications(result: str, count: int) -> None:
    """Each end of finding out who asks counts by itself."""
    registry = registry_of({})

    assert count == registry.get_sample_value("apfproxy_authentications_total", {"result": result})


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        pytest.param("reviews_total", {"token": 10, "access": 40}, id="asked"),
        pytest.param("review_failures_total", {"token": 20, "access": 50}, id="failed"),
        pytest.param("reviews_refused_total", {"token": 30, "access": 60}, id="refused"),
    ],
)
def test_reviews(name: str, counts: dict[str, int]) -> None:
    """Questions count by their kind."""
    registry = registry_of({"token": Counts(10, 20, 30), "access": Counts(40, 50, 60)})

    assert counts == {
        kind: registry.get_sample_value(f"apfproxy_{name}", {"kind": kind}) for kind in counts
    }


def test_without_reviews() -> None:
    """Where nothing is asked there is nothing to be seen of it."""
    assert {"apfproxy_authentications"} == {each.name for each in registry_of({}).collect()}
