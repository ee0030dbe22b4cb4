"""Settings of connections of clients."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from apfproxy.base.address import Address
from apfproxy.settings.authentication import AudienceSettings
from apfproxy.settings.setting_fields import bounded, path_setting, socket_mode

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class DownstreamTlsSettings:
    """TLS towards clients: on with a certificate."""

    certificate_file: str | None = path_setting()
    key_file: str | None = path_setting()
    require_client_certificate: bool = False
    handshake_timeout_s: float = bounded(10.0, 0.001)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings:
    """What one client, or all of them, may take of the proxy; None for no limit."""

    max_connections: int | None = bounded(32768, 1)
    max_connections_per_address: int | None = bounded(None, 1)
    max_pipelined_requests: int | None = bounded(None, 1)
    max_body_bytes: int | None = bounded(None, 0)
    gathered_body_bytes: int = bounded(32768, 0, 32768)
    max_held_bytes: int | None = bounded(None, 1 << 20)
    max_held_bytes_per_address: int | None = bounded(None, 1 << 18)
    max_held_bytes_per_connection: int = bounded(4 << 20, 1 << 18)
    min_body_rate_bytes: int = bounded(240, 0)
    body_rate_grace_s: float = bounded(5.0, 0.001)
    slow_reader_grace_s: float | None = bounded(None, 0.001)
    slow_readers_per_level: int | None = bounded(None, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Http2Settings:
    """HTTP/2 to clients: over TLS where both sides offer it, and without TLS only if that is on."""

    is_enabled: bool = field(default=True, metadata={"key": "enabled"})
    is_cleartext: bool = field(default=False, metadata={"key": "cleartext"})
    max_concurrent_streams: int = bounded(100, 1, 10_000)
    goaway_chance: float = bounded(0.0, 0.0, 0.02)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepAliveSettings:
    """How silent clients are probed."""

    idle_s: float = bounded(60.0, 0.001, 7200)
    timeout_s: float = bounded(120.0, 0.001, 7200)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverloadSettings:
    """When the proxy itself has too much to do, and sheds new connections.

    None is for never; of the memory, for what the container may use, if it has a limit.
    """

    loop_delay_s: float | None = bounded(0.5, 0.001)
    memory_bytes: int | None = bounded(None, 1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelSettings:
    """Upgraded connections: exec, attach, port-forward, proxy and watches over WebSocket."""

    idle_timeout_s: float = bounded(14400.0, 0.001)


@dataclass(frozen=True, slots=True, kw_only=True)
class DownstreamSettings:
    """Connections of clients."""

    listen: Address = Address(host="127.0.0.1", port=8080)  # noqa: RUF009 - is frozen
    socket_mode: int = socket_mode()
    tls: DownstreamTlsSettings = field(default_factory=DownstreamTlsSettings)
    head_timeout_s: float = bounded(32.0, 0.001)
    idle_timeout_s: float = bounded(90.0, 0.001)
    keep_alive: KeepAliveSettings = field(default_factory=KeepAliveSettings)
    request_timeout_s: float = bounded(60.0, 0.001)
    max_head_bytes: int = bounded(65536, 1024, 1 << 24)
    max_header_fields: int = bounded(256, 1, 100_000)
    max_target_bytes: int = bounded(16384, 256, 1 << 24)
    identity_headers_from: tuple[Network, ...] = ()
    trusted_proxies: tuple[Network, ...] = ()
    proxy_protocol: bool = False
    explain_answers_to: AudienceSettings = field(default_factory=AudienceSettings)
    http2: Http2Settings = field(default_factory=Http2Settings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    overload: OverloadSettings = field(default_factory=OverloadSettings)
