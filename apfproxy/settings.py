"""What a process can be told: one small frozen record per concern, built only in `cli`.

Durations are seconds, sizes are bytes.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen or to connect; port 0 lets the system choose."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DownstreamSettings:
    """Connections of clients."""

    listen: Address = Address(host="127.0.0.1", port=8080)
    head_timeout_s: float = 32.0
    idle_timeout_s: float = 90.0
    request_timeout_s: float = 60.0
    max_head_bytes: int = 65536
    max_header_fields: int = 100
    max_target_bytes: int = 16384
    identity_headers_from: tuple[Network, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSettings:
    """Connections to the origin."""

    address: Address = Address(host="127.0.0.1", port=80)
    host_header: str | None = None
    max_connections: int = 16384
    idle_timeout_s: float = 60.0
    connect_timeout_s: float = 5.0
    answer_timeout_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """When a WATCH that asked for no initial events gives its seats back."""

    silence_s: float = 0.1
    limit_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainSettings:
    """What happens between SIGTERM and the end."""

    shutdown_delay_s: float = 0.0
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowControlSettings:
    """Limits, objects and costs."""

    server_concurrency_limit: int = 600
    objects: tuple[str, ...] = ()
    hash_seed: int | None = None
    object_counts_from: str | None = None
    object_counts_interval_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of it."""

    downstream: DownstreamSettings = field(default_factory=DownstreamSettings)
    upstream: UpstreamSettings = field(default_factory=UpstreamSettings)
    watch: WatchSettings = field(default_factory=WatchSettings)
    drain: DrainSettings = field(default_factory=DrainSettings)
    flow_control: FlowControlSettings = field(default_factory=FlowControlSettings)
    admin: Address | None = Address(host="127.0.0.1", port=8081)
