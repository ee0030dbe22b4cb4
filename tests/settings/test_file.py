"""The settings file: values, what is wrong, and clusters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from apfproxy.settings import (
    OF_A_CLUSTER,
    UNSAID,
    Address,
    ClusterSettings,
    DownstreamSettings,
    EndpointAddress,
    EndpointSettings,
    FlowControlSettings,
    LongRunningSettings,
    RequestSettings,
    ServiceSettings,
    Settings,
    UpstreamSettings,
)
from apfproxy.settings.file import (
    MAX_FILE_BYTES,
    SettingsError,
    is_settings,
    load_settings,
    parse_settings,
    setting_paths,
)
from tests.settings.cases import cases, shortened

ANNOTATED = Path(__file__).parents[2] / "config" / "apfproxy.yaml"


def problems_of(text: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        parse_settings(text.encode(), "f")
    return caught.value.problems


def paths_in(node: object, prefix: str = "") -> list[str]:
    if not isinstance(node, dict):
        return [prefix.removesuffix(".")]
    return [path for key, value in node.items() for path in paths_in(value, f"{prefix}{key}.")]


def test_annotated_file() -> None:
    """It has every setting in the order of the records, as it is when no one sets it.

    It has an example of the one without a default.
    """
    settings = load_settings(ANNOTATED)
    upstream = replace(settings.upstream, url=UNSAID)
    assert Settings() == replace(settings, upstream=upstream)
    assert settings.upstream.url != UNSAID
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


def test_values() -> None:
    text = """
downstream: {listen: "[::1]:9000", headTimeout: 1m, maxHeadBytes: 32KiB, socketMode: 0600}
upstream: {url: null, endpoints: [{url: "https://[::1]"}], service: {port: 6443}}
flowControl: {objects: [a, b], suggestedObjects: off, hashSeed: 42}
admin: null
"""
    assert Settings(
        downstream=DownstreamSettings(
            listen=Address(host="::1", port=9000),
            head_timeout_s=60.0,
            max_head_bytes=32768,
            socket_mode=0o600,
        ),
        upstream=UpstreamSettings(
            endpoints=(EndpointSettings(url=Address(host="::1", port=443, is_tls=True)),),
            service=ServiceSettings(port="6443"),
        ),
        flow_control=FlowControlSettings(objects=("a", "b"), suggested_objects=False, hash_seed=42),
        admin=None,
    ) == parse_settings(text.encode(), "f")


KNOWN = (
    "known at the top: preset, request, downstream, upstream, authentication, tunnel, watch, drain,"
    " flowControl, fleet, accessLog, tracing, topFlows, workers, admin, adminSocketMode, adminTls,"
    " adminReadTokenFile, adminTokenFile, metrics, logLevel, logFormat, clusters"
)


CASES = """
downstream:
  headTimout: 1s
