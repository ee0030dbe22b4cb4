"""What a process can be told: one small frozen record per concern, built only in `cli`.

Durations are seconds, sizes are bytes.  `sources.settings_file` reads these records from a file,
where a key is the field's name in camelCase, without the unit of a duration (`head_timeout_s` is
`headTimeout: 32s`).  `config/apfproxy.yaml` explains each of them.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from dataclasses import MISSING, Field, dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Record = TypeVar("Record")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

UNIX_MODE = 0o660
"""Of the file of a Unix socket: whoever may write to it may connect."""

LOG_LEVELS = ("debug", "info", "warning", "error")

TEXT, JSON = "text", "json"
LOG_FORMATS = (TEXT, JSON)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The numbers that a setting may have, both ends included."""

    minimum: float
    maximum: float | None = None


def bounded(
    default: Any,  # noqa: ANN401 - of any type
    minimum: float,
    maximum: float | None = None,
    **metadata: object,
) -> Any:  # noqa: ANN401 - stands for the default itself, as `field` does
    """Make a field with a default and the least and greatest number that it may have."""
    bounds = Bounds(minimum=minimum, maximum=maximum)
    return field(default=default, metadata={"bounds": bounds, **metadata})


def with_values(record: Record, values: Mapping[str, Any]) -> Record:
    """The record with other values, by the names of its fields.

    Of several fields of which only one may be given, one that is takes the place of the others.
    """
    fields = {each.name: each for each in dataclasses.fields(record)}  # type: ignore[arg-type]  # every record is a dataclass
    chosen = {
        fields[name].metadata.get("one_of")
        for name, value in values.items()
        if value != default_of(fields[name])
    }
    left = {
        name: default_of(each)
        for name, each in fields.items()
        if name not in values and each.metadata.get("one_of") in chosen - {None}
    }
    return replace(record, **left, **values)  # type: ignore[type-var]  # as above


def default_of(field: Field[Any]) -> object:
    """The value of a field that nobody sets."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def path_setting() -> Any:  # noqa: ANN401 - as above
    """Make a field for the path of a file, relative to the settings file's directory."""
    return field(default=None, metadata={"form": "path"})


