"""The settings of a process: a frozen record per concern, with the keys of the settings file.

Durations are seconds, sizes are bytes.  A key is the field's name in camelCase, without the unit of
a duration: `head_timeout_s` is `headTimeout: 32s`.  Bounds and forms of values stand at the fields;
`settings.file` reads a file by them, `cli.serve` makes flags of them, and `settings.changes` knows
from `RESTART` what takes a restart.  `config/apfproxy.yaml` explains each setting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Final, TypeVar, dataclass_transform

from msgspec import Meta, Struct, field, structs

from apfproxy.base.address import UNIX_MODE, UNSAID, Address, Network
from apfproxy.flowcontrol.passage import MAX_LIST_SEATS, MOST_LIST_SEATS
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.http.credential_fields import CredentialRules, UnverifiedRules
from apfproxy.settings import values
from apfproxy.settings.store_address import FLEET, MEMBER, STORE
from apfproxy.settings.values import (
    AUTO_SEATS,
    AUTO_WORKERS,
    DURATION,
    MAX_SEATS,
    MAX_WORKERS,
    SIZE,
    one_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from apfproxy.settings.values import Form

__all__ = ["AUTO_SEATS", "AUTO_WORKERS", "MAX_WORKERS", "UNIX_MODE", "UNSAID", "Address", "Network"]


def wire_name(name: str) -> str:
    """The key of a field: `head_timeout_s` is `headTimeout`, `is_bearer` is `bearer`."""
    name = name.removeprefix("is_by_").removeprefix("is_").removesuffix("_s")
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Record(Struct, frozen=True, kw_only=True, rename=wire_name):
    """Some settings that belong together; a section of the settings file, but for the whole.

    Attributes:
        ALTERNATIVES: Fields of which only one may be given: it takes the place of the others.
        RESTART: Fields that a running process does not change.
    """

    ALTERNATIVES: ClassVar[tuple[str, ...]] = ()
    RESTART: ClassVar[tuple[str, ...]] = ()

    def __reduce__(self) -> tuple[Callable[..., Record], tuple[type[Record], dict[str, object]]]:
        # By the names of the fields, so that a program with more of them can read it, too.
        return _made_again, (type(self), structs.asdict(self))


def _made_again(kind: type[Record], values: dict[str, object]) -> Record:
    return kind(**values)


R = TypeVar("R", bound=Record)


def with_values(record: R, values: Mapping[str, object]) -> R:
    """The record with other values, by the names of its fields; a mapping is of a section."""
    values = {
        name: with_values(getattr(record, name), value) if isinstance(value, dict) else value
        for name, value in values.items()
    }
    defaults, alternatives = type(record)(), record.ALTERNATIVES
    if any(
        values.get(each, getattr(defaults, each)) != getattr(defaults, each)
        for each in alternatives
    ):
        values = {each: getattr(defaults, each) for each in alternatives} | values
    return structs.replace(record, **values)


def form(form: Form) -> Meta:
    return Meta(extra={"form": form})


def duration(least: float, most: float | None = None) -> Meta:
    """The form and the bounds, in seconds."""
    return Meta(ge=least, le=most, extra={"form": DURATION})


def size(least: int, most: int | None = None) -> Meta:
    """The form and the bounds, in bytes."""
    return Meta(ge=least, le=most, extra={"form": SIZE})


def bounds(least: float, most: float | None = None) -> Meta:
    return Meta(ge=least, le=most)


File = Annotated[str, form(values.FILE)]
"""The path of a file, which begins at the settings file's directory."""
Mode = Annotated[int, form(values.MODE)]
Header = Annotated[str, form(values.HEADER)]
Label = Annotated[str, form(values.LABEL)]
Listen = Annotated[Address, form(values.LISTEN)]
Upstream = Annotated[Address, form(values.UPSTREAM)]
Url = Annotated[str, form(values.URL)]
Networks = tuple[Annotated[Network, form(values.NETWORK)], ...]

# ------------------------------------------------------------------ requests and users

KUBERNETES_API, HTTP_API, LLM_API = "kubernetes", "http", "llm"
PRESET_NAMES: Final = tuple(PRESETS)
Preset = Annotated[str, form(one_of(*PRESET_NAMES))]


class LongRunningSettings(Record):
    """Requests that may last as long as their clients like; None as the preset has it."""

    verbs: tuple[Annotated[str, form(values.VERB)], ...] | None = None
    subresources: tuple[Annotated[str, form(values.SUBRESOURCE)], ...] | None = None
    path_prefixes: tuple[Annotated[str, form(values.PATHS_BELOW)], ...] | None = None


