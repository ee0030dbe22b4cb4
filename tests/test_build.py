"""Which build this is."""

from __future__ import annotations

import importlib
import platform
import tomllib
from pathlib import Path

import pytest

from apfproxy import __version__, build

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
HOOK = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
COMPILED: list[str] = HOOK["compiled"]


@pytest.mark.parametrize("path", COMPILED)
def test_kind(path: str) -> None:
    """What the program says of itself holds of every module that the build would compile."""
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))

    assert module.__file__ is not None
    assert module.__file__.endswith(".py") is (build.kind() == build.INTERPRETED)


def test_modules_are_listed_once_in_order() -> None:
    """The list is one to look things up in."""
    assert sorted(set(COMPILED)) == COMPILED


def test_it_is_asked_for() -> None:
    """Without a word a wheel is built of Python only."""
    assert HOOK["enable-by-default"] is False


def test_version() -> None:
    """The version tells the build, and whose Python runs it."""
    python = f"Python {platform.python_version()}"

    assert f"{__version__} ({build.kind()}, {python})" == build.version()
