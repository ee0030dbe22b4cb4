"""Notices that files have changed, and when they have come to rest.

What is watched are the directories of the files and of what they link to, because editors replace
files, and Kubernetes swaps a link to mount a changed ConfigMap or Secret; the event of a watch on
the file itself would be its last.  Whatever happens there, only changed contents count.  Beside
that all is read every few seconds: notifications get lost on network file systems, and a watched
directory may itself be replaced.

A file that is written in place is empty or half there for a moment, and half of it may well be
valid.  So what has changed is read again until it is twice the same.  Files that belong together,
a certificate and its key, are one group, and come to rest together.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import watchfiles

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

DEBOUNCE_MS = 400
"""The longest that a burst of changes is gathered; a copy of a few files takes less."""
STEP_MS = 50
"""A burst ends with so long a silence."""
REREAD_PERIOD_S = 5.0
SETTLE_S = 0.03
"""Between two readings that have to be the same; a file is written in far less."""
MAX_SETTLING_READS = 8
"""Files that never rest are taken as they are in the end."""

logger = logging.getLogger(__name__)

Roots = frozenset[tuple[str, int, int]]
"""Directories to watch: path, device and inode, so that one in another's place is another."""


class Group:
    """Files that are loaded together.

    Args:
        paths: Where they are.
        reload: Takes what is in them now, or raises and leaves everything as it was.

    Attributes:
        problem: Why their last change is not in force; None if it is.
    """

    def __init__(self, paths: tuple[str, ...], reload: Callable[[], object]) -> None:
        self.paths = paths
        self.reload = reload
        self.fingerprint = fingerprint(paths)
        self.problem: str | None = None

    def __repr__(self) -> str:
        return f"<Group of {', '.join(self.paths)}>"


class FileChanges:
    """Reloads groups of files whenever their contents are new and at rest.

    Args:
        sleep: Waits; tests pass one that does not.
    """

    def __init__(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._groups: list[Group] = []
        self._sleep = sleep
        self._checking = asyncio.Lock()

    def add(
        self,
        paths: tuple[str, ...],
        load: Callable[[], object],
        reload: Callable[[], object] | None = None,
    ) -> None:
        """Load files now, and again whenever they change; blocks on the file system.

        Args:
            paths: Files that belong together; nothing is watched if there are none.
            load: Loads them; what it raises is raised here.
            reload: Called after changes instead; if it raises the old contents stay in force, and
                the log says why.  So what it raises says nothing of the contents.
        """
        # First the fingerprint: what changes while they are loaded is noticed.
        group = Group(paths, reload or load)
        load()
        if paths:
            self._groups.append(group)

    @property
    def has_groups(self) -> bool:
        """Whether there is anything to watch."""
        return bool(self._groups)

    @property
    def problems(self) -> list[str]:
        """Why changes of files are not in force, a group each."""
        return [group.problem for group in self._groups if group.problem is not None]

    async def check(self) -> int:
        """Reload the groups that have changed.

        Returns:
            How many were reloaded; those that failed do not count.
        """
        async with self._checking:
            return sum([await self._check(group) for group in self._groups])

    async def _check(self, group: Group) -> bool:
        found = await asyncio.to_thread(fingerprint, group.paths)
        for _ in range(MAX_SETTLING_READS):
            if found == group.fingerprint:
                return False
            before = found
            await self._sleep(SETTLE_S)
            found = await asyncio.to_thread(fingerprint, group.paths)
            if found == before:
                break
        if found == group.fingerprint:
            return False
        group.fingerprint = found
        try:
            group.reload()
        except Exception as error:  # noqa: BLE001 - whatever it is, what is in force stays so
            names = ", ".join(group.paths)
            group.problem = (
                f"changed, but not taken, the old contents stay in force: {names}: {error}"
            )
            # Without a traceback, which could show what was read.
            logger.error("%s", group.problem)  # noqa: TRY400 - as above
            return False
        group.problem = None
        logger.info("changed, and loaded again: %s", ", ".join(group.paths))
        return True

    async def watch(
        self,
        beat: Callable[[], None],
        changes: Callable[[Roots], AsyncGenerator[object, None]] | None = None,
    ) -> None:
        """Reload after each change, for ever; ends only when it is cancelled.

        Args:
            beat: Called after each look at the files.
            changes: Yields when something may have changed below some directories, and ends when
                it cannot go on; by default the system's notifications.
        """
        changes = changes or notifications
        while True:
            paths = tuple(path for group in self._groups for path in group.paths)
            roots = await asyncio.to_thread(watch_roots, paths)
            async with contextlib.aclosing(changes(roots)) as events:
                async for _ in events:
                    await self.check()
                    beat()
                    if await asyncio.to_thread(watch_roots, paths) != roots:
                        break

    def __repr__(self) -> str:
        return f"<FileChanges of {len(self._groups)} groups>"


def fingerprint(paths: tuple[str, ...]) -> bytes:
    """A digest of what is in the files, and of which are not there."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            digest.update(b"error %d\n" % (error.errno or 0))
        else:
            digest.update(b"%d bytes\n" % len(content))
            digest.update(content)
    return digest.digest()


def watch_roots(paths: tuple[str, ...]) -> Roots:
    """The directories in which a change may concern the paths; those that are there.

    That is each path that is a directory, its parent, and the same of what links lead to.
    """
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
    yield None  # what changed before the watch was there
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
    except (OSError, RuntimeError) as error:
        # No more watches, a directory that has just gone: reading now and then has to do.
        logger.debug("cannot watch %s: %s", ", ".join(directories), error)
        await asyncio.sleep(max(0.0, REREAD_PERIOD_S - (time.monotonic() - started)))
