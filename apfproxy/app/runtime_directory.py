"""A directory of the process alone: for sockets and files by which workers are reached."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from apfproxy.base.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

RUNTIME_DIRECTORY = "RUNTIME_DIRECTORY"
"""systemd's variable, for RuntimeDirectory=; several are divided by colons."""
PREFIX = "apfproxy-"
SOCKET = "ledger"
"""In it: that of a process which lives as long as it needs the directory."""
PRIVATE = 0o700
MAX_PATH_BYTES = 80
"""Of the directory: the path of a Unix socket in it may have 107 bytes."""


class RuntimeDirectory:
    """The directory, which only this user can enter, until `remove`.

    OperatorError if there can be none.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.path = _made(environment)
        self._status = self.path.lstat()

    def file(self, name: str) -> str:
        """The path of a file in it."""
        return str(self.path / name)

    @property
    def is_whole(self) -> bool:
        """Whether nobody has deleted it, or put another one in its place; nor `SOCKET` in it."""
        return self._is_there() and (self.path / SOCKET).is_socket()

    def restore(self) -> None:
        """Make it again where it was, empty, unless it is there; OSError if that cannot be."""
        if not self._is_there():
            self.path.mkdir(PRIVATE, parents=True)  # fails if somebody else has made it meanwhile
            self._status = self.path.lstat()

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(self._status, self.path.lstat())
        except OSError:  # it is gone, or a file is where a directory above it was
            return False

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
        _remove_stale(Path(parent))
        try:
            return Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        except OSError as error:
            problem = problem or f"{parent}: {error.strerror}"
    raise OperatorError(
        f"workers need a directory for their sockets: {problem}; set TMPDIR to one with a short"
        " path to which this user may write, or RuntimeDirectory= in the unit of systemd"
    )


def _remove_stale(parent: Path) -> None:
    """Remove those of our processes that were killed: nobody listens at their sockets any more."""
    with contextlib.suppress(OSError):
        for each in parent.glob(f"{PREFIX}*/{SOCKET}"):
            status = each.parent.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and is_dead(each):
                shutil.rmtree(each.parent, ignore_errors=True)


def is_dead(path: Path) -> bool:
    """Whether a file is that of a Unix socket at which nobody listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return stat.S_ISSOCK(path.lstat().st_mode)
        except OSError:
            return False
    return False


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
