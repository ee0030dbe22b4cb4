"""Files that an operator names: read, and watched for changes.

Whatever a path leads to, opening and reading it neither waits nor takes more memory than the bound.
Symbolic links are followed, as Kubernetes' mounts consist of them.

The directories of the files and of what they link to are watched, because editors replace files,
and Kubernetes swaps a link to mount a changed ConfigMap or Secret.  Only changed contents count.
All is also read every few seconds: notifications get lost on network file systems, and a directory
may itself be replaced.

A file that is written in place is empty or incomplete for a moment, and may be valid all the same.
So changed files are read until they are the same twice.  Files that belong together, a certificate
and its key, are one group, and come to rest together.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import logging
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from apfproxy.base.errors import OperatorError
from apfproxy.base.faults import Part
from apfproxy.base.tasks import Supervised

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

logger = logging.getLogger(__name__)

KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

MAX_PEM_BYTES = 4 << 20
"""The largest file of certificates or a key; the CAs of a system have 0.3 MiB."""


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
    """Read a file as a whole, or OSError, whose `strerror` says why not.

    One that `streams` may be a pipe or a terminal as well, whose end is awaited: for commands that
    end then, never for a process that serves.
    """
    with Path(path).open("rb") if streams else open_regular(path) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        problem = f"larger than {most_bytes} bytes; is it the right file?"
        raise OSError(errno.EFBIG, problem, str(path))
    return data


def read_named(path: str | Path, most_bytes: int, error_type: type[ValueError]) -> bytes:
    """Read a regular file as a whole; what is wrong is an `error_type` that names the file."""
    try:
        return read_file(path, most_bytes)
    except OSError as error:
        raise error_type(f"{path}: cannot be read: {error.strerror or error}") from error


DEBOUNCE_MS = 400
"""The longest time that a burst of changes is gathered; copying a few files takes less."""
STEP_MS = 50
REREAD_PERIOD_S = 5.0
STALE_FILES_S = 6 * REREAD_PERIOD_S
"""Without a look at the files, as where their file system hangs."""
SETTLE_S = 0.03
"""Between two readings that have to be the same; writing a file takes far less."""
MAX_SETTLING_READS = 8
"""Files that never rest are then taken as they are."""
DIGESTED_BYTES = 32 << 20
"""The part of a file that is read; of the rest only the time of change counts."""

Roots = frozenset[tuple[str, int, int]]
"""Directories to watch: path, device and inode, so that a replaced one differs."""

T = TypeVar("T")


@dataclass(slots=True)
class Group:
    """Files that are loaded together; those in `needed` have to be there."""

    paths: tuple[str, ...]
    needed: tuple[str, ...]
    reload: Callable[[], object]
    fingerprint: bytes
    problem: str | None = None  # why their last change is not in force


class FileChanges:
    """Reloads groups of files whenever their contents are new and at rest."""

    def __init__(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._groups: list[Group] = []
        self._sleep = sleep
        self._checking = asyncio.Lock()
        self._watching: Supervised | None = None
        self._task: asyncio.Task[None] | None = None

    def add(
        self,
        paths: tuple[str, ...],
        load: Callable[[], object],
        reload: Callable[[], object] | None = None,
        others: tuple[str, ...] = (),
    ) -> None:
        """Load files now, and again, by `reload` if given, whenever they change; blocks on files.

        The others may be missing.  If reloading raises, the old contents stay in force and the log
        has its text, which must not quote the contents.  OperatorError if a file of `paths` is no
        regular one, or `load` raised OSError or ValueError.
        """
        # The fingerprint comes first, so that a change during the load is noticed.
        files = (*paths, *others)
        group = Group(files, paths, reload or load, fingerprint(files))
        try:
            see_regular(tuple(path for path in paths if Path(path).exists()))
            load()  # which may know the setting of one that is missing
            see_regular(paths)
        except OSError as error:
            raise OperatorError(f"{error.filename}: cannot be read: {error.strerror}") from error
        except OperatorError:
            raise
        except ValueError as error:
            raise OperatorError(str(error)) from error
        if group.paths:
            self._groups.append(group)

    @property
    def has_groups(self) -> bool:
        return bool(self._groups)

    @property
    def problems(self) -> list[str]:
        watching = None if self._watching is None else self._watching.problem()
        return [*filter(None, (watching, *(group.problem for group in self._groups)))]

    def start(self, name: str) -> None:
        """Watch the files from now on, if there are any."""
        if self._groups:
            self._watching = Supervised(
                Part.IDENTITY_FILES, f"watching {name}", self.watch, stale_after_s=STALE_FILES_S
            )
            self._task = self._watching.start()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._watching = self._task = None

    async def close(self) -> None:
        task = self._task
        self.stop()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    async def check(self) -> int:
        """Reload the groups that have changed; returns how many were reloaded without failure."""
        async with self._checking:
            return sum([await self._check(group) for group in self._groups])

    async def _check(self, group: Group) -> bool:
        found = await at_rest(
            lambda: (None, fingerprint(group.paths)), group.fingerprint, self._sleep
        )
        if found is None:
            return False
        group.fingerprint = found[1]
        try:
            see_regular(group.needed)
            group.reload()
        except Exception as error:  # noqa: BLE001 - whatever it is, what is in force stays so
            what = "; ".join(str(error).splitlines())
            if isinstance(error, OSError) and error.filename is not None:
                what = f"{error.filename}: cannot be read: {error.strerror}"
            if not what.startswith(group.paths):  # most errors name their file, with a line
                what = f"{', '.join(group.paths)}: {what}"
            group.problem = f"changed, but not taken, the old contents stay in force: {what}"
            # Without a traceback, which could show what was read.
            logger.error("%s", group.problem)  # noqa: TRY400 - as above
            return False
        group.problem = None
        logger.info("changed, and loaded again: %s", ", ".join(group.paths))
        return True

    async def watch(self, beat: Callable[[], None]) -> None:
        paths = tuple(path for group in self._groups for path in group.paths)
        await watch_files(paths, self.check, beat, notifications)


async def at_rest(
    read: Callable[[], tuple[T, bytes]],
    known: bytes,
    sleep: Callable[[float], Awaitable[None]],
) -> tuple[T, bytes] | None:
    """Read contents and fingerprint, in a thread, until they are the same twice; None if known."""
    contents, found = await asyncio.to_thread(read)
    for _ in range(MAX_SETTLING_READS):
        if found == known:
            return None
        before = found
        await sleep(SETTLE_S)
        contents, found = await asyncio.to_thread(read)
        if found == before:
            break
    return None if found == known else (contents, found)


async def watch_files(
    paths: tuple[str, ...],
    check: Callable[[], Awaitable[object]],
    beat: Callable[[], None],
    changes: Callable[[Roots], AsyncGenerator[object, None]],
) -> None:
    """Check files after each change, then beat, for ever; without paths it ends at once."""
    while paths:
        roots = await asyncio.to_thread(watch_roots, paths)
        async with contextlib.aclosing(changes(roots)) as events:
            async for _ in events:
                await check()
                beat()
                if await asyncio.to_thread(watch_roots, paths) != roots:
                    break


def fingerprint(paths: tuple[str, ...]) -> bytes:
    digest = hashlib.sha256()
    for path in paths:
        try:
            with open_regular(path) as file:
                left = DIGESTED_BYTES
                while left and (content := file.read(min(left, 1 << 20))):
                    digest.update(content)
                    left -= len(content)
                status = os.fstat(file.fileno())
        except OSError as error:
            digest.update(b"error %d\n" % (error.errno or 0))
        else:
            changed_ns = 0 if left else status.st_mtime_ns
            digest.update(b"%d bytes, %d\n" % (status.st_size, changed_ns))
    return digest.digest()


def see_regular(paths: tuple[str, ...]) -> None:
    for path in paths:
        open_regular(path).close()


def watch_roots(paths: tuple[str, ...]) -> Roots:
    """The directories whose changes may concern the paths: themselves, parents, links' targets."""
    roots = set()
    for path in paths:
        directories = {path, os.path.dirname(path) or "."}  # noqa: PTH120 - Path would drop ..
        with contextlib.suppress(OSError):
            names = [path]
            if Path(path).is_dir():
                names += [str(entry) for entry in Path(path).iterdir() if entry.is_symlink()]
            for name in names:
                target = os.path.realpath(name)
                directories |= {target, os.path.dirname(target)}  # noqa: PTH120 - as above
        for directory in directories:
            with contextlib.suppress(OSError):
                if Path(directory).is_dir():
                    status = Path(directory).stat()
                    roots.add((directory, status.st_dev, status.st_ino))
    return frozenset(roots)


async def notifications(roots: Roots) -> AsyncGenerator[object, None]:
    """Yield after changes in the directories, and every few seconds anyway."""
    import watchfiles  # noqa: PLC0415 - for those who have files to watch

    yield None  # for changes before the watch began
    directories = sorted({path for path, _, _ in roots})
    started = time.monotonic()
    try:
        async for change in watchfiles.awatch(
            *directories,
            watch_filter=None,
            debounce=DEBOUNCE_MS,
            step=STEP_MS,
            rust_timeout=round(REREAD_PERIOD_S * 1000),
            yield_on_timeout=True,
            recursive=False,
            ignore_permission_denied=True,
        ):
            yield change
    except (OSError, RuntimeError, UnicodeError) as error:
        # No more watches, or a directory that has just gone or has a name that is not UTF-8: all is
        # read now and then.
        logger.debug("cannot watch %s: %s", ", ".join(directories), error)
        await asyncio.sleep(max(0.0, REREAD_PERIOD_S - (time.monotonic() - started)))
