"""How the server behind is, as the live page's JSON has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apfproxy.observe.proxy_metrics import PoolState
    from apfproxy.proxy.counters import UpstreamCounters


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


class Upstream(Protocol):
    """What is known of it."""

    @property
    def address(self) -> str:
        """Where it is, as a URL."""

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


def upstream_state(upstream: Upstream, pool: PoolState) -> dict[str, Any]:
    """The state now: totals since the start, and rates a second of the last seconds.

    Times and durations are seconds.
    """
    counters, recent = upstream.counters, upstream.recent
    return {
        "address": upstream.address,
        "state": str(upstream.state),
        "problem": upstream.problem,
        "since": upstream.since_unix_s,
        "answers": counters.answers_by_class(),
        "failures": {str(kind): number for kind, number in counters.failures.items()},
        "answersPerSecond": recent.answers_per_s,
        "failuresPerSecond": recent.failures_per_s,
        "awaiting": upstream.awaiting,
        "silentSeconds": round(upstream.silent_s, 1),
        "p50": recent.p50_s,
        "p99": recent.p99_s,
        "connections": {"open": pool.open_count, "idle": pool.idle_count},
    }
