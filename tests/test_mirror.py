"""Tests that the tests mirror the package: a file of tests for each module, and none without."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "apfproxy"

WITHOUT_TESTS = {
    "app/admin_app.py": "puts the pages together; see test_admin_listener",
    "app/metrics_page.py": "puts the metrics together; see test_process",
    "app/store.py": "tested by the processes that have stores",
    "clock.py": "protocols only",
    "fleet/pace.py": "names only",
    "settings/authentication.py": "fields only",
    "settings/clients.py": "fields only",
    "settings/fleet.py": "fields only",
    "settings/observability.py": "fields only",
    "settings/requests.py": "fields only",
    "stores/store.py": "protocols only",
    "proxy/answer_sink.py": "abstract only",
    "proxy/client.py": "abstract only",
    "proxy/http2/multiplexer.py": "abstract only",
    "proxy/head_error.py": "fields only",
    "proxy/identification.py": "fields only",
    "apiserver/kinds.py": "names only",
    "api/apps/schema.py": "fields only",
    "api/core/container_schema.py": "fields only",
    "api/core/pod_schema.py": "fields only",
    "api/core/structs.py": "fields only",
    "api/flowcontrol/types.py": "fields only",
    "api/policy/schema.py": "fields only",
    "api/resource/schema.py": "fields only",
    "authn/credentials.py": "fields only",
    "authn/verdict.py": "fields only",
}
"""Modules that need no tests of their own, with the reason."""

WITHOUT_MODULE = {
    "flowcontrol/test_allotted_seats.py": "about the controller, as a member of a fleet has it",
    "proxy/test_wrong_types.py": "about all that is compiled",
    "test_constructors.py": "about all modules",
    "test_imports.py": "about all modules",
    "test_layers.py": "about all modules",
    "test_loadtest.py": "about the load tests",
    "test_loadtest_http2.py": "about the load tests",
    "test_mirror.py": "about all modules",
    "test_requirements.py": "about files of requirements",
}
"""Tests that belong to no one module, with the reason."""

FOLDERS_WITHOUT_PACKAGE = {
    "config": "files for other programs",
    "docs": "pages for people",
    "conformance": "one file for each file of reference vectors",
    "end_to_end": "whole processes over real sockets",
    "fuzz": "whole connections on arbitrary bytes",
}
"""Folders of tests that belong to no package, with the reason."""


def relative_paths(root: Path, pattern: str) -> set[str]:
    """The files below a folder, as paths from there."""
    return {path.relative_to(root).as_posix() for path in root.rglob(pattern)}


def modules() -> set[str]:
    """Modules with something to test; a package itself only gathers them."""
    return {
        path
        for path in relative_paths(PACKAGE, "*.py") | relative_paths(PACKAGE, "*.pyx")
        if Path(path).name not in {"__init__.py", "__main__.py"}
    }


def test_every_module_has_tests() -> None:
    """`apfproxy/x/y.py` is tested by `tests/x/test_y.py`, wherever else it is tested too."""
    tests = relative_paths(TESTS, "test_*.py")
    expected = {
        path: Path(path).with_name(f"test_{Path(path).stem}.py").as_posix()
        for path in modules() - WITHOUT_TESTS.keys()
    }

    assert {} == {path: test for path, test in expected.items() if test not in tests}


def test_every_file_of_tests_has_a_module() -> None:
    """`tests/x/test_y.py` tests `apfproxy/x/y.py`, and so does `test_y_z.py` if one is too few."""
    strays = set()
    tested = modules()
    for path in relative_paths(TESTS, "test_*.py") - WITHOUT_MODULE.keys():
        folder, name = Path(path).parent, Path(path).stem.removeprefix("test_")
        stems = {Path(module).stem for module in tested if Path(module).parent == folder}
        is_elsewhere = folder.parts[:1] and folder.parts[0] in FOLDERS_WITHOUT_PACKAGE
        if not is_elsewhere and not any(f"{name}_".startswith(f"{stem}_") for stem in stems):
            strays.add(path)

    assert set() == strays


def test_every_folder_of_tests_is_a_package() -> None:
    """Only then can files of one name in different folders be told apart."""
    folders = {path.parent for path in TESTS.rglob("*.py")}

    assert set() == {folder for folder in folders if not (folder / "__init__.py").exists()}


def test_exceptions_are_needed() -> None:
    """An exception for a file that is gone goes too."""
    assert set() == WITHOUT_TESTS.keys() - modules()
    assert set() == WITHOUT_MODULE.keys() - relative_paths(TESTS, "test_*.py")
