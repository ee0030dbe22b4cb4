"""The metrics of authentication."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast
from unittest.mock import create_autospec

import pytest
from prometheus_client import CollectorRegistry

from apfproxy.admin.authentication_metrics import authentication_families
from apfproxy.admin.metrics import Collected
from apfproxy.authn.authenticator import AuthenticationCounters
from apfproxy.authn.upstream_api import UpstreamApi


def counted(asked: int, failures: int, unasked: dict[str, int], *more: int) -> UpstreamApi:
    """What the reviews of a kind have come to."""
    api = create_autospec(UpstreamApi, instance=True)
    api.asked_total, api.failures_total, api.unasked_total = asked, failures, unasked
    api.stand_ins_total, waiting, under_way = more
    api.line = SimpleNamespace(waiting=waiting, under_way=under_way)
    return cast("UpstreamApi", api)


REVIEWS = {
    "token": counted(10, 20, {"queue-full": 1, "time-out": 2}, 30, 31, 32),
    "access": counted(40, 50, {"queue-full": 3, "time-out": 4}, 60, 61, 62),
}


def registry_of(reviews: dict[str, UpstreamApi]) -> CollectorRegistry:
    """The families, of one client that was known, two anonymous, and so on."""
    counters = AuthenticationCounters()
    counters.authenticated, counters.anonymous, counters.refused = 1, 2, 3
    counters.unavailable, counters.unverified, counters.crowded = 4, 5, 6
    registry = CollectorRegistry()
    registry.register(Collected(lambda: authentication_families(counters, reviews)))
    return registry


@pytest.mark.parametrize(
    ("result", "count"),
    [
        pytest.param("authenticated", 1, id="authenticated"),
        pytest.param("anonymous", 2, id="anonymous"),
        pytest.param("refused", 3, id="refused"),
        pytest.param("unavailable", 4, id="unavailable"),
        pytest.param("unverified", 5, id="unverified"),
        pytest.param("crowded", 6, id="crowded"),
    ],
)
def test_authentications(result: str, count: int) -> None:
    """Each outcome of an authentication counts by itself."""
    registry = registry_of({})

    assert count == registry.get_sample_value("apfproxy_authentications_total", {"result": result})


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        pytest.param("reviews_total", {"token": 10, "access": 40}, id="asked"),
        pytest.param("review_failures_total", {"token": 20, "access": 50}, id="failed"),
        pytest.param("review_stand_ins_total", {"token": 30, "access": 60}, id="stand-ins"),
        pytest.param("reviews_waiting", {"token": 31, "access": 61}, id="waiting"),
        pytest.param("reviews_under_way", {"token": 32, "access": 62}, id="under-way"),
    ],
)
def test_reviews(name: str, counts: dict[str, int]) -> None:
    """Questions count by their kind."""
    registry = registry_of(REVIEWS)

    assert counts == {
        kind: registry.get_sample_value(f"apfproxy_{name}", {"kind": kind}) for kind in counts
    }


def test_questions_that_were_not_sent() -> None:
    """They count by their kind and by the reason."""
    registry = registry_of(REVIEWS)

    assert [1.0, 2.0, 3.0, 4.0] == [
        registry.get_sample_value(
            "apfproxy_reviews_refused_total", {"kind": kind, "reason": reason}
        )
        for kind in ("token", "access")
        for reason in ("queue-full", "time-out")
    ]


def test_without_reviews() -> None:
    """Where nothing is asked there is nothing to be seen of it."""
    assert {"apfproxy_authentications"} == {each.name for each in registry_of({}).collect()}
