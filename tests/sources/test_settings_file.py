"""The settings file."""

from __future__ import annotations

import dataclasses
import ipaddress
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.settings import (
    UNSAID,
    Address,
    DownstreamSettings,
    EndpointSettings,
    FlowControlSettings,
    ServiceSettings,
    Settings,
    UpstreamSettings,
)
from apfproxy.sources.settings_file import (
    MAX_FILE_BYTES,
    SettingsError,
    SettingsLines,
    is_settings,
    load_settings,
    parse_settings,
    setting_paths,
)

ANNOTATED = Path(__file__).parents[2] / "config" / "apfproxy.yaml"


def problems_of(text: str) -> tuple[str, ...]:
    """The problems of a file `f` with this text."""
    with pytest.raises(SettingsError) as caught:
        parse_settings(text.encode(), "f")
    return caught.value.problems


def paths_in(node: object, prefix: str = "") -> list[str]:
    """The paths of all leaves of nested mappings."""
    if not isinstance(node, dict):
        return [prefix.removesuffix(".")]
    return [path for key, value in node.items() for path in paths_in(value, f"{prefix}{key}.")]


def test_annotated_file_gives_the_defaults() -> None:
    """The annotated file says of every setting what it is when nobody sets it.

    It has an example of the one without a default.
    """
    settings = load_settings(ANNOTATED)
    upstream = dataclasses.replace(settings.upstream, url=UNSAID)

    assert Settings() == dataclasses.replace(settings, upstream=upstream)
    assert settings.upstream.url != UNSAID


def test_annotated_file_has_every_setting() -> None:
    """No setting is missing from the annotated file, and their order is that of the records."""
    assert setting_paths() == paths_in(yaml.safe_load(ANNOTATED.read_text()))


def test_every_setting_of_the_annotated_file_has_a_comment() -> None:
    """Each section and setting has a comment above it, or stands right below one that has."""
    bare = []
    explained = False
    for line in ANNOTATED.read_text().splitlines():
        text = line.strip()
        explained = text.startswith("#") or (explained and bool(text))
        if text and not explained:
            bare.append(text)

    assert bare == ["flowControl:"]


@pytest.mark.parametrize("text", ["", "# nothing\n", "downstream:\n", "---\n"])
def test_nothing_gives_the_defaults(text: str) -> None:
    """An empty file, or an empty section, changes nothing."""
    assert Settings() == parse_settings(text.encode(), "f")


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
            "f:1: head_timeout: unknown key; known at the top: preset, downstream, upstream,"
            " authentication, tunnel, watch, drain,"
            " flowControl, accessLog, topFlows, admin, adminSocketMode, adminTokenFile, metrics,"
            " logLevel, logFormat",
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
            "? [a]\n: 1",
            "f:1: ?: unknown key; known at the top: preset, downstream, upstream,"
            " authentication, tunnel, watch, drain,"
            " flowControl, accessLog, topFlows, admin, adminSocketMode, adminTokenFile, metrics,"
            " logLevel, logFormat",
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
            "f:1: upstream.service.port: expected a port from 1 to 65535, not '0'",
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


@given(st.binary(max_size=64) | st.text("{}[]:,-'\"# \nawtchlimi10s&*!|>?", max_size=64))
def test_any_bytes_give_settings_or_problems(data: bytes | str) -> None:
    """No file makes the reader fail in another way than by its own error."""
    try:
        parse_settings(data.encode() if isinstance(data, str) else data, "f")
    except SettingsError as error:
        problems = error.problems
    else:
        problems = ()

    assert all(problem.startswith("f:") for problem in problems)


def test_deep_nesting_is_refused() -> None:
    """A file nested too deeply to read is refused like any other that is no settings file."""
    assert problems_of("[" * 1500)[0].startswith("f: not YAML: ")


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    """The objects of a settings file are found wherever the process was started."""
    path = tmp_path / "settings.yaml"
    path.write_text("flowControl: {objects: [a.yaml, /etc/b]}")

    assert (str(tmp_path / "a.yaml"), "/etc/b") == load_settings(path).flow_control.objects


