"""Settings of the servers behind, and of connections to them."""

from __future__ import annotations

from dataclasses import dataclass, field

from apfproxy.base.address import UNSAID, Address
from apfproxy.settings.setting_fields import bounded, path_setting


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTlsSettings:
    """TLS towards the upstream, which its URL turns on."""

    ca_file: str | None = path_setting()
    server_name: str | None = None
    certificate_file: str | None = path_setting()
    key_file: str | None = path_setting()
    handshake_timeout_s: float = bounded(10.0, 0.001)


PASS_THROUGH, FRONT_PROXY, IMPERSONATE = "passThrough", "frontProxy", "impersonate"
"""How the upstream learns who the user is: the client's own credentials go on; the proxy says so in
X-Remote-* fields under its certificate; or it impersonates under its own token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointAddress:
    """Where an endpoint is, which is one of the servers behind.

    Attributes:
        weight: Its part of the work, in proportion to the other endpoints' weights.
        server_name: The name to verify in its certificate where `upstream.tls.serverName` has none;
            None for the host of its address.
    """

    address: Address
    weight: int = 1
    server_name: str | None = None


MAX_ENDPOINTS = 256
"""Of one cluster, wherever they come from: far more than control planes have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """One of several servers behind."""

    url: Address = field(default=UNSAID, metadata={"form": "upstream"})
    weight: int = bounded(1, 1, 100)


HTTP, HTTPS = "http", "https"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """A Service in a Kubernetes API, whose EndpointSlices name the servers behind."""

    namespace: str = field(default="default", metadata={"form": "label"})
    name: str | None = field(default=None, metadata={"form": "label"})
    port: str | None = field(default=None, metadata={"form": "port"})
    scheme: str = field(default=HTTPS, metadata={"choices": (HTTP, HTTPS)})
    kubeconfig: str | None = path_setting()
    context: str | None = None

    @property
    def address(self) -> Address:
        """Its name in the cluster's DNS, and its port where that is given as a number."""
        is_tls = self.scheme == HTTPS
        port = int(self.port) if self.port is not None and self.port.isdigit() else None
        return Address(
            host=f"{self.name}.{self.namespace}.svc",
            port=(443 if is_tls else 80) if port is None else port,
            is_tls=is_tls,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheckSettings:
    """How endpoints are asked whether they are well."""

    path: str | None = field(default=None, metadata={"form": "target"})
    interval_s: float | None = bounded(5.0, 0.1)
    timeout_s: float = bounded(3.0, 0.001)
    healthy_threshold: int = bounded(1, 1, 100)
    unhealthy_threshold: int = bounded(2, 1, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class EjectionSettings:
    """When an endpoint that fails requests gets none for a while."""

    failures: int = bounded(5, 0, 1_000_000)
    pause_s: float = bounded(5.0, 0.001, 86400)
    max_pause_s: float = bounded(300.0, 0.001, 86400)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSettings:
    """How long-running requests come back into balance."""

    percent_per_minute: int = bounded(5, 0, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeSettings:
    """Which paths are upgraded beside those that the preset has, and which are not."""

    allow: tuple[str, ...] = field(default=(), metadata={"form": "path-pattern"})
    deny: tuple[str, ...] = field(default=(), metadata={"form": "path-pattern"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSettings:
    """Connections to the servers behind: the upstream.

    One of `url`, `endpoints`, `dns` and `service` says where they are.
    """

    url: Address = field(default=UNSAID, metadata={"form": "upstream", "one_of": "upstream"})
    endpoints: tuple[EndpointSettings, ...] = field(default=(), metadata={"one_of": "upstream"})
    dns: Address = field(default=UNSAID, metadata={"form": "dns", "one_of": "upstream"})
    resolve_interval_s: float = bounded(30.0, 1, 86400)
    service: ServiceSettings = field(
        default_factory=ServiceSettings, metadata={"one_of": "upstream"}
    )
    tls: UpstreamTlsSettings = field(default_factory=UpstreamTlsSettings)
    identity: str = field(
        default=PASS_THROUGH, metadata={"choices": (PASS_THROUGH, FRONT_PROXY, IMPERSONATE)}
    )
    token_file: str | None = path_setting()
    host_header: str | None = field(default=None, metadata={"form": "host"})
    max_connections: int = bounded(16384, 1)
    max_requests_per_endpoint: int | None = bounded(None, 1)
    idle_timeout_s: float = bounded(60.0, 0.001)
    connect_timeout_s: float = bounded(5.0, 0.001)
    answer_timeout_s: float = bounded(60.0, 0.001)
    abandoned_wait_s: float = bounded(0.0, 0, 86400)
    upgrades: UpgradeSettings = field(default_factory=UpgradeSettings)
    slow_start_s: float = bounded(10.0, 0, 3600)
    health_check: HealthCheckSettings = field(default_factory=HealthCheckSettings)
    ejection: EjectionSettings = field(default_factory=EjectionSettings)
    rebalance: RebalanceSettings = field(default_factory=RebalanceSettings)
    fails_readiness: bool = False

    @property
    def address(self) -> Address:
        """What stands for the servers as a whole; UNSAID if nothing says where they are.

        It is the Host of requests that have none, and for `dns` and `service` the name that the
        servers' certificates have.
        """
        if self.endpoints:
            return self.endpoints[0].url
        if self.service.name is not None:
            return self.service.address
        return self.url if self.dns == UNSAID else self.dns

    @property
    def addresses(self) -> tuple[EndpointAddress, ...]:
        """The endpoints that these settings name themselves; none where others have to be asked."""
        if self.url != UNSAID:
            return (EndpointAddress(address=self.url),)
        return tuple(
            EndpointAddress(address=each.url, weight=each.weight) for each in self.endpoints
        )