class RequestSettings(Record):
    """How requests are read; `path_prefixes` are patterns below which the server has APIs."""

    path_prefixes: tuple[Annotated[str, form(values.API_PREFIX)], ...] = ()
    long_running: LongRunningSettings = LongRunningSettings()


EVERYBODY = "*"
"""As a user's name: any user."""


class AudienceSettings(Record):
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


class FrontProxySettings(Record):
    """Authenticating proxies in front of this one, which name the user in header fields."""

    ca_file: File | None = None
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[Header, ...] = ("X-Remote-User",)
    uid_headers: tuple[Header, ...] = ("X-Remote-Uid",)
    group_headers: tuple[Header, ...] = ("X-Remote-Group",)
    extra_header_prefixes: tuple[Header, ...] = ("X-Remote-Extra-",)


REFUSE, ANONYMOUS = "refuse", "anonymous"
"""Choices for a request with a key that the proxy does not know, or with a token that names no
user: 401, or as without it."""


class JwtSettings(Record):
    """An issuer with public keys, or with a secret that it and the proxy share.

    Of the latter a token needs no `iss`, and `audiences` may be empty: neither is looked at then.
    """

    issuer: str = ""
    audiences: tuple[str, ...] = ()
    keys_file: File | None = None
    secret_file: File | None = None
    secret_is_base64: bool = False
    jwks_url: Url | None = None
    ca_file: File | None = None
    username_claim: str = "sub"
    username_prefix: str | None = None
    groups_claim: str | None = None
    groups_prefix: str | None = None
    unnamed: Annotated[str, form(one_of(REFUSE, ANONYMOUS))] = REFUSE
    is_service_account_issuer: bool = field(default=False, name="serviceAccounts")


class ReviewSettings(Record):
    is_enabled: bool = False
    cache_s: Annotated[float, duration(0)] = 10.0
    grace_s: Annotated[float, duration(0)] = 110.0
    max_cached: Annotated[int, bounds(1)] = 8192
    max_concurrent: Annotated[int, bounds(1)] = 16
    timeout_s: Annotated[float, duration(0.001)] = 10.0


