"""Files of objects as the source of a controller's configuration.

A change is taken as a whole or not at all: with any unreadable file or invalid object the last good
configuration stays, and all problems are reported.  A FlowSchema without its priority level is no
such problem: it may dangle while files arrive, and Kubernetes ignores it, too.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from apfproxy.base.errors import OperatorError
from apfproxy.base.files import at_rest, notifications, watch_files
from apfproxy.flowcontrol.preset import KUBERNETES
from apfproxy.objects.decode import LeftOut, Problem, parts_of
from apfproxy.objects.field_errors import counted
from apfproxy.sources.object_files import decode_files, effective_objects, read_files

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from apfproxy.base.files import Roots
    from apfproxy.flowcontrol.controller import Controller, Digest
    from apfproxy.flowcontrol.preset import Preset
    from apfproxy.sources.object_files import FileContents

    LoadObserver = Callable[[tuple[Problem, ...], tuple[str, ...]], None]
    """Is told why parts of a load are not in force, and a line for each unused FlowSchema."""

MAX_LOGGED_PROBLEMS = 20

logger = logging.getLogger(__name__)


class ObjectsError(OperatorError):
    """The objects at the start are broken; the operator's fault.  A problem is one line."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class DigestedFiles:
    """The outcome of reading files; the digest is to be committed, and None with problems."""

    problems: tuple[Problem, ...]
    objects: int
    digest: Digest | None
    left_out: tuple[LeftOut, ...] = ()


class ObjectFiles:
    """Files and directories, as the source of a controller's configuration.

    The suggested objects may be among the built-in ones; `on_load` is told of `load_first`, too.
    """

    def __init__(
        self,
        paths: tuple[str, ...],
        controller: Controller,
        *,
        with_suggested: bool = True,
        preset: Preset = KUBERNETES,
        on_load: LoadObserver | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.paths = paths
        self._controller = controller
        self._with_suggested = with_suggested
        self._preset = preset
        self._on_load = on_load
        self._sleep = sleep
        self._reloading = asyncio.Lock()
        self._fingerprint = b""
        self.problems: tuple[Problem, ...] = ()

    def load_first(self) -> None:
        """Put the files' objects in force; blocks on the file system.

        With problems it raises ObjectsError, and the mandatory objects alone are in force.
        """
        contents = read_files(self.paths)
        self._fingerprint = contents.fingerprint()
        self.put(self._prepare(contents))
        if self.problems:
            raise ObjectsError(tuple(parts_of(self.problems)))

    async def prepare(self) -> DigestedFiles:
        """What `put` takes in place of `load_first`; changes nothing.

        Raises:
            ObjectsError: There are problems.
        """

        def read() -> tuple[DigestedFiles, bytes]:
            contents, fingerprint = contents_of(self.paths)
            return self._prepare(contents), fingerprint

        prepared, self._fingerprint = await asyncio.to_thread(read)
        if prepared.problems:
            raise ObjectsError(tuple(parts_of(prepared.problems)))
        return prepared

    async def reload(self) -> bool:
        """Read the files again, and put them in force if all is valid; whether they had changed."""
        async with self._reloading:
            return await self._reload()

    async def _reload(self) -> bool:
        found = await at_rest(lambda: contents_of(self.paths), self._fingerprint, self._sleep)
        if found is None:
            return False
        contents, fingerprint = found
        # In a thread: it takes seconds for thousands of objects.
        prepared = await asyncio.to_thread(self._prepare, contents)
        self.put(prepared)
        self._fingerprint = fingerprint  # only now: what could not be taken is tried again
        for text in islice(parts_of(self.problems), MAX_LOGGED_PROBLEMS):
            logger.error("%s", text)
        if self.problems:
            logger.error(
                "%s in %s: the configuration stays as it was",
                f"{len(self.problems)} problems" if len(self.problems) > 1 else "a problem",
                ", ".join(self.paths),
            )
        return True

    def _prepare(self, contents: FileContents) -> DigestedFiles:
        """Decode and digest the objects; puts nothing in force, so a thread may call it."""
        read = decode_files(contents)
        digest = None
        if not read.problems:
            digest = self._controller.digest(
                effective_objects(
                    read.objects, with_suggested=self._with_suggested, preset=self._preset
                )
            )
        return DigestedFiles(read.problems, len(read.objects), digest, read.left_out)

    def put(self, prepared: DigestedFiles) -> None:
        """Put what was read in force, and say what became of it."""
        self.problems = prepared.problems
        for each in prepared.left_out[:MAX_LOGGED_PROBLEMS]:
            logger.info("%s", each)
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
                    counted(count, "object") if count else "no objects at all",
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
        """Reload after each change, for ever; see `watch_files`."""
        await watch_files(self.paths, self.reload, beat, changes or notifications)


def contents_of(paths: Sequence[str]) -> tuple[FileContents, bytes]:
    """The files' contents and their fingerprint; blocks on the file system."""
    contents = read_files(paths)
    return contents, contents.fingerprint()


def log_unused(lines: Sequence[str]) -> None:
    """Log the first lines of what is not used of a configuration."""
    for line in lines[:MAX_LOGGED_PROBLEMS]:
        logger.warning("%s", line)
    if len(lines) > MAX_LOGGED_PROBLEMS:
        logger.warning("and %d more that are not used", len(lines) - MAX_LOGGED_PROBLEMS)
