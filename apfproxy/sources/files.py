"""Keeps a controller's configuration as the object files have it.

A change is taken as a whole or not at all: with any file that cannot be read, or any object that
is not valid, the last good configuration stays, and all problems are reported.  A FlowSchema
without its priority level is no such problem: the order in which files arrive may leave one
dangling for a while, and Kubernetes ignores it, too.

What is watched, and how a file that is being written is not taken half, says `file_changes`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from apfproxy.sources.file_changes import (
    MAX_SETTLING_READS,
    SETTLE_S,
    notifications,
    watch_roots,
)
from apfproxy.sources.object_files import (
    decode_files,
    effective_objects,
    read_files,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from apfproxy.api.decode import Problem
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.digest import Digest
    from apfproxy.sources.file_changes import Roots
    from apfproxy.sources.object_files import FileContents

MAX_LOGGED_PROBLEMS = 20

logger = logging.getLogger(__name__)


class ObjectsError(ValueError):
    """The objects that the process is to start with are broken; the operator's fault.

    Attributes:
        problems: One line each.
    """

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class LoadObserver(Protocol):
    """Hears what became of each load."""

    def __call__(self, problems: tuple[Problem, ...], dangling: tuple[str, ...]) -> None:
        """Take the outcome of one load.

        Args:
            problems: Why it, or a part of it, was not taken; empty if all of it is in force.
            dangling: One line for each FlowSchema that is not used now.
        """


@dataclass(frozen=True, slots=True)
class Prepared:
    """What files come to.

    Attributes:
        problems: Why they are not taken; empty if they are.
        objects: How many there are.
        digest: To be committed; None if there are problems.
    """

    problems: tuple[Problem, ...]
    objects: int
    digest: Digest | None


class ObjectFiles:
    """The files of `paths`, as the source of a controller's configuration.

    Args:
        paths: Files and directories.
        controller: Gets the objects.
        with_suggested: Whether the suggested objects are among the built-in ones.
        on_load: Hears what became of each load, `load_first` included.
        sleep: Waits; tests pass one that does not.
    """

    def __init__(
        self,
        paths: tuple[str, ...],
        controller: Controller,
        *,
        with_suggested: bool = True,
        on_load: LoadObserver | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.paths = paths
        self._controller = controller
        self._with_suggested = with_suggested
        self._on_load = on_load
        self._sleep = sleep
        self._reloading = asyncio.Lock()
        self._fingerprint = b""
        self.problems: tuple[Problem, ...] = ()

    def __repr__(self) -> str:
        return f"<ObjectFiles {', '.join(self.paths)}: {len(self.problems)} problems>"

    def load_first(self) -> None:
        """Put in force what is in the files now; blocks on the file system.

        Raises:
            ObjectsError: There are problems; the mandatory objects alone are in force.
        """
        contents = read_files(self.paths)
        self._fingerprint = contents.fingerprint()
        self._put(self._prepare(contents))
        if self.problems:
            raise ObjectsError(tuple(str(problem) for problem in self.problems))

    async def reload(self) -> bool:
        """Read the files again, and put them in force if they changed and are well.

        Returns:
            Whether they had changed.
        """
        async with self._reloading:
            return await self._reload()

    async def _reload(self) -> bool:
        contents, fingerprint = await self._read()
        for _ in range(MAX_SETTLING_READS):
            if fingerprint == self._fingerprint:
                return False
            before = fingerprint
            await self._sleep(SETTLE_S)
            contents, fingerprint = await self._read()
            if fingerprint == before:
                break
        # In a thread, as reading: of thousands of objects it takes seconds.
        prepared = await asyncio.to_thread(self._prepare, contents)
        self._put(prepared)
        self._fingerprint = fingerprint  # only now: what could not be taken is tried again
        for problem in self.problems[:MAX_LOGGED_PROBLEMS]:
            logger.error("%s", problem)
        if self.problems:
            logger.error(
                "%s in %s: the configuration stays as it was",
                f"{len(self.problems)} problems" if len(self.problems) > 1 else "a problem",
                ", ".join(self.paths),
            )
        return True

    async def _read(self) -> tuple[FileContents, bytes]:
        # In a thread: a slow file system would hold up requests.
        return await asyncio.to_thread(contents_of, self.paths)

    def _prepare(self, contents: FileContents) -> Prepared:
        """Work out what the files come to; nothing is in force yet, so a thread may call this."""
        read = decode_files(contents)
        digest = None
        if not read.problems:
            digest = self._controller.digest(
                effective_objects(read.objects, with_suggested=self._with_suggested)
            )
        return Prepared(read.problems, len(read.objects), digest)

    def _put(self, prepared: Prepared) -> None:
        self.problems = prepared.problems
        dangling: tuple[str, ...] = ()
        if prepared.digest is not None:
            self._controller.commit(prepared.digest)
            dangling = prepared.digest.problems
            if self.paths:
                count = prepared.objects
                logger.log(
                    logging.INFO if count else logging.WARNING,
                    "generation %d of the configuration: %s from %s",
                    self._controller.generation,
                    f"{count} objects" if count else "no objects at all",
                    ", ".join(self.paths),
                )
            log_unused(dangling)
        if self._on_load is not None:
            self._on_load(prepared.problems, dangling)

    async def watch(
        self,
        beat: Callable[[], None],
        changes: Callable[[Roots], AsyncGenerator[object, None]] | None = None,
    ) -> None:
        """Reload after each change, for ever; ends only when it is cancelled, or without paths.

        Args:
            beat: Called after each look at the files.
            changes: Yields when something may have changed below some directories, and ends when
                it cannot go on; by default the system's notifications.
        """
        changes = changes or notifications
        while self.paths:
            roots = await asyncio.to_thread(watch_roots, self.paths)
            async with contextlib.aclosing(changes(roots)) as events:
                async for _ in events:
                    await self.reload()
                    beat()
                    if await asyncio.to_thread(watch_roots, self.paths) != roots:
                        break


def contents_of(paths: Sequence[str]) -> tuple[FileContents, bytes]:
    """What is in the files, and its fingerprint; blocks on the file system."""
    contents = read_files(paths)
    return contents, contents.fingerprint()


def log_unused(lines: Sequence[str]) -> None:
    """Log what of a configuration is not used, the first lines of it."""
    for line in lines[:MAX_LOGGED_PROBLEMS]:
        logger.warning("%s", line)
    if len(lines) > MAX_LOGGED_PROBLEMS:
        logger.warning("and %d more that are not used", len(lines) - MAX_LOGGED_PROBLEMS)
