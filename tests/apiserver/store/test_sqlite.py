"""Tests of the file: what is kept, who may have it, and what is refused."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.store.entries import Change, ChangeType, Entry, StoreError
from apfproxy.apiserver.store.sqlite import SqliteBackend
from apfproxy.apiserver.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[3]
OPEN = "import os; from apfproxy.apiserver.store.sqlite import SqliteBackend as Backend; "


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A path whose name would mean something else in a URI."""
    return tmp_path / "a ?b#c%20.db"


def put(store: Store, name: str, size: int = 1) -> asyncio.Future[Entry]:
    metadata = {"namespace": "a", "name": name, "uid": "u", "labels": {"ü": "1"}}
    return store.put("pods", {"metadata": metadata, "spec": "ü" * size}, {"metadata.name": name})


async def fill(path: Path, count: int = 5, *, window: int = 100) -> Store:
    """A store, closed, in which objects were written over and over, and one deleted."""
    store = Store(window=window, backend=SqliteBackend(path))
    for number in range(count):
        await put(store, f"x{number % 3}")
    await store.delete("pods", {"metadata": {"namespace": "a", "name": "x1", "uid": "u"}}, {})
    await store.close()
    return store


def names(path: Path) -> list[str]:
    backend = SqliteBackend(path)
    loaded = backend.load()
    backend.close()
    return sorted(entry.name for entry in loaded.entries)


def run(program: str) -> str:
    """The last words of a process of its own."""
    command = [sys.executable, "-c", OPEN + program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603  our own
    return done.stderr


async def test_what_left_the_window_leaves_the_file(path: Path) -> None:
    """The file holds what is there and what the window needs, no more."""
    before = await fill(path, 200, window=8)
    with sqlite3.connect(path) as connection:
        ((versions,),) = connection.execute("SELECT count(*) FROM versions")
        ((changes,),) = connection.execute("SELECT count(*) FROM changes")
        kept = [name for (name,) in connection.execute("SELECT name FROM objects ORDER BY name")]
    connection.close()
    after = Store(window=4, backend=SqliteBackend(path))
    old, new = before.collection("pods"), after.collection("pods")
    await after.close()

    assert ["x0", "x2"] == kept
    assert 8 <= changes <= 10
    # A version for each change, and those that the oldest changes of three objects replaced.
    assert versions <= changes + 3
    assert old.snapshot() == new.snapshot()
    assert old.floor < new.floor, "a narrower window is cut at once"
    assert old.watch(new.floor).read(10) == new.watch(new.floor).read(10)


async def test_the_file_is_private(path: Path) -> None:
    """Only its owner reads it, and the log beside it, which is gone after the end."""
    store = Store(backend=SqliteBackend(path))
    await put(store, "x")
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    await store.close()

    assert {path.name: 0o600, f"{path.name}-wal": 0o600} == modes
    assert [path.name] == [file.name for file in path.parent.iterdir()]


def test_one_process_has_the_file(path: Path) -> None:
    """Another is refused, in words; once the first has ended it may have it."""
    backend = SqliteBackend(path)
    refused = run(f"Backend({str(path)!r})")
    with pytest.raises(StoreError, match="another process uses it"):
        SqliteBackend(path)
    backend.close()
    backend.close()
    SqliteBackend(str(path)).close()

    assert f"store {path}: another process uses it; stop that one" in refused


async def test_a_full_disk_loses_nothing(path: Path) -> None:
    """A write that does not fit is refused, and later ones that do are taken."""
    backend = SqliteBackend(path)
    execute = backend._connection.execute  # noqa: SLF001  the only way to a small disk
    store = Store(backend=backend)
    await put(store, "x")
    execute("PRAGMA max_page_count = 20")
    with pytest.raises(StoreError, match="the disk is full; free some space"):
        await put(store, "y", 200_000)
    await put(store, "z")
    execute("PRAGMA max_page_count = 100000")
    execute("BEGIN")  # what a failed ROLLBACK leaves
    await put(store, "y", 200_000)
    await store.close()

    assert ["x", "y", "z"] == names(path)


def test_a_batch_is_kept_whole_or_not_at_all(path: Path) -> None:
    """The part before the failure is undone, and does not come with the next write."""
    first, second = (
        Change(n, ChangeType.ADDED, Entry("pods", "a", f"x{n}", n, "u", {}, {}, b"{}"), None)
        for n in (2, 3)
    )
    backend = SqliteBackend(path)
    with pytest.raises(StoreError, match="UNIQUE constraint failed"):
        backend.write([first, first], {})
    backend.write([second], {})
    loaded = backend.load()
    backend.close()

    assert (3, [second.entry], [second], {}) == loaded


def set_bytes(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: 4096 * 3] + b"\xff" * 4096 + content[4096 * 4 :])