class ImpersonationSettings(Record):
    """The `Impersonate-*` fields of these users decide how a request is classified."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    access_review: ReviewSettings = ReviewSettings()


class ApiKeySettings(Record):
    """Keys that the proxy knows by their SHA-256, and where requests have them."""

    file: File | None = None
    header: Header | None = "X-API-Key"
    is_bearer: bool = False
    is_basic: bool = False
    unknown: Annotated[str, form(one_of(REFUSE, ANONYMOUS))] = REFUSE


class UnverifiedSettings(Record):
    """Unverified names of anonymous clients: the first of these fields that finds one counts."""

    is_by_basic: bool = False
    secret_headers: tuple[Header, ...] | None = None
    cookies: tuple[Annotated[str, form(values.COOKIE)], ...] = ()
    headers: tuple[Header, ...] = ()
    is_by_address: bool | None = None
    names_per_address: Annotated[int, bounds(1)] | None = None

    @property
    def is_any(self) -> bool:
        names = self.secret_headers or self.cookies or self.headers
        return bool(self.is_by_basic or names or self.is_by_address)


class AuthenticationSettings(Record):
    """Without any of this all clients are anonymous."""

    client_ca_file: File | None = None
    front_proxy: FrontProxySettings = FrontProxySettings()
    token_file: File | None = None
    jwt: tuple[JwtSettings, ...] = ()
    token_review: ReviewSettings = ReviewSettings()
    api_keys: ApiKeySettings = ApiKeySettings()
    anonymous: bool = True
    unverified: UnverifiedSettings = UnverifiedSettings()
    impersonation: ImpersonationSettings = ImpersonationSettings()

    @property
    def credential_rules(self) -> CredentialRules:
        front_proxy, keys, unverified = self.front_proxy, self.api_keys, self.unverified
        return CredentialRules(
            front_proxy.username_headers,
            front_proxy.uid_headers,
            front_proxy.group_headers,
            front_proxy.extra_header_prefixes,
            key_header="" if keys.file is None else keys.header or "",
            reads_basic=keys.file is not None and keys.is_basic,
            unverified=UnverifiedRules(
                unverified.secret_headers or (),
                unverified.headers,
                unverified.cookies,
                is_by_basic=unverified.is_by_basic,
                is_by_address=unverified.is_by_address is True,
            ),
        )


# ------------------------------------------------------------------ clients' connections


class DownstreamTlsSettings(Record):
    """On with a certificate."""

    certificate_file: File | None = None
    key_file: File | None = None
    require_client_certificate: bool = False
    handshake_timeout_s: Annotated[float, duration(0.001)] = 10.0


class LimitSettings(Record):
    """None for no limit."""

    max_connections: Annotated[int, bounds(1)] | None = 32768
    max_connections_per_address: Annotated[int, bounds(1)] | None = None
    max_pipelined_requests: Annotated[int, bounds(1)] | None = None
    max_body_bytes: Annotated[int, size(0)] | None = None
    gathered_body_bytes: Annotated[int, size(0, 32768)] = 32768
    completion_body_bytes: Annotated[int, size(0, 1 << 24)] = 1 << 20
    max_held_bytes: Annotated[int, size(1 << 20)] | None = None
    max_held_bytes_per_address: Annotated[int, size(1 << 18)] | None = None
    max_held_bytes_per_connection: Annotated[int, size(1 << 18)] = 4 << 20
    min_body_rate_bytes: Annotated[int, size(0)] = 240
    body_rate_grace_s: Annotated[float, duration(0.001)] = 5.0
    slow_reader_grace_s: Annotated[float, duration(0.001)] | None = None
    slow_readers_per_level: Annotated[int, bounds(0)] | None = None


class Http2Settings(Record):
    """HTTP/2 to clients: over TLS where both sides offer it, and without TLS only if that is on."""

    is_enabled: bool = True
    is_cleartext: bool = False
    max_concurrent_streams: Annotated[int, bounds(1, 10_000)] = 100
    goaway_chance: Annotated[float, bounds(0.0, 0.02)] = 0.0


class KeepAliveSettings(Record):
    idle_s: Annotated[float, duration(0.001, 7200)] = 60.0
    timeout_s: Annotated[float, duration(0.001, 7200)] = 120.0


class OverloadSettings(Record):
    """When the proxy sheds new connections; of the memory, None is for the container's limit."""

    loop_delay_s: Annotated[float, duration(0.001)] | None = 0.5
    memory_bytes: Annotated[int, size(1 << 20)] | None = None


class TunnelSettings(Record):
    """Upgraded connections: exec, attach, port-forward, proxy and watches over WebSocket."""

    idle_timeout_s: Annotated[float, duration(0.001)] = 14400.0


class DownstreamSettings(Record):
    RESTART = ("listen", "socket_mode", "proxy_protocol")

    listen: Listen = Address(host="127.0.0.1", port=8080)
    socket_mode: Mode = UNIX_MODE
    tls: DownstreamTlsSettings = DownstreamTlsSettings()
    head_timeout_s: Annotated[float, duration(0.001)] = 32.0
    idle_timeout_s: Annotated[float, duration(0.001)] = 90.0
    keep_alive: KeepAliveSettings = KeepAliveSettings()
    request_timeout_s: Annotated[float, duration(0.001)] | None = None
    max_head_bytes: Annotated[int, size(1024, 1 << 24)] = 65536
    max_header_fields: Annotated[int, bounds(1, 100_000)] = 256
    max_target_bytes: Annotated[int, size(256, 1 << 24)] = 16384
    identity_headers_from: Networks = ()
    trusted_proxies: Networks = ()
    proxy_protocol: bool = False
    explain_answers_to: AudienceSettings = AudienceSettings()
    http2: Http2Settings = Http2Settings()
    limits: LimitSettings = LimitSettings()
    overload: OverloadSettings = OverloadSettings()


# ------------------------------------------------------------------ upstream


class UpstreamTlsSettings(Record):
    ca_file: File | None = None
    server_name: str | None = None
    certificate_file: File | None = None
    key_file: File | None = None
    handshake_timeout_s: Annotated[float, duration(0.001)] = 10.0


PASS_THROUGH, FRONT_PROXY, IMPERSONATE = "passThrough", "frontProxy", "impersonate"
"""How the upstream learns who the user is: the client's own credentials go on; the proxy says so in
X-Remote-* fields under its certificate; or it impersonates under its own token."""


class EndpointAddress(Record):
    """The certificate has `upstream.tls.serverName`, or else `server_name`, or else the host."""

    address: Address
    weight: int = 1
    server_name: str | None = None


