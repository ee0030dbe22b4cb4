"""Metrics of what a process has beside requests: log, admin listener, health, certificates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from apfproxy.admin.families import NO_LABELS, by_label, counter, gauge
from apfproxy.admin.proxy_metrics import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client.core import Metric

    from apfproxy.admin.access_log import AccessLog
    from apfproxy.base.faults import Faults
    from apfproxy.base.health_checks import HealthRegistry
    from apfproxy.base.tls_files import Lifetime


UP, UNKNOWN = "up", "unknown"
"""States of the server behind."""


class Connections(Protocol):
    """The connections of a listener."""

    @property
    def ended(self) -> Mapping[str, int]:
        """Those that lost their place or were refused, by reason; each only goes up."""

    def __len__(self) -> int:
        """Those that are open."""


class Certificates(Protocol):
    """Those in a file."""

    @property
    def file(self) -> tuple[str, str]:
        """The setting that names it, and its path."""

    def next_unix_s(self, now_unix_s: float) -> float:
        """When one expires next that is needed, in seconds since 1970."""


class Traces(Protocol):
    """Traces on their way to a collector."""

    @property
    def exported(self) -> int:
        """Those that arrived."""

    @property
    def failed(self) -> int:
        """Those that the collector did not take."""

    @property
    def dropped(self) -> int:
        """Those that were not sent, since too many waited."""

    @property
    def queued(self) -> int:
        """Those that wait."""


class Upstream(Protocol):
    """The server behind."""

    @property
    def state(self) -> str:
        """`up`, `failing` or `unknown`."""


def access_log_families(access_log: AccessLog, left_out: Mapping[str, int]) -> Iterator[Metric]:
    """All families of the access log, as of now; requests that were left out, by cause."""
    yield counter(
        f"{PREFIX}access_log_left_out_total",
        "Requests without a line in the access log: refused ones beyond some, or for lack of bytes",
        by_label("cause", left_out),
    )
    yield counter(
        f"{PREFIX}access_log_lines_total",
        "Lines of the access log, by whether they are in the file or were dropped on their way",
        [({"result": "written"}, access_log.written), ({"result": "dropped"}, access_log.dropped)],
    )
    yield counter(
        f"{PREFIX}access_log_errors_total",
        "Writes and openings of the access log that failed",
        [(NO_LABELS, access_log.write_errors)],
    )
    yield gauge(
        f"{PREFIX}access_log_queued_lines",
        "Lines of the access log that wait to be written",
        [(NO_LABELS, access_log.queued)],
    )


def trace_families(traces: Traces) -> Iterator[Metric]:
    """All families of traces on their way to a collector, as of now."""
    yield counter(
        f"{PREFIX}traces_total",
        "Traced requests, by whether their spans were exported, refused, or dropped before that",
        [
            ({"result": "exported"}, traces.exported),
            ({"result": "failed"}, traces.failed),
            ({"result": "dropped"}, traces.dropped),
        ],
    )
    yield gauge(
        f"{PREFIX}traces_queued",
        "Traced requests whose spans wait to be exported",
        [(NO_LABELS, traces.queued)],
    )


def admin_families(connections: Connections, refused: Mapping[str, int]) -> Iterator[Metric]:
    """All families of the admin listener, as of now; requests that were refused, by reason."""
    yield counter(
        f"{PREFIX}admin_refused_requests_total",
        "Requests of the admin listener that got 401, by what was wrong with their credentials",
        by_label("reason", refused),
    )
    yield gauge(
        f"{PREFIX}admin_connections",
        "Connections of the admin listener",
        [(NO_LABELS, len(connections))],
    )
    yield counter(
        f"{PREFIX}admin_connections_ended_total",
        "Connections of the admin listener that made way, were late, failed, or were too many",
        by_label("reason", connections.ended),
    )


def fault_families(faults: Faults) -> Iterator[Metric]:
    """Errors of the program itself so far, each of which is a bug."""
    yield counter(
        f"{PREFIX}internal_errors_total",
        "Errors of the proxy itself that were contained, by the part of it in which they came up",
        by_label("part", faults.totals),
    )


def health_families(health: HealthRegistry) -> Iterator[Metric]:
    """Whether each check is well, so that a failure which no page is asked for can alert."""
    yield gauge(
        f"{PREFIX}healthcheck",
        "Whether a check of the health pages is well (1) or fails (0)",
        [({"name": check.name}, float(check.problem is None)) for check in health],
    )


def certificate_families(certificates: Iterable[Certificates], unix_s: float) -> Iterator[Metric]:
    """When certificates expire, a series for each file."""
    yield gauge(
        f"{PREFIX}certificate_expiry_timestamp_seconds",
        "When the certificates in a file expire that a setting names, in seconds since 1970",
        [
            ({"setting": setting, "file": path}, each.next_unix_s(unix_s))
            for each in certificates
            for setting, path in (each.file,)
        ],
    )


def token_families(tokens: Iterable[tuple[str, str, Lifetime]]) -> Iterator[Metric]:
    """When the proxy's own tokens expire: of each the setting, the file and its lifetime.

    When it was issued says how long it lives, which tells one that is renewed each hour from one
    that somebody has forgotten.
    """
    known = [({"setting": setting, "file": path}, lifetime) for setting, path, lifetime in tokens]
    yield gauge(
        f"{PREFIX}token_expiry_timestamp_seconds",
        "When a token of the proxy's own expires that a setting names, in seconds since 1970",
        [(labels, lifetime.until_unix_s) for labels, lifetime in known],
    )
    yield gauge(
        f"{PREFIX}token_issued_timestamp_seconds",
        "When a token of the proxy's own was issued that a setting names, in seconds since 1970",
        [(labels, lifetime.since_unix_s) for labels, lifetime in known],
    )


def upstream_families(upstream: Upstream) -> Iterator[Metric]:
    """Whether the server behind is up; no series before that is known."""
    yield gauge(
        f"{PREFIX}upstream_up",
        "Whether the server behind is up (1) or fails (0)",
        [] if upstream.state == UNKNOWN else [(NO_LABELS, upstream.state == UP)],
    )
