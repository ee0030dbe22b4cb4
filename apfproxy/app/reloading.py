"""Reading settings and files again while the proxy serves: at SIGHUP, and when the file changes.

1. Everything is read and made first: the settings, and what they name.  If anything cannot be used,
   or does not go together, all stays as it was.
2. Then all of it is put in force at once, for requests and connections that come from then on.
3. What takes a restart is named, and keeps its value.  Flags win, as at the start.
4. Files that settings name (objects, certificates, keys, tokens) are read again, too.  They are
   watched anyway, and each group of them is taken as a whole or not at all.  The access log is
   opened again.

Settings that were refused since a file that they name is missing or wrong are tried again now and
then: where both are mounted, they may change one after the other.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from apfproxy.app.cluster_checks import path_in
from apfproxy.app.log import configure_logging
from apfproxy.app.settings_checks import check_combination, check_identities
from apfproxy.base.errors import OperatorError
from apfproxy.base.faults import Part, report
from apfproxy.base.files import at_rest, fingerprint, notifications, watch_files
from apfproxy.settings import OF_A_CLUSTER, with_each_cluster
from apfproxy.settings.lines import SettingsLines
from apfproxy.settings.reader import CLUSTERS, is_section, setting_key

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from apfproxy.app.service import Service
    from apfproxy.base.events import ConfigurationEvents
    from apfproxy.base.files import Roots
    from apfproxy.base.health_checks import HealthRegistry
    from apfproxy.settings import ClusterSettings, Settings

SETTINGS = "settings"
"""The health check."""

FIXED = (
    "downstream.listen",
    "downstream.socketMode",
    "downstream.proxyProtocol",
    "flowControl.store",
    "flowControl.kubernetes",
    "flowControl.hashSeed",
    "fleet",
    "workers",
    "admin",
    "adminSocketMode",
    CLUSTERS,
)
"""Settings, and sections of them, that take a restart; of clusters, whether there are any.

Beside them, `merged` says what depends on them: TLS towards clients is not turned on or off, and
objects stay with their source."""

OF_THE_WHOLE = tuple(
    path for path in FIXED if not path.startswith("flowControl.") and path != CLUSTERS
)
"""Those of them that no cluster has of its own.

