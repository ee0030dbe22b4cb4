"""Which build this is."""

from __future__ import annotations

import ast
import importlib
import os
import platform
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import build_http2
from apfproxy import __version__
from apfproxy.base import build
from apfproxy.proxy.http2 import available

if TYPE_CHECKING:
    from collections.abc import Iterator

IS_CI = bool(os.environ.get("CI"))
ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HOOK = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
COMPILED: list[str] = HOOK["compiled"]
HOT_PACKAGES = tuple(
    f"apfproxy.{name}." for name in ("authn", "flowcontrol", "http", "proxy", "request", "upstream")
)
INTERPRETED = {
    "authn/impersonation.py": "what it finds out is kept",
    "authn/unverified_names.py": "names are kept",
    "flowcontrol/limits.py": "every 10 s, or for another configuration",
    "flowcontrol/preset.py": "fields only",
    "flowcontrol/prompt_limits.py": "at most ten looks a second",
    "upstream/connecting.py": "once a connection",
    "upstream/health_check.py": "checks only",
    "proxy/http2/available.py": "when the program starts",
    "proxy/tls.py": "at the start and the end of connections",
    "upstream/tls.py": "OpenSSL calls it, and it has a base class of Python's",
    "proxy/request_record.py": "fields only, of a struct of msgspec",
    "proxy/tunnel.py": "upgraded connections",
    "http/upgrade.py": "upgraded connections",
}
"""Modules of these packages that compiled ones call, with the reason why they stay Python."""
LOADED = """
import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
loader = ExtensionFileLoader("apfproxy.proxy.http2.nghttp2", sys.argv[1])
module = module_from_spec(spec_from_loader(loader.name, loader))
loader.exec_module(module)
Path(sys.argv[2]).write_bytes(Path("/proc/self/maps").read_bytes())
print(module.VERSION)
"""
"""Loads the extension of this path, writes what that brought into this file, prints a version."""


@pytest.mark.parametrize("path", COMPILED)
def test_kind_is_that_of_all_modules(path: str) -> None:
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))

    assert module.__file__ is not None
    assert module.__file__.endswith(".py") is (build.kind() == build.INTERPRETED)


def test_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "HTTP2", "apfproxy.proxy.http2.nothing")

    assert f"{__version__} without HTTP/2" == build.short_version()


def test_modules_are_listed_once_in_order() -> None:
    assert sorted(set(COMPILED)) == COMPILED


def test_compiled_modules_import_compiled_ones_but_for_reasons_known() -> None:
    imported = {
        path
        for module in COMPILED
        for name in runtime_imports(ast.parse((ROOT / module).read_text()))
        if name.startswith(HOT_PACKAGES)
        and (ROOT / (path := name.replace(".", "/") + ".py")).exists()
    }

    assert {f"apfproxy/{path}" for path in INTERPRETED} == imported - set(COMPILED)


def test_version() -> None:
    python = f"Python {platform.python_version()}"

    assert f"{__version__} ({build.kind()}, {python})" == build.version()
    assert f"{__version__} ({build.kind()}, {python}, more)" == build.version("more")


def test_compiled_build_has_its_own_libnghttp2() -> None:
    if available.BINDING is None and not IS_CI:
        pytest.skip(available.WHY_NOT)
    assert available.BINDING is not None, available.WHY_NOT
    assert available.BINDING.__file__ is not None
    folder = Path(available.BINDING.__file__).parent
    [used] = set(libraries_in(Path("/proc/self/maps")))

    assert (folder == used.parent) is (build.kind() == build.COMPILED)


@pytest.mark.e2e
def test_wheel_has_its_own_libnghttp2(tmp_path: Path) -> None:
    if not build_http2.can_be_built() and not IS_CI:
        pytest.skip(build_http2.WHAT_IS_MISSING)
    extension, library = build_http2.build(tmp_path, tmp_path / "build", is_bundled=True)

    result = subprocess.run(  # noqa: S603  this interpreter
        [sys.executable, "-c", LOADED, extension, tmp_path / "maps"],
        check=True,
        capture_output=True,
        text=True,
    )

    assert 3 == len(result.stdout.split("."))
    assert extension.parent == library.parent
    assert {library} == set(libraries_in(tmp_path / "maps"))


@pytest.mark.parametrize("compiler", ["false", "/no/compiler"])
def test_wheel_without_what_http2_takes_says_so(
    compiler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_http2, "compiler", lambda: [compiler])

    assert not build_http2.can_be_built()
    assert "libnghttp2-dev" in build_http2.WHAT_IS_MISSING


@pytest.mark.parametrize("path", COMPILED)
def test_no_function_gives_a_name_errors_of_two_types(path: str) -> None:
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


def test_interpreted_classes_inherit_only_where_they_may() -> None:
    modules = {path.removesuffix(".py").replace("/", "."): path for path in COMPILED}
    refused: list[str] = []
    for path in [each for top in ("apfproxy", "loadtest", "tests") for each in python_files(top)]:
        if path in COMPILED:
            continue
        tree = ast.parse((ROOT / path).read_text())
        imported = {
            alias.asname or alias.name: modules[node.module]
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module in modules
            for alias in node.names
        }
        refused += [
            f"{path}: {node.name} of {base.id}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
            for base in node.bases
            if isinstance(base, ast.Name)
            and base.id in imported
            and base.id not in inheritable(imported[base.id])
        ]

    assert [] == refused


def runtime_imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield str(node.module)
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield from runtime_imports(node)


def python_files(top: str) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in (ROOT / top).rglob("*.py")]


def inheritable(path: str) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.ClassDef)
        and any("allow_interpreted_subclasses=True" in ast.unparse(d) for d in node.decorator_list)
    }


def libraries_in(maps: Path) -> Iterator[Path]:
    for line in maps.read_text().splitlines():
        path = Path(line.split(maxsplit=5)[-1])
        if path.name.startswith("libnghttp2.so"):
            yield path
