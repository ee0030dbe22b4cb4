"""A directory of the process alone: for sockets and files by which workers are reached."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from apfproxy.base.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

RUNTIME_DIRECTORY = "RUNTIME_DIRECTORY"
"""systemd's variable, for RuntimeDirectory=; several are divided by colons."""
PREFIX = "apfproxy-"
MAX_PATH_BYTES = 80
"""Of the directory: the path of a Unix socket in it may have 107 bytes."""


class RuntimeDirectory:
    """The directory, which only this user can enter, until `remove`.

    OperatorError if there can be none.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.path = _made(environment)

    def file(self, name: str) -> str:
        """The path of a file in it."""
        return str(self.path / name)

    def remove(self) -> None:
        """Remove it, and what is in it; harmless once done."""
        shutil.rmtree(self.path, ignore_errors=True)

    def __repr__(self) -> str:
        return f"<RuntimeDirectory {self.path}>"


def _made(environment: Mapping[str, str]) -> Path:
    problem = ""
    for parent in _parents(environment):
        if len(os.fsencode(parent)) > MAX_PATH_BYTES - len(PREFIX) - 8:
            problem = problem or f"{parent}: its path is too long for Unix sockets"
            continue
        try:
            return Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        except OSError as error:
            problem = problem or f"{parent}: {error.strerror}"
    raise OperatorError(
        f"workers need a directory for their sockets: {problem}; set TMPDIR to one with a short"
        " path to which this user may write, or RuntimeDirectory= in the unit of systemd"
    )


def _parents(environment: Mapping[str, str]) -> Iterator[str]:
    """Where it may be, the likeliest first."""
    given = environment.get(RUNTIME_DIRECTORY, "").partition(":")[0]
    if given:
        yield given
    if os.access("/run/apfproxy", os.W_OK):
        yield "/run/apfproxy"
    yield tempfile.gettempdir()
    yield "/tmp"  # noqa: S108 - the directory in it is made for us alone
    yield "/dev/shm"  # noqa: S108 - which containers have whose root cannot be written