> 2: downstream.headTimout: unknown key; did you mean headTimeout?
watch: {qqq: 1}
> 1: watch.qqq: unknown key; known in watch: silence, limit, bookmarkLimit
watch: {enabled: true}
> 1: watch.enabled: unknown key; known in watch: silence, limit, bookmarkLimit
drain: {address: a}
> 1: drain.address: unknown key; known in drain: shutdownDelay, idleGrace, timeout
upstream: {headTimeout: 1s}
> 1: upstream.headTimeout: unknown key; did you mean downstream.headTimeout?
serverconcurrencylimit: 1
> 1: serverconcurrencylimit: unknown key; did you mean flowControl.serverConcurrencyLimit?
downstream: {certificateFile: a.crt}
> 1: downstream.certificateFile: unknown key; did you mean downstream.tls.certificateFile?
upstream: {probeInterval: 1s}
> 1: upstream.probeInterval: unknown key; it is upstream.healthCheck.interval by now
watch: {limit: 1s, limit: 2s}
> 1: watch.limit: given twice; keep one
[]
> 1: expected a mapping of settings (preset, request, downstream, ...), not a list
watch: 3
> 1: watch: expected a mapping of settings (silence, limit, bookmarkLimit), not '3'
watch: {limit: [1s]}
> 1: watch.limit: expected a duration such as 32s, 500ms or 1m30s, not a list
watch: {limit: null}
> 1: watch.limit: expected a duration such as 32s, 500ms or 1m30s, not nothing
upstream: {url: {}}
> 1: upstream.url: expected a URL such as http://127.0.0.1:8000, not a mapping
upstream: {endpoints: ['http://a']}
> 1: upstream.endpoints[0]: expected a mapping of settings (url, weight), not 'http://a'
downstream: {identityHeadersFrom: 10.0.0.0/8}
> 1: downstream.identityHeadersFrom: expected a list such as [10.0.0.0/8], not '10.0.0.0/8'
downstream: {listen: 8080}
> 1: downstream.listen: expected HOST:PORT in quotes, such as "127.0.0.1:8080", not '8080'
downstream: {maxHeaderFields: "4"}
> 1: downstream.maxHeaderFields: expected a whole number in decimal digits, such as 100, not...
downstream: {proxyProtocol: 'true'}
> 1: downstream.proxyProtocol: expected true or false, not 'true'; leave the quotes out: true
upstream: {tls: {serverName: yes}}
> 1: upstream.tls.serverName: expected a text, not 'yes'; put it in quotes: "yes"
upstream: {tokenFile: ""}
> 1: upstream.tokenFile: expected a text, not an empty one; leave the key out for the default
flowControl: {suggestedObjects: !!bool maybe}
> 1: flowControl.suggestedObjects: expected true or false, not 'maybe'
flowControl: {suggestedObjects: 1}
> 1: flowControl.suggestedObjects: expected true or false, not '1'
watch: {limit: 10}
> 1: watch.limit: expected a duration such as 32s, 500ms or 1m30s, not '10'; write 10s for seconds
watch: {limit: 0s}
> 1: watch.limit: must be at least 1ms, not 0s
downstream: {maxHeadBytes: 1GiB}
> 1: downstream.maxHeadBytes: must be at most 16777216, not 1073741824
downstream: {http2: {goawayChance: 0.5}}
> 1: downstream.http2.goawayChance: must be at most 0.02, not 0.5
downstream: {http2: {goawayChance: 1e-3}}
> 1: downstream.http2.goawayChance: expected a number such as 0.02, not '1e-3'
downstream: {http2: {goawayChance: .5}}
> 1: downstream.http2.goawayChance: expected a number such as 0.02, not '.5'
downstream: {maxHeaderFields: many}
> 1: downstream.maxHeaderFields: expected a whole number in decimal digits, such as 100, not...
downstream: {maxHeaderFields: 0x10}
> 1: downstream.maxHeaderFields: expected a whole number in decimal digits, such as 100, not...
downstream: {identityHeadersFrom: [10.0.0.1/8]}
> 1: downstream.identityHeadersFrom: '10.0.0.1/8' has bits set to the right of its prefix...
logLevel: loud
> 1: logLevel: expected one of debug, info, warning, error, not 'loud'
logLevel: WARN
> 1: logLevel: expected one of debug, info, warning, error, not 'WARN'; did you mean warning?
admin: none
> 1: admin: expected HOST:PORT in quotes, such as "127.0.0.1:8080", or null for none, not 'none'
downstream: {limits: {maxConnections: off}}
> 1: downstream.limits.maxConnections: expected a whole number in decimal digits, such as 100, or...
listen: ':8080'
> 1: listen: unknown key; did you mean downstream.listen?
address: a
> 1: address: unknown key; known at the top: preset, request, downstream, upstream...
flowControl: {enforcement: yes}
> 1: flowControl.enforcement: expected one of enforce, observe, not 'yes'
upstream: {service: {scheme: [http]}}
> 1: upstream.service.scheme: expected one of http, https, not a list
upstream:
  endpoints:
  - url: 'http://a'
    weight: 0
