"""Metrics of who asks: how requests were authenticated, and what the upstream was asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from apfproxy.observe.families import counter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.core import Metric

    from apfproxy.authn.authenticator import AuthenticationCounters

PREFIX = "apfproxy_"


class ReviewCounts(Protocol):
    """What the questions of one kind have come to; each only goes up."""

    @property
    def asked_total(self) -> int:
        """Questions asked; one that is asked again after a failure counts once."""

    @property
    def failures_total(self) -> int:
        """Those of them that had no answer that could be used."""

    @property
    def refused_total(self) -> int:
        """Questions not asked, because too many waited already."""


class AuthenticationMetrics:
    """Makes metric families of what tells clients apart.

    Args:
        counters: Of the authenticator.
        reviews: Of the upstream's API, by the kind of questions; those that are on.
    """

    def __init__(
        self, counters: AuthenticationCounters, reviews: Mapping[str, ReviewCounts]
    ) -> None:
        self._counters = counters
        self._reviews = reviews

    def collect(self) -> Iterator[Metric]:
        """All families, as of now."""
        counters = self._counters
        yield counter(
            PREFIX + "authentications_total",
            "Times that was found out who asks, not counting what is known of a request already",
            [
                ({"result": "authenticated"}, counters.authenticated),
                ({"result": "anonymous"}, counters.anonymous),
                ({"result": "refused"}, counters.refused),
            ],
        )
        reviews = self._reviews
        if not reviews:
            return
        yield counter(
            PREFIX + "reviews_total",
            "Questions to the upstream, whose a token is or who may impersonate whom",
            (({"kind": kind}, counts.asked_total) for kind, counts in reviews.items()),
        )
        yield counter(
            PREFIX + "review_failures_total",
            "Such questions without an answer that could be used",
            (({"kind": kind}, counts.failures_total) for kind, counts in reviews.items()),
        )
        yield counter(
            PREFIX + "reviews_refused_total",
            "Such questions that were not asked because too many waited already",
            (({"kind": kind}, counts.refused_total) for kind, counts in reviews.items()),
        )
