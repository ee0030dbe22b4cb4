"""Reading settings and files again while the proxy serves: at SIGHUP, and when the file changes.

1. Everything is read and made first: the settings, and what they newly name.  If anything cannot be
   used, or does not go together, all settings stay as they were.
2. Then all of it is put in force at once, for requests and connections that come from then on.
3. What takes a restart is named, and keeps its value.  Flags win, as at the start.
4. Files that settings named before (objects, certificates, keys, tokens) are watched anyway; they
   are read again last, each group of them as a whole or not at all.  One that cannot be used keeps
   its last content and holds nothing else back.  The access log is opened again.

Settings that were refused since a file that they name is missing or wrong are tried again now and
then: where both are mounted, they may change one after the other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Protocol

from apfproxy.app.log import configure_logging
from apfproxy.base.errors import OperatorError
from apfproxy.base.faults import Part, report
from apfproxy.base.files import at_rest, fingerprint, notifications, watch_files
from apfproxy.base.tasks import Supervised, spawn
from apfproxy.settings.change import changes, mergeable
from apfproxy.settings.file import SettingsLines

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

    from apfproxy.base.events import ConfigurationEvents
    from apfproxy.base.files import Roots
    from apfproxy.base.health_checks import HealthRegistry
    from apfproxy.base.service_manager import ServiceManager
    from apfproxy.settings import Settings

SETTINGS = "settings"
"""The health check."""

log = logging.getLogger(__name__)


class Reloadable(Protocol):
    health: HealthRegistry
    manager: ServiceManager
    configuration_events: ConfigurationEvents

    @property
    def settings(self) -> Settings:
        """Return the settings in force."""

    async def renew(self, settings: Settings) -> None:
        """Put other settings in force; OperatorError if they cannot be, and nothing changed."""

    async def read_again(self) -> None:
        """Read files again."""


class SettingsFile:
    """The source of the settings: a file, if there is one, and flags over it.

    `read` blocks on the file system; `is_told` if the parent of workers reads the file and says
    what is in it.  `refused` says why what was read last is not in force, `may_recover` whether it
    may become good without a change of the file; `is_retry` if the next reading is for that alone.
    """

    def __init__(
        self, path: Path | None, read: Callable[[], Settings], *, is_told: bool = False
    ) -> None:
        self.is_told = is_told
        self._path = path
        self._paths = () if path is None or is_told else (str(path),)
        self._read = read
        self._fingerprint = b""
        self.refused: tuple[str, ...] = ()
        self.may_recover = False
        self.is_retry = False

    async def rest(self) -> None:
        """Wait until no one writes to the file any more, for a moment at most."""
        if self._paths:
            await at_rest(lambda: (None, fingerprint(self._paths)), b"", asyncio.sleep)

    def read(self) -> Settings:
        """OperatorError if they cannot be used."""
        # The fingerprint comes first, so that a change during the reading is noticed.
        self._fingerprint = fingerprint(self._paths)
        return self._read()

    def read_again(self) -> Settings:
        """OperatorError if they cannot be used, or the file is empty by now.

        An empty file has the defaults, among which no one is authenticated.  It is being written,
        or the disk is full.
        """
        settings = self.read()
        path = None if self.is_told else self._path
        if path is not None and path.exists() and not path.stat().st_size:
            raise OperatorError(f"{path}: is empty; write the settings that are meant")
        return settings

    def problems_of(self, error: OperatorError) -> tuple[str, ...]:
        """The problems, with their place in the file if they have one; blocks on files."""
        problems = tuple(str(error).splitlines())
        if self._path is None:
            return problems
        return tuple(map(SettingsLines(self._path).of_this_file, problems))

    async def watch(
        self,
        asked: asyncio.Event,
        beat: Callable[[], None],
        changes: Callable[[Roots], AsyncGenerator[object, None]] = notifications,
    ) -> None:
        """Ask for a reload after each change of the file, for ever; without a file it ends."""

        async def check() -> None:
            found = await at_rest(
                lambda: (None, fingerprint(self._paths)), self._fingerprint, asyncio.sleep
            )
            if found is not None or self.may_recover:
                self.is_retry = found is None and not asked.is_set()
                asked.set()

        await watch_files(self._paths, check, beat, changes)


def reloading_tasks(
    asked: asyncio.Event, process: Reloadable, file: SettingsFile
) -> list[asyncio.Task[None]]:
    """Reload when that is asked for, and when the file changes; the tasks are to be cancelled."""
    watching = Supervised(Part.TASK, "watching the settings", lambda beat: file.watch(asked, beat))
    reloading = spawn(reload_when(asked, process, file), name="reading settings again")
    return [reloading, watching.start()]


async def reload_when(asked: asyncio.Event, process: Reloadable, file: SettingsFile) -> None:
    """Reload whenever the event is set, for ever; several at once are one."""
    while True:
        await asked.wait()
        asked.clear()
        process.manager.reloading()
        try:
            await reload(process, file)
        except Exception as error:  # noqa: BLE001  the next time may do better
            report(Part.TASK, error, "the settings and files were not read again to the end")
        process.manager.ready("\n".join(file.refused))


async def reload(process: Reloadable, file: SettingsFile) -> None:
    """Read everything again, and put in force what can be; see above."""
    before, is_retry, may_recover = process.settings, file.is_retry, False
    file.is_retry = False
    await file.rest()
    try:
        new = await asyncio.to_thread(file.read_again)
        settings, fixed = mergeable(before, new)
        may_recover = True
        await process.renew(settings)
    except OperatorError as error:
        problems = await asyncio.to_thread(file.problems_of, error)
        is_known = (is_retry or file.is_told) and problems == file.refused
        file.refused, file.may_recover = problems, may_recover
        process.health.report(SETTINGS, "; ".join(problems))
        if not is_known:
            _log_refusal(process, problems)
        return
    changed = changes(before, settings)
    if (before.log_level, before.log_format) != (settings.log_level, settings.log_format):
        configure_logging(settings.log_level, settings.log_format)
    file.refused, file.may_recover = (), False
    process.health.report(SETTINGS, None)
    shown = ", ".join(changed)
    log.info("read again; changed: %s", shown or "no setting")
    if changed:
        process.configuration_events.record(time.time(), f"Settings changed: {shown}")
    if fixed:
        log.warning("not changed: restart to change %s", ", ".join(fixed))
    await process.read_again()


def _log_refusal(process: Reloadable, problems: tuple[str, ...]) -> None:
    process.configuration_events.record(
        time.time(), f"The settings stay as they were: {'; '.join(problems)}", is_error=True
    )
    for problem in problems:
        log.error("%s", problem)
    log.error("the settings cannot be used, and stay as they were; no file was read again")