> 4: upstream.endpoints[0].weight: must be at least 1, not 0
upstream: {service: {port: 0}}
> 1: upstream.service.port: expected the name of a port, or its number from 1 to 65535, not '0'
clusters: a
> 1: clusters: expected a list of at most 1000 clusters, not 'a'
a: b: c
> 1: not YAML: mapping values are not allowed here
a: &a [*a]
> 1: alias *a is within what it stands for
"""
"""Settings, and behind `>` what is wrong with them, with its line."""


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        *cases(CASES),
        ("head_timeout: 1s", [f"1: head_timeout: unknown key; {KNOWN}"]),
        ("? [a]\n: 1", [f"1: ?: unknown key; {KNOWN}"]),
        (
            'adminTokenFile: "a\\0b"',
            ["1: adminTokenFile: has a character that no text has: 'a\\x00b'"],
        ),
        (
            'flowControl: {objects: ["\\ud800"]}',
            ["1: flowControl.objects: has a character that no text has: '\\ud800'"],
        ),
        ("a: \x00", [" not YAML: unacceptable character #x0000..."]),
        ("[" * 1500, ["1: nested too deeply"]),
        (
            json.dumps({"clusters": [{}] * 1001}),
            ["1: clusters: expected a list of at most 1000 clusters, not 1001"],
        ),
    ],
)
def test_problems(text: str, problems: list[str]) -> None:
    found = [each.removeprefix("f:") for each in problems_of(text)]
    assert problems == shortened(found, problems)


def test_all_problems_are_reported() -> None:
    """One run shows every problem, in the order of the lines; those of clusters come last."""
    text = "foo: 1\nwatch:\n  limit: x\n  silence: y\nclusters: [{name: a}]\nlogLevel: loud\n"
    assert ["f:1", "f:3", "f:4", "f:6", "f:5"] == [
        ":".join(problem.split(":")[:2]) for problem in problems_of(text)
    ]


@pytest.mark.parametrize("text", ["", "# nothing\n", "downstream:\n", "---\n", "clusters: ~"])
def test_nothing_gives_the_defaults(text: str) -> None:
    assert Settings() == parse_settings(text.encode(), "f")


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


@pytest.mark.parametrize(("text", "expected"), [("a.log", "{}/a.log"), ('"-"', "-"), ("", None)])
def test_paths_are_relative_to_the_file(tmp_path: Path, text: str, expected: str | None) -> None:
    """They are found wherever the process was started; the log may be standard output."""
    path = tmp_path / "settings.yaml"
    path.write_text(f"flowControl: {{objects: [a.yaml, /etc/b]}}\naccessLog: {{path: {text}}}")
    settings = load_settings(path)
    assert (str(tmp_path / "a.yaml"), "/etc/b") == settings.flow_control.objects
    assert settings.access_log.path == (expected and expected.format(tmp_path))


@pytest.mark.parametrize(
    ("size", "problem"),
    [
        (None, "No such file or directory"),
        (MAX_FILE_BYTES + 1, "larger than 1048576 bytes; is it the right file?"),
    ],
)
def test_unreadable_files(tmp_path: Path, size: int | None, problem: str) -> None:
    path = tmp_path / "settings.yaml"
    if size is not None:
        path.write_bytes(b"#" * size)
    with pytest.raises(SettingsError) as caught:
        load_settings(path)
    assert (f"{path}: {problem}",) == caught.value.problems


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
    assert expected == is_settings(data)


# ------------------------------------------------------------------ records

ONE, TWO = Address(host="a", port=1), Address(host="b", port=2, is_tls=True)
ENDPOINTS = (EndpointSettings(url=ONE, weight=3), EndpointSettings(url=TWO))


def service(host: str, at: int, /, **settings: str) -> tuple[UpstreamSettings, Address, tuple[()]]:
    is_tls = settings.get("scheme") != "http"
    address = Address(host=host, port=at, is_tls=is_tls)
    return UpstreamSettings(service=ServiceSettings(**settings)), address, ()


@pytest.mark.parametrize(
    ("upstream", "address", "addresses"),
    [
        (UpstreamSettings(), UNSAID, ()),
        (UpstreamSettings(url=ONE), ONE, (EndpointAddress(address=ONE),)),
        (
            UpstreamSettings(endpoints=ENDPOINTS),
            ONE,
            (EndpointAddress(address=ONE, weight=3), EndpointAddress(address=TWO)),
        ),
        (UpstreamSettings(dns=TWO), TWO, ()),
        service("kubernetes.default.svc", 443, name="kubernetes"),
        service("b.a.svc", 80, namespace="a", name="b", scheme="http"),
        service("b.default.svc", 443, name="b", port="https"),
        service("b.default.svc", 6443, name="b", port="6443"),
    ],
)
def test_where_the_servers_are(
    upstream: UpstreamSettings, address: Address, addresses: tuple[EndpointAddress, ...]
) -> None:
    """One address stands for all of them; the endpoints are known where settings name them."""
    assert (address, addresses) == (upstream.address, upstream.addresses)


# ------------------------------------------------------------------ clusters

TOP = """
downstream:
  headTimeout: 5s
  tls: {certificateFile: all.crt, keyFile: all.key}