MAX_ENDPOINTS = 256
"""For one cluster, wherever they come from: far more than control planes have."""


class EndpointSettings(Record):
    url: Upstream = UNSAID
    weight: Annotated[int, bounds(1, 100)] = 1


HTTP, HTTPS = "http", "https"


class ServiceSettings(Record):
    """A Service in a Kubernetes API, whose EndpointSlices name the endpoints."""

    namespace: Label = "default"
    name: Label | None = None
    port: Annotated[str, form(values.SERVICE_PORT)] | None = None
    scheme: Annotated[str, form(one_of(HTTP, HTTPS))] = HTTPS
    kubeconfig: File | None = None
    context: str | None = None

    @property
    def address(self) -> Address:
        is_tls = self.scheme == HTTPS
        port = int(self.port) if self.port is not None and self.port.isdigit() else None
        return Address(
            host=f"{self.name}.{self.namespace}.svc",
            port=(443 if is_tls else 80) if port is None else port,
            is_tls=is_tls,
        )


class HealthCheckSettings(Record):
    path: Annotated[str, form(values.TARGET)] | None = None
    interval_s: Annotated[float, duration(0.1)] | None = 5.0
    timeout_s: Annotated[float, duration(0.001)] = 3.0
    healthy_threshold: Annotated[int, bounds(1, 100)] = 1
    unhealthy_threshold: Annotated[int, bounds(1, 100)] = 2


class EjectionSettings(Record):
    """When an endpoint that fails requests gets none for a while."""

    failures: Annotated[int, bounds(0, 1_000_000)] = 5
    pause_s: Annotated[float, duration(0.001, 86400)] = 5.0
    max_pause_s: Annotated[float, duration(0.001, 86400)] = 300.0


class RebalanceSettings(Record):
    percent_per_minute: Annotated[int, bounds(0, 100)] = 5


class UpgradeSettings(Record):
    """Paths that are upgraded beside those that the preset has, and those that are not."""

    allow: tuple[Annotated[str, form(values.PATH_PATTERN)], ...] = ()
    deny: tuple[Annotated[str, form(values.PATH_PATTERN)], ...] = ()


