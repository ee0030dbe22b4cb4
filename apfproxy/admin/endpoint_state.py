"""How each of the servers behind is, as the live page's JSON has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Sized

    from apfproxy.upstream.counters import UpstreamCounters

MAX_ENDPOINTS = 64
"""With a place of their own on the page and in the metrics; those that are well are left out first
on the page."""

UP = "up"
OUT = frozenset({"ejected", "failing"})
"""States of an endpoint that gets no requests, unless all are like that."""
DRAINING = "draining"


class Weighted(Protocol):
    """Where an endpoint is."""

    @property
    def weight(self) -> int:
        """How much it takes compared with others."""


class Endpoint(Protocol):
    """What requests and connections tell of an endpoint."""

    @property
    def url(self) -> str:
        """Its address."""

    @property
    def address(self) -> Weighted:
        """The same with its weight."""

    @property
    def counters(self) -> UpstreamCounters:
        """What it did."""

    @property
    def is_drawn(self) -> bool:
        """Whether it gets requests."""

    @property
    def ramp(self) -> float:
        """The part of its weight that it has already."""

    @property
    def share(self) -> float:
        """The weight that it has."""

    @property
    def seats(self) -> int:
        """Of requests that it works on."""

    @property
    def busy_count(self) -> int:
        """Connections in use, those of watches and tunnels included."""

    @property
    def idle(self) -> Sized:
        """Connections that wait for a request."""

    @property
    def open(self) -> Sized:
        """All connections."""


class Recent(Protocol):
    """What it did in the last seconds."""

    @property
    def answers_per_s(self) -> Mapping[str, float]:
        """By class of status code."""

    @property
    def failures_per_s(self) -> float:
        """Requests that it did not answer, or not to the end."""

    @property
    def p50_s(self) -> float | None:
        """Half of its answers began within this time; None without answers."""

    @property
    def p99_s(self) -> float | None:
        """Likewise 99 %."""


class EndpointWatch(Protocol):
    """What is known of an endpoint."""

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint itself."""

    @property
    def state(self) -> str:
        """`unknown`, `up`, `ejected`, `failing` or `draining`."""

    @property
    def problem(self) -> str | None:
        """Why it gets no requests; None if it does."""

    @property
    def since_unix_s(self) -> float | None:
        """When its state began; None while it is unknown."""

    @property
    def ejections_total(self) -> int:
        """How often it was ejected."""

    @property
    def recent(self) -> Recent:
        """The last seconds."""


class Watches(Protocol):
    """What is known of all endpoints."""

    @property
    def watches(self) -> Mapping[Any, EndpointWatch]:
        """By endpoint, in the order in which they are named."""


class Endpoints(Protocol):
    """What has the endpoints."""

    @property
    def draining(self) -> Iterable[Endpoint]:
        """Those that are named no more, but have requests."""


@dataclass(frozen=True, slots=True)
class EndpointView:
    """An endpoint, and what is known of it.

    Attributes:
        watch: None for one that is drained: nobody looks at it any more.
    """

    endpoint: Endpoint
    watch: EndpointWatch | None

    @property
    def state(self) -> str:
        """`unknown`, `up`, `ejected`, `failing` or `draining`."""
        return DRAINING if self.watch is None else str(self.watch.state)

    @property
    def ejections(self) -> int:
        """How often it was ejected."""
        return 0 if self.watch is None else self.watch.ejections_total


def endpoint_views(watches: Watches, pool: Endpoints) -> list[EndpointView]:
    """All endpoints, in the order in which they are named; those that are drained come last."""
    views = [EndpointView(watch.endpoint, watch) for watch in watches.watches.values()]
    return views + [EndpointView(endpoint, None) for endpoint in pool.draining]


def endpoint_states(
    views: Sequence[EndpointView], most: int = MAX_ENDPOINTS
) -> list[dict[str, Any]]:
    """The states of at most so many.

    `share` is the part of all requests that one should have, from 0 to 1; times and durations are
    seconds.
    """
    all_shares = sum(view.endpoint.share for view in views if view.endpoint.is_drawn)
    return [endpoint_state(view, all_shares) for view in shown(views, most)]


def endpoint_state(view: EndpointView, all_shares: float) -> dict[str, Any]:
    """The state of one; the shares are those of all that get requests."""
    endpoint, watch = view.endpoint, view.watch
    share = endpoint.share / all_shares if endpoint.is_drawn and all_shares else 0.0
    recent = None if watch is None else watch.recent
    return {
        "url": endpoint.url,
        "state": view.state,
        "problem": None if watch is None else watch.problem,
        "since": None if watch is None else watch.since_unix_s,
        "weight": endpoint.address.weight,
        "ramp": round(endpoint.ramp, 2),
        "share": round(share, 4),
        "seats": endpoint.seats,
        "inFlight": endpoint.busy_count,
        "connections": {"open": len(endpoint.open), "idle": len(endpoint.idle)},
        "answersPerSecond": {} if recent is None else recent.answers_per_s,
        "failuresPerSecond": 0.0 if recent is None else recent.failures_per_s,
        "ejections": view.ejections,
        "p50": None if recent is None else recent.p50_s,
        "p99": None if recent is None else recent.p99_s,
    }


def shown(views: Sequence[EndpointView], most: int) -> Sequence[EndpointView]:
    """Those with a place where there are so many, in their order."""
    if len(views) <= most:
        return views
    worst_first = sorted(range(len(views)), key=lambda place: views[place].state == UP)
    return [views[place] for place in sorted(worst_first[:most])]
