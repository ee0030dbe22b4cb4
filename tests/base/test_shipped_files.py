"""The files of `config/` in a checkout, and where a wheel has them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from apfproxy.base import files
from apfproxy.base.files import CHECKOUT, INSTALLED, shipped
from apfproxy.cli.config_command import FILES
from apfproxy.objects import bootstrap

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "path",
    [
        "kubernetes/gateway/deployment.yaml",
        "starters",
        *(path for files in FILES.values() for path in files),
    ],
)
def test_checkout(path: str) -> None:
    """In a checkout they are those of `config/`."""
    assert ROOT / "config" / path == shipped(path)
    assert shipped(path).exists()


def test_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package has a folder of its own."""
    monkeypatch.setattr(files, "DIRECTORY", tmp_path)

    assert tmp_path / "apfproxy.yaml" == shipped("apfproxy.yaml")


def test_wheel() -> None:
    """A wheel carries all of `config/` where the package looks for it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    where = {(ROOT / given).resolve(): ROOT / target for given, target in included.items()}

    assert {CHECKOUT: INSTALLED} == where
    assert INSTALLED / "bootstrap" == bootstrap.INSTALLED
