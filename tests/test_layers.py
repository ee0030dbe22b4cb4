"""Tests that imports go one way, and that the pure packages stay pure."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PACKAGE = "apfproxy"

CORE = frozenset({"api", "request", "flowcontrol"})

PURE = CORE | {"fleet", "lint", "simulation"}

EVERYWHERE = frozenset({"clock", "errors", "loopback", "transitions"})
"""Modules beside the packages that all may import, and that import none."""

SHARED = frozenset({
    "build", "duties", "faults", "files", "listen_sockets", "rare_log", "settings", "shipped_files",
    "tasks",
})  # fmt: skip
"""Modules beside the packages that all may import but the pure ones."""

ARROWS: dict[str, frozenset[str]] = {
    "build": frozenset(),
    "clock": frozenset(),
    "errors": frozenset({"settings"}),
    "loopback": frozenset(),
    "transitions": frozenset(),
    "files": frozenset(),
    "listen_sockets": frozenset({"rare_log", "settings"}),
    "rare_log": frozenset(),
    "settings": frozenset(),
    "shipped_files": frozenset(),
    "faults": frozenset({"rare_log"}),
    "tasks": frozenset({"faults"}),
    "duties": frozenset({"faults", "tasks"}),
    "__main__": frozenset({"cli"}),
    "api": frozenset(),
    "request": frozenset({"api"}),
    "flowcontrol": frozenset({"api", "request"}),
    "lint": CORE,
    "fleet": CORE,
    "simulation": CORE | {"fleet"},
    "authn": CORE | SHARED,
    "proxy": CORE | SHARED | {"authn"},
    "apiserver": CORE | SHARED | {"authn"},
    "sources": CORE | SHARED | {"authn", "apiserver"},
    "stores": CORE | SHARED | {"authn", "fleet", "sources"},
    "observe": CORE | SHARED | {"authn", "fleet"},
    "app": CORE | SHARED | {"authn", "proxy", "sources", "fleet", "stores", "apiserver", "observe"},
    "cli": CORE
    | SHARED
    | {"app", "authn", "proxy", "sources", "fleet", "stores", "apiserver", "observe"}
    | {"lint", "simulation"},
}
"""Part of the program to the parts that it may import, itself and `EVERYWHERE` apart."""

EXCEPTIONS = {
    ("observe", "apfproxy.proxy.counters"): "plain integers that the data plane keeps for it",
    ("observe", "apfproxy.apiserver.counters"): "plain integers that the API server keeps for it",
}
"""Imports against the arrows: part and module, to the reason."""

IMPURE = frozenset({
    "aiohttp", "asyncio", "concurrent", "datetime", "http", "httptools", "io", "logging",
    "multiprocessing", "os", "pathlib", "prometheus_client", "queue", "random", "sched",
    "secrets", "select", "selectors", "shutil", "signal", "socket", "socketserver", "sqlite3",
    "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib.request", "uvloop",
})  # fmt: skip
"""What does I/O, has a clock, an event loop or chance of its own."""

IMPURE_EXCEPTIONS = {
    ("apfproxy.api.flowcontrol.bootstrap", "pathlib"): "finds the objects that it is built with",
    ("apfproxy.api.times", "datetime"): "the calendar only, never the time of now",
    ("apfproxy.simulation.mix", "random"): "seeded, so that a mix is the same in every run",
}
"""Impure imports in pure code: module and import, to the reason."""


def imported_modules(source: str) -> Iterator[str]:
    """The modules that a source names, wherever in it; a relative one with its dots."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            # `from a import b` may name the module a.b; both are what it needs.
            yield module
            if module in {PACKAGE, "urllib"}:
                yield from (f"{module}.{alias.name}" for alias in node.names)


def problems(module: str, source: str) -> list[str]:
    """The imports of a module that the design does not have.

    Args:
        module: Its dotted name.
        source: Its text.
    """
    part = module.split(".")[1]
    found = []
    for imported in imported_modules(source):
        top, _, rest = imported.partition(".")
        if imported.startswith("."):
            found.append(f"{module} imports {imported}: name modules from the root")
        elif top == PACKAGE:
            target = rest.partition(".")[0]
            allowed = ARROWS.get(part, frozenset()) | EVERYWHERE | {part}
            is_known = target in ARROWS  # else a name of the package itself, such as a version
            if is_known and target not in allowed and (part, imported) not in EXCEPTIONS:
                found.append(f"{module} imports {imported}: no arrow from {part} to {target}")
        elif (
            part in PURE
            and not IMPURE.isdisjoint({top, imported})
            and (module, imported) not in IMPURE_EXCEPTIONS
        ):
            found.append(f"{module} imports {imported}: {part} is pure")
    return found


