from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import yaml

from apfproxy.cli.config_command import FILES
from apfproxy.cli.init import KINDS
from apfproxy.cli.main import main
from apfproxy.settings import Settings
from apfproxy.settings.contradictions import contradictions
from apfproxy.settings.file import load_settings
from tests.config.expressions import CONFIG
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
    """All settings go together, and name a server and its seats."""
    assert 0 == main(["init", kind, str(tmp_path / "new" / "directory")])
    path = tmp_path / "new" / "directory" / "apfproxy.yaml"
    found = {each.name: load_settings(each) for each in path.parent.glob("*.yaml") if is_own(each)}

    assert {name: [] for name in found} == {n: contradictions(each) for n, each in found.items()}
    for settings in found.values():
        assert [()] * len(settings.clusters) == [each.problems for each in settings.clusters]
    assert found[path.name].upstream.address != Settings().upstream.address
    assert "serverConcurrencyLimit:" in path.read_text()


def is_own(path: Path) -> bool:
    return path.name in {"apfproxy.yaml", "clusters.yaml"}


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
    "image", ["registry.example:5000/apfproxy", f"apfproxy:9.1@sha256:{'0' * 64}"]
)
def test_image(tmp_path: Path, kind: str, image: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The image's name stands in one place, where a flag puts it, and where no change waits."""
    assert 0 == main(["init", kind, str(tmp_path / "before")])
    assert 1 == capsys.readouterr().out.count("the image that you built")
    assert 0 == main(["init", kind, str(tmp_path / "after"), "--image", image])
    assert "the image that you built" not in capsys.readouterr().out
    changed = [
        after.read_text()
        for after in (tmp_path / "after").rglob("*")
        if after.is_file()
        and after.read_text()
        != (tmp_path / "before" / after.relative_to(tmp_path / "after")).read_text()
    ]
    name, _, digest = image.partition("@")
    name, _, tag = name.partition(":9")

    assert [image_of(each) in (image, (name, f"9{tag}" if tag else "", digest)) for each in changed]
    assert 1 == len(changed)
    for wrong in ("a: b", "a:", ":::", "a:b:c", "/a", "a//b"):
        assert 2 == main(["init", kind, str(tmp_path / "no"), "--image", wrong])
    assert not (tmp_path / "no").exists()


def image_of(manifest: str) -> object:
    """The image of a pod, or name, tag and digest of a kustomization."""
    found = yaml.safe_load(manifest)
    if found["kind"] == "Pod":
        return found["spec"]["containers"][0]["image"]
    (image,) = found["images"]
    return image["newName"], image.get("newTag", ""), image.get("digest", "")


@pytest.mark.parametrize("kind", KINDS)
def test_readme(tmp_path: Path, kind: str) -> None:
    """README.md names every file or directory that is there, and its links and files exist."""
    assert 0 == main(["init", kind, str(tmp_path)])
    readme = (tmp_path / "README.md").read_text()

    for path in tmp_path.iterdir():
        assert f"`{path.name}" in readme or path.name == "README.md"
    for name in re.findall(r"^\| `([\w./-]+)` \|", readme, re.MULTILINE):
        assert (tmp_path / name).exists()


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "apfproxy.yaml"
    mine.write_text("mine")

    assert 1 == main(["init", "gateway", str(tmp_path)])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"apfproxy: {mine} is there already: each use has a directory of its")
    assert ["mine"] == [path.read_text() for path in tmp_path.iterdir()]
    assert 1 == main(["init", "gateway", str(mine / "below")])
    assert f"{mine / 'below' / 'README.md'}: cannot be made: Not a dir" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(FILES.keys() - {"alerts"}))
def test_config_print(name: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert 0 == main(["config", "print", name])
    expected = b"---\n".join((CONFIG / path).read_bytes() for path in FILES[name])

    assert expected == capsysbinary.readouterr().out


def test_alerts(capsys: pytest.CaptureFixture[str]) -> None:
    """Prometheus gets the rules that its operator has, with their comments."""
    assert 0 == main(["config", "print", "alerts"])
    text = capsys.readouterr().out
    operators = (CONFIG / "prometheus" / "prometheusrule.yaml").read_text()

    assert yaml.safe_load(operators)["spec"] == yaml.safe_load(text)
    assert text.count("#") > 1
