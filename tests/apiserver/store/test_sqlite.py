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
from typing import Any

import pytest

from apfproxy.apiserver.store.entries import Change, ChangeType, Entry, StoreError
from apfproxy.apiserver.store.sqlite import SqliteBackend, refusal
from apfproxy.apiserver.store.store import Store

ROOT = Path(__file__).parents[3]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file is to be."""
    return tmp_path / "store.db"


def change(store: Store, name: str, *, size: int = 1, is_deletion: bool = False) -> Any:  # noqa: ANN401  a future
    """Write an object, or delete it."""
    metadata = {"namespace": "a", "name": name, "uid": "u", "labels": {"ü": "1"}}
    obj: dict[str, Any] = {"metadata": metadata, "spec": "ü" * size}
    act = store.delete if is_deletion else store.put
    return act("pods", obj, {"metadata.name": name})


async def fill(path: Path, count: int = 5, *, window: int = 100) -> Store:
    """A store, closed, in which objects were written over and over."""
    store = Store(window=window, backend=SqliteBackend(path))
    for number in range(count):
        await change(store, f"x{number % 3}")
    await change(store, "x1", is_deletion=True)
    await store.close()
    return store


def tamper(path: Path, *statements: str) -> None:
    """Change a file behind the store's back."""
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


async def test_everything_is_there_after_a_restart(path: Path) -> None:
    """Objects, changes with what was before, floors and the counter."""
    before = await fill(path, window=4)
    backend = SqliteBackend(path)
    loaded = backend.load()
    after = Store(window=4, backend=backend)
    old, new = before.collection("pods"), after.collection("pods")

    assert (before.resource_version, 7) == (after.resource_version, loaded.resource_version)
    assert old.snapshot() == new.snapshot()
    assert old.watch(old.floor).read(10) == new.watch(old.floor).read(10)
    assert old.snapshot(at=old.floor) == new.snapshot(at=old.floor)
    await after.close()


async def test_what_left_the_window_leaves_the_file(path: Path) -> None:
    """The file holds what is there and what the window needs, no more."""
    await fill(path, 200, window=8)
    with sqlite3.connect(path) as connection:
        ((versions,),) = connection.execute("SELECT count(*) FROM versions")
        ((changes,),) = connection.execute("SELECT count(*) FROM changes")
        names = [name for (name,) in connection.execute("SELECT name FROM objects ORDER BY name")]
    connection.close()

    assert ["x0", "x2"] == names
    assert 8 <= changes <= 10
    # A version for each change, and those that the oldest changes of three objects replaced.
    assert versions <= changes + 3


async def test_the_file_is_private(path: Path) -> None:
    """Only its owner reads it, and the log beside it."""
    store = Store(backend=SqliteBackend(path))
    await change(store, "x")
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    await store.close()

    assert {"store.db": 0o600, "store.db-wal": 0o600} == modes
    assert ["store.db"] == [file.name for file in path.parent.iterdir()]


async def test_one_process_has_the_file(path: Path) -> None:
    """Another is refused, in words; once the first has ended it may have it."""
    program = f"from apfproxy.apiserver.store.sqlite import *; SqliteBackend({str(path)!r})"
    backend = SqliteBackend(path)
    refused = subprocess.run(  # noqa: S603, ASYNC221  names what it starts; nothing else runs
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    with pytest.raises(StoreError, match="another process uses it"):
        SqliteBackend(path)
    backend.close()
    backend.close()
    SqliteBackend(path).close()

    assert f"store {path}: another process uses it; stop that one" in refused.stderr


async def test_a_full_disk_loses_nothing(path: Path) -> None:
    """What does not fit is refused, and what does is taken again afterwards."""
    backend = SqliteBackend(path)
    store = Store(backend=backend)
    await change(store, "x")
    run = backend._connection.execute  # noqa: SLF001  the only way to a small disk
    run("PRAGMA max_page_count = 20")
    with pytest.raises(StoreError, match="the disk is full; free some space"):
        await change(store, "y", size=200_000)
    small = await change(store, "z")
    run("PRAGMA max_page_count = 100000")
    large = await change(store, "y", size=200_000)
    await store.close()
    again = Store(backend=SqliteBackend(path))

    assert [2, large.resource_version, small.resource_version] == [
        entry.resource_version for entry in again.collection("pods").snapshot()
    ]
    await again.close()


async def test_a_transaction_that_could_not_be_undone_is_undone_later(path: Path) -> None:
    """A failure in the midst of a failure does not reach the next write."""
    backend = SqliteBackend(path)
    store = Store(backend=backend)
    backend._connection.execute("BEGIN")  # noqa: SLF001  what a failed ROLLBACK leaves
    await change(store, "x")
    await store.close()
    again = SqliteBackend(path)

    assert 1 == len(again.load().entries)
    again.close()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        pytest.param("PRAGMA user_version = 9", "its format 9 is newer than 1", id="newer"),
        pytest.param("PRAGMA application_id = 5", "it belongs to another program", id="foreign"),
        pytest.param("DELETE FROM meta", "it has no resource version", id="no-counter"),
        pytest.param(
            "DELETE FROM versions WHERE resource_version = 3", "version 3 is missing", id="no-state"
        ),
        pytest.param("UPDATE changes SET old = 99 WHERE old = 2", "is missing", id="no-old-state"),
        pytest.param("UPDATE changes SET type = 'BAD'", "not as it was written", id="type"),
        pytest.param("UPDATE versions SET labels = '['", "not as it was written", id="labels"),
        pytest.param("UPDATE versions SET name = 'x0'", "an object is there twice", id="twice"),
        pytest.param(
            "UPDATE meta SET value = 4", "states newer than resource version 4", id="counter"
        ),
        pytest.param("DROP TABLE floors", "no such table: floors", id="table"),
    ],
)
def test_a_file_that_is_not_understood(path: Path, statement: str, message: str) -> None:
    """It is refused with what is wrong, and left as it is."""
    asyncio.run(fill(path))
    tamper(path, statement)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=re.escape(message)) as caught:
        Store(backend=SqliteBackend(path))

    assert str(path) in str(caught.value)
    assert before == path.read_bytes()


