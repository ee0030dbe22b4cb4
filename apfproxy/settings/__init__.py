"""What a process can be told: one small frozen record per concern, built only in `cli`.

Durations are seconds, sizes are bytes.  `settings.file` reads these records from a file,
where a key is the field's name in camelCase, without the unit of a duration (`head_timeout_s` is
`headTimeout: 32s`).  `config/apfproxy.yaml` explains each of them.

The records are here by subject, a file each; whoever uses them imports them from the package.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from apfproxy.base.address import UNIX_MODE, UNSAID, Address
from apfproxy.settings.authentication import (
    ANONYMOUS,
    EVERYBODY,
    REFUSE,
    ApiKeySettings,
    AudienceSettings,
    AuthenticationSettings,
    FrontProxySettings,
    ImpersonationSettings,
    JwtSettings,
    ReviewSettings,
    UnverifiedSettings,
)
from apfproxy.settings.clients import (
    DownstreamSettings,
    DownstreamTlsSettings,
    Http2Settings,
    LimitSettings,
    Network,
    OverloadSettings,
    TunnelSettings,
)
from apfproxy.settings.fleet import AUTO_WORKERS, MAX_WORKERS, FleetSettings
from apfproxy.settings.limiting import (
    AS_KUBERNETES,
    ENFORCE,
    HTTP_API,
    KUBERNETES_API,
    MAX_SEATS,
    OBSERVE,
    PROMPT,
    FlowControlSettings,
    KubernetesSettings,
    WatchSettings,
    preset_setting,
)
from apfproxy.settings.observability import (
    ERRORS,
    FULL,
    JSON,
    LEAN,
    LOG_FORMATS,
    LOG_LEVELS,
    TEXT,
    AccessLogSettings,
    AdminTlsSettings,
    TopFlowsSettings,
    TracingSettings,
)
from apfproxy.settings.requests import LongRunningSettings, RequestSettings
from apfproxy.settings.servers import (
    FRONT_PROXY,
    HTTP,
    HTTPS,
    IMPERSONATE,
    MAX_ENDPOINTS,
    PASS_THROUGH,
    EjectionSettings,
    EndpointAddress,
    EndpointSettings,
    HealthCheckSettings,
    RebalanceSettings,
    ServiceSettings,
    UpgradeSettings,
    UpstreamSettings,
    UpstreamTlsSettings,
)
from apfproxy.settings.setting_fields import (
    Bounds,
    bounded,
    path_setting,
    socket_mode,
    with_values,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ANONYMOUS",
    "AS_KUBERNETES",
    "AUTO_WORKERS",
    "ENFORCE",
    "ERRORS",
    "EVERYBODY",
    "FRONT_PROXY",
    "FULL",
    "HTTP",
    "HTTPS",
    "HTTP_API",
    "IMPERSONATE",
    "JSON",
    "KUBERNETES_API",
    "LEAN",
    "LOG_FORMATS",
    "LOG_LEVELS",
    "MAX_ENDPOINTS",
    "MAX_SEATS",
    "MAX_WORKERS",
    "OBSERVE",
    "OF_A_CLUSTER",
    "PASS_THROUGH",
    "PROMPT",
    "REFUSE",
    "TEXT",
    "UNIX_MODE",
    "UNSAID",
    "AccessLogSettings",
    "Address",
    "AdminTlsSettings",
    "ApiKeySettings",
    "AudienceSettings",
    "AuthenticationSettings",
    "Bounds",
    "ClusterSettings",
    "DownstreamSettings",
    "DownstreamTlsSettings",
    "DrainSettings",
    "EjectionSettings",
    "EndpointAddress",
    "EndpointSettings",
    "FleetSettings",
    "FlowControlSettings",
    "FrontProxySettings",
    "HealthCheckSettings",
    "Http2Settings",
    "ImpersonationSettings",
    "JwtSettings",
    "KubernetesSettings",
    "LimitSettings",
    "LongRunningSettings",
    "Network",
    "OverloadSettings",
    "RebalanceSettings",
    "RequestSettings",
    "ReviewSettings",
    "ServiceSettings",
    "Settings",
    "TopFlowsSettings",
    "TracingSettings",
    "TunnelSettings",
    "UnverifiedSettings",
    "UpgradeSettings",
    "UpstreamSettings",
    "UpstreamTlsSettings",
    "WatchSettings",
    "bounded",
    "path_setting",
    "preset_setting",
    "with_each_cluster",
    "with_values",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainSettings:
    """What happens between SIGTERM and the end."""

    shutdown_delay_s: float = bounded(0.0, 0)
    idle_grace_s: float = bounded(1.0, 0)
    timeout_s: float = bounded(60.0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of a proxy."""

    preset: str = preset_setting()
    request: RequestSettings = field(default_factory=RequestSettings)
    downstream: DownstreamSettings = field(default_factory=DownstreamSettings)
    upstream: UpstreamSettings = field(default_factory=UpstreamSettings)
    authentication: AuthenticationSettings = field(default_factory=AuthenticationSettings)
    tunnel: TunnelSettings = field(default_factory=TunnelSettings)
    watch: WatchSettings = field(default_factory=WatchSettings)
    drain: DrainSettings = field(default_factory=DrainSettings)
    flow_control: FlowControlSettings = field(default_factory=FlowControlSettings)
    fleet: FleetSettings = field(default_factory=FleetSettings)
    access_log: AccessLogSettings = field(default_factory=AccessLogSettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)
    top_flows: TopFlowsSettings = field(default_factory=TopFlowsSettings)
    workers: int = field(default=1, metadata={"form": "workers"})
    admin: Address | None = Address(host="127.0.0.1", port=8081)  # noqa: RUF009 - is frozen
    admin_socket_mode: int = socket_mode()
    admin_tls: AdminTlsSettings = field(default_factory=AdminTlsSettings)
    admin_read_token_file: str | None = path_setting()
    admin_token_file: str | None = path_setting()
    metrics: str = field(default=LEAN, metadata={"choices": (LEAN, FULL)})
    log_level: str = field(default="info", metadata={"choices": LOG_LEVELS})
    log_format: str = field(default=TEXT, metadata={"choices": LOG_FORMATS})
    clusters: tuple[ClusterSettings, ...] = field(default=(), metadata={"form": "apart"})


