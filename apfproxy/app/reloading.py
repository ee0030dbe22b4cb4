"""Reading settings and files again while the proxy serves, as SIGHUP asks for.

1. First everything is checked; a settings file that is broken leaves all as it was, and so does one
   that does not go together with itself.
2. What can change does, for requests and connections that come from then on.
3. What cannot is named, and keeps its value until a restart.  Flags win, as at the start.
4. Files that settings name (objects, certificates, keys, tokens) are read again, too.  They are
   watched anyway, and each group of them is taken as a whole or not at all.  The access log is
   opened again.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from apfproxy.app.log import configure_logging
from apfproxy.app.settings_checks import check_identities
from apfproxy.errors import OperatorError
from apfproxy.faults import Part, report
from apfproxy.sources.settings_file import is_section, setting_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apfproxy.observe.health import HealthRegistry
    from apfproxy.settings import Settings

SETTINGS = "settings"
"""The health check."""

CHANGEABLE = (
    "downstream.headTimeout",
    "downstream.idleTimeout",
    "downstream.requestTimeout",
    "downstream.maxHeadBytes",
    "downstream.maxHeaderFields",
    "downstream.maxTargetBytes",
    "downstream.identityHeadersFrom",
    "downstream.trustedProxies",
    "downstream.limits",
    "downstream.overload",
    "upstream.maxConnections",
    "upstream.idleTimeout",
    "upstream.connectTimeout",
    "upstream.answerTimeout",
    "upstream.abandonedWait",
    "upstream.probeInterval",
    "tunnel",
    "watch",
    "drain",
    "flowControl.serverConcurrencyLimit",
    "accessLog.requests",
    "accessLog.sampledPercent",
    "logLevel",
    "logFormat",
    "metrics",
)
"""Settings, and sections of them, that change without a restart."""

Record = TypeVar("Record")

log = logging.getLogger(__name__)


class Reloadable(Protocol):
    """What is needed of a process."""

    settings: Settings
    health: HealthRegistry

    def configure(self, settings: Settings) -> None:
        """Put other settings in force."""

    async def read_again(self) -> None:
        """Read files again."""


async def reload_when(
    asked: asyncio.Event, process: Reloadable, read: Callable[[], Settings]
) -> None:
    """Reload whenever the event is set, for ever; several at once are one."""
    while True:
        await asked.wait()
        asked.clear()
        try:
            await reload(process, read)
        except Exception as error:  # noqa: BLE001  the next time may do better
            report(Part.TASK, error, "the settings and files were not read again to the end")


async def reload(process: Reloadable, read: Callable[[], Settings]) -> None:
    """Read everything again, and put in force what can be.

    `read` gives the settings with the flags over them, or OperatorError; it blocks on the file
    system.
    """
    try:
        new = await asyncio.to_thread(read)
        check_identities(new)
    except OperatorError as error:
        refuse(process.health, str(error).splitlines())
        return
    before = process.settings
    settings = merged(before, new)
    changed, fixed = changes(before, settings), changes(settings, new)
    process.configure(settings)
    if changes_log(before, settings):
        configure_logging(settings.log_level, settings.log_format)
    process.health.report(SETTINGS, None)
    log.info("read again; changed: %s", ", ".join(changed) or "no setting")
    if fixed:
        log.warning("not changed: restart to change %s", ", ".join(fixed))
    await process.read_again()


def changes_log(before: Settings, after: Settings) -> bool:
    """Whether the log is to be written otherwise."""
    return (before.log_level, before.log_format) != (after.log_level, after.log_format)


def refuse(health: HealthRegistry, problems: list[str]) -> None:
    """Say why the settings stay as they are."""
    for problem in problems:
        log.error("%s", problem)
    log.error("the settings cannot be used, and stay as they were; no file was read again")
    health.report(SETTINGS, "; ".join(problems))


def merged(before: Record, after: Record, prefix: str = "") -> Record:
    """The settings of `before`, with those of `after` where they may change."""
    values = {}
    for field, path in paths_of(before, prefix):
        old, new = getattr(before, field.name), getattr(after, field.name)
        if path in CHANGEABLE:
            values[field.name] = new
        elif is_section(type(old)):
            values[field.name] = merged(old, new, f"{path}.")
    return dataclasses.replace(before, **values)  # type: ignore[type-var]  # records are dataclasses


def changes(before: Record, after: Record, prefix: str = "") -> list[str]:
    """The paths of the settings that differ, such as `downstream.headTimeout`."""
    found = []
    for field, path in paths_of(before, prefix):
        old, new = getattr(before, field.name), getattr(after, field.name)
        if is_section(type(old)) and type(old) is type(new):
            found += changes(old, new, f"{path}.")
        elif old != new:
            found.append(path)
    return found


def paths_of(record: object, prefix: str) -> Iterator[tuple[dataclasses.Field[Any], str]]:
    """The fields of a record, each with its path in a settings file."""
    for field in dataclasses.fields(record):  # type: ignore[arg-type]  # records are dataclasses
        yield field, f"{prefix}{setting_key(field)}"
