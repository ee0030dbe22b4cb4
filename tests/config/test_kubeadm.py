"""`init kube-apiserver` before a server of kubeadm, by kubeadm's documented rules.

kubeadm rewrites the manifest at each upgrade, from the ClusterConfiguration that it keeps in the
cluster: its arguments with `apiServer.extraArgs` over them, probes of the advertised address, then
the patches of a directory that it is told each time.  It leaves other files alone.
"""

from __future__ import annotations

import re
import stat
import subprocess
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from apfproxy.cli.main import main
from tests.end_to_end.kubectl import find_kubectl

if TYPE_CHECKING:
    from pathlib import Path

PATCH = re.compile(
    r"(etcd|kube-apiserver|kube-controller-manager|kube-scheduler)"
    r"([^.+\n]*)(?:\+(json|merge|strategic))?\.(json|yaml)"
)
"""A file of patches: target, suffix, type, extension."""
CLUSTER = """
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
apiServer:
  certSANs: [cluster.example]
controlPlaneEndpoint: cluster.example:6443
kubernetesVersion: v1.35.0
"""
VERSIONS = ("v1.35.0", "v1.36.2")


@pytest.fixture
def starter(tmp_path: Path) -> Path:
    assert 0 == main(["init", "kube-apiserver", str(tmp_path)])
    return tmp_path


@pytest.fixture
def cluster(starter: Path) -> dict[str, Any]:
    """The cluster's configuration after its change as README.md says."""
    (snippet,) = re.findall(r"```yaml\n(.*?)```", (starter / "README.md").read_text(), re.DOTALL)
    found: dict[str, Any] = yaml.safe_load(CLUSTER)
    found["apiServer"] |= yaml.safe_load(textwrap.dedent(snippet))["apiServer"]
    return found


def machine(starter: Path) -> dict[str, Any]:
    found: dict[str, Any] = next(yaml.safe_load_all((starter / "kubeadm.yaml").read_text()))
    return found


def manifest(cluster: dict[str, Any], endpoint: dict[str, Any], version: str) -> dict[str, Any]:
    address, port = endpoint["advertiseAddress"], endpoint["bindPort"]
    arguments = {"advertise-address": address, "secure-port": str(port)}
    arguments |= {each["name"]: each["value"] for each in cluster["apiServer"]["extraArgs"]}
    words = [f"--{name}={value}" for name, value in sorted(arguments.items())]

    def probe(path: str) -> dict[str, Any]:
        return {"httpGet": {"host": address, "path": path, "port": port, "scheme": "HTTPS"}}

    container = {
        "name": "kube-apiserver",
        "image": f"registry.k8s.io/kube-apiserver:{version}",
        "command": ["kube-apiserver", *words],
        "livenessProbe": probe("/livez"),
        "readinessProbe": probe("/readyz"),
        "startupProbe": probe("/livez"),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "kube-apiserver", "namespace": "kube-system"},
        "spec": {"hostNetwork": True, "containers": [container]},
    }


def patched(pod: dict[str, Any], patches: Path, folder: Path) -> dict[str, Any]:
    """The manifest with the patches of a directory, by kubectl, whose forms kubeadm's are."""
    path = folder / "kube-apiserver.yaml"
    for patch in sorted(patches.iterdir()):
        found = PATCH.fullmatch(patch.name)
        assert found is not None, f"kubeadm ignores {patch.name}"
        if found[1] != pod["metadata"]["name"]:
            continue
        path.write_text(yaml.safe_dump(pod))
        done = subprocess.run(  # noqa: S603  kubectl
            [
                *(find_kubectl(), "patch", "--local", "-f", str(path), "-o", "yaml"),
                *("--type", found[3] or "strategic", "--patch", patch.read_text()),
            ],
            capture_output=True,
            check=True,
        )
        pod = yaml.safe_load(done.stdout)
    return pod


def probes(container: dict[str, Any]) -> set[str]:
    names = ("livenessProbe", "readinessProbe", "startupProbe")
    return {container[name]["httpGet"]["host"] for name in names}


@pytest.mark.e2e
def test_upgrades(starter: Path, cluster: dict[str, Any], tmp_path_factory: Any) -> None:  # noqa: ANN401
    """The first manifest and that of each upgrade leave the address to the proxy.

    Its own probes ask the server, with all that they had; an argument of the cluster's stays.
    """
    endpoint = machine(starter)["localAPIEndpoint"]
    assert "/etc/kubernetes/apfproxy/patches" == machine(starter)["patches"]["directory"]
    for version in VERSIONS:
        before = manifest(cluster, endpoint, version)
        after = patched(before, starter / "patches", tmp_path_factory.mktemp("manifests"))
        (had,), (container,) = before["spec"]["containers"], after["spec"]["containers"]

        assert had["command"] == container["command"]
        assert "--bind-address=127.0.0.1" in container["command"]
        assert {"127.0.0.1"} == probes(container)
        for name in ("livenessProbe", "readinessProbe", "startupProbe"):
            assert had[name]["httpGet"] | {"host": "127.0.0.1"} == container[name]["httpGet"]


KUBECTL = """#!/bin/sh
echo "$@" >> "$0.calls"
test ! -e "$0.fails" && echo a-token
"""


@pytest.mark.e2e
def test_renewed_token(starter: Path, tmp_path: Path) -> None:
    """The script replaces the file that the settings name, for no one else to read.

    If there is no new one, the old one stays.
    """
    named = yaml.safe_load((starter / "apfproxy.yaml").read_text())["upstream"]["tokenFile"]
    script, kubectl = starter / "renew-token", tmp_path / "bin" / "kubectl"
    script.write_text(script.read_text().replace("/etc/kubernetes/apfproxy", str(starter)))
    kubectl.parent.mkdir()
    kubectl.write_text(KUBECTL)
    kubectl.chmod(0o755)
    environment = {"PATH": f"{kubectl.parent}:/usr/bin:/bin"}
    first = subprocess.run(["/bin/sh", str(script)], env=environment, check=False)  # noqa: S603
    (tmp_path / "bin" / "kubectl.fails").touch()
    second = subprocess.run(["/bin/sh", str(script)], env=environment, check=False)  # noqa: S603

    assert 0 == first.returncode != second.returncode
    assert "a-token\n" == (starter / named).read_text()
    assert 0o600 == stat.S_IMODE((starter / named).stat().st_mode)
    assert "create token apfproxy" in kubectl.with_name("kubectl.calls").read_text()
