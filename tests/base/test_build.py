"""Which build this is."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import build_http2
from apfproxy.base import build
from apfproxy.cli.config_command import FILES
from apfproxy.proxy.http2 import available

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.build

IS_CI = bool(os.environ.get("CI"))
ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HOOK = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
COMPILED: list[str] = HOOK["compiled"]
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


def libraries_in(maps: Path) -> Iterator[Path]:
    for line in maps.read_text().splitlines():
        path = Path(line.split(maxsplit=5)[-1])
        if path.name.startswith("libnghttp2.so"):
            yield path


def test_shipped_files_are_found_in_a_checkout_and_in_a_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    ((checkout, wheel),) = included.items()
    root = Path(build.__file__).parents[2]
    paths = ["starters", *(path for files in FILES.values() for path in files)]

    assert [] == [path for path in paths if not build.shipped(path).exists()]
    assert (root / checkout, root / wheel) == (build.CHECKOUT, build.INSTALLED)
    assert root / (checkout if root == ROOT else wheel) == build.shipped("starters").parent
