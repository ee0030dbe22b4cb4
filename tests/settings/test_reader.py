"""Settings as a file has them: values, and what is wrong."""

from __future__ import annotations

import ipaddress

import pytest

from apfproxy.settings import (
    Address,
    DownstreamSettings,
    EndpointSettings,
    FlowControlSettings,
    ServiceSettings,
    UpstreamSettings,
)
from apfproxy.settings.file import SettingsError, parse_settings


def problems_of(text: str) -> tuple[str, ...]:
    """The problems of a file `f` with this text."""
    with pytest.raises(SettingsError) as caught:
        parse_settings(text.encode(), "f")
    return caught.value.problems


def test_values_of_every_type() -> None:
    """Each type of setting is read in the form that the annotated file shows."""
    text = """
downstream:
  listen: "[::1]:9000"
  headTimeout: 1m
  maxHeadBytes: 32KiB
  maxHeaderFields: 7
  identityHeadersFrom: [10.0.0.0/8, "::1"]
upstream: {url: "http://localhost:1234", hostHeader: api.local}
flowControl:
  objects: [a, b]
  suggestedObjects: false
  hashSeed: 42
  objectCountsFrom: https://localhost:6443/metrics
admin: null
logLevel: debug
"""
    settings = parse_settings(text.encode(), "f")

    assert (
        DownstreamSettings(
            listen=Address(host="::1", port=9000),
            head_timeout_s=60.0,
            max_head_bytes=32768,
            max_header_fields=7,
            identity_headers_from=(
                ipaddress.ip_network("10.0.0.0/8"),
                ipaddress.ip_network("::1/128"),
            ),
        )
        == settings.downstream
    )
    assert (
        FlowControlSettings(
            objects=("a", "b"),
            suggested_objects=False,
            hash_seed=42,
            object_counts_from="https://localhost:6443/metrics",
        )
        == settings.flow_control
    )
    assert (Address(host="localhost", port=1234), "api.local", None, "debug") == (
        settings.upstream.url,
        settings.upstream.host_header,
        settings.admin,
        settings.log_level,
    )


