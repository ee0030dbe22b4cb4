"""Pods of rendered manifests, whose containers run as processes of this machine.

A process gets its container's command, its arguments and the files of its volumes.  Nothing is
changed but what another machine has: the directory below which paths lie, the addresses to listen
on, and the programs.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.config.expressions import CONFIG
from tests.end_to_end.kubectl import find_kubectl, minor_version
from tests.end_to_end.served import Served

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

Manifests = dict[tuple[str, str], dict[str, Any]]

FOLDER = CONFIG / "kubernetes"
MONITORED = """
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: apfproxy
resources: [{folder}/{name}]
components: [{folder}/monitoring]
labels: [{{pairs: {{release: site}}}}]
"""
OLDEST = 27
"""From this minor version on kubectl has kustomize 5."""
PROXY = "apfproxy"
"""The container of the proxy."""


def rendered(directory: Path) -> Manifests:
    """Kind and name to object, as `kubectl apply -k` applies them; skips with an old kubectl."""
    kubectl = find_kubectl()
    if minor_version(kubectl, directory) < OLDEST:
        pytest.skip(f"the manifests are for kubectl 1.{OLDEST} and later")
    done = subprocess.run(  # noqa: S603  kubectl
        [kubectl, "kustomize", str(directory)], capture_output=True, check=True
    )
    objects = list(yaml.safe_load_all(done.stdout))
    found = {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}
    assert len(found) == len(objects)
    return found


def with_monitoring(name: str, directory: Path) -> Manifests:
    """A deployment with the component for the Prometheus operator, by way of an empty directory."""
    relative = os.path.relpath(FOLDER, directory.resolve())
    (directory / "kustomization.yaml").write_text(MONITORED.format(folder=relative, name=name))
    return rendered(directory)


def of_kind(manifests: Manifests, kind: str) -> dict[str, Any]:
    (found,) = [obj for (other, _), obj in manifests.items() if other == kind]
    return found


def template_of(manifests: Manifests) -> dict[str, Any]:
    if any(kind == "Pod" for kind, _ in manifests):
        return of_kind(manifests, "Pod")
    template: dict[str, Any] = of_kind(manifests, "Deployment")["spec"]["template"]
    return template


def containers_of(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Containers in the order in which they start: sidecars first."""
    sidecars = pod["spec"].get("initContainers", [])
    return {each["name"]: each for each in (*sidecars, *pod["spec"]["containers"])}


class Pod:
    """A pod of the manifests, with its files below a directory.

    `addresses` replace texts in arguments and files.  `others` are the files of Secrets and
    ConfigMaps that are not among the manifests, by name, and those of the machine, by path.
    """

    def __init__(
        self,
        manifests: Manifests,
        directory: Path,
        addresses: Mapping[str, str],
        others: Mapping[str, Mapping[str, bytes]] | None = None,
    ) -> None:
        self.template = template_of(manifests)
        self.containers = containers_of(self.template)
        self._manifests = manifests
        self._directory = directory
        self._addresses = addresses
        self._others = others or {}
        self._volumes = {each["name"]: each for each in self.template["spec"].get("volumes", [])}

    def arguments(self, name: str) -> list[str]:
        """The command line of a container, after its files were laid out."""
        container = self.containers[name]
        for mount in container.get("volumeMounts", []):
            self._lay_out(mount)
        program = container.get("command", [sys.executable, "-m", "apfproxy"])
        words = [*program, *container.get("args", [])]
        return [self._here(word) for word in words]

    @contextlib.contextmanager
    def running(self, name: str) -> Iterator[Served]:
        """Run a container's process, and kill it at the end if it is still there."""
        arguments = self.arguments(name)
        if arguments[0].startswith("python"):
            arguments[0] = sys.executable
        with subprocess.Popen(  # noqa: S603 - what the manifests name
            arguments,
            cwd=self._directory,
            env=os.environ | self._variables(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield Served(process)
            finally:
                process.kill()

    def stop_hook(self, name: str, served: Served) -> None:
        """Run the command before a container's end; its process has the number 1 there."""
        command = self.containers[name]["lifecycle"]["preStop"]["exec"]["command"]
        words = [re.sub(r"\b1\b", str(served.process.pid), word) for word in command]
        subprocess.run(words, check=True)  # noqa: S603 - what the manifests name

    def _variables(self) -> dict[str, str]:
        found = {}
        for (kind, name), service in self._manifests.items():
            if kind == "Service" and service["spec"].get("clusterIP") != "None":
                prefix = name.upper().replace("-", "_")
                for port in service["spec"]["ports"]:
                    found[f"{prefix}_SERVICE_HOST"] = "10.96.0.7"
                    found[f"{prefix}_SERVICE_PORT"] = str(port["port"])
                    found[f"{prefix}_SERVICE_PORT_{port['name'].upper()}"] = str(port["port"])
                    found[f"{prefix}_PORT"] = f"tcp://10.96.0.7:{port['port']}"
                    found[f"{prefix}_PORT_{port['port']}_TCP_ADDR"] = "10.96.0.7"
        return found

    def _here(self, text: str) -> str:
        text = re.sub("(^|=)/etc/", rf"\1{self._directory}/etc/", text)
        for there, here in self._addresses.items():
            text = text.replace(there, here)
        return text

    def _lay_out(self, mount: dict[str, Any]) -> None:
        volume, path = self._volumes[mount["name"]], self._directory / mount["mountPath"][1:]
        if volume.get("hostPath", {}).get("type") == "File":
            path = path.parent
        path.mkdir(parents=True, exist_ok=True)
        sources = volume["projected"]["sources"] if "projected" in volume else [volume]
        for source in sources:
            for name, content in self._files(source).items():
                assert not (path / name).exists(), f"two sources of {mount['name']} have {name}"
                (path / name).write_bytes(self._here(content.decode()).encode())

    def _files(self, source: dict[str, Any]) -> Mapping[str, bytes]:
        if "serviceAccountToken" in source:
            return {source["serviceAccountToken"]["path"]: b"token"}
        if "hostPath" in source:
            return self._others[source["hostPath"]["path"]]
        kind = "configMap" if "configMap" in source else "secret"
        named = source[kind]
        name = named.get("name") or named["secretName"]
        if name in self._others:
            return self._others[name]
        found = self._manifests.get((f"{kind[0].upper()}{kind[1:]}", name))
        if found is None:
            assert named.get("optional"), f"there is no {kind} {name}"
            return {}
        if kind == "configMap":
            return {key: text.encode() for key, text in found["data"].items()}
        return {key: base64.b64decode(text) for key, text in found["data"].items()}
