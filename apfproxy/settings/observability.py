"""Settings of what can be seen: logs, metrics, traces."""

from __future__ import annotations

from dataclasses import dataclass, field

from apfproxy.settings.authentication import AudienceSettings
from apfproxy.settings.setting_fields import bounded, path_setting

LOG_LEVELS = ("debug", "info", "warning", "error")

TEXT, JSON = "text", "json"
LOG_FORMATS = (TEXT, JSON)

LEAN, FULL = "lean", "full"
"""Which series the metrics page has: those of what was used, or all, as kube-apiserver has them."""

ALL, ERRORS = "all", "errors"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessLogSettings:
    """A line of JSON for each request."""

    path: str | None = field(default=None, metadata={"form": "path", "words": ("-",)})
    requests: str = field(default=ALL, metadata={"choices": (ALL, ERRORS)})
    sampled_percent: int = bounded(100, 0, 100)
    refused_per_second: int | None = bounded(10, 0)
    max_bytes_per_second: int | None = bounded(16 << 20, 4096)
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
class AdminTlsSettings:
    """TLS of the admin listener: on with a certificate."""

    certificate_file: str | None = path_setting()
    key_file: str | None = path_setting()
    client_ca_file: str | None = path_setting()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopFlowsSettings:
    """Who is throttled, in bounded memory."""

    is_enabled: bool = field(default=True, metadata={"key": "enabled"})
    capacity: int = bounded(512, 8, 65536)
