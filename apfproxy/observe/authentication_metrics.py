"""Metrics of authentication, and of the reviews that the upstream is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.observe.families import counter, gauge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prometheus_client.core import Metric

    from apfproxy.authn.authenticator import AuthenticationCounters
    from apfproxy.authn.upstream_api import UpstreamApi

    ReviewValue = Callable[[UpstreamApi], int]

PREFIX = "apfproxy_"

REVIEW_COUNTERS: dict[str, tuple[str, ReviewValue]] = {
    "reviews_total": (
        "Reviews that the upstream was asked for: of tokens, and of access to impersonate",
        lambda api: api.asked_total,
    ),
    "review_failures_total": ("Reviews that failed", lambda api: api.failures_total),
    "review_stand_ins_total": (
        "Earlier answers that were used because no new one could be had",
        lambda api: api.stand_ins_total,
    ),
}
REVIEW_GAUGES: dict[str, tuple[str, ReviewValue]] = {
    "reviews_waiting": ("Reviews that wait for their turn", lambda api: api.waiting),
    "reviews_under_way": (
        "Reviews that were sent and have no answer yet",
        lambda api: api.under_way,
    ),
}


def authentication_families(
    counters: AuthenticationCounters, reviews: Mapping[str, UpstreamApi]
) -> Iterator[Metric]:
    """All families of authentication, and of the reviews that are on, by their kind."""
    yield counter(
        PREFIX + "authentications_total",
        "Authentications of requests, by result; cached ones are not counted",
        [
            ({"result": "authenticated"}, counters.authenticated),
            ({"result": "anonymous"}, counters.anonymous),
            ({"result": "refused"}, counters.refused),
            ({"result": "unavailable"}, counters.unavailable),
        ],
    )
    if not reviews:
        return
    for family_of, rows in ((counter, REVIEW_COUNTERS), (gauge, REVIEW_GAUGES)):
        for name, (help_text, value) in rows.items():
            values = [({"kind": kind}, value(api)) for kind, api in reviews.items()]
            yield family_of(PREFIX + name, help_text, values)
    yield counter(
        PREFIX + "reviews_refused_total",
        "Reviews that were dropped before they were sent, by reason: queue-full or time-out",
        [
            ({"kind": kind, "reason": reason}, number)
            for kind, api in reviews.items()
            for reason, number in api.unasked_total.items()
        ],
    )