@pytest.mark.parametrize(("text", "expected"), [("a.log", "{}/a.log"), ('"-"', "-"), ("", None)])
def test_access_log(tmp_path: Path, text: str, expected: str | None) -> None:
    """It is by the settings file, unless it is standard output."""
    path = tmp_path / "settings.yaml"
    path.write_text(f"accessLog: {{path: {text}}}")

    assert load_settings(path).access_log.path == (expected and expected.format(tmp_path))


def test_missing_file(tmp_path: Path) -> None:
    """A file that is not there is named, with the system's reason."""
    path = tmp_path / "settings.yaml"
    with pytest.raises(SettingsError) as caught:
        load_settings(path)

    assert (f"{path}: No such file or directory",) == caught.value.problems


def test_large_file(tmp_path: Path) -> None:
    """A file far too large for settings is refused before it is parsed."""
    path = tmp_path / "settings.yaml"
    path.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(SettingsError) as caught:
        load_settings(path)

    assert (f"{path}: larger than 1048576 bytes; not a settings file?",) == caught.value.problems


@pytest.mark.parametrize(
    ("problem", "located"),
    [
        ("upstream.url: wrong", "~:1: upstream.url: wrong"),
        ("upstream.tokenFile: lacking", "~:1: upstream.tokenFile: lacking"),
        ("jwt[0].keysFile: wrong", "~: jwt[0].keysFile: wrong"),
        ("authentication.jwt[0].caFile: x", "~:4: authentication.jwt[0].caFile: x"),
        ("@/keys: is no JWKS", "~:4: authentication.jwt[0].keysFile: @/keys: is no JWKS"),
        ("the file @/keys is", "~:4: authentication.jwt[0].keysFile: the file @/keys is"),
        ("@/keys:7: broken", "@/keys:7: broken"),
        ("give either admin or drain", "~:5: give either admin or drain"),
        ("nothing known", "~: nothing known"),
    ],
)
def test_where_a_problem_is(tmp_path: Path, problem: str, located: str) -> None:
    """What is found out later has the line of its setting, of its section, or of the file."""
    path = tmp_path / "settings.yaml"
    path.write_text(
        "upstream: {url: 'http://a'}\nauthentication:\n  jwt:\n  - {keysFile: keys}\nadmin: ~\n"
    )
    given, expected = (
        text.replace("~", str(path)).replace("@", str(tmp_path)) for text in (problem, located)
    )

    assert expected == SettingsLines(path).located(given)


@pytest.mark.parametrize(
    ("problem", "placed"),
    [
        ("upstream.url: wrong", "~:1: upstream.url: wrong"),
        ("upstream.identity (--x): needs", "upstream.identity (--x): needs"),
        ("@/keys: is no JWKS", "~:2: authentication.tokenFile: @/keys: is no JWKS"),
        ("@/keys:7: broken", "@/keys:7: broken"),
        ("~:2: wrong", "~:2: wrong"),
        ("cannot listen; give another admin", "cannot listen; give another admin"),
    ],
)
def test_what_a_flag_may_have_said(tmp_path: Path, problem: str, placed: str) -> None:
    """Only what is surely of the file has a line there."""
    path = tmp_path / "settings.yaml"
    path.write_text("upstream: {url: 'http://a'}\nauthentication: {tokenFile: keys}\nadmin: ~\n")
    given, expected = (
        text.replace("~", str(path)).replace("@", str(tmp_path)) for text in (problem, placed)
    )

    assert expected == SettingsLines(path).of_this_file(given)


def test_file_that_is_gone(tmp_path: Path) -> None:
    """A problem then has no line."""
    path = tmp_path / "settings.yaml"

    assert f"{path}: upstream.url: wrong" == SettingsLines(path).located("upstream.url: wrong")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"upstream: {}\nlogLevel: x\n", True),
        (b"upstream: {}\nkind: x\n", False),
        (b"{}", False),
        (b"", False),
        (b"a: [", False),
        (b"[1]: 2", False),
    ],
)
def test_what_settings_look_like(data: bytes, expected: bool) -> None:
    """A mapping that has settings only."""
    assert expected == is_settings(data)