def replace_by_other(path: Path) -> None:
    path.unlink()
    tamper(path, "CREATE TABLE mine (x)")


def tamper(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("PRAGMA user_version = 9", "its format 9 is newer than 1"),
        ("PRAGMA application_id = 5", "it belongs to another program"),
        ("DELETE FROM meta", "it has no resource version"),
        ("DELETE FROM versions WHERE resource_version = 3", "version 3 is missing"),
        ("UPDATE changes SET old = 99 WHERE old = 2", "is missing"),
        ("UPDATE changes SET type = 'BAD'", "not as it was written"),
        ("UPDATE versions SET labels = '['", "not as it was written"),
        ("UPDATE versions SET name = 'x0'", "an object is there twice"),
        ("UPDATE meta SET value = 4", "states newer than resource version 4"),
        ("DROP TABLE floors", "see sqlite.org (no such table: floors)"),
        (set_bytes, "it is damaged; restore it from a backup"),
        (lambda path: path.write_bytes(b"some text" * 400), "it is no SQLite file; give another"),
        (replace_by_other, "it belongs to another program"),
    ],
)
def test_a_file_that_is_not_understood(
    damage: str | Callable[[Path], object], message: str, path: Path
) -> None:
    """It is refused with what is wrong, and left as it is."""
    asyncio.run(fill(path, 5 if isinstance(damage, str) else 50))
    if isinstance(damage, str):
        tamper(path, damage)
    else:
        damage(path)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=re.escape(message)) as caught:
        Store(backend=SqliteBackend(path))

    assert str(path) in str(caught.value)
    assert before == path.read_bytes()


def test_a_file_that_cannot_be_made(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says where, why and what to do."""
    with pytest.raises(StoreError, match="cannot be opened"):
        SqliteBackend(path.parent)
    with pytest.raises(StoreError, match=r"none/store.db: No such file or directory: make the"):
        SqliteBackend(path.parent / "none" / "store.db")

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreError, match=r"Permission denied: let this user write"):
        SqliteBackend(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_file_of_another_user() -> None:
    # Below pytest's own folder no other user gets anywhere.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "store.db"
        asyncio.run(fill(path))
        path.chmod(0o444)
        refused = run(f"os.setuid(65534); Backend({str(path)!r}).load()")

    assert f"StoreError: store {path}: Permission denied: let this user write" in refused


def test_a_file_system_without_log(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where SQLite cannot write ahead, the store says so."""

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:  # noqa: ANN401  as sqlite3 has it
            return super().execute(sql.replace("= WAL", "= DELETE"), *parameters)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **o: connect(*a, factory=Connection, **o))
    with pytest.raises(StoreError, match="cannot hold a write-ahead log"):
        SqliteBackend(path)


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("is_replaced", [True, False])
async def test_a_file_that_is_gone(path: Path, suffix: str, *, is_replaced: bool) -> None:
    """Nothing is written to a file that moved away, until it is back in its place."""
    store = Store(backend=SqliteBackend(path))
    await put(store, "x")
    away, file = path.with_name("away"), path.with_name(f"{path.name}{suffix}")
    file.rename(away)
    if is_replaced:
        file.write_bytes(b"something else")
    with pytest.raises(StoreError, match="deleted or replaced while in use; put it back"):
        await put(store, "y")
    away.rename(file)
    await put(store, "z")
    await store.close()

    assert ["x", "z"] == names(path)