upstream:
  url: http://all
  maxConnections: 7
  tls: {serverName: all}
flowControl:
  serverConcurrencyLimit: 8
watch: {limit: 9s}
"""


def read(text: str, top: str = TOP) -> tuple[ClusterSettings, ...]:
    """The clusters of a file `f` with these lines behind those of the top level."""
    return parse_settings(f"{top}clusters:\n{text}".encode(), "f", Path("/d")).clusters


def whole(cluster: ClusterSettings) -> Settings:
    assert cluster.problems == ()
    assert cluster.settings is not None
    return cluster.settings


def test_what_it_does_not_name() -> None:
    """It has all settings of the top level, wherever these stand, and no clusters of its own."""
    item = "{name: a, hosts: [A.example., '*.B.example', '[::0001]']}"
    (cluster,) = read(f"- {item}\n")
    top = parse_settings(TOP.encode(), "f", Path("/d"))
    later = parse_settings(f"clusters: [{item}]\n{TOP}".encode(), "f", Path("/d"))

    assert top == whole(cluster)
    assert (
        ClusterSettings(name="a", hosts=("a.example", "*.b.example", "::1"), settings=top)
        == cluster
    )
    assert (cluster,) == later.clusters


def test_what_it_names() -> None:
    """A setting replaces that of the top level; those beside it stay."""
    cluster, other = read(
        """
