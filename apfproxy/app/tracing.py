"""What exports the traces of a process, and who decides which requests have one."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from apfproxy.admin.trace_queue import TraceQueue
from apfproxy.base.errors import OperatorError
from apfproxy.proxy.tracing import Tracer
from apfproxy.settings import TracingSettings

if TYPE_CHECKING:
    from apfproxy.app.otlp_exporter import Traced
    from apfproxy.base.clock import Clock

PATH = "/v1/traces"
"""Where collectors take spans."""


def trace_queue(settings: TracingSettings, clock: Clock) -> TraceQueue[Traced] | None:
    """What exports traces to the collector that the settings name; None if they name none.

    OperatorError if that takes what is not installed.
    """
    if settings.endpoint is None:
        return None
    try:
        # It takes half a second, and need not be installed.
        from apfproxy.app.otlp_exporter import OtlpExporter  # noqa: PLC0415
    except ImportError as error:
        raise OperatorError(
            f"tracing.endpoint: needs OpenTelemetry's SDK, but the module {error.name} is not"
            " installed: pip install 'apfproxy[otel]' adds what is missing (docs/tracing.md)"
        ) from error
    url = url_of(settings.endpoint)
    exporter = OtlpExporter(url, settings.service_name, clock.now_ns)
    return TraceQueue(url, settings.max_queued, clock, exporter)


def warning(settings: TracingSettings) -> str:
    """Why what the settings ask for has no effect; "" if it has, or if they ask for nothing.

    No collector is taken for granted: kube-apiserver's, localhost:4317, is for OTLP over gRPC.
    """
    if settings.endpoint is not None:
        return ""
    nothing = TracingSettings()
    if settings.sampling_rate_per_million:
        name = "samplingRatePerMillion"
    elif settings.parents_from != nothing.parents_from:
        name = "parentsFrom"
    else:
        return ""
    return (
        f"tracing.{name} has no effect: no request is traced without tracing.endpoint; name there"
        " a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318"
    )


def is_exported_alike(one: TracingSettings, other: TracingSettings) -> bool:
    """Whether the same queue does for both; which requests are traced is not of the queue."""
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("endpoint", "service_name", "max_queued")
    )


def tracer_of(
    settings: TracingSettings, traces: TraceQueue[Traced] | None, cluster: str
) -> Tracer | None:
    """What traces the requests of a cluster; None if there is nobody to tell."""
    if traces is None:
        return None
    return Tracer(settings, lambda trace: traces.take((trace, cluster)))


def url_of(endpoint: str) -> str:
    """The URL that spans are sent to: a collector's, or all of it."""
    has_path = urlsplit(endpoint).path not in ("", "/")
    return endpoint if has_path else endpoint.rstrip("/") + PATH
