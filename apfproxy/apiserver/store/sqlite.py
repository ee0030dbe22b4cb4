"""Keeps a store's changes in one SQLite file.

Rules:

1. A batch of changes is one transaction; it is kept once the write-ahead log is on the disk (WAL,
   `synchronous=FULL`: one fsync a batch).  What was killed half-way is not there afterwards.
2. Each state of an object is written once, as a row of `versions`, and never changed.  A row of
   `changes` says what its resource version did and which version it replaced.  The objects that
   are there are the versions that no change replaced and that are no deletion's: view `objects`.
3. A change that leaves the window takes the version that it replaced with it, and its own if it was
   a deletion.  Nothing else is ever removed.
4. One process has the file: the lock that SQLite holds ends with the process, however it ends.
5. A file that is not understood is refused and left as it is.
6. Nothing is written once the file at the path is another one: it would be lost.

Not for network file systems, whose locks and fsync are not to be relied on (sqlite.org/wal.html).
"""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import msgspec

from apfproxy.apiserver.store.entries import (
    FIRST_RESOURCE_VERSION,
    Change,
    ChangeType,
    Entry,
    Pool,
    StoreError,
    encode,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

APPLICATION_ID = 0x41504650
"""In the file's header, the letters APFP, by which `file` and this program recognise it."""
FORMAT = 1  # incremented when older programs can no longer read the file

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE floors (resource TEXT PRIMARY KEY, floor INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE versions (
  resource_version INTEGER PRIMARY KEY,
  resource TEXT NOT NULL,
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  uid TEXT NOT NULL,
  labels TEXT NOT NULL,
  fields TEXT NOT NULL,
  data BLOB NOT NULL
);
CREATE TABLE changes (
  resource TEXT NOT NULL,
  resource_version INTEGER NOT NULL,
  type TEXT NOT NULL,
  old INTEGER,
  PRIMARY KEY (resource, resource_version)
) WITHOUT ROWID;
CREATE VIEW objects AS
  SELECT * FROM versions
  WHERE resource_version NOT IN (SELECT old FROM changes WHERE old IS NOT NULL)
    AND resource_version NOT IN (SELECT resource_version FROM changes WHERE type = 'DELETED');
"""

ADD_VERSION = "INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
ADD_CHANGE = "INSERT INTO changes VALUES (?, ?, ?, ?)"
DROP_VERSIONS = """
DELETE FROM versions WHERE resource_version IN (
  SELECT old FROM changes WHERE resource = ?1 AND resource_version <= ?2 AND old IS NOT NULL
  UNION ALL
  SELECT resource_version FROM changes
  WHERE resource = ?1 AND resource_version <= ?2 AND type = 'DELETED'
)
"""
DROP_CHANGES = "DELETE FROM changes WHERE resource = ? AND resource_version <= ?"
SET_FLOOR = "INSERT OR REPLACE INTO floors VALUES (?, ?)"
SET_META = "INSERT OR REPLACE INTO meta VALUES (?, ?)"

LOG_BYTES = 64 * 1024 * 1024
"""The write-ahead log is truncated to this after a burst; it is about 4 MiB otherwise."""

IN_USE = "another process uses it; stop that one, or give another file"
CLOSED = "it cannot be opened; let this user write to the file and its folder"
ADVICE = {
    "SQLITE_BUSY": IN_USE,
    "SQLITE_LOCKED": IN_USE,
    "SQLITE_NOTADB": "it is no SQLite file; give another one, or move it away",
    "SQLITE_CORRUPT": "it is damaged; restore it from a backup, or try `sqlite3 FILE .recover`",
    "SQLITE_FULL": "the disk is full; free some space, then writes work again",
    "SQLITE_READONLY": "it cannot be written; let this user write to the file and its folder",
    "SQLITE_CANTOPEN": CLOSED,
    "SQLITE_PERM": CLOSED,
    "SQLITE_IOERR": "the disk fails; see the system's log",
}
"""Advice by the beginning of SQLite's error names."""

decode_strings = msgspec.json.Decoder(dict[str, str]).decode


class Loaded(NamedTuple):
    """The content of a file.

    Attributes:
        changes: Of all resources, oldest first, as far back as the floors.
        floors: Resource to the resource version of the newest change that is no longer there.
    """

    resource_version: int
    entries: Sequence[Entry]
    changes: Sequence[Change]
    floors: Mapping[str, int]


class SqliteBackend:
    """One SQLite file, held as long as this lives."""

    def __init__(self, path: str | Path) -> None:
        """Open the file, or make it for its owner only; StoreError leaves it as it was."""
        self.path = Path(path)
        self._floors: dict[str, int] = {}
        try:
            _create(self.path)
        except OSError as error:
            advice = "let this user write to it and to its folder, or give another file"
            if isinstance(error, FileNotFoundError):
                advice = "make the folder first, or give another file"
            raise self._error(f"{error.strerror}: {advice}") from error
        uri = f"file:{quote(str(self.path.absolute()))}?mode=rw"
        with self._refusing(), ExitStack() as stack:
            self._connection = sqlite3.connect(
                uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False
            )
            stack.callback(self._connection.close)
            self._open()
            stack.pop_all()
        self._identity = _identity(self.path)

    def load(self, pool: Pool) -> Loaded:
        """Everything that is kept; StoreError if the file is damaged."""
        try:
            with self._refusing():
                return self._load(pool)
        except (msgspec.DecodeError, TypeError, ValueError) as error:
            raise self._damaged(f"a row is not as it was written ({error})") from error

    def write(self, changes: Sequence[Change], floors: Mapping[str, int]) -> None:
        """Keep changes, in one transaction; StoreError if none, the next call tries again.

        The changes of a resource up to its floor, a resource version, need not be kept.
        """
        if _identity(self.path) != self._identity:
            advice = (
                "put it back with all that is beside it, or restart to go on with what is there"
            )
            raise self._error(f"it was deleted or replaced while in use; {advice} now")
        known = self._floors
        moved = {name: floor for name, floor in floors.items() if floor > known.get(name, 0)}
        run, run_many = self._connection.execute, self._connection.executemany
        with self._refusing():
            self._roll_back()  # what failed to be before
            try:
                run("BEGIN IMMEDIATE")
                run_many(ADD_VERSION, map(_version_row, changes))
                run_many(ADD_CHANGE, map(_change_row, changes))
                for resource_floor in moved.items():
                    run(DROP_VERSIONS, resource_floor)
                    run(DROP_CHANGES, resource_floor)
                    run(SET_FLOOR, resource_floor)
                run(SET_META, ("resource_version", changes[-1].resource_version))
                run("COMMIT")
            except sqlite3.Error:
                with suppress(sqlite3.Error):
                    self._roll_back()
                raise
        self._floors.update(moved)

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            advice = (text for key, text in ADVICE.items() if name.startswith(key))
            raise self._error(f"{next(advice, 'see sqlite.org')} ({error})") from error

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _open(self) -> None:
        """Take the lock, check the format, create the tables of a new file."""
        run = self._connection.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        ((application_id,),) = run("PRAGMA application_id")
        ((version,),) = run("PRAGMA user_version")
        ((tables,),) = run("SELECT count(*) FROM sqlite_master")
        is_new = application_id == 0 and tables == 0
        if application_id != APPLICATION_ID and not is_new:
            raise self._error("it belongs to another program; give another file")
        if version > FORMAT:
            known = f"{FORMAT}, the one that this version of apfproxy knows"
            raise self._error(f"its format {version} is newer than {known}; use a newer one")
        ((mode,),) = run("PRAGMA journal_mode = WAL")
        if mode != "wal":
            advice = "give a file on a local disk"
            raise self._error(f"its file system cannot hold a write-ahead log; {advice}")
        run("PRAGMA synchronous = FULL")
        run(f"PRAGMA journal_size_limit = {LOG_BYTES}")
        # Takes the lock also if there is nothing to write.
        run("BEGIN IMMEDIATE")
        if is_new:
            for statement in SCHEMA.split(";")[:-1]:
                run(statement)
            run(SET_META, ("resource_version", FIRST_RESOURCE_VERSION))
            run(f"PRAGMA application_id = {APPLICATION_ID}")
            run(f"PRAGMA user_version = {FORMAT}")
        run("COMMIT")
        found = [text for (text,) in run("PRAGMA quick_check(1)")]
        if found != ["ok"]:
            raise self._damaged(found[0])

    def _load(self, pool: Pool) -> Loaded:
        run = self._connection.execute
        row = run("SELECT value FROM meta WHERE key = 'resource_version'").fetchone()
        if row is None or not isinstance(row[0], int):
            raise self._damaged("it has no resource version")
        last: int = row[0]
        self._floors = dict(run("SELECT resource, floor FROM floors"))
        rows = run("SELECT * FROM versions ORDER BY resource_version")
        versions: dict[int, Entry] = {}
        for rv, resource, space, name, uid, labels, fields, data in rows:
            versions[rv] = Entry(
                sys.intern(resource),
                space,
                name,
                rv,
                uid,
                pool.shared(decode_strings(labels)),
                pool.shared(decode_strings(fields)),
                data,
            )
        changes, gone = [], set()
        for resource, rv, change_type, old in run(
            "SELECT * FROM changes ORDER BY resource_version"
        ):
            entry, before = versions.get(rv), versions.get(old)
            if entry is None or entry.resource != resource or (old and before is None):
                raise self._damaged(f"the state at resource version {rv} is missing")
            changes.append(Change(rv, ChangeType(change_type), entry, before))
            gone.add(old)
            if change_type == "DELETED":
                gone.add(rv)
        entries = [entry for rv, entry in versions.items() if rv not in gone]
        if len(entries) > len({(entry.resource, entry.key) for entry in entries}):
            raise self._damaged("an object is there twice")
        if max([*versions, *self._floors.values(), FIRST_RESOURCE_VERSION]) > last:
            raise self._damaged(f"there are states newer than resource version {last}")
        return Loaded(last, entries, changes, dict(self._floors))

    def _damaged(self, how: str) -> StoreError:
        return self._error(f"{ADVICE['SQLITE_CORRUPT']}: {how}")

    def _error(self, text: str) -> StoreError:
        return StoreError(f"store {self.path}: {text}")


def _version_row(change: Change) -> tuple[str | int | bytes, ...]:
    entry = change.entry
    labels, fields = encode(entry.labels).decode(), encode(entry.fields).decode()
    key = (entry.resource, entry.namespace, entry.name)
    return (entry.resource_version, *key, entry.uid, labels, fields, entry.data)


def _change_row(change: Change) -> tuple[str, int, str, int | None]:
    old = None if change.old is None else change.old.resource_version
    return change.entry.resource, change.resource_version, str(change.type), old


def _create(path: Path) -> None:
    """Make an empty file for its owner only, so that it outlives a crash; leave one that is there.

    The log beside it gets the same mode from SQLite.  OSError if that cannot be done.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if not path.is_file():
            raise FileExistsError(errno.EEXIST, "it is no regular file") from None
        # SQLite reports "disk I/O error" for a lock on a file that is read-only.
        if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _identity(path: Path) -> list[tuple[int, int] | None]:
    """Device and inode of the file and of its log; None for a missing one."""
    found: list[tuple[int, int] | None] = [None, None]
    for index, each in enumerate((path, path.with_name(f"{path.name}-wal"))):
        with suppress(OSError):
            status = each.stat()
            found[index] = (status.st_dev, status.st_ino)
    return found