def modules() -> list[tuple[str, Path]]:
    """All modules below the package, by dotted name; a package counts as a module of its own."""
    paths = set((ROOT / PACKAGE).rglob("*.py")) - {ROOT / PACKAGE / "__init__.py"}
    return [
        (".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path)
        for path in sorted(paths)
    ]


@pytest.mark.parametrize(
    ("module", "path"), [pytest.param(module, path, id=module) for module, path in modules()]
)
def test_imports_follow_the_arrows(module: str, path: Path) -> None:
    """Each module imports only what its place in the design allows."""
    assert [] == problems(module, path.read_text())


def test_load_tests_import_no_tests() -> None:
    """Tests use what load tests have, never the other way; the program uses neither."""
    found = [
        f"{path}: {imported}"
        for folder, others in (("loadtest", {"tests"}), (PACKAGE, {"tests", "loadtest"}))
        for path in (ROOT / folder).rglob("*.py")
        for imported in imported_modules(path.read_text())
        if imported.partition(".")[0] in others
    ]

    assert [] == found


def test_every_part_has_its_arrows() -> None:
    """A new part of the program has to be given its place first."""
    parts = {module.split(".")[1] for module, _ in modules()}

    assert set() == parts - ARROWS.keys()


def test_modules_make_no_circle() -> None:
    """From no module does a way lead back to it, not even for types."""
    paths = dict(modules())
    left = {
        module: {each for each in imported_modules(path.read_text()) if each in paths} - {module}
        for module, path in paths.items()
    }
    while free := [module for module, targets in left.items() if targets.isdisjoint(left)]:
        for module in free:
            del left[module]

    assert {} == left


def test_arrows_make_no_circle() -> None:
    """From no part does a way lead back to it."""
    left = dict(ARROWS)
    while free := [part for part, targets in left.items() if targets.isdisjoint(left)]:
        for part in free:
            del left[part]

    assert {} == left


@pytest.mark.parametrize(
    ("module", "source", "is_allowed"),
    [
        pytest.param("flowcontrol.a", "from apfproxy.api.metadata import x", True, id="down"),
        pytest.param("flowcontrol.a", "import apfproxy.flowcontrol.b", True, id="within"),
        pytest.param("flowcontrol.a", "from apfproxy.clock import Clock", True, id="clock"),
        pytest.param("flowcontrol.a", "from apfproxy.proxy import b", False, id="up"),
        pytest.param("flowcontrol.a", "from apfproxy import proxy", False, id="up-by-name"),
        pytest.param("flowcontrol.a", "import apfproxy.settings", False, id="pure-settings"),
        pytest.param("api.a", "import apfproxy.request.b", False, id="up-below"),
        pytest.param("proxy.a", "import apfproxy.observe.b", False, id="across-above"),
        pytest.param("observe.a", "import apfproxy.proxy.counters", True, id="exception"),
        pytest.param("observe.a", "import apfproxy.proxy.server", False, id="not-the-exception"),
        pytest.param("observe.a", "from apfproxy import __version__", True, id="version"),
        pytest.param("cli.a", "import asyncio, apfproxy.app.process", True, id="cli"),
        pytest.param("app.a", "import apfproxy.cli.main", False, id="app-knows-no-command"),
        pytest.param("api.a", "def f():\n    import time", False, id="impure-inside"),
        pytest.param("api.a", "from asyncio.events import x", False, id="impure-below"),
        pytest.param("api.a", "import urllib.parse, math", True, id="pure-library"),
        pytest.param("api.a", "from urllib import request", False, id="impure-by-name"),
        pytest.param("api.flowcontrol.bootstrap", "import pathlib", True, id="impure-exception"),
        pytest.param("proxy.a", "from . import b", False, id="relative"),
        pytest.param("clock", "import apfproxy.api", False, id="module-at-the-root"),
    ],
)
def test_problems(module: str, source: str, is_allowed: bool) -> None:
    """The check sees what it is there for."""
    assert is_allowed == (not problems(f"{PACKAGE}.{module}", source))
