"""Reading of the files that an operator names."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from apfproxy.base.files import open_regular, read_file, read_named

if TYPE_CHECKING:
    from collections.abc import Callable


class WrongError(ValueError):
    """What the reader is to raise."""


def listen(path: Path) -> None:
    """Make a socket that has a path."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


@pytest.mark.parametrize("size", [0, 3, 4])
def test_content(tmp_path: Path, size: int) -> None:
    """A file is read whole, through links as Kubernetes' mounts have them."""
    (tmp_path / "..2024").mkdir()
    (tmp_path / "..2024" / "token").write_bytes(b"x" * size)
    (tmp_path / "..data").symlink_to("..2024")
    (tmp_path / "token").symlink_to("..data/token")

    assert b"x" * size == read_named(tmp_path / "token", 4, WrongError)


def test_large(tmp_path: Path) -> None:
    """Of a file that is too large no more is read than shows that."""
    path = tmp_path / "token"
    with path.open("wb") as file:
        file.truncate(1 << 40)

    with pytest.raises(WrongError, match=r"token: cannot be read: larger than 4 bytes; is it"):
        read_named(path, 4, WrongError)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        pytest.param(lambda _: None, "No such file or directory", id="nothing"),
        pytest.param(os.mkdir, "a directory, not a regular file", id="directory"),
        pytest.param(os.mkfifo, "a pipe, not a regular file", id="pipe"),
        pytest.param(listen, "No such device or address", id="socket"),
        pytest.param(
            lambda path: path.symlink_to("/dev/zero"), "a device, not a regular file", id="device"
        ),
    ],
)
def test_what_is_no_file(tmp_path: Path, make: Callable[[Path], object], problem: str) -> None:
    """It is said what a path leads to, and nobody waits for it."""
    path = tmp_path / "token"
    make(path)

    with pytest.raises(WrongError, match=f"{path}: cannot be read: {problem}"):
        read_named(path, 4, WrongError)
    with pytest.raises(OSError, match=problem) as caught:
        open_regular(path)
    assert str(path) == caught.value.filename


def test_streams() -> None:
    """A command may read what has no size, to its bound."""
    reading, writing = os.pipe()
    os.write(writing, b"abcd")
    os.close(writing)
    path = Path(f"/dev/fd/{reading}")

    assert b"abcd" == read_file(path, 4, streams=True)
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_file("/dev/zero", 4, streams=True)
    os.close(reading)
