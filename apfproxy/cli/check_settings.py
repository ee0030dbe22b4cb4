"""`apfproxy check --settings FILE`: whether a proxy would start with a settings file."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import click
from msgspec import structs

from apfproxy.admin.tracing import warning as tracing_warning
from apfproxy.app.listener_tls import warning as http2_warning
from apfproxy.app.log import CONTROLS, escaped
from apfproxy.app.named_files import problems_of
from apfproxy.cli.errors import FAILED, OK, USAGE
from apfproxy.cli.offline import offline_controller
from apfproxy.flowcontrol.explanation import distinguished_by
from apfproxy.flowcontrol.level_summary import kept_for_nobody, summarize_levels
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.objects.additions import DISTINGUISHER, DistinguisherKind
from apfproxy.settings import OF_A_CLUSTER, Settings
from apfproxy.settings.contradictions import (
    WITHOUT_UPSTREAM,
    access_warning,
    as_preset,
    begins_with_setting,
    checked_clusters,
    contradictions,
    fleet_warnings,
    lacks_server,
    one_flow,
    path_in,
    verifies_users,
)
from apfproxy.settings.file import SettingsError, SettingsLines, load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass
class Findings:
    """Problems of the file itself, and of what it names; what is probably meant otherwise."""

    wrong: list[str] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def findings_of(path: Path) -> Findings:
    """Try everything that the start of a proxy would."""
    try:
        settings = load_settings(path)
    except SettingsError as error:
        return Findings(wrong=[*error.problems])
    lines = SettingsLines(path)
    wrong = [WITHOUT_UPSTREAM] if lacks_server(settings) else []
    if wrong := [*map(lines.located, [*wrong, *contradictions(settings)])]:
        return Findings(wrong)
    settings = checked_clusters(settings, path)
    wrong += [problem for cluster in settings.clusters for problem in cluster.problems]
    unusable, warnings = Texts(lines), Texts(lines)
    whole = look_at(whole_proxy(settings) if settings.clusters else settings)
    unusable.add("", whole.unusable)
    of_parts = (
        http2_warning(settings.downstream),
        tracing_warning(settings.tracing),
        access_warning(settings),
    )
    warnings.add("", [text for text in of_parts if text])
    if not settings.clusters:
        warnings.add("", whole.warnings)
    for cluster in settings.clusters:
        if cluster.settings is not None:
            own = look_at(cluster.settings)
            unusable.add(cluster.name, own.unusable)
            warnings.add(cluster.name, own.warnings)
    # How many `auto` is, the machine says that serves.
    of_fleet = map(lines.located, fleet_warnings(settings, max(settings.workers or 1, 1)))
    in_order = sorted(unusable.located(), key=partial(line_in, path))
    return Findings(wrong, in_order, [*warnings.located(), *of_fleet])


def line_in(path: Path, problem: str) -> int:
    """The line that a problem names in the settings file; those of other files come last."""
    number = problem.removeprefix(f"{path}:").partition(":")[0]
    return int(number) if number.isdecimal() else sys.maxsize


def whole_proxy(settings: Settings) -> Settings:
    """The settings without those that clusters have in common, which may be a part of any."""
    nothing = Settings()
    # Whose certificates count is said by each cluster.
    tls = structs.replace(settings.downstream.tls, require_client_certificate=False)
    return structs.replace(
        settings,
        **{name: getattr(nothing, name) for name in OF_A_CLUSTER},
        downstream=structs.replace(settings.downstream, tls=tls),
        clusters=(),
    )


def look_at(settings: Settings) -> Findings:
    settings = as_preset(settings)
    warnings, root = Warnings(), logging.getLogger()
    root.addHandler(warnings)
    try:
        problems = asyncio.run(problems_of(settings))
    finally:
        root.removeHandler(warnings)
    if not problems:
        warnings.texts += (*filter(None, (one_flow(settings),)), *of_objects(settings))
    return Findings(unusable=problems, warnings=warnings.texts)


class Texts:
    """Findings about clusters and the whole proxy, each once: several may have the same setting."""

    def __init__(self, lines: SettingsLines) -> None:
        self._lines = lines
        self._names: dict[str, list[str]] = {}

    def add(self, cluster: str, texts: list[str]) -> None:
        """Note what was found of a cluster; "" for the whole proxy."""
        for text in dict.fromkeys(texts):
            self._names.setdefault(text, []).append(cluster)

    def located(self) -> Iterator[str]:
        """Each with its place in the file."""
        for text, (first, *others) in self._names.items():
            if not first:
                yield self._lines.located(text)
                continue
            inner, whole = path_in(first, text), self._lines.of_this_file(text)
            own = self._lines.of_this_file(inner) if begins_with_setting(text) else inner
            if own == inner and whole != text:
                yield whole  # of all clusters, or of the file that is wrong
            else:
                alike = f" ({len(others)} more like it)" if others else ""
                yield f"{self._lines.located(own)}{alike}"


def of_objects(settings: Settings) -> Iterator[str]:
    """Settings that do not go with objects of files.

    Seats that a level keeps from others though no request can come to it, and flows that are told
    apart by prefixes which there are not.
    """
    flow_control = settings.flow_control
    if flow_control.store is not None or flow_control.kubernetes.is_enabled:
        return
    controller = offline_controller(
        flow_control.objects,
        preset=settings.preset,
        suggested_objects=flow_control.suggested_objects,
        server_concurrency_limit=flow_control.seats(len(settings.upstream.addresses)),
    )
    is_plain = PRESETS[settings.preset].is_plain
    levels = summarize_levels(controller, knows_users=verifies_users(settings), is_plain=is_plain)
    if (kept := kept_for_nobody(levels)) is not None:
        setting = "serverConcurrencyLimit" if flow_control.per_endpoint is None else "perEndpoint"
        yield f"flowControl.{setting}: {kept}"
    prefix = DistinguisherKind.PATH_PREFIX.value
    schemas = [each for each in controller.flow_schemas() if distinguished_by(each) == prefix]
    if schemas and not settings.request.path_prefixes:
        yield (
            f"request.pathPrefixes: is empty, but {DISTINGUISHER} of"
            f" {', '.join(each.metadata.name for each in schemas)} is {prefix}:"
            " all their requests are one flow"
        )


def check_settings(path: Path, output: str, *, fails_on_warnings: bool) -> int:
    """Show what is wrong with a settings file; the exit code is that of `serve`."""
    found = findings_of(path)
    problems = [*found.wrong, *found.unusable]
    if output == "json":
        shown = {"file": str(path), "problems": problems, "warnings": found.warnings}
        click.echo(json.dumps(shown, indent=2))
    else:
        lines = [f"{problem} (error)" for problem in problems]
        lines += [f"{warning} (warning)" for warning in found.warnings]
        for line in lines if problems else [*lines, f"{path}: ok"]:
            click.echo(CONTROLS.sub(escaped, line))
    if found.wrong:
        return USAGE
    return FAILED if found.unusable or (fails_on_warnings and found.warnings) else OK
