"""The directory of a process's own sockets."""

from __future__ import annotations

import shutil
import socket
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from apfproxy.app.runtime_directory import SOCKET, RuntimeDirectory
from apfproxy.base.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory with a short path, which those of tests have not."""
    with tempfile.TemporaryDirectory(dir="/tmp") as path:
        yield Path(path)


def bind(path: str) -> None:
    """Leave a socket there, of nobody."""
    with socket.socket(socket.AF_UNIX) as it:
        it.bind(path)


def test_directory(short: Path) -> None:
    """It is private, where systemd says, and gone at the end."""
    directory = RuntimeDirectory({"RUNTIME_DIRECTORY": f"{short}:/elsewhere"})
    Path(directory.file("a")).touch()
    mode = stat.S_IMODE(directory.path.stat().st_mode)
    where = directory.path.parent
    directory.remove()
    directory.remove()

    assert short == where
    assert 0o700 == mode
    assert not directory.path.exists()


def test_elsewhere(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that is too long, or a directory that is gone, is passed over."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: f"{short}/{'long' * 30}")
    directory = RuntimeDirectory({"RUNTIME_DIRECTORY": f"{short}/gone"})
    directory.remove()

    assert Path("/tmp") == directory.path.parent  # noqa: S108 - as above


def test_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there can be none, the first reason is named, and what to do."""

    def refuse(**_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    with pytest.raises(OperatorError, match="/a: No space left on device; set TMPDIR"):
        RuntimeDirectory({"RUNTIME_DIRECTORY": "/a"})


def test_left_behind(short: Path) -> None:
    """The directory of a process that was killed is removed, and no other one."""
    dead, living, other, young = (short / f"apfproxy-{name}" for name in "abcd")
    for each in (dead, living, other, young):
        each.mkdir()
    (other / SOCKET).touch()
    with socket.socket(socket.AF_UNIX) as killed, socket.socket(socket.AF_UNIX) as listener:
        killed.bind(str(dead / SOCKET))
        listener.bind(str(living / SOCKET))
        listener.listen()
        directory = RuntimeDirectory({"RUNTIME_DIRECTORY": str(short)})
    directory.remove()

    assert [living, other, young] == sorted(short.iterdir())


def test_deleted(short: Path) -> None:
    """One that was deleted is made again where it was, and private; what is there is left alone."""
    directory = RuntimeDirectory({"RUNTIME_DIRECTORY": str(short)})
    empty = directory.is_whole
    bind(directory.file(SOCKET))
    directory.restore()
    whole = directory.is_whole
    shutil.rmtree(directory.path)
    gone = directory.is_whole
    directory.restore()
    mode = stat.S_IMODE(directory.path.stat().st_mode)
    bind(directory.file(SOCKET))

    again = directory.is_whole
    Path(directory.file(SOCKET)).unlink()
    Path(directory.file(SOCKET)).touch()
    file = directory.is_whole

    assert not file
    assert (False, True, False, True) == (empty, whole, gone, again)
    assert 0o700 == mode


def test_somebody_elses(short: Path) -> None:
    """One that took its place is not used."""
    directory = RuntimeDirectory({"RUNTIME_DIRECTORY": str(short)})
    directory.path.rename(short / "moved")
    directory.path.mkdir()
    Path(directory.file(SOCKET)).touch()

    assert not directory.is_whole
    with pytest.raises(FileExistsError):
        directory.restore()


def test_file_above(short: Path) -> None:
    """Where a directory above it has become a file, it can be made again once that is gone."""
    above = short / "a"
    above.mkdir()
    directory = RuntimeDirectory({"RUNTIME_DIRECTORY": str(above)})
    shutil.rmtree(above)
    above.touch()
    whole = directory.is_whole
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        directory.restore()
    above.unlink()
    directory.restore()

    assert not whole
    assert directory.path.is_dir()