Where there are clusters, one whose source of objects changes is made anew.
"""

Record = TypeVar("Record")

log = logging.getLogger(__name__)


class Reloadable(Protocol):
    """What is needed of a process."""

    settings: Settings
    health: HealthRegistry
    service: Service
    configuration_events: ConfigurationEvents

    async def renew(self, settings: Settings) -> None:
        """Put other settings in force; OperatorError if they cannot be, and nothing changed."""

    async def read_again(self) -> None:
        """Read files again."""


class SettingsFile:
    """What settings are read from: a file, if there is one, and flags over it.

    Args:
        path: Of the file; None for flags alone.
        read: Gives the settings, or OperatorError; it blocks on the file system.
        is_told: Whether somebody else watches the file, and says when to read it again.

    Attributes:
        refused: Why the settings that were read last are not in force; empty if they are.
        may_recover: Whether what they name may become good without a change of the file.
    """

    def __init__(
        self, path: Path | None, read: Callable[[], Settings], *, is_told: bool = False
    ) -> None:
        self._is_told = is_told
        self._paths = () if path is None else (str(path),)
        self._read = read
        self._fingerprint = b""
        self.refused: tuple[str, ...] = ()
        self.may_recover = False

    async def rest(self) -> None:
        """Wait until nobody writes to the file any more, for a moment at most."""
        if self._paths:
            await at_rest(lambda: (None, fingerprint(self._paths)), b"", asyncio.sleep)

    def read(self) -> Settings:
        """Read the settings; OperatorError if they cannot be used."""
        # The fingerprint comes first, so that a change during the reading is noticed.
        self._fingerprint = fingerprint(self._paths)
        return self._read()

    def problems_of(self, error: OperatorError) -> tuple[str, ...]:
        """What is wrong, a line for each problem; with its place in the file if it has one.

        It blocks on the file system.
        """
        problems = tuple(str(error).splitlines())
        for path in self._paths:
            lines = SettingsLines(Path(path))
            problems = tuple(map(lines.of_this_file, problems))
        return problems

    def read_again(self) -> Settings:
        """Read other settings; OperatorError if they cannot be used, or the file is empty by now.

        An empty file has the defaults, among which nobody is authenticated.  Whoever is writing
        it, or has no room left on the disk, does not mean them.
        """
        settings = self.read()
        for path in self._paths:
            if is_empty(path):
                raise OperatorError(f"{path}: is empty; write the settings that are meant")
        return settings

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
            if (found is not None and not self._is_told) or self.may_recover:
                asked.set()

        await watch_files(self._paths, check, beat, changes)


def is_empty(path: str) -> bool:
    """Whether a file has nothing in it; not so if it is gone."""
    try:
        return not Path(path).stat().st_size
    except OSError:
        return False


async def reload_when(asked: asyncio.Event, process: Reloadable, file: SettingsFile) -> None:
    """Reload whenever the event is set, for ever; several at once are one."""
    while True:
        await asked.wait()
        asked.clear()
        process.service.manager.reloading()
        try:
            await reload(process, file)
        except Exception as error:  # noqa: BLE001  the next time may do better
            report(Part.TASK, error, "the settings and files were not read again to the end")
        process.service.manager.ready()


async def reload(process: Reloadable, file: SettingsFile) -> None:
    """Read everything again, and put in force what can be."""
    before = process.settings
    await file.rest()
    try:
        new = await asyncio.to_thread(file.read_again)
        check_identities(new)
        settings = merged(before, new)
        fixed = changes(settings, new)
        check_merged(settings, fixed)
    except OperatorError as error:
        problems = await asyncio.to_thread(file.problems_of, error)
        refuse(process, file, problems, may_recover=False)
        return
    try:
        await process.renew(settings)
    except OperatorError as error:
        problems = await asyncio.to_thread(file.problems_of, error)
        refuse(process, file, problems, may_recover=True)
        return
    changed = changes(before, settings)
    if (before.log_level, before.log_format) != (settings.log_level, settings.log_format):
        configure_logging(settings.log_level, settings.log_format)
    file.refused, file.may_recover = (), False
    process.health.report(SETTINGS, None)
    shown = ", ".join(with_refusals(changed, settings))
    log.info("read again; changed: %s", shown or "no setting")
    if changed:
        process.configuration_events.record(time.time(), f"Settings changed: {shown}")
    if fixed:
        log.warning("not changed: restart to change %s", ", ".join(fixed))
    await process.read_again()


def refuse(
    process: Reloadable, file: SettingsFile, problems: tuple[str, ...], *, may_recover: bool
) -> None:
    """Say why the settings stay as they are; once, however often they are tried."""
    is_new = problems != file.refused
    file.refused, file.may_recover = problems, may_recover
    process.health.report(SETTINGS, "; ".join(problems))
    if not is_new:
        return
    process.configuration_events.record(
        time.time(), f"The settings stay as they were: {'; '.join(problems)}", is_error=True
    )
    for problem in problems:
        log.error("%s", problem)
    log.error("the settings cannot be used, and stay as they were; no file was read again")


def merged(before: Settings, after: Settings) -> Settings:
    """The settings of `after`, with those of `before` where a change takes a restart."""
    if bool(before.clusters) != bool(after.clusters):
        kept = {name: getattr(before, name) for name in OF_A_CLUSTER}
        after = dataclasses.replace(after, clusters=before.clusters, **kept)
    is_one = not before.clusters
    settings = with_fixed(before, after, FIXED if is_one else OF_THE_WHOLE)
    old, new = before.downstream.tls, after.downstream.tls
    turns = (old.certificate_file is None) != (new.certificate_file is None)
    if turns:
        # The listener speaks TLS, or does not.
        downstream = dataclasses.replace(settings.downstream, tls=old)
        settings = dataclasses.replace(settings, downstream=downstream)
    if not is_one:
        return with_each_cluster(settings, partial(within, settings, turns=turns))
    was, will_be = before.flow_control, after.flow_control
    if (was.store, was.kubernetes) != (will_be.store, will_be.kubernetes):
        # Objects of one source do not take the place of those of another.
        flow_control = dataclasses.replace(
            settings.flow_control, objects=was.objects, suggested_objects=was.suggested_objects
        )
        settings = dataclasses.replace(
            settings,
            flow_control=flow_control,
            admin_token_file=before.admin_token_file,
            preset=before.preset,
        )
    elif was.store is not None or was.kubernetes.is_enabled:
        # Which built-in objects a store begins with, and what serves until an API answers.
        flow_control = dataclasses.replace(
            settings.flow_control, suggested_objects=was.suggested_objects
        )
        settings = dataclasses.replace(settings, flow_control=flow_control, preset=before.preset)
    return settings


def within(whole: Settings, own: Settings, *, turns: bool) -> Settings:
    """A cluster's settings, with all else as the whole proxy has it."""
    tls = whole.downstream.tls if turns else own.downstream.tls
    return dataclasses.replace(
        whole,
        **{name: getattr(own, name) for name in OF_A_CLUSTER},
        downstream=dataclasses.replace(whole.downstream, tls=tls),
        clusters=(),
    )


