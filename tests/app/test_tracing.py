"""What exports the traces of a process."""

from __future__ import annotations

import sys

import pytest

from apfproxy.app.tracing import is_exported_alike, trace_queue, tracer_of, url_of, warning
from apfproxy.base.errors import OperatorError
from apfproxy.settings import AudienceSettings, TracingSettings
from tests.virtual_clock import VirtualClock

ON = TracingSettings(endpoint="http://127.0.0.1:9")


def test_nothing_to_export() -> None:
    """Without a collector there is no queue, and nobody decides."""
    assert None is trace_queue(TracingSettings(), VirtualClock())
    assert None is tracer_of(ON, None, "")


@pytest.mark.parametrize(
    ("settings", "begin"),
    [
        (TracingSettings(), ""),
        (TracingSettings(service_name="a", max_queued=1), ""),
        (
            TracingSettings(sampling_rate_per_million=1),
            "tracing.samplingRatePerMillion has no effect",
        ),
        (
            TracingSettings(parents_from=AudienceSettings(users=("*",))),
            "tracing.parentsFrom has no effect",
        ),
        (TracingSettings(endpoint=ON.endpoint, sampling_rate_per_million=1), ""),
    ],
)
def test_settings_without_effect(settings: TracingSettings, begin: str) -> None:
    """Settings that say which requests are traced do nothing without a collector."""
    text = warning(settings)

    assert (begin, bool(begin)) == (text.partition(":")[0], "name there a collector" in text)


def test_tracer() -> None:
    """It hands on the cluster with each trace."""
    queue = trace_queue(ON, VirtualClock())
    tracer = tracer_of(ON, queue, "blue")

    assert None is not tracer
    assert None is not queue
    assert 0 == queue.queued


@pytest.mark.parametrize(
    "module", ["opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http"]
)
def test_without_the_extra(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.delitem(sys.modules, "apfproxy.app.otlp_exporter", raising=False)
    monkeypatch.delitem(sys.modules, "apfproxy.app.spans", raising=False)
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(OperatorError, match=r"tracing\.endpoint: .*pip install 'apfproxy\[otel\]'"):
        trace_queue(ON, VirtualClock())


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://c:4318", "http://c:4318/v1/traces"),
        ("http://c:4318/", "http://c:4318/v1/traces"),
        ("https://c/own", "https://c/own"),
    ],
)
def test_url(endpoint: str, url: str) -> None:
    """Spans go to the usual place, or to that which is named."""
    assert url == url_of(endpoint)


@pytest.mark.parametrize(
    ("other", "is_alike"),
    [
        (TracingSettings(endpoint=ON.endpoint, sampling_rate_per_million=5), True),
        (TracingSettings(endpoint=ON.endpoint, parents_from=AudienceSettings()), True),
        (TracingSettings(), False),
        (TracingSettings(endpoint=ON.endpoint, service_name="a"), False),
        (TracingSettings(endpoint=ON.endpoint, max_queued=1), False),
    ],
)
def test_what_takes_another_queue(other: TracingSettings, is_alike: bool) -> None:
    """Where and how traces are exported does; which requests are traced does not."""
    assert is_alike is is_exported_alike(ON, other)
