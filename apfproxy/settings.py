"""What a process can be told: one small frozen record per concern, built only in `cli`.

Durations are seconds, sizes are bytes.  `sources.settings_file` reads these records from a file,
where a key is the field's name in camelCase, without the unit of a duration (`head_timeout_s` is
`headTimeout: 32s`).
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Any

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The numbers that a setting may have, both ends included."""

    minimum: float
    maximum: float | None = None


def bounded(default: Any, minimum: float, maximum: float | None = None) -> Any:  # noqa: ANN401 - stands for the default itself, as `field` does
    """Make a field with a default and the least and greatest number that it may have."""
    return field(default=default, metadata={"bounds": Bounds(minimum=minimum, maximum=maximum)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen or to connect; port 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DownstreamSettings:
    """Connections of clients."""

    listen: Address = Address(host="127.0.0.1", port=8080)
    head_timeout_s: float = bounded(32.0, 0.001)
    idle_timeout_s: float = bounded(90.0, 0.001)
    request_timeout_s: float = bounded(60.0, 0.001)
    max_head_bytes: int = bounded(65536, 1024, 1 << 24)
    max_header_fields: int = bounded(100, 1, 100_000)
    max_target_bytes: int = bounded(16384, 256, 1 << 24)
    identity_headers_from: tuple[Network, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSettings:
    """Connections to the origin."""

    address: Address = field(
        default=Address(host="127.0.0.1", port=80), metadata={"key": "url", "form": "origin"}
    )
    host_header: str | None = None
    max_connections: int = bounded(16384, 1)
    idle_timeout_s: float = bounded(60.0, 0.001)
    connect_timeout_s: float = bounded(5.0, 0.001)
    answer_timeout_s: float = bounded(60.0, 0.001)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """When a WATCH that asked for no initial events gives its seats back."""

    silence_s: float = bounded(0.1, 0.001)
    limit_s: float = bounded(10.0, 0.001)
    bookmark_limit_s: float = bounded(60.0, 0.001)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainSettings:
    """What happens between SIGTERM and the end."""

    shutdown_delay_s: float = bounded(0.0, 0)
    idle_grace_s: float = bounded(1.0, 0)
    timeout_s: float = bounded(60.0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowControlSettings:
    """Limits, objects and costs."""

    server_concurrency_limit: int = bounded(600, 1, (1 << 31) - 1)
    objects: tuple[str, ...] = ()
    store: str | None = None
    suggested_objects: bool = True
    hash_seed: int | None = bounded(None, 0, (1 << 32) - 1)
    object_counts_from: str | None = field(default=None, metadata={"form": "url"})
    object_counts_interval_s: float = bounded(30.0, 0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of it."""

    downstream: DownstreamSettings = field(default_factory=DownstreamSettings)
    upstream: UpstreamSettings = field(default_factory=UpstreamSettings)
    watch: WatchSettings = field(default_factory=WatchSettings)
    drain: DrainSettings = field(default_factory=DrainSettings)
    flow_control: FlowControlSettings = field(default_factory=FlowControlSettings)
    admin: Address | None = Address(host="127.0.0.1", port=8081)
    admin_token_file: str | None = None
    log_level: str = field(default="info", metadata={"choices": LOG_LEVELS})
