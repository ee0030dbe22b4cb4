"""Builds the extension of HTTP/2, a binding to libnghttp2 by Cython.

`python build_http2.py` builds it in place, for tests and for a checkout that is run as it lies;
nothing is done if it is newer than its sources.  hatch_build.py builds it into wheels.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
PACKAGE = Path("apfproxy/proxy/http2")
FILE = f"nghttp2{sysconfig.get_config_var('EXT_SUFFIX')}"
WHAT_IS_MISSING = (
    "HTTP/2 is left out, for want of nghttp2.h, Python.h or a C compiler; "
    "install libnghttp2-dev, python3-dev and gcc, and build again"
)


def can_be_built() -> bool:
    """Whether there are a C compiler, nghttp2.h and Python.h."""
    try:
        result = subprocess.run(  # noqa: S603  Python says which program
            [*compiler(), f"-I{sysconfig.get_path('include')}", "-E", "-x", "c", "-"],
            input=b"#include <Python.h>\n#include <nghttp2/nghttp2.h>\n",
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        return False
    return result.returncode == 0


def build(library: Path, directory: Path, *, is_bundled: bool) -> list[Path]:
    """Compile the extension.

    Debian's libnghttp2.a cannot be linked into an extension, for its code is not independent of its
    position.  So a wheel has the shared library, beside the extension, which looks for it there.

    Args:
        library: The folder below which it is put, at its place in the package.
        directory: For what is made on the way.
        is_bundled: Whether libnghttp2 is put beside it, else the system's is used.

    Returns:
        The paths of what is to be beside its sources.
    """
    # What a wheel without extensions is built without.
    from Cython.Build import cythonize  # noqa: PLC0415
    from setuptools import Distribution, Extension  # noqa: PLC0415

    extension = Extension(
        "apfproxy.proxy.http2.nghttp2",
        [str(PACKAGE / "nghttp2.pyx")],
        libraries=["nghttp2"],
        runtime_library_dirs=["$ORIGIN"] if is_bundled else [],
        extra_compile_args=["-O2", "-g0"],
    )
    modules: Any = cythonize(  # type: ignore[no-untyped-call]
        [extension], build_dir=str(directory / "c"), quiet=True
    )
    command: Any = Distribution({"ext_modules": modules}).get_command_obj("build_ext")
    command.build_lib = str(library)
    command.build_temp = str(directory / "objects")
    command.ensure_finalized()
    command.run()
    built = library / PACKAGE / FILE
    return [built, _bundled(built)] if is_bundled else [built]


def build_in_place() -> bool:
    """Build it beside its sources, unless it is newer than they are; say whether it was built."""
    built = ROOT / PACKAGE / FILE
    sources = [Path(__file__), *(ROOT / PACKAGE).glob("nghttp2*.p[xy][xdi]")]
    if built.exists() and built.stat().st_mtime > max(each.stat().st_mtime for each in sources):
        return False
    with tempfile.TemporaryDirectory(dir=ROOT / PACKAGE) as name:
        [made] = build(Path(name), Path(name), is_bundled=False)
        made.replace(built)
    return True


def compiler() -> list[str]:
    """The C compiler that Python was built with, as a command."""
    return shlex.split(sysconfig.get_config_var("CC") or "cc")


def _bundled(extension: Path) -> Path:
    """Put the library that the linker took beside the extension, by the name that it looks for."""
    name = re.search(rb"libnghttp2\.so[.0-9]*", extension.read_bytes())
    if name is None:
        raise RuntimeError(f"{extension} needs no libnghttp2.so")
    library = extension.with_name(name[0].decode())
    found = subprocess.run(  # noqa: S603  as above
        [*compiler(), f"-print-file-name={library.name}"], capture_output=True, check=True
    )
    shutil.copy(Path(found.stdout.decode().strip()).resolve(strict=True), library)
    return library


if __name__ == "__main__":
    if not can_be_built():
        sys.exit(WHAT_IS_MISSING)
    try:
        build_in_place()
    except ModuleNotFoundError as error:
        sys.exit(f"HTTP/2 is left out, for want of {error.name}; pip install cython setuptools")
