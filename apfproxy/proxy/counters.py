"""Plain integers of the data plane that `observe` reads at scrape."""

from __future__ import annotations

from apfproxy.flowcontrol.counters import DURATION_BOUNDS_NS, Histogram


class ProxyCounters:
    """What the data plane did; `*_open` are gauges, all else only grows.

    Attributes:
        requests_by_status: Final status code sent to a client, to requests.
        upstream_head_ns: From a request's last byte sent (or dispatch) to the origin's head.
    """

    __slots__ = (
        "bytes_from_clients",
        "bytes_from_origins",
        "bytes_to_clients",
        "bytes_to_origins",
        "client_aborts",
        "connections_accepted",
        "connections_open",
        "malformed_requests",
        "requests_by_status",
        "upstream_connect_failures",
        "upstream_connections_opened",
        "upstream_failures",
        "upstream_head_ns",
        "upstream_retries",
        "upstream_timeouts",
    )

    def __init__(self) -> None:
        self.bytes_from_clients = 0
        self.bytes_from_origins = 0
        self.bytes_to_clients = 0
        self.bytes_to_origins = 0
        self.client_aborts = 0
        self.connections_accepted = 0
        self.connections_open = 0
        self.malformed_requests = 0
        self.requests_by_status: dict[int, int] = {}
        self.upstream_connect_failures = 0
        self.upstream_connections_opened = 0
        self.upstream_failures = 0
        self.upstream_head_ns = Histogram(DURATION_BOUNDS_NS)
        self.upstream_retries = 0
        self.upstream_timeouts = 0

    def count_status(self, code: int) -> None:
        """Count a final answer."""
        counts = self.requests_by_status
        counts[code] = counts.get(code, 0) + 1

    def __repr__(self) -> str:
        return f"<ProxyCounters: {self.connections_open} connections open>"
