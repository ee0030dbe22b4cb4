"""A file of objects that other processes read."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from apfproxy.flowcontrol.preset import KUBERNETES
from apfproxy.objects.decode import mandatory_objects
from apfproxy.sources.object_files import decode_files, effective_objects, read_files
from apfproxy.sources.stored_objects import write_objects

if TYPE_CHECKING:
    from pathlib import Path


def test_round_trip(tmp_path: Path) -> None:
    """Whoever reads it has the same objects."""
    path = tmp_path / "objects.json"
    objects = effective_objects((), with_suggested=True, preset=KUBERNETES)
    write_objects(str(path), objects[:1])
    write_objects(str(path), objects)
    read = decode_files(read_files((str(path),)))

    assert () == tuple(read.problems)
    assert list(objects) == list(read.objects)
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert [path] == list(tmp_path.iterdir())


def test_file_that_cannot_be_replaced(tmp_path: Path) -> None:
    """It stays as it was, and nothing else is left."""
    path = tmp_path / "objects.json"
    path.mkdir()
    with pytest.raises(OSError, match=r"objects\.json"):
        write_objects(str(path), mandatory_objects())

    assert [path] == list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError):
        write_objects(str(tmp_path / "gone" / "objects.json"), ())