def header_names(*names: str) -> Any:  # noqa: ANN401 - as above
    """Make a field for names of header fields."""
    return field(default=names, metadata={"form": "header"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen or to connect; port 0 lets the system choose.

    Attributes:
        host: An empty one is every address of the machine, where to listen.
        is_tls: Whether to connect with TLS, as a URL says by https.
        path: Of a Unix socket, in place of host and port; else "".
    """

    host: str
    port: int
    is_tls: bool = False
    path: str = ""

    @classmethod
    def unix(cls, path: str) -> Address:
        """The address of a Unix socket; whoever asks for a host and a port gets localhost, 80."""
        return cls(host="localhost", port=80, path=path)

    @property
    def authority(self) -> str:
        """Host and port, as a Host field or a URL has them; "localhost" for a Unix socket."""
        if self.path:
            return self.host
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def from_here(self) -> Address:
        """Where a client on this machine connects to what listens here."""
        host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 - listened on
        return replace(self, host=host)

    @property
    def url(self) -> str:
        """As an upstream is written: http://HOST:PORT, https://HOST:PORT or unix:/PATH."""
        return str(self) if self.path else f"{'https' if self.is_tls else 'http'}://{self}"

    def __str__(self) -> str:
        return f"unix:{self.path}" if self.path else self.authority


UNSAID = Address(host="", port=0)
"""Stands for the address of an origin that nobody has named."""


def socket_mode() -> Any:  # noqa: ANN401 - as above
    """Make a field for the permissions of a Unix socket's file."""
    return field(default=UNIX_MODE, metadata={"form": "mode"})


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
class OverloadSettings:
    """When the proxy itself has too much to do: then new connections are shed; None for never."""

    loop_delay_s: float | None = bounded(0.5, 0.001)
    memory_bytes: int | None = bounded(None, 1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelSettings:
    """Upgraded connections: exec, attach, port-forward, proxy and watches over WebSocket."""

    idle_timeout_s: float = bounded(14400.0, 0.001)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProxySettings:
    """Authenticating proxies in front of this one, which name the user in header fields."""

    ca_file: str | None = path_setting()
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = header_names("X-Remote-User")
    uid_headers: tuple[str, ...] = header_names("X-Remote-Uid")
    group_headers: tuple[str, ...] = header_names("X-Remote-Group")
    extra_header_prefixes: tuple[str, ...] = header_names("X-Remote-Extra-")


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtSettings:
    """One issuer of JSON Web Tokens."""

    issuer: str = ""
    audiences: tuple[str, ...] = ()
    keys_file: str | None = path_setting()
    jwks_url: str | None = field(default=None, metadata={"form": "url"})
    ca_file: str | None = path_setting()
    username_claim: str = "sub"
    username_prefix: str | None = None
    groups_claim: str | None = None
    groups_prefix: str | None = None
    is_service_account_issuer: bool = field(default=False, metadata={"key": "serviceAccounts"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewSettings:
    """Questions to the upstream's API: TokenReviews or SubjectAccessReviews."""

    is_enabled: bool = field(default=False, metadata={"key": "enabled"})
    cache_s: float = bounded(10.0, 0)
    grace_s: float = bounded(110.0, 0)
    max_cached: int = bounded(8192, 1)
    max_concurrent: int = bounded(16, 1)
    timeout_s: float = bounded(10.0, 0.001)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpersonationSettings:
    """Whose `Impersonate-*` fields decide how a request is classified."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    access_review: ReviewSettings = field(default_factory=ReviewSettings)


REFUSE, ANONYMOUS = "refuse", "anonymous"
"""What becomes of a request with a key that the proxy does not know: 401, or as without the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeySettings:
    """Keys that the proxy knows by their SHA-256, and where requests have them."""

    file: str | None = path_setting()
    header: str | None = field(default="X-API-Key", metadata={"form": "header"})
    is_bearer: bool = field(default=False, metadata={"key": "bearer"})
    is_basic: bool = field(default=False, metadata={"key": "basic"})
    unknown: str = field(default=REFUSE, metadata={"choices": (REFUSE, ANONYMOUS)})


@dataclass(frozen=True, slots=True, kw_only=True)
class UnverifiedSettings:
    """What tells anonymous clients apart, though nobody has verified it; the first that is there.

    In the order of these fields: the user name of Basic, the hash of a secret, a field's value, the
    address.
    """

    is_by_basic: bool = field(default=False, metadata={"key": "basic"})
    secret_headers: tuple[str, ...] = header_names()
    headers: tuple[str, ...] = header_names()
    is_by_address: bool | None = field(default=None, metadata={"key": "address"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationSettings:
    """Authentication of clients; without any of this all are anonymous."""

    client_ca_file: str | None = path_setting()
    front_proxy: FrontProxySettings = field(default_factory=FrontProxySettings)
    token_file: str | None = path_setting()
    jwt: tuple[JwtSettings, ...] = ()
    token_review: ReviewSettings = field(default_factory=ReviewSettings)
    api_keys: ApiKeySettings = field(default_factory=ApiKeySettings)
    anonymous: bool = True
    unverified: UnverifiedSettings = field(default_factory=UnverifiedSettings)
    impersonation: ImpersonationSettings = field(default_factory=ImpersonationSettings)


EVERYBODY = "*"
"""As a user's name: any user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AudienceSettings:
    """Users and groups, any of whom is meant."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DownstreamSettings:
    """Connections of clients."""

    listen: Address = Address(host="127.0.0.1", port=8080)
    socket_mode: int = socket_mode()
    tls: DownstreamTlsSettings = field(default_factory=DownstreamTlsSettings)
    head_timeout_s: float = bounded(32.0, 0.001)
    idle_timeout_s: float = bounded(90.0, 0.001)
    request_timeout_s: float = bounded(60.0, 0.001)
    max_head_bytes: int = bounded(65536, 1024, 1 << 24)
    max_header_fields: int = bounded(100, 1, 100_000)
    max_target_bytes: int = bounded(16384, 256, 1 << 24)
    identity_headers_from: tuple[Network, ...] = ()
    trusted_proxies: tuple[Network, ...] = ()
    explain_answers_to: AudienceSettings = field(default_factory=AudienceSettings)
    http2: Http2Settings = field(default_factory=Http2Settings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    overload: OverloadSettings = field(default_factory=OverloadSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTlsSettings:
    """TLS towards the origin, which its URL turns on."""

    ca_file: str | None = path_setting()
    server_name: str | None = None
    certificate_file: str | None = path_setting()
    key_file: str | None = path_setting()
    handshake_timeout_s: float = bounded(10.0, 0.001)


PASS_THROUGH, FRONT_PROXY, IMPERSONATE = "passThrough", "frontProxy", "impersonate"
"""How the origin learns who the user is: the client's own credentials go on; the proxy says so in
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

    url: Address = field(default=UNSAID, metadata={"form": "origin"})
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
class UpstreamSettings:
    """Connections to the servers behind: the origin.

    One of `url`, `endpoints`, `dns` and `service` says where they are.
    """

    url: Address = field(default=UNSAID, metadata={"form": "origin", "one_of": "origin"})
    endpoints: tuple[EndpointSettings, ...] = field(default=(), metadata={"one_of": "origin"})
    dns: Address = field(default=UNSAID, metadata={"form": "dns", "one_of": "origin"})
    resolve_interval_s: float = bounded(30.0, 1, 86400)
    service: ServiceSettings = field(default_factory=ServiceSettings, metadata={"one_of": "origin"})
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
class KubernetesSettings:
    """A Kubernetes API that has the objects."""

    is_enabled: bool = field(default=False, metadata={"key": "enabled"})
    kubeconfig: str | None = path_setting()
    context: str | None = None
    first_sync_timeout_s: float = bounded(10.0, 0)
    write_status: bool = False


KUBERNETES_API, HTTP_API = "kubernetes", "http"
"""What kind of API the server behind has: which objects are built in, and how requests are read."""


def preset_setting() -> Any:  # noqa: ANN401 - stands for the default itself, as `field` does
    """Make a field for one of these kinds."""
    return field(default=KUBERNETES_API, metadata={"choices": (KUBERNETES_API, HTTP_API)})


ENFORCE, OBSERVE = "enforce", "observe"
"""What flow control does: its work, or nothing but count what it would have done."""


MAX_SEATS = (1 << 31) - 1

PROMPT, AS_KUBERNETES = "prompt", "kubernetes"
"""When idle seats are lent: as soon as a request lacks them, or every 10 s as there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowControlSettings:
    """Limits, objects and costs."""

    enforcement: str = field(default=ENFORCE, metadata={"choices": (ENFORCE, OBSERVE)})
    server_concurrency_limit: int = bounded(600, 1, MAX_SEATS, one_of="limit")
    per_endpoint: int | None = bounded(None, 1, MAX_SEATS, one_of="limit")
    limit_adjustment: str = field(default=PROMPT, metadata={"choices": (PROMPT, AS_KUBERNETES)})
    objects: tuple[str, ...] = field(default=(), metadata={"form": "path"})
    store: str | None = path_setting()
    kubernetes: KubernetesSettings = field(default_factory=KubernetesSettings)
    suggested_objects: bool = True
    hash_seed: int | None = bounded(None, 0, (1 << 32) - 1)
    object_counts_from: str | None = field(default=None, metadata={"form": "url"})
    object_counts_interval_s: float = bounded(30.0, 0.1)

    def seats(self, healthy: int) -> int:
        """The limit of the whole while so many endpoints are healthy; never that of none."""
        if self.per_endpoint is None:
            return self.server_concurrency_limit
        return min(self.per_endpoint * max(healthy, 1), MAX_SEATS)


AUTO_WORKERS = 0
"""Stands for as many workers as there are processors, `auto` where people write it."""
MAX_WORKERS = 128
"""Each of them has pools, caches and health checks of its own: beyond, replicas do better."""

LEAN, FULL = "lean", "full"
"""Which series the metrics page has: those of what was used, or all, as kube-apiserver has them."""

ALL, ERRORS = "all", "errors"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessLogSettings:
    """A line of JSON for each request."""

    path: str | None = field(default=None, metadata={"form": "path", "words": ("-",)})
    requests: str = field(default=ALL, metadata={"choices": (ALL, ERRORS)})
    sampled_percent: int = bounded(100, 0, 100)
    max_queued: int = bounded(65536, 1)
    audit_ids: bool = True


PRIVILEGED = ("system:masters", "system:monitoring")
"""Groups whose traceparent kube-apiserver believes."""


def privileged() -> AudienceSettings:
    """Those whom kube-apiserver believes."""
    return AudienceSettings(groups=PRIVILEGED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TracingSettings:
    """Spans of requests, for a collector of OpenTelemetry's; on with an endpoint."""

    endpoint: str | None = field(default=None, metadata={"form": "collector"})
    sampling_rate_per_million: int = bounded(0, 0, 1_000_000)
    parents_from: AudienceSettings = field(default_factory=privileged)
    service_name: str = "apfproxy"
    max_queued: int = bounded(2048, 1, 1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopFlowsSettings:
    """Who is throttled, in bounded memory."""

    is_enabled: bool = field(default=True, metadata={"key": "enabled"})
    capacity: int = bounded(512, 8, 65536)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSettings:
    """The fleet of proxies that share one server limit; there is none without a store.

    Attributes:
        store: Where its record lives, see `sources.store_address`.
        name: Of the fleet; several may share a store.
        member: The name of this proxy on pages; None for that of the machine.
        replicas: How many members are meant to be there; None for as many as come.
        refresh_interval_s: Between two looks of a member at the record.
        lease_s: For how long a member that is not seen keeps its seats.
        password_file: Of Redis' user; read for each connection.
        sentinel_password_file: The same, of Redis Sentinel.
        kubeconfig, context: How to reach the Kubernetes API, where that is the store.
    """

    store: str | None = field(default=None, metadata={"form": "store"})
    name: str = field(default="apfproxy", metadata={"form": "fleet"})
    member: str | None = field(default=None, metadata={"form": "member"})
    replicas: int | None = bounded(None, 1, 512)
    refresh_interval_s: float = bounded(1.0, 0.1, 60)
    lease_s: float = bounded(5.0, 1, 600)
    password_file: str | None = path_setting()
    sentinel_password_file: str | None = path_setting()
    ca_file: str | None = path_setting()
    certificate_file: str | None = path_setting()
    key_file: str | None = path_setting()
    kubeconfig: str | None = path_setting()
    context: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of a proxy."""

    preset: str = preset_setting()
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
    admin: Address | None = Address(host="127.0.0.1", port=8081)
    admin_socket_mode: int = socket_mode()
    admin_token_file: str | None = path_setting()
    metrics: str = field(default=LEAN, metadata={"choices": (LEAN, FULL)})
    log_level: str = field(default="info", metadata={"choices": LOG_LEVELS})
    log_format: str = field(default=TEXT, metadata={"choices": LOG_FORMATS})
    clusters: tuple[ClusterSettings, ...] = field(default=(), metadata={"form": "apart"})


OF_A_CLUSTER = ("preset", "upstream", "authentication", "tunnel", "watch", "flow_control")
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
