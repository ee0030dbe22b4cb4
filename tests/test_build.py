"""Which build this is."""

from __future__ import annotations

import ast
import importlib
import platform
import tomllib
from pathlib import Path

import pytest

from apfproxy import __version__, build

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
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


@pytest.mark.parametrize("path", COMPILED)
def test_names_of_errors(path: str) -> None:
    """No function catches two types of errors by one name: mypyc gives a name one type."""
    tree = ast.parse((ROOT / path).read_text())
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            caught: dict[str, set[str]] = {}
            for each in ast.walk(function):
                if isinstance(each, ast.ExceptHandler) and each.name and each.type:
                    caught.setdefault(each.name, set()).add(ast.unparse(each.type))
            assert {} == {name: types for name, types in caught.items() if len(types) > 1}, (
                f"{path}: {function.name}"
            )