def with_fixed(before: Record, after: Record, fixed: tuple[str, ...], prefix: str = "") -> Record:
    """The record `after`, with the values of `before` at the paths that are fixed."""
    values = {}
    for field, path in paths_of(before, prefix):
        old, new = getattr(before, field.name), getattr(after, field.name)
        if path in fixed:
            values[field.name] = old
        elif is_section(type(old)):
            values[field.name] = with_fixed(old, new, fixed, f"{path}.")
    return dataclasses.replace(after, **values)  # type: ignore[type-var]  # records are dataclasses


def check_merged(settings: Settings, fixed: list[str]) -> None:
    """See that settings go together even without those that take a restart.

    Raises:
        OperatorError: They do not.
    """
    try:
        check_combination(settings)
        check_identities(settings)
    except OperatorError as error:
        advice = f"restart to change {', '.join(fixed)}; the rest does not go without it"
        raise OperatorError(f"{advice}\n{error}") from error


def changes(before: Record, after: Record, prefix: str = "") -> list[str]:
    """The paths of the settings that differ, such as `downstream.headTimeout`."""
    found = []
    for field, path in paths_of(before, prefix):
        old, new = getattr(before, field.name), getattr(after, field.name)
        if is_section(type(old)) and type(old) is type(new):
            found += changes(old, new, f"{path}.")
        elif old == new:
            continue
        elif path == CLUSTERS and old and new:
            found += changes_of_clusters(old, new, set(found))
        else:
            found.append(path)
    return found


def changes_of_clusters(
    before: tuple[ClusterSettings, ...], after: tuple[ClusterSettings, ...], of_all: set[str]
) -> list[str]:
    """The clusters that came, left or changed otherwise than all of them, with what differs."""
    olds, news = ({each.name: each for each in clusters} for clusters in (before, after))
    found = []
    for name in {**olds, **news}:
        old, new = olds.get(name), news.get(name)
        where = f"{CLUSTERS}[{name}]"
        if old is None or new is None or None in (old.settings, new.settings):
            if old != new:
                found.append(where)
            continue
        found += [
            f"{where}.{setting_key(field)}"
            for field in dataclasses.fields(old)
            if not is_section(type(getattr(old, field.name)))
            and getattr(old, field.name) != getattr(new, field.name)
        ]
        found += [
            path_in(name, path)
            for path in changes(old.settings, new.settings)
            if path not in of_all
        ]
    return found


def with_refusals(paths: list[str], settings: Settings) -> list[str]:
    """The paths of what changed; those of clusters that are refused say so."""
    refused = {f"{CLUSTERS}[{each.name}]" for each in settings.clusters if each.settings is None}
    return [f"{path} (refused)" if path in refused else path for path in paths]


def paths_of(record: object, prefix: str) -> Iterator[tuple[dataclasses.Field[Any], str]]:
    """The fields of a record, each with its path in a settings file."""
    for field in dataclasses.fields(record):  # type: ignore[arg-type]  # records are dataclasses
        yield field, f"{prefix}{setting_key(field)}"
