"""How the servers behind are, as the live page's JSON has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from apfproxy.admin.endpoint_state import DRAINING, OUT, endpoint_states, endpoint_views

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apfproxy.admin.endpoint_state import EndpointWatch, Recent
    from apfproxy.upstream.counters import UpstreamCounters
    from apfproxy.upstream.pool import Pool


class Upstream(Protocol):
    """What is known of them together; of one server that is what is known of it."""

    @property
    def address(self) -> str:
        """Where they are, as a URL."""

    @property
    def counters(self) -> UpstreamCounters:
        """What it did."""

    @property
    def state(self) -> str:
        """`up`, `failing` or `unknown`."""

    @property
    def problem(self) -> str | None:
        """Why it fails."""

    @property
    def since_unix_s(self) -> float | None:
        """When its state began; None while it is unknown."""

    @property
    def awaiting(self) -> int:
        """Requests that wait for an answer while it gives none to anybody."""

    @property
    def silent_s(self) -> float:
        """For how long it has given none, while some waited for one."""

    @property
    def recent(self) -> Recent:
        """The last seconds."""

    @property
    def watches(self) -> Mapping[Any, EndpointWatch]:
        """What is known of each, by endpoint."""


def upstream_state(
    upstream: Upstream, pool: Pool, seats_per_endpoint: int | None = None
) -> dict[str, Any]:
    """The state now: totals since the start, and rates a second of the last seconds.

    Times and durations are seconds.  `endpointCount` is without those that are drained;
    `seats_per_endpoint` makes the limit of the whole where it is not None.
    """
    counters, recent = upstream.counters, upstream.recent
    views = endpoint_views(upstream, pool)
    states = [view.state for view in views]
    return {
        "address": upstream.address,
        "state": str(upstream.state),
        "problem": upstream.problem,
        "since": upstream.since_unix_s,
        "answers": counters.responses_by_class(),
        "failures": {str(kind): number for kind, number in counters.failures.items()},
        "answersPerSecond": recent.answers_per_s,
        "failuresPerSecond": recent.failures_per_s,
        "awaiting": upstream.awaiting,
        "silentSeconds": round(upstream.silent_s, 1),
        "p50": recent.p50_s,
        "p99": recent.p99_s,
        "connections": {"open": pool.open_count, "idle": pool.idle_count},
        "endpoints": endpoint_states(views),
        "endpointCount": len(states) - states.count(DRAINING),
        "healthyCount": sum(state not in OUT and state != DRAINING for state in states),
        "seatsPerEndpoint": seats_per_endpoint,
    }
