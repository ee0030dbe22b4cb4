"""Compiles the modules of the hot path with mypyc, and HTTP/2, where a wheel is asked for compiled.

It runs with HATCH_BUILD_HOOKS_ENABLE=1 only; `compiled` of its section in pyproject.toml has the
modules.  Unlike hatch-mypyc it builds in a directory of its own: extensions that lie in a checkout
would be imported in place of the sources beside them, however those change.
"""

from __future__ import annotations

import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

GROUP = "apfproxy"
"""Names the one extension that has the code: calls among its modules are calls of C."""


class CompiledModules(BuildHookInterface[Any]):
    """Adds an extension for each module; its source stays beside it, for tracebacks."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile into a temporary directory, which `finalize` removes."""
        if version == "editable":
            return  # which is for changing the sources
        self._directory = tempfile.TemporaryDirectory()
        directory = Path(self._directory.name)
        built = _compile(self.config["compiled"], directory)
        built |= self._compile_http2(directory / "http2")
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"].update(built)

    def _compile_http2(self, directory: Path) -> dict[str, str]:
        """The extension of HTTP/2 with its library, or nothing where that is not installed."""
        sys.path.insert(0, self.root)  # which it is not for hatchling
        import build_http2  # noqa: PLC0415

        if not build_http2.can_be_built():
            self.app.display_warning(build_http2.WHAT_IS_MISSING)
            return {}
        library = directory / "lib"
        built = build_http2.build(library, directory, is_bundled=True)
        return {str(path): str(path.relative_to(library)) for path in built}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002  hatchling's
        """Remove what `initialize` made."""
        if version != "editable":
            self._directory.cleanup()


def _compile(modules: list[str], directory: Path) -> dict[str, str]:
    """The extensions, in `directory`, with the paths that they have in the wheel."""
    # What a wheel without extensions is built without.
    from mypyc.build import mypycify  # noqa: PLC0415
    from setuptools import Distribution  # noqa: PLC0415
    from setuptools.command.build_ext import build_ext  # noqa: PLC0415

    class ParallelBuild(build_ext):
        """Compiles the files of an extension on all cores; setuptools takes one after the other."""

        def build_extension(self, ext: Any) -> None:  # noqa: ANN401  setuptools has no types
            def compiled(source: str) -> list[str]:
                objects: list[str] = self.compiler.compile(
                    [source],
                    output_dir=self.build_temp,
                    include_dirs=ext.include_dirs,
                    extra_postargs=ext.extra_compile_args,
                    depends=ext.depends,
                )
                return objects

            largest_first = sorted(ext.sources, key=lambda path: -Path(path).stat().st_size)
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                ext.extra_objects += chain.from_iterable(pool.map(compiled, largest_first))
            ext.sources = []
            super().build_extension(ext)

    extensions = mypycify(
        [f"--cache-dir={directory / 'cache'}", *modules],
        target_dir=str(directory / "c"),
        group_name=GROUP,
        multi_file=True,
        opt_level="3",
        debug_level="0",
    )
    command: Any = ParallelBuild(Distribution({"ext_modules": extensions}))
    command.build_lib = str(directory / "lib")
    command.build_temp = str(directory / "objects")
    command.ensure_finalized()
    command.run()
    library = directory / "lib"
    return {str(path): str(path.relative_to(library)) for path in library.rglob("*.so")}