- name: a
  pathPrefix: /clusters/a
  maxConnections: 3
  tls: {certificateFile: a.crt, keyFile: /a.key}
  preset: http
  request: {longRunning: {pathPrefixes: [/events]}}
  upstream:
    endpoints: [{url: http://b}, {url: http://c, weight: 2}]
    tls: {caFile: ca.crt}
  authentication: {tokenFile: tokens}
  tunnel: {idleTimeout: 1s}
  watch: {silence: 2s}
  flowControl: {perEndpoint: 4, objects: [a]}
- name: b
  hosts: [b]
  upstream: ~
  flowControl:
"""
    )
    settings, top = whole(cluster), whole(other)

    assert ("a", (), "/clusters/a", 3) == (
        cluster.name,
        cluster.hosts,
        cluster.path_prefix,
        cluster.max_connections,
    )
    assert settings == replace(
        top,
        preset="http",
        request=RequestSettings(long_running=LongRunningSettings(path_prefixes=("/events",))),
        downstream=replace(
            top.downstream,
            tls=replace(top.downstream.tls, certificate_file="/d/a.crt", key_file="/a.key"),
        ),
        upstream=replace(
            top.upstream,
            url=UpstreamSettings().url,
            endpoints=(
                EndpointSettings(url=Address(host="b", port=80)),
                EndpointSettings(url=Address(host="c", port=80), weight=2),
            ),
            tls=replace(top.upstream.tls, ca_file="/d/ca.crt"),
        ),
        authentication=replace(top.authentication, token_file="/d/tokens"),  # noqa: S106 - a path
        tunnel=replace(top.tunnel, idle_timeout_s=1.0),
        watch=replace(top.watch, silence_s=2.0),
        flow_control=replace(
            top.flow_control, server_concurrency_limit=600, per_endpoint=4, objects=("/d/a",)
        ),
    )
    assert top == parse_settings(TOP.encode(), "f", Path("/d"))
    assert all(getattr(settings, name) != getattr(top, name) for name in OF_A_CLUSTER)


REFUSED = """
{hosts: [a]}
> clusters[0]: needs name
~
> clusters[0]: needs name
> clusters[0]: needs hosts or pathPrefix, which say what requests are for it
{name: a}
> clusters[a]: needs hosts or pathPrefix, which say what requests are for it
{name: a, hosts: []}
> clusters[a]: needs hosts or pathPrefix, which say what requests are for it
{name: A, hosts: [a]}
> clusters[0].name: expected a DNS label, of at most 63 lower-case letters, digits and hyphens...
{name: a, hosts: ['a:80']}
> clusters[a].hosts: expected a host without a port, such as a.example, *.example or...
{name: a, pathPrefix: a}
> clusters[a].pathPrefix: expected the begin of a path, such as /clusters/a: without / at its end...
{name: a, hosts: [a], maxConnections: 0}
> clusters[a].maxConnections: must be at least 1, not 0
{name: a, hosts: [a], upstream: {urll: b}}
> clusters[a].upstream.urll: unknown key; did you mean url?
{name: a, hosts: [a], upstream: {address: 'http://a'}}
> clusters[a].upstream.address: unknown key; known in clusters[a].upstream: url, endpoints...
{name: a, hosts: [a], hostz: [b]}
> clusters[a].hostz: unknown key; did you mean hosts?
{name: a, hosts: [a], downstream: []}
> clusters[a].downstream: unknown key of a cluster; it is of the whole proxy, so set it at the top
{name: a, hosts: [a], clusters: []}
> clusters[a].clusters: unknown key of a cluster; it is of the whole proxy, so set it at the top
a
> clusters[0]: expected a mapping of settings (name, hosts, pathPrefix, ...), not 'a'
"""


@pytest.mark.parametrize(("text", "problems"), [*cases(REFUSED)])
def test_what_is_refused_alone(text: str, problems: list[str]) -> None:
    """A cluster that cannot be used says so with its line; the others serve."""
    bad, other = read(f"- {text}- {{name: good, hosts: [good]}}", top="")
    found = [each.removeprefix("f:2: ") for each in bad.problems]
    assert problems == shortened(found, problems)
    assert bad.settings is None
    assert "good" == other.name
    whole(other)


def test_clashes() -> None:
    clusters = read(
        """
- {name: a, hosts: [x, y]}
- {name: b, hosts: [Y, z, z]}
- {name: b, hosts: [v]}
- {name: c, hosts: [y], pathPrefix: /p}
- {name: d, pathPrefix: /p}
- {name: e, pathPrefix: /p}
- {name: f, hosts: [y], pathPrefix: /p}
- {name: "3", hosts: ["*.y"]}
- {name: g, hosts: ["z"]}
""",
        top="",
    )

    assert [
        ("a", ("x", "y"), None, ()),
        ("b", ("z",), None, ("f:4: clusters[b]: the host y is of the cluster a already",)),
        (
            *("#2", ("v",), None),
            ("f:5: clusters[2]: another cluster has the name b; choose another one",),
        ),
        ("c", ("y",), "/p", ()),
        ("d", (), "/p", ()),
        ("e", (), None, ("f:8: clusters[e]: the prefix /p is of the cluster d already",)),
        (
            *("f", (), None),
            ("f:9: clusters[f]: the host y with the prefix /p is of the cluster c already",),
        ),
        ("3", ("*.y",), None, ()),
        ("g", (), None, ("f:11: clusters[g]: the host z is of the cluster b already",)),
    ] == [(each.name, each.hosts, each.path_prefix, each.problems) for each in clusters]


@pytest.mark.parametrize(
    ("text", "hosts", "prefix"),
    [
        ("hosts: [a, 'b:1', c]", ("a", "c"), None),
        ("hosts: [a], pathPrefix: /a, watch: 3", ("a",), "/a"),
        ("hosts: ['b:1'], pathPrefix: /a", (), None),
        ("hosts: [a], pathPrefix: a", (), None),
    ],
)
def test_what_a_refused_cluster_keeps(text: str, hosts: tuple[str, ...], prefix: str) -> None:
    (cluster,) = read(f"- {{name: a, {text}}}\n")
    assert cluster.problems
    assert (hosts, prefix) == (cluster.hosts, cluster.path_prefix)