def test_a_damaged_file(path: Path) -> None:
    """Bytes that the disk got wrong are found when the store is opened."""
    asyncio.run(fill(path, 50))
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 4] = b"\xff" * 4096
    path.write_bytes(content)
    with pytest.raises(StoreError, match="it is damaged; restore it from a backup"):
        Store(backend=SqliteBackend(path))

    assert bytes(content) == path.read_bytes()


def test_a_file_that_is_no_store(path: Path, tmp_path: Path) -> None:
    """Neither another program's file nor a folder is taken."""
    path.write_bytes(b"some text that somebody wants to keep" * 100)
    with pytest.raises(StoreError, match="it is no SQLite file; give another one"):
        SqliteBackend(path)
    tamper(tmp_path / "other.db", "CREATE TABLE mine (x)")
    with pytest.raises(StoreError, match="it belongs to another program"):
        SqliteBackend(tmp_path / "other.db")
    with pytest.raises(StoreError, match="cannot be opened"):
        SqliteBackend(tmp_path)

    assert path.read_bytes().startswith(b"some text")


def test_a_folder_that_cannot_be_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says where, why and what to do."""
    with pytest.raises(StoreError, match=r"none/store.db: No such file or directory: make the"):
        SqliteBackend(path.parent / "none" / "store.db")

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreError, match=r"store.db: Permission denied: let this user write"):
        SqliteBackend(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_file_of_somebody_else() -> None:
    """Who may not write to the file is told so."""
    # Below pytest's own folder nobody else gets anywhere.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "store.db"
        asyncio.run(fill(path))
        path.chmod(0o444)
        program = (
            "import os\n"
            "from apfproxy.apiserver.store.sqlite import SqliteBackend\n"
            f"os.setuid(65534); SqliteBackend({str(path)!r}).load()"
        )
        refused = subprocess.run(  # noqa: S603  names what it starts itself
            [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
        )

    assert f"StoreError: store {path}: Permission denied: let this user write" in refused.stderr


async def test_a_file_system_without_log(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where SQLite cannot write ahead, the store says so."""

    class Connection(sqlite3.Connection):
        """Has no write-ahead log, as a database in memory has none."""

        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:  # noqa: ANN401  as sqlite3 has it
            """Answers one statement otherwise."""
            return super().execute(sql.replace("= WAL", "= DELETE"), *parameters)

    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3,
        "connect",
        lambda *args, **options: connect(*args, factory=Connection, **options),
    )
    with pytest.raises(StoreError, match="cannot hold a write-ahead log"):
        SqliteBackend(path)


def test_refusal_of_anything_else(path: Path) -> None:
    """An error without advice still says where and what."""
    error = sqlite3.OperationalError("odd")

    assert f"store {path}: see sqlite.org (odd)" == str(refusal(path, error))


def test_a_path_with_signs_of_its_own(tmp_path: Path) -> None:
    """A name is a name, whatever a URI would make of it."""
    path = tmp_path / "a ?b#c%20.db"
    asyncio.run(fill(path))

    assert ["a ?b#c%20.db"] == [file.name for file in tmp_path.iterdir()]
    backend = SqliteBackend(str(path))
    assert 2 == len(backend.load().entries)
    backend.close()


def test_a_batch_is_kept_whole_or_not_at_all(path: Path) -> None:
    """What went well before the failure is undone, and does not come with the next write."""
    first, second = (
        Change(
            version,
            ChangeType.ADDED,
            Entry("pods", "a", f"x{version}", version, "u", {}, {}, b"{}"),
            None,
        )
        for version in (2, 3)
    )
    backend = SqliteBackend(path)
    with pytest.raises(StoreError, match="UNIQUE constraint failed"):
        backend.write([first, first], {})
    backend.write([second], {})
    loaded = backend.load()
    backend.close()

    assert ([second.entry], [second], 3) == (
        loaded.entries,
        loaded.changes,
        loaded.resource_version,
    )


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("is_replaced", [True, False])
async def test_a_file_that_is_gone(path: Path, suffix: str, *, is_replaced: bool) -> None:
    """Nothing is written to a file that nobody finds again, until it is back in its place."""
    store = Store(backend=SqliteBackend(path))
    await change(store, "x")
    away, file = path.with_name("away"), path.with_name(f"{path.name}{suffix}")
    file.rename(away)
    if is_replaced:
        file.write_bytes(b"something else")
    with pytest.raises(StoreError, match="deleted or replaced while in use; put it back"):
        await change(store, "y")
    away.rename(file)
    await change(store, "z")
    await store.close()
    again = Store(backend=SqliteBackend(path))

    assert ["x", "z"] == [entry.name for entry in again.collection("pods").snapshot()]
    await again.close()
