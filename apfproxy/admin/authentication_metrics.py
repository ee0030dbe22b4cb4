"""Metrics of authentication, and of the reviews that the upstream is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.admin.families import counter, gauge, readings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.core import Metric

    from apfproxy.admin.families import Series
    from apfproxy.authn.authenticator import AuthenticationCounters
    from apfproxy.authn.upstream_api import UpstreamApi

PREFIX = "apfproxy_"
RESULTS = ("authenticated", "anonymous", "unverified", "crowded", "refused", "unavailable")
"""Attributes of the counters, and values of the label."""

REVIEW_COUNTERS: Series = {
    ("reviews_total", "asked_total"): (
        "Reviews that the upstream was asked for: of tokens, and of access to impersonate"
    ),
    ("review_failures_total", "failures_total"): "Reviews that failed",
    ("review_stand_ins_total", "stand_ins_total"): (
        "Earlier answers that were used because no new one could be had"
    ),
}
REVIEW_GAUGES: Series = {
    ("reviews_waiting", "line.waiting"): "Reviews that wait for their turn",
    ("reviews_under_way", "line.under_way"): "Reviews that were sent and have no answer yet",
}


def authentication_families(
    counters: AuthenticationCounters, reviews: Mapping[str, UpstreamApi]
) -> Iterator[Metric]:
    """All families of authentication, and of the reviews that are on, by their kind."""
    yield counter(
        PREFIX + "authentications_total",
        "Authentications of requests, by result; cached ones are not counted",
        [({"result": result}, getattr(counters, result)) for result in RESULTS],
    )
    if not reviews:
        return
    for family_of, rows in ((counter, REVIEW_COUNTERS), (gauge, REVIEW_GAUGES)):
        for name, help_text, value in readings(PREFIX, rows):
            values = [({"kind": kind}, value(api)) for kind, api in reviews.items()]
            yield family_of(name, help_text, values)
    yield counter(
        PREFIX + "reviews_refused_total",
        "Reviews that were dropped before they were sent, by reason: queue-full or time-out",
        [
            ({"kind": kind, "reason": reason}, number)
            for kind, api in reviews.items()
            for reason, number in api.unasked_total.items()
        ],
    )
