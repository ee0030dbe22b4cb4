"""Tests of the file: what is kept, who may have it, what is refused, and what a kill leaves.

Writers that are killed run in a process of their own: `python -m` this module, FILE.  For each
line on its standard input, a seed, it forks one that opens the file and writes at full speed;
every write that is answered becomes a line on standard output.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from apfproxy.apiserver.store.entries import Change, ChangeType, Entry, Pool, StoreError
from apfproxy.apiserver.store.sqlite import SqliteBackend
from apfproxy.apiserver.store.store import Store
from tests.forking import fork_for_each_line, say

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def path(tmp_path: Path) -> Path:
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
    loaded = backend.load(Pool())
    backend.close()
    return sorted(entry.name for entry in loaded.entries)


async def test_what_left_the_window_leaves_the_file(path: Path) -> None:
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
    store = Store(backend=SqliteBackend(path))
    await put(store, "x")
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    await store.close()
    assert {path.name: 0o600, f"{path.name}-wal": 0o600} == modes
    assert [path.name] == [file.name for file in path.parent.iterdir()]


def test_one_process_has_the_file(path: Path) -> None:
    backend = SqliteBackend(path)
    with pytest.raises(StoreError, match="another process uses it; stop that one"):
        SqliteBackend(path)
    backend.close()
    backend.close()
    SqliteBackend(str(path)).close()


async def test_a_full_disk_loses_nothing(path: Path) -> None:
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
    loaded = backend.load(Pool())
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
    with pytest.raises(StoreError, match="it is no regular file"):
        SqliteBackend(path.parent)
    with pytest.raises(StoreError, match=r"none/store.db: No such file or directory: make the"):
        SqliteBackend(path.parent / "none" / "store.db")

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreError, match=r"Permission denied: let this user write"):
        SqliteBackend(path)
    monkeypatch.undo()
    path.touch()
    monkeypatch.setattr(os, "access", lambda *_: False)  # a file of another user's
    with pytest.raises(StoreError, match=r"Permission denied: let this user write"):
        SqliteBackend(path)


def test_a_file_system_without_log(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


KILLS = 50
WINDOW = 800
"""Changes that the store keeps: more than one writer makes, fewer than all, so that it prunes."""

WRITERS = 8
MOST_WRITES = 60
"""Each of the writers makes so many at most; then they wait to be killed."""


class Write(NamedTuple):
    """A write that was answered, or that a watch tells of; the value is None for a deletion."""

    resource_version: int
    key: str
    value: str | None


def thing(name: str, value: str) -> dict[str, Any]:
    filler = value * 40  # so that a state may be half written
    return {"metadata": {"name": name, "uid": name}, "spec": {"value": value, "filler": filler}}


def write_of(entry: Entry) -> Write:
    obj = json.loads(entry.data)
    version, value = int(obj["metadata"].pop("resourceVersion")), str(obj["spec"]["value"])
    assert (entry.resource_version, thing(entry.name, value)) == (version, obj)
    return Write(version, entry.name, value)


def read_back(path: Path, since: int) -> tuple[list[Write], set[Write]]:
    store = Store(window=WINDOW, backend=SqliteBackend(path))
    collection = store.collection("things")
    seen = [
        Write(change.resource_version, change.entry.name, None)
        if change.type == "DELETED"
        else write_of(change.entry)
        for change in collection.watch(since).read(10 * WINDOW)
    ]
    assert store.resource_version == (seen[-1].resource_version if seen else since)
    asyncio.run(store.close())
    return seen, set(map(write_of, collection.snapshot()))


async def write_all(path: Path, seed: str) -> int:
    store = Store(window=WINDOW, backend=SqliteBackend(path))

    async def write(number: int) -> None:
        # Seeded by a string: the same in all processes.
        chance = random.Random(f"{seed} {number}")  # noqa: S311  nothing secret
        for count in range(MOST_WRITES):
            name = f"thing-{number}-{chance.randrange(6)}"
            value = f"{seed}-{number}-{count}"
            is_there = store.head("things", "", name) is not None
            is_deletion = is_there and chance.random() < 0.3
            hand_over = store.delete if is_deletion else store.put
            entry = await hand_over("things", thing(name, value), {})
            written = None if is_deletion else value
            say(resource_version=entry.resource_version, key=name, value=written)

    await asyncio.gather(*(write(number) for number in range(WRITERS)))
    await asyncio.Event().wait()
    return 0


@pytest.mark.e2e
def test_nothing_answered_is_lost(tmp_path: Path) -> None:
    """Killed 50 times at random points, the store has every answered write, whole and in order."""
    path = tmp_path / "store.db"
    chance = random.Random(20)  # noqa: S311  nothing secret
    history = [Write(1, "", None)]
    answered_before = 0
    with subprocess.Popen(  # noqa: S603  names what it starts itself
        [sys.executable, "-m", "tests.apiserver.store.test_sqlite", str(path)],
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        for seed in range(KILLS):
            writer.stdin.write(f"{seed}\n")
            writer.stdin.flush()
            # None: in the midst of opening the file, at first of making it.
            patience = chance.choice([0, chance.randrange(100), chance.randrange(350)])
            lines: list[dict[str, Any]] = []
            pid = 0
            is_killed = False
            while not lines or "status" not in lines[-1]:
                lines.append(json.loads(writer.stdout.readline()))
                # The first answers may come before the parent of the writer says its number.
                pid = lines[-1].get("pid", pid)
                if pid and len(lines) > patience and not is_killed:
                    os.kill(pid, signal.SIGKILL)
                    is_killed = True
            answered = [Write(**line) for line in lines if "key" in line]
            last = history[-1].resource_version
            seen, there = read_back(path, last)

            assert {"status": signal.SIGKILL} == lines[-1]
            assert [*range(last + 1, last + 1 + len(seen))] == [each[0] for each in seen]
            assert set(answered) <= set(seen), "none is lost or has a version of another one"
            history += seen
            assert there == {
                each for each in {each.key: each for each in history}.values() if each.value
            }
            answered_before += len(answered)
        writer.stdin.close()

    assert answered_before > 1000


if __name__ == "__main__":
    fork_for_each_line(lambda seed: asyncio.run(write_all(Path(sys.argv[1]), seed)))