OF_A_CLUSTER = (
    "preset",
    "request",
    "upstream",
    "authentication",
    "tunnel",
    "watch",
    "flow_control",
)
"""The fields of `Settings` that each cluster can have of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """One of several APIs behind, with servers, users, objects and flow control of its own.

    Attributes:
        name: A DNS label that no other cluster has; of a refused one that has none, "#" and its
            place in the list.
        hosts: Those that requests name, in lower case, without port, dot at the end and brackets;
            "*." and the end of hosts for any that ends so.  Empty for any host.
        path_prefix: The begin of its requests' paths, such as "/clusters/a", which is taken off;
            None for any path.
        max_connections: Clients' connections that may be at it at once; None for no limit.
        settings: All settings that it has: those of the whole proxy where it does not say
            otherwise.  Its own certificate is in `downstream.tls`.  None if it is refused.
        problems: Why it is refused, each with its line and path; empty if it is not.
    """

    name: str
    hosts: tuple[str, ...] = ()
    path_prefix: str | None = None
    max_connections: int | None = None
    settings: Settings | None = None
    problems: tuple[str, ...] = ()


def with_each_cluster(settings: Settings, change: Callable[[Settings], Settings]) -> Settings:
    """The settings, with those of each cluster changed."""
    clusters = tuple(
        each if each.settings is None else replace(each, settings=change(each.settings))
        for each in settings.clusters
    )
    return replace(settings, clusters=clusters)
