"""Which clusters cannot be used, because their settings do not go together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from apfproxy.app.cluster_checks import checked_clusters
from apfproxy.app.settings_checks import contradictions
from apfproxy.settings.file import load_settings

if TYPE_CHECKING:
    from pathlib import Path

GOOD = "upstream: {url: 'http://all'}\nclusters:\n- {name: good, hosts: [good]}\n"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        pytest.param("- {name: a, hosts: [a]}", [], id="good"),
        pytest.param("- {name: a}", ["clusters[a]: needs hosts"], id="refused-before"),
        pytest.param(
            "- {name: a, hosts: [a], authentication: {clientCaFile: a}}",
            ["clusters[a].authentication.clientCaFile (--client-ca-file): needs downstream.tls"],
            id="setting",
        ),
        pytest.param(
            "- {name: a, hosts: [a], upstream: {url: http://a, dns: http://b}}",
            ["clusters[a]: give only one of upstream.url (--upstream) and upstream.dns"],
            id="settings",
        ),
        pytest.param(
            "- {name: a, hosts: [a], tls: {certificateFile: a}}",
            ["clusters[a].tls: certificateFile (", "clusters[a].tls: needs downstream.tls of the"],
            id="certificate-of-its-own",
        ),
        pytest.param(
            "- {name: a, hosts: [a], upstream: {endpoints: [{}]}}",
            ["clusters[a].upstream.endpoints[0]: needs url"],
            id="endpoint",
        ),
        pytest.param(
            "- {name: a, hosts: [a], flowControl: {objects: [x], store: y}}",
            ["clusters[a]: give either flowControl.store", "clusters[a].flowControl.store: is for"],
            id="two-sources",
        ),
    ],
)
def test_what_does_not_go_together(tmp_path: Path, text: str, problems: list[str]) -> None:
    """It refuses the cluster alone, with the line."""
    path = tmp_path / "f"
    path.write_text(f"{GOOD}{text}\n")
    good, cluster = checked_clusters(load_settings(path), path).clusters

    assert (cluster.settings is None) == bool(problems)
    assert len(problems) == len(cluster.problems)
    for expected, problem in zip(problems, cluster.problems, strict=True):
        assert problem.startswith(f"{path}:4: {expected}")
    assert good.settings is not None


def test_without_a_server(tmp_path: Path) -> None:
    """Each cluster needs one, of its own or of the top level."""
    path = tmp_path / "f"
    path.write_text(
        "clusters:\n- {name: a, hosts: [a]}\n- {name: b, hosts: [b], upstream: {dns: http://b}}\n"
    )
    one, two = checked_clusters(load_settings(path), path).clusters
    (problem,) = one.problems

    assert problem.startswith(f"{path}:2: clusters[a].upstream.url: say where to forward")
    assert two.settings is not None


def test_what_clusters_complete(tmp_path: Path) -> None:
    """The top level may have a part; a cluster that does not complete it is refused."""
    path = tmp_path / "f"
    path.write_text(
        "downstream: {tls: {certificateFile: a, keyFile: b, requireClientCertificate: true}}\n"
        "adminTokenFile: t\n"
        "upstream: {identity: impersonate, service: {namespace: x}}\n"
        "flowControl: {kubernetes: {writeStatus: true}}\n"
        "clusters:\n"
        "- name: a\n"
        "  hosts: [a]\n"
        "  upstream: {tokenFile: t, service: {name: y}}\n"
        "  authentication: {clientCaFile: c}\n"
        "  flowControl: {kubernetes: {enabled: true}}\n"
        "- {name: b, hosts: [b], upstream: {url: http://b}, flowControl: {store: s}}\n"
    )
    settings = load_settings(path)
    one, two = checked_clusters(settings, path).clusters

    assert [] == contradictions(settings)
    assert one.problems == ()
    assert [
        "clusters[b].flowControl.kubernetes.writeStatus (--write-status) needs flowControl",
        "clusters[b]: downstream.tls.requireClientCertificate: needs authentication",
        "clusters[b].upstream.identity: impersonate needs upstream",
        (
            "clusters[b].flowControl.store: is for one cluster alone; name flowControl.objects or"
            " flowControl.kubernetes"
        ),
    ] == [re.sub(r"(needs \w+).*", r"\1", each).partition(":11: ")[2] for each in two.problems]


def test_what_the_whole_proxy_lacks(tmp_path: Path) -> None:
    """It refuses the file: a certificate without its key, a token for writing without a store."""
    path = tmp_path / "f"
    path.write_text(f"{GOOD}downstream: {{tls: {{keyFile: b}}}}\nadminTokenFile: t\n")

    assert ["adminTokenFile (--admin-token-file)", "downstream.tls"] == [
        re.split(": | needs", each)[0] for each in contradictions(load_settings(path))
    ]


def test_stores(tmp_path: Path) -> None:
    """A cluster among several has none, since there is one API to edit one with."""
    path = tmp_path / "f"
    path.write_text(f"{GOOD}- {{name: a, hosts: [a], flowControl: {{store: s}}}}\n")
    _, one = checked_clusters(load_settings(path), path).clusters

    assert one.settings is None
    assert [f"{path}:4: clusters[a].flowControl.store"] == [
        each.partition(": is")[0] for each in one.problems
    ]
