"""Reading of the files that an operator names: of a kind and a size that cannot harm the process.

Whatever a path leads to, opening and reading it neither waits nor takes more memory than the bound.
Symbolic links are followed, as Kubernetes' mounts consist of them.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

MAX_PEM_BYTES = 4 << 20
"""Of certificates or a key; the CAs of a system have 0.3 MiB."""


def open_regular(path: str | Path) -> BinaryIO:
    """Open a regular file to read; anything else, on which a reader might wait, is an OSError."""
    # Without O_NONBLOCK opening a pipe would wait for its writer, with O_NOCTTY no terminal is won.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        problem = f"{KINDS.get(kind, 'something else')}, not a regular file"
        raise OSError(errno.EINVAL, problem, str(path))
    return open(descriptor, "rb")  # noqa: PTH123 - of a descriptor, not of a path


def read_file(path: str | Path, most_bytes: int, *, streams: bool = False) -> bytes:
    """Read a file as a whole.

    Args:
        path: Of a regular file.
        most_bytes: One that has more is not read.
        streams: Whether it may be a pipe or a terminal as well, whose end is awaited: for commands
            that end then, never for a process that serves.

    Raises:
        OSError: It cannot be read; `strerror` says why.
    """
    with Path(path).open("rb") if streams else open_regular(path) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(
            errno.EFBIG, f"larger than {most_bytes} bytes; is it the right file?", str(path)
        )
    return data


def read_named(path: str | Path, most_bytes: int, error_type: type[ValueError]) -> bytes:
    """Read a regular file as a whole; what is wrong is an `error_type` that names the file."""
    try:
        return read_file(path, most_bytes)
    except OSError as error:
        raise error_type(f"{path}: cannot be read: {error.strerror or error}") from error