class UpstreamSettings(Record):
    """One of `url`, `endpoints`, `dns` and `service` says where the upstream is."""

    ALTERNATIVES = ("url", "endpoints", "dns", "service")

    url: Upstream = UNSAID
    endpoints: tuple[EndpointSettings, ...] = ()
    dns: Annotated[Address, form(values.DNS)] = UNSAID
    resolve_interval_s: Annotated[float, duration(1, 86400)] = 30.0
    service: ServiceSettings = ServiceSettings()
    tls: UpstreamTlsSettings = UpstreamTlsSettings()
    identity: Annotated[str, form(one_of(PASS_THROUGH, FRONT_PROXY, IMPERSONATE))] = PASS_THROUGH
    identity_without_certificate: bool = False
    token_file: File | None = None
    host_header: Annotated[str, form(values.HOST_HEADER)] | None = None
    max_connections: Annotated[int, bounds(1)] = 16384
    max_requests_per_endpoint: Annotated[int, bounds(1)] | None = None
    idle_timeout_s: Annotated[float, duration(0.001)] = 60.0
    connect_timeout_s: Annotated[float, duration(0.001)] = 5.0
    answer_timeout_s: Annotated[float, duration(0.001)] | None = None
    stream_idle_timeout_s: Annotated[float, duration(0.001)] | None = None
    abandoned_wait_s: Annotated[float, duration(0, 86400)] = 0.0
    upgrades: UpgradeSettings = UpgradeSettings()
    slow_start_s: Annotated[float, duration(0, 3600)] = 10.0
    health_check: HealthCheckSettings = HealthCheckSettings()
    ejection: EjectionSettings = EjectionSettings()
    rebalance: RebalanceSettings = RebalanceSettings()
    fails_readiness: bool = False

    @property
    def address(self) -> Address:
        """Stands for the endpoints as a whole; UNSAID if nothing says where they are.

        It is the Host of requests that have none, and for `dns` and `service` the name that the
        endpoints' certificates have.
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


# ------------------------------------------------------------------ flow control

ENFORCE, OBSERVE = "enforce", "observe"

Seats = Annotated[int, bounds(1, MAX_SEATS)]

PROMPT, AS_KUBERNETES = "prompt", "kubernetes"
"""When idle seats are lent: as soon as a request lacks them, or every 10 s."""


class WatchSettings(Record):
    """When a WATCH that asked for no initial events gives its seats back."""

    silence_s: Annotated[float, duration(0.001)] = 0.1
    limit_s: Annotated[float, duration(0.001)] = 10.0
    bookmark_limit_s: Annotated[float, duration(0.001)] = 60.0


class KubernetesSettings(Record):
    is_enabled: bool = False
    kubeconfig: File | None = None
    context: str | None = None
    first_sync_timeout_s: Annotated[float, duration(0)] = 10.0
    write_status: bool = False


class AutoLimitSettings(Record):
    """A server limit that is found: its bounds, its first value, and what it is for.

    `target` is the percentage of the server's highest goodput that is aimed for.
    """

    min: Seats = 2
    max: Seats = 2000
    initial: Seats = 100
    target: Annotated[int, bounds(50, 99)] = 97

    @property
    def first(self) -> int:
        """The first value, within the bounds."""
        return min(max(self.initial, self.min), self.max)


class FlowControlSettings(Record):
    ALTERNATIVES = ("server_concurrency_limit", "per_endpoint")
    RESTART = ("store", "kubernetes", "hash_seed")

    enforcement: Annotated[str, form(one_of(ENFORCE, OBSERVE))] = ENFORCE
    server_concurrency_limit: Annotated[int, form(values.SEATS)] = 600
    auto_limit: AutoLimitSettings = AutoLimitSettings()
    per_endpoint: Seats | None = None
    limit_adjustment: Annotated[str, form(one_of(PROMPT, AS_KUBERNETES))] = PROMPT
    max_list_seats: Annotated[int, bounds(1, MOST_LIST_SEATS)] = MAX_LIST_SEATS
    objects: tuple[File, ...] = ()
    store: File | None = None
    kubernetes: KubernetesSettings = KubernetesSettings()
    suggested_objects: bool = True
    hash_seed: Annotated[int, bounds(0, (1 << 32) - 1)] | None = None
    object_counts_from: Url | None = None
    object_counts_interval_s: Annotated[float, duration(0.1)] = 30.0

    @property
    def is_auto(self) -> bool:
        return self.per_endpoint is None and self.server_concurrency_limit == AUTO_SEATS

    def seats(self, healthy: int) -> int:
        """The limit of the whole; without a healthy endpoint, that of one."""
        if self.per_endpoint is None:
            return self.server_concurrency_limit or self.auto_limit.first
        return min(self.per_endpoint * max(healthy, 1), MAX_SEATS)


class FleetSettings(Record):
    """There is no fleet without a store; in a worker's settings `replicas` counts workers."""

    store: Annotated[str, form(STORE)] | None = None
    name: Annotated[str, form(FLEET)] = "apfproxy"
    member: Annotated[str, form(MEMBER)] | None = None
    replicas: Annotated[int, bounds(1, 512)] | None = None
    refresh_interval_s: Annotated[float, duration(0.1, 60)] = 1.0
    lease_s: Annotated[float, duration(1, 600)] = 5.0
    password_file: File | None = None
    sentinel_password_file: File | None = None
    ca_file: File | None = None
    certificate_file: File | None = None
    key_file: File | None = None
    kubeconfig: File | None = None
    context: str | None = None


# ------------------------------------------------------------------ logs, metrics, traces

LOG_LEVELS = ("debug", "info", "warning", "error")

TEXT, JSON = "text", "json"
LOG_FORMATS = (TEXT, JSON)

LEAN, FULL = "lean", "full"
"""Series on the metrics page: those that were used, or all, as kube-apiserver has them."""

ALL, ERRORS = "all", "errors"


class AccessLogSettings(Record):
    path: Annotated[str, form(values.LOG_FILE)] | None = None
    requests: Annotated[str, form(one_of(ALL, ERRORS))] = ALL
    sampled_percent: Annotated[int, bounds(0, 100)] = 100
    refused_per_second: Annotated[int, bounds(0)] | None = 10
    max_bytes_per_second: Annotated[int, size(4096)] | None = 16 << 20
    max_queued: Annotated[int, bounds(1)] = 65536
    audit_ids: bool = True


PRIVILEGED = ("system:masters", "system:monitoring")
"""Groups whose traceparent kube-apiserver believes."""


