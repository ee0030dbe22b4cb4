"""Metrics of who asks: how requests were authenticated, and what the upstream was asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from apfproxy.observe.families import counter, gauge

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.core import Metric

    from apfproxy.authn.authenticator import AuthenticationCounters

PREFIX = "apfproxy_"


class ReviewCounts(Protocol):
    """What the questions of one kind have come to; totals only go up."""

    @property
    def asked_total(self) -> int:
        """Questions asked; one that is asked again after a failure counts once."""

    @property
    def failures_total(self) -> int:
        """Those of them that had no answer that could be used."""

    @property
    def unasked_total(self) -> Mapping[str, int]:
        """Questions that were never sent, by the reason."""

    @property
    def stand_ins_total(self) -> int:
        """Times that the last good answer stood in for one that could not be had."""

    @property
    def waiting(self) -> int:
        """Questions that wait for their turn now."""

    @property
    def under_way(self) -> int:
        """Questions that were sent and have no answer yet."""


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
            "How often the proxy found out who asks, but for what it knows of a request already",
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
            "Such questions that were never sent: queue-full, or time-out before their turn came",
            (
                ({"kind": kind, "reason": reason}, number)
                for kind, counts in reviews.items()
                for reason, number in counts.unasked_total.items()
            ),
        )
        yield counter(
            PREFIX + "review_stand_ins_total",
            "Times that the last good answer went on to count, since no new one could be had",
            (({"kind": kind}, counts.stand_ins_total) for kind, counts in reviews.items()),
        )
        yield gauge(
            PREFIX + "reviews_waiting",
            "Such questions that wait for their turn",
            (({"kind": kind}, counts.waiting) for kind, counts in reviews.items()),
        )
        yield gauge(
            PREFIX + "reviews_under_way",
            "Such questions that were sent and have no answer yet",
            (({"kind": kind}, counts.under_way) for kind, counts in reviews.items()),
        )
