from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import yaml

from apfproxy.cli.init import KINDS
from apfproxy.cli.main import main
from apfproxy.settings import Settings
from apfproxy.settings.contradictions import contradictions
from apfproxy.settings.file import load_settings
from tests.config.manifests import problems_of

if TYPE_CHECKING:
    from pathlib import Path

NO_MODEL = {
    *("Component", "Config", "InitConfiguration", "Kustomization"),
    *("PrometheusRule", "ServiceMonitor"),
}
"""Kinds that the Kubernetes client for Python does not have."""


@pytest.mark.parametrize("kind", KINDS)
def test_settings(tmp_path: Path, kind: str) -> None:
    """The settings go together, and name a server and its seats."""
    assert 0 == main(["init", kind, str(tmp_path / "new" / "directory")])
    settings = load_settings(tmp_path / "new" / "directory" / "apfproxy.yaml")

    assert [] == contradictions(settings)
    assert settings.upstream.address != Settings().upstream.address
    assert "serverConcurrencyLimit:" in (tmp_path / "new/directory/apfproxy.yaml").read_text()


def test_clusters(tmp_path: Path) -> None:
    """Each cluster of the second settings of `gateway` can be used, but for the files it names."""
    assert 0 == main(["init", "gateway", str(tmp_path)])
    settings = load_settings(tmp_path / "clusters.yaml")

    assert [] == contradictions(settings)
    assert {"blue": (), "green": (), "shop": ()} == {
        cluster.name: cluster.problems for cluster in settings.clusters
    }


@pytest.mark.parametrize("kind", KINDS)
def test_manifests(tmp_path: Path, kind: str) -> None:
    """Kubernetes would take the manifests.  What kustomize makes of them has tests of its own."""
    assert 0 == main(["init", kind, str(tmp_path)])
    manifests = [
        manifest
        for path in tmp_path.rglob("*.yaml")
        for manifest in yaml.safe_load_all(path.read_text())
        if manifest and "kind" in manifest and manifest["kind"] not in NO_MODEL
        if path.parent.name not in {"sidecar", "patches"}  # are patches
    ]

    assert manifests
    assert [] == [problem for manifest in manifests for problem in problems_of(manifest)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "image",
    [
        "registry.example/apfproxy:9",
        "registry.example:5000/apfproxy",
        f"apfproxy@sha256:{'0' * 64}",
        f"apfproxy:9.1@sha256:{'0' * 64}",
    ],
)
def test_image(tmp_path: Path, kind: str, image: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The image's name stands in one place, where a flag puts it, and where no change waits."""
    assert 0 == main(["init", kind, str(tmp_path / "before")])
    assert 1 == capsys.readouterr().out.count("the image that you built")
    assert 0 == main(["init", kind, str(tmp_path / "after"), "--image", image])
    assert "the image that you built" not in capsys.readouterr().out
    (named,) = [
        (before, after)
        for path in (tmp_path / "before").rglob("*")
        if path.is_file()
        if (before := path.read_text())
        != (after := (tmp_path / "after" / path.relative_to(tmp_path / "before")).read_text())
    ]
    name, _, digest = image.partition("@")
    name, _, tag = name.partition(":9")

    assert image_of(named[0]) in ("apfproxy:0.1.0", ("apfproxy", "0.1.0", ""))
    assert image_of(named[1]) in (image, (name, f"9{tag}" if ":9" in image else "", digest))


def image_of(manifest: str) -> object:
    """The image of a pod, or name, tag and digest of a kustomization."""
    found = yaml.safe_load(manifest)
    if found["kind"] == "Pod":
        return found["spec"]["containers"][0]["image"]
    (image,) = found["images"]
    return image["newName"], image.get("newTag", ""), image.get("digest", "")


def test_no_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong name of an image is wrong usage, and nothing is written."""
    assert 2 == main(["init", "http", str(tmp_path), "--image", "a: b"])
    assert "'a: b' is not NAME" in capsys.readouterr().err
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_readme(tmp_path: Path, kind: str) -> None:
    """README.md names every file or directory that is there, and its links and files exist."""
    assert 0 == main(["init", kind, str(tmp_path)])
    readme = (tmp_path / "README.md").read_text()

    for path in tmp_path.iterdir():
        assert f"`{path.name}" in readme or path.name == "README.md"
    for name in re.findall(r"^\| `([\w./-]+)` \|", readme, re.MULTILINE):
        assert (tmp_path / name).exists()


def test_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each place that the user has to change is listed with its line."""
    assert 0 == main(["init", "kube-apiserver", str(tmp_path)])
    found = re.search(r"apfproxy\.yaml:(\d+): this machine's address", capsys.readouterr().out)

    assert found is not None
    line = (tmp_path / "apfproxy.yaml").read_text().splitlines()[int(found[1]) - 1]
    assert "listen:" in line


def test_static_pod_mounts_what_is_named(tmp_path: Path) -> None:
    """The pod sees those of the cluster's keys that its settings name; no token is mounted."""
    assert 0 == main(["init", "kube-apiserver", str(tmp_path)])
    pod = yaml.safe_load((tmp_path / "static-pod.yaml").read_text())["spec"]
    named = {
        path
        for name in ("apfproxy.yaml", "kubeconfig")
        for path in re.findall(r"/etc/kubernetes/pki/[\w./-]+", (tmp_path / name).read_text())
    }
    volumes = {volume["name"]: volume["hostPath"] for volume in pod["volumes"]}
    (container,) = pod["containers"]
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
    own = mounts.pop("/etc/kubernetes/apfproxy")

    assert pod["automountServiceAccountToken"] is False
    assert {"path": "/etc/kubernetes/apfproxy", "type": "Directory"} == own
    assert {path: {"path": path, "type": "File"} for path in named} == mounts


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where one of the files is there, none is written."""
    mine = tmp_path / "apfproxy.yaml"
    mine.write_text("mine")

    assert 1 == main(["init", "gateway", str(tmp_path)])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"apfproxy: {mine} there already: each use has a directory of its own")
    assert ["mine"] == [path.read_text() for path in tmp_path.iterdir()]
    mine.unlink()
    assert 0 == main(["init", "gateway", str(tmp_path)])
    assert 1 == main(["init", "http", str(tmp_path)])
    (line,) = capsys.readouterr().err.splitlines()
    assert re.match(r"apfproxy: \S+ and \d+ more files there already: each use has", line)


def test_unwritable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory that cannot be made is named."""
    (tmp_path / "file").write_text("")

    assert 1 == main(["init", "gateway", str(tmp_path / "file" / "below")])
    assert (
        f"{tmp_path / 'file' / 'below' / 'README.md'}: cannot be made: Not a dir"
        in capsys.readouterr().err
    )
