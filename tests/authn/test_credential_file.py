"""Reading of credential files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.authn.credential_file import read_file

if TYPE_CHECKING:
    from pathlib import Path


class WrongError(ValueError):
    """What the reader is to raise."""


@pytest.mark.parametrize("size", [3, 4, 5, 600])
def test_content(tmp_path: Path, size: int) -> None:
    """A file is read whole, or one byte further than it may be long."""
    path = tmp_path / "token"
    path.write_bytes(b"x" * size)

    assert min(size, 5) == len(read_file(path, 4, WrongError))


def test_missing(tmp_path: Path) -> None:
    """An error names the file, as the type that was asked for."""
    with pytest.raises(WrongError, match=r"token: cannot be read: No such file or directory"):
        read_file(tmp_path / "token", 4, WrongError)
