"""Changes of the settings of a running process.

What differs is named by its path; what takes a restart stays (`RESTART` of the records).  A change
takes two steps: everything is made first, then it takes effect.  What cannot be made is an
OperatorError, and nothing has changed; taking effect cannot fail.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec import structs

from apfproxy.base.errors import OperatorError
from apfproxy.settings import (
    OF_A_CLUSTER,
    FlowControlSettings,
    Record,
    Settings,
    with_each_cluster,
    with_values,
)
from apfproxy.settings.contradictions import check, path_in
from apfproxy.settings.file import CLUSTERS, settings_in

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from apfproxy.settings import ClusterSettings

R = TypeVar("R", bound=Record)


def nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Change:
    """One part of a process, made: `commit` puts it in force within one turn of the loop."""

    commit: Callable[[], None] = nothing
    discard: Callable[[], None] = nothing


NO_CHANGE = Change()


async def prepare_all(
    parts: Iterable[Callable[[Settings], Awaitable[Change]]],
    settings: Settings,
    then: Callable[[], None] = nothing,
) -> Change:
    """Make what all parts need for other settings; `then` ends its commit.

    OperatorError has the problems of all parts, a line each.
    """
    changes: list[Change] = []
    problems: list[str] = []

    def commit() -> None:
        for change in changes:
            change.commit()
        then()

    def discard() -> None:
        for change in changes:
            change.discard()

    try:
        for prepare in parts:
            try:
                changes.append(await prepare(settings))
            except OperatorError as error:
                problems += str(error).splitlines()
    except BaseException:
        discard()
        raise
    if problems:
        discard()
        raise OperatorError("\n".join(problems))
    return Change(commit, discard)


def changes(before: Record, after: Record, prefix: str = "") -> list[str]:
    """The paths of the settings that differ, such as `downstream.headTimeout`."""
    found: list[str] = []
    for key, setting in settings_in(type(before)).items():
        old, new, path = getattr(before, setting.name), getattr(after, setting.name), prefix + key
        if old == new:
            continue
        if isinstance(old, Record) and isinstance(new, Record):
            found += changes(old, new, f"{path}.")
        elif path == CLUSTERS and old and new:
            found += _of_clusters(old, new, set(found))
        else:
            found.append(path)
    return found


def _of_clusters(
    before: tuple[ClusterSettings, ...], after: tuple[ClusterSettings, ...], of_all: set[str]
) -> list[str]:
    """Name the clusters that came or left, and what changed in others and not in all of them."""
    olds, news = ({each.name: each for each in clusters} for clusters in (before, after))
    found: list[str] = []
    for name in {**olds, **news}:
        old, new = olds.get(name), news.get(name)
        where = f"{CLUSTERS}[{name}]"
        if old == new:
            continue
        if old is None or new is None or old.settings is None or new.settings is None:
            is_refused = new is not None and new.settings is None
            found.append(f"{where} (refused)" if is_refused else where)
            continue
        bare = structs.replace(old, settings=new.settings)
        found += changes(bare, new, f"{where}.")
        found += [
            path_in(name, path)
            for path in changes(old.settings, new.settings)
            if path not in of_all
        ]
    return found


def merged(before: Settings, after: Settings) -> Settings:
    """The settings of `after`, with those of `before` where a change takes a restart.

    Where there are clusters, one whose source of objects changes is made again.  TLS towards
    clients is not turned on or off, and objects stay with their source.
    """
    if bool(before.clusters) != bool(after.clusters):
        kept = {name: getattr(before, name) for name in OF_A_CLUSTER}
        after = structs.replace(after, clusters=before.clusters, **kept)
    settings = _with_fixed(before, after, of_cluster=not before.clusters)
    old, new = before.downstream.tls, after.downstream.tls
    turns = (old.certificate_file is None) != (new.certificate_file is None)
    if turns:
        settings = with_values(settings, {"downstream": {"tls": old}})
    if before.clusters:
        return with_each_cluster(settings, partial(_within, settings, turns=turns))
    was, will_be = before.flow_control, after.flow_control
    is_elsewhere = was.store is not None or was.kubernetes.is_enabled
    if (was.store, was.kubernetes) != (will_be.store, will_be.kubernetes):
        # Objects of one source do not take the place of those of another.
        kept = {"objects": was.objects, "suggested_objects": was.suggested_objects}
        settings = structs.replace(settings, admin_token_file=before.admin_token_file)
    elif is_elsewhere:
        # Which built-in objects a store begins with, and what serves until an API answers.
        kept = {"suggested_objects": was.suggested_objects}
    else:
        return settings
    return with_values(settings, {"flow_control": kept, "preset": before.preset})


def mergeable(before: Settings, after: Settings) -> tuple[Settings, list[str]]:
    """The settings that are `merged`, with the paths of what takes a restart.

    OperatorError if the settings do not go together without that.
    """
    settings = merged(before, after)
    fixed = changes(settings, after)
    try:
        check(settings)
    except OperatorError as error:
        if not fixed:
            raise
        advice = f"restart to change {', '.join(fixed)}; the rest does not go without it"
        raise OperatorError(f"{advice}\n{error}") from error
    return settings, fixed


def _within(whole: Settings, own: Settings, *, turns: bool) -> Settings:
    """A cluster's settings, with all else as the whole proxy has it."""
    kept: dict[str, object] = {name: getattr(own, name) for name in OF_A_CLUSTER}
    if not turns:
        kept["downstream"] = {"tls": own.downstream.tls}
    return with_values(structs.replace(whole, clusters=()), kept)


def _with_fixed(before: R, after: R, *, of_cluster: bool) -> R:
    """The record `after`, with the values of `before` that take a restart."""
    values = {}
    for name in type(before).__struct_fields__:
        old = getattr(before, name)
        if name in before.RESTART:
            values[name] = old
        elif isinstance(old, Record) and (of_cluster or not isinstance(old, FlowControlSettings)):
            values[name] = _with_fixed(old, getattr(after, name), of_cluster=of_cluster)
    return structs.replace(after, **values)