def test_where_the_servers_are() -> None:
    """Endpoints have weights; a port of a Service is a name or a number; null is no URL."""
    text = """
upstream:
  url: null
  endpoints:
  - url: https://10.0.0.1:6443
  - {url: "https://10.0.0.2:6443", weight: 2}
  service: {name: kubernetes, port: 6443}
"""
    upstream = parse_settings(text.encode(), "f").upstream

    assert (
        UpstreamSettings(
            endpoints=(
                EndpointSettings(url=Address(host="10.0.0.1", port=6443, is_tls=True)),
                EndpointSettings(url=Address(host="10.0.0.2", port=6443, is_tls=True), weight=2),
            ),
            service=ServiceSettings(name="kubernetes", port="6443"),
        )
        == upstream
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            "downstream:\n  headTimout: 1s",
            "f:2: downstream.headTimout: unknown key; did you mean headTimeout?",
            id="misspelt",
        ),
        pytest.param(
            "head_timeout: 1s",
            "f:1: head_timeout: unknown key; known at the top: preset, request, downstream,"
            " upstream, authentication, tunnel, watch, drain, flowControl, fleet, accessLog,"
            " tracing, topFlows, workers, admin, adminSocketMode, adminTls, adminReadTokenFile,"
            " adminTokenFile, metrics, logLevel, logFormat, clusters",
            id="nothing-like-it",
        ),
        pytest.param(
            "watch: {qqq: 1}",
            "f:1: watch.qqq: unknown key; known in watch: silence, limit, bookmarkLimit",
            id="nothing-like-it-in-a-section",
        ),
        pytest.param(
            "serverconcurrencylimit: 1",
            "f:1: serverconcurrencylimit: unknown key; did you mean"
            " flowControl.serverConcurrencyLimit?",
            id="in-the-wrong-section",
        ),
        pytest.param(
            "downstream: {certificateFile: a.crt}",
            "f:1: downstream.certificateFile: unknown key; did you mean"
            " downstream.tls.certificateFile?",
            id="in-a-section-below",
        ),
        pytest.param(
            "watch: {enabled: true}",
            "f:1: watch.enabled: unknown key; known in watch: silence, limit, bookmarkLimit",
            id="of-several-other-sections",
        ),
        pytest.param(
            "? [a]\n: 1",
            "f:1: ?: unknown key; known at the top: preset, request, downstream, upstream,"
            " authentication, tunnel, watch, drain, flowControl, fleet, accessLog, tracing,"
            " topFlows, workers, admin, adminSocketMode, adminTls, adminReadTokenFile,"
            " adminTokenFile, metrics, logLevel, logFormat, clusters",
            id="key-is-a-list",
        ),
        pytest.param(
            "watch: {limit: 1s, limit: 2s}", "f:1: watch.limit: given twice; keep one", id="twice"
        ),
        pytest.param("[]", "f:1: expected a mapping of settings, not a list", id="root-is-a-list"),
        pytest.param(
            'adminTokenFile: "a\\0b"',
            "f:1: adminTokenFile: has a character that no text has: 'a\\x00b'",
            id="nul",
        ),
        pytest.param(
            'flowControl: {objects: ["\\ud800"]}',
            "f:1: flowControl.objects: has a character that no text has: '\\ud800'",
            id="half-a-character",
        ),
        pytest.param(
            "flowControl: {suggestedObjects: !!bool maybe}",
            "f:1: flowControl.suggestedObjects: expected true or false, not 'maybe'",
            id="no-boolean-of-that-tag",
        ),
        pytest.param(
            "watch: 3",
            "f:1: watch: expected a mapping of settings, not '3'",
            id="section-is-a-text",
        ),
        pytest.param(
            "watch: {limit: [1s]}",
            "f:1: watch.limit: expected a duration, not a list",
            id="duration-is-a-list",
        ),
        pytest.param(
            "watch: {limit: 10}",
            "f:1: watch.limit: expected a duration such as 32s, 500ms or 1m30s, not '10';"
            " write 10s for seconds",
            id="duration-without-unit",
        ),
        pytest.param(
            "watch: {limit: 0s}", "f:1: watch.limit: must be at least 1ms, not 0s", id="too-short"
        ),
        pytest.param(
            "watch: {limit: null}", "f:1: watch.limit: expected a duration, not nothing", id="null"
        ),
        pytest.param(
            "downstream: {maxHeadBytes: 1GiB}",
            "f:1: downstream.maxHeadBytes: must be at most 16777216, not 1073741824",
            id="too-large",
        ),
        (
            "downstream: {http2: {goawayChance: 0.5}}",
            "f:1: downstream.http2.goawayChance: must be at most 0.02, not 0.5",
        ),
        (
            "downstream: {http2: {goawayChance: 1e-3}}",
            "f:1: downstream.http2.goawayChance: expected a number, not '1e-3'",
        ),
        pytest.param(
            "downstream: {maxHeaderFields: many}",
            "f:1: downstream.maxHeaderFields: expected a whole number, not 'many'",
            id="number-is-a-text",
        ),
        pytest.param(
            "downstream: {maxHeaderFields: 0x10}",
            "f:1: downstream.maxHeaderFields: expected a whole number in decimal digits,"
            " not '0x10'",
            id="number-is-hexadecimal",
        ),
        pytest.param(
            "downstream: {identityHeadersFrom: 10.0.0.0/8}",
            "f:1: downstream.identityHeadersFrom: expected a list, not '10.0.0.0/8'",
            id="list-is-a-text",
        ),
        pytest.param(
            "downstream: {identityHeadersFrom: [10.0.0.1/8]}",
            "f:1: downstream.identityHeadersFrom: '10.0.0.1/8' has bits set to the right of its"
            " prefix; write 10.0.0.0/8",
            id="bad-network",
        ),
        pytest.param(
            "downstream: {listen: 8080}",
            "f:1: downstream.listen: expected HOST:PORT in quotes, not '8080'",
            id="address-is-a-number",
        ),
        pytest.param(
            "upstream: {url: {}}",
            "f:1: upstream.url: expected a URL, not a mapping",
            id="url-is-a-mapping",
        ),
        pytest.param(
            "flowControl: {suggestedObjects: 1}",
            "f:1: flowControl.suggestedObjects: expected true or false, not '1'",
            id="bool-is-a-number",
        ),
        pytest.param(
            "logLevel: loud",
            "f:1: logLevel: expected one of debug, info, warning, error, not 'loud'",
            id="no-such-choice",
        ),
        pytest.param(
            'upstream: {hostHeader: ""}',
            "f:1: upstream.hostHeader: expected a text, not an empty one; leave the key out for"
            " the default",
            id="empty-text",
        ),
        pytest.param(
            'upstream: {hostHeader: "a\\r\\nX: b"}',
            "f:1: upstream.hostHeader: expected HOST or HOST:PORT, such as api.example.com, not"
            " 'a\\r\\nX: b'",
            id="host-header-with-a-field-behind-it",
        ),
        pytest.param(
            "upstream: {dns: 'https://10.0.0.1'}",
            "f:1: upstream.dns: expected a URL with a host name, such as https://api.example:6443,"
            " not 'https://10.0.0.1'",
            id="nothing-to-resolve",
        ),
        pytest.param(
            "upstream:\n  endpoints:\n  - url: 'http://a'\n    weight: 0",
            "f:4: upstream.endpoints[0].weight: must be at least 1, not 0",
            id="weight",
        ),
        pytest.param(
            "upstream: {endpoints: ['http://a']}",
            "f:1: upstream.endpoints[0]: expected a mapping of settings, not 'http://a'",
            id="endpoint-without-a-key",
        ),
        pytest.param(
            "upstream: {service: {port: 0}}",
            "f:1: upstream.service.port: expected the name of a port, or its number from 1 to"
            " 65535, not '0'",
            id="port-of-a-service",
        ),
        pytest.param(
            "upstream: {healthCheck: {path: readyz}}",
            "f:1: upstream.healthCheck.path: expected a path such as /readyz, not 'readyz'",
            id="path",
        ),
        pytest.param(
            "upstream: {probeInterval: 1s}",
            "f:1: upstream.probeInterval: unknown key; it is upstream.healthCheck.interval by now",
            id="renamed",
        ),
        pytest.param("a: b: c", "f:1: not YAML: mapping values are not allowed here", id="no-yaml"),
        pytest.param(
            "a: \0",
            "f: not YAML: unacceptable character #x0000: special characters are not allowed",
            id="control-character",
        ),
    ],
)
def test_problems(text: str, problem: str) -> None:
    """What cannot be used is refused with its line, its path and what is expected."""
    assert (problem,) == problems_of(text)


def test_all_problems_are_reported() -> None:
    """One run shows every problem, in the order of the lines."""
    problems = problems_of("foo: 1\nwatch:\n  limit: x\n  silence: y\n")

    assert [":".join(problem.split(":")[:2]) for problem in problems] == ["f:1", "f:3", "f:4"]