class TracingSettings(Record):
    """Spans of requests, for an OpenTelemetry collector; on with an endpoint."""

    endpoint: Annotated[str, form(values.COLLECTOR)] | None = None
    sampling_rate_per_million: Annotated[int, bounds(0, 1_000_000)] = 0
    parents_from: AudienceSettings = AudienceSettings(groups=PRIVILEGED)
    service_name: str = "apfproxy"
    max_queued: Annotated[int, bounds(1, 1 << 20)] = 2048


class AdminTlsSettings(Record):
    """On with a certificate."""

    certificate_file: File | None = None
    key_file: File | None = None
    client_ca_file: File | None = None


class TopFlowsSettings(Record):
    is_enabled: bool = True
    capacity: Annotated[int, bounds(8, 65536)] = 512


# ------------------------------------------------------------------ the whole


class DrainSettings(Record):
    shutdown_delay_s: Annotated[float, duration(0)] = 0.0
    idle_grace_s: Annotated[float, duration(0)] = 1.0
    timeout_s: Annotated[float, duration(0)] = 60.0


class Settings(Record):
    """Whether there are any `clusters` takes a restart."""

    RESTART = ("fleet", "workers", "admin", "admin_socket_mode")

    preset: Preset = KUBERNETES_API
    request: RequestSettings = RequestSettings()
    downstream: DownstreamSettings = DownstreamSettings()
    upstream: UpstreamSettings = UpstreamSettings()
    authentication: AuthenticationSettings = AuthenticationSettings()
    tunnel: TunnelSettings = TunnelSettings()
    watch: WatchSettings = WatchSettings()
    drain: DrainSettings = DrainSettings()
    flow_control: FlowControlSettings = FlowControlSettings()
    fleet: FleetSettings = FleetSettings()
    access_log: AccessLogSettings = AccessLogSettings()
    tracing: TracingSettings = TracingSettings()
    top_flows: TopFlowsSettings = TopFlowsSettings()
    workers: Annotated[int, form(values.WORKERS)] | None = None
    admin: Listen | None = Address(host="127.0.0.1", port=8081)
    admin_socket_mode: Mode = UNIX_MODE
    admin_tls: AdminTlsSettings = AdminTlsSettings()
    admin_read_token_file: File | None = None
    admin_token_file: File | None = None
    metrics: Annotated[str, form(one_of(LEAN, FULL))] = LEAN
    log_level: Annotated[str, form(one_of(*LOG_LEVELS))] = "info"
    log_format: Annotated[str, form(one_of(*LOG_FORMATS))] = TEXT
    clusters: tuple[ClusterSettings, ...] = ()

    @property
    def request_timeout_s(self) -> float:
        return self._or_of_preset(self.downstream.request_timeout_s)

    @property
    def answer_timeout_s(self) -> float:
        return self._or_of_preset(self.upstream.answer_timeout_s)

    @property
    def stream_idle_timeout_s(self) -> float:
        own_s = self.upstream.stream_idle_timeout_s
        return self.request_timeout_s if own_s is None else own_s

    @property
    def slots(self) -> int:
        """Requests that each endpoint works on at once, where it has slots; 0 for unknown."""
        return (self.flow_control.per_endpoint or 0) if self.preset == LLM_API else 0

    def _or_of_preset(self, time_s: float | None) -> float:
        return PRESETS[self.preset].timeout_s if time_s is None else time_s


OF_A_CLUSTER: Final = (
    *("preset", "request", "upstream", "authentication", "tunnel", "watch", "flow_control"),
)
"""Fields that each cluster can have of its own."""


class Certificate(Record):
    """The proxy's own for the hosts of a cluster."""

    certificate_file: File | None = None
    key_file: File | None = None


class ClusterSection(Record):
    name: Label | None = None
    hosts: tuple[Annotated[str, form(values.HOST_PATTERN)], ...] = ()
    path_prefix: Annotated[str, form(values.PATH_PREFIX)] | None = None
    max_connections: Annotated[int, bounds(1)] | None = None
    tls: Certificate = Certificate()
    preset: Preset = KUBERNETES_API
    request: RequestSettings = RequestSettings()
    upstream: UpstreamSettings = UpstreamSettings()
    authentication: AuthenticationSettings = AuthenticationSettings()
    tunnel: TunnelSettings = TunnelSettings()
    watch: WatchSettings = WatchSettings()
    flow_control: FlowControlSettings = FlowControlSettings()


class ClusterSettings(Record):
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
    clusters = tuple(
        each if each.settings is None else structs.replace(each, settings=change(each.settings))
        for each in settings.clusters
    )
    return structs.replace(settings, clusters=clusters)
