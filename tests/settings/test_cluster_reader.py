"""The section `clusters` of a settings file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from apfproxy.settings import (
    OF_A_CLUSTER,
    Address,
    ClusterSettings,
    EndpointSettings,
    LongRunningSettings,
    RequestSettings,
    Settings,
    UpstreamSettings,
)
from apfproxy.settings.file import SettingsError, parse_settings

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
    """Its settings, which can be used."""
    assert cluster.problems == ()
    assert cluster.settings is not None
    return cluster.settings


@pytest.mark.parametrize("text", ["", "clusters:", "clusters: []", "clusters: ~"])
def test_none(text: str) -> None:
    """Then the proxy has one, without a name."""
    assert () == parse_settings(text.encode(), "f").clusters


def test_what_it_does_not_name() -> None:
    """It has all settings of the top level, and no clusters of its own."""
    (cluster,) = read("- {name: a, hosts: [A.example., '*.B.example', '[::0001]']}\n")
    top = parse_settings(TOP.encode(), "f", Path("/d"))

    assert top == whole(cluster)
    assert (
        ClusterSettings(name="a", hosts=("a.example", "*.b.example", "::1"), settings=top)
        == cluster
    )


def test_the_top_level_may_come_later() -> None:
    """The order of a file's keys means nothing."""
    text = f"clusters: [{{name: a, hosts: [a]}}]\n{TOP}"

    assert (
        parse_settings(text.encode(), "f").clusters
        == parse_settings(f"{TOP}clusters: [{{name: a, hosts: [a]}}]\n".encode(), "f").clusters
    )


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


def test_what_wins_over_the_file() -> None:
    """It is of the top level: a cluster has it where it does not say otherwise itself."""
    text = f"{TOP}clusters: [{{name: a, hosts: [a]}}, {{name: b, hosts: [b], preset: kubernetes}}]"
    settings = parse_settings(
        text.encode(), "f", over=lambda settings: replace(settings, preset="http")
    )

    assert ["http", "kubernetes"] == [whole(each).preset for each in settings.clusters]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("- {hosts: [a]}", "clusters[0]: needs name", id="no-name"),
        pytest.param("- {name: ~, hosts: [a]}", "clusters[0]: needs name", id="null-name"),
        pytest.param(
            "- {name: A, hosts: [a]}",
            "clusters[0].name: expected a DNS label, of at most 63 lower-case letters, digits and"
            " hyphens between them, not 'A'",
            id="bad-name",
        ),
        pytest.param(
            "- {name: a}",
            "clusters[a]: needs hosts or pathPrefix, which say what requests are for it",
            id="nobody's",
        ),
        pytest.param(
            "- {name: a, hosts: []}",
            "clusters[a]: needs hosts or pathPrefix, which say what requests are for it",
            id="no-host",
        ),
        *(
            pytest.param(
                f"- {{name: a, hosts: ['{host}']}}",
                "clusters[a].hosts: expected a host without a port, such as a.example, *.example or"
                f" 10.0.0.1, not '{host}'",
                id=f"host-{host}",
            )
            for host in ("a:80", "*", "*a", "a.*.b", "*.*.a", "*.", "*.::1", "[a]", "http://a", ".")
        ),
        *(
            pytest.param(
                f"- {{name: a, pathPrefix: '{prefix}'}}",
                "clusters[a].pathPrefix: expected the begin of a path, such as /clusters/a: without"
                f" / at its end, %, ?, and the segments . and .., not '{prefix}'",
                id=f"prefix-{prefix}",
            )
            for prefix in (
                *("a", "/", "/a/", "//a", "/a//b", "/a/.", "/../a", "/./a", "/%41", "/a?b", "/a#b"),
                *("/a b", "/ä"),
            )
        ),
        pytest.param(
            "- {name: a, hosts: [a], maxConnections: 0}",
            "clusters[a].maxConnections: must be at least 1, not 0",
            id="too-few",
        ),
        pytest.param(
            "- {name: a, hosts: [a], upstream: {urll: b}}",
            "clusters[a].upstream.urll: unknown key; did you mean url?",
            id="misspelt",
        ),
        pytest.param(
            "- {name: a, hosts: [a], downstream: {}}",
            "clusters[a].downstream: unknown key of a cluster; it is of the whole proxy, so set it"
            " at the top",
            id="of-the-whole",
        ),
        pytest.param(
            "- {name: a, hosts: [a], clusters: []}",
            "clusters[a].clusters: unknown key of a cluster; it is of the whole proxy, so set it at"
            " the top",
            id="clusters-in-a-cluster",
        ),
        pytest.param(
            "- {name: a, hosts: [a], watch: {limit: 1}}",
            "clusters[a].watch.limit: expected a duration such as 32s, 500ms or 1m30s, not '1';"
            " write 1s for seconds",
            id="value",
        ),
        pytest.param(
            "- a",
            "clusters[0]: expected a mapping of settings, not 'a'",
            id="text",
        ),
    ],
)
def test_what_is_refused_alone(text: str, problem: str) -> None:
    """A cluster that cannot be used says so with its line; the others serve."""
    good = "- {name: good, hosts: [good]}"
    bad, other = read(f"{text}\n{good}", top="")

    assert bad.settings is None
    assert f"f:2: {problem}" in bad.problems
    assert "good" == other.name
    whole(other)


def test_what_is_no_mapping() -> None:
    """Nothing else is wrong with it; null says nothing, so it lacks all."""
    text, nothing = read("- a\n- ~\n", top="")

    assert ("f:2: clusters[0]: expected a mapping of settings, not 'a'",) == text.problems
    assert (
        "f:3: clusters[1]: needs name",
        "f:3: clusters[1]: needs hosts or pathPrefix, which say what requests are for it",
    ) == nothing.problems


def test_clashes() -> None:
    """Of two clusters with the same name, or the same requests, the later is refused."""
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
    """What surely is its own, and nothing that may be others'."""
    (cluster,) = read(f"- {{name: a, {text}}}\n")

    assert cluster.problems
    assert (hosts, prefix) == (cluster.hosts, cluster.path_prefix)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("clusters: a", "f:1: clusters: expected a list, not 'a'"),
        ("clusters: {a: {}}", "f:1: clusters: expected a list, not a mapping"),
        (json.dumps({"clusters": [{}] * 1001}), "f:1: clusters: more than 1000"),
    ],
)
def test_what_is_wrong_for_all(text: str, problem: str) -> None:
    """What is no list of clusters refuses the file."""
    with pytest.raises(SettingsError) as caught:
        parse_settings(text.encode(), "f")

    assert (problem,) == caught.value.problems


def test_all_problems_at_once() -> None:
    """Where the file is refused anyway, those of clusters are named, too."""
    with pytest.raises(SettingsError) as caught:
        parse_settings(b"clusters: [{name: a}]\nlogLevel: loud\n", "f")

    assert ["f:2: logLevel", "f:1: clusters[a]"] == [
        ": ".join(problem.split(": ")[:2]) for problem in caught.value.problems
    ]
