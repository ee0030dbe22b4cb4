"""Reading of credential files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def read_file(path: Path, max_bytes: int, error_type: type[ValueError]) -> bytes:
    """The content of a file, or `error_type`; of one too large a byte more than `max_bytes`."""
    try:
        with path.open("rb") as file:
            return file.read(max_bytes + 1)
    except OSError as error:
        raise error_type(f"{path}: cannot be read: {error.strerror or error}") from error
