"""Metrics of authentication, and of the reviews that the upstream is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.observe.families import counter, gauge

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.core import Metric

    from apfproxy.authn.authenticator import AuthenticationCounters
    from apfproxy.authn.upstream_api import UpstreamApi

PREFIX = "apfproxy_"


class AuthenticationMetrics:
    """Makes metric families of authentication.

    Args:
        counters: Of the authenticator.
        reviews: The clients of the upstream's API that are on, by the kind of their reviews.
    """

    def __init__(
        self, counters: AuthenticationCounters, reviews: Mapping[str, UpstreamApi]
    ) -> None:
        self._counters = counters
        self._reviews = reviews

    def collect(self) -> Iterator[Metric]:
        """All families, as of now."""
        counters = self._counters
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
        reviews = self._reviews
        if not reviews:
            return
        yield counter(
            PREFIX + "reviews_total",
            "Reviews that the upstream was asked for: of tokens, and of access to impersonate",
            (({"kind": kind}, counts.asked_total) for kind, counts in reviews.items()),
        )
        yield counter(
            PREFIX + "review_failures_total",
            "Reviews that failed",
            (({"kind": kind}, counts.failures_total) for kind, counts in reviews.items()),
        )
        yield counter(
            PREFIX + "reviews_refused_total",
            "Reviews that were dropped before they were sent, by reason: queue-full or time-out",
            (
                ({"kind": kind, "reason": reason}, number)
                for kind, counts in reviews.items()
                for reason, number in counts.unasked_total.items()
            ),
        )
        yield counter(
            PREFIX + "review_stand_ins_total",
            "Earlier answers that were used because no new one could be had",
            (({"kind": kind}, counts.stand_ins_total) for kind, counts in reviews.items()),
        )
        yield gauge(
            PREFIX + "reviews_waiting",
            "Reviews that wait for their turn",
            (({"kind": kind}, counts.waiting) for kind, counts in reviews.items()),
        )
        yield gauge(
            PREFIX + "reviews_under_way",
            "Reviews that were sent and have no answer yet",
            (({"kind": kind}, counts.under_way) for kind, counts in reviews.items()),
        )
