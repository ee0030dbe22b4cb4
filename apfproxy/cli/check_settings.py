"""`apfproxy check --settings FILE`: whether a proxy would start with a settings file."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from apfproxy.app.log import CONTROLS, escaped
from apfproxy.app.named_files import problems_of
from apfproxy.app.settings_checks import WITHOUT_UPSTREAM, check_combination, check_identities
from apfproxy.cli.errors import FAILED, OK, USAGE
from apfproxy.errors import OperatorError
from apfproxy.settings import UNSAID
from apfproxy.sources.settings_file import SettingsError, SettingsLines, load_settings

if TYPE_CHECKING:
    from pathlib import Path

    from apfproxy.settings import Settings


@dataclass
class Findings:
    """What is wrong with a file.

    Attributes:
        wrong: Of the file itself, each with its line and path.
        unusable: Of what it names.
        warnings: What is probably meant otherwise.
    """

    wrong: list[str] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def exit_code(self, *, fails_on_warnings: bool) -> int:
        """As `apfproxy serve` would end, or 1 for warnings if they count."""
        if self.wrong:
            return USAGE
        return FAILED if self.unusable or (fails_on_warnings and self.warnings) else OK


class Warnings(logging.Handler):
    """Gathers what is logged as a warning."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the text."""
        self.texts.append(record.getMessage())


def findings_of(path: Path) -> Findings:
    """Try everything that the start of a proxy would."""
    found = Findings()
    try:
        settings = load_settings(path)
    except SettingsError as error:
        found.wrong += error.problems
        return found
    lines = SettingsLines(path)
    found.wrong += [lines.located(problem) for problem in contradictions(settings)]
    if found.wrong:
        return found
    warnings, root = Warnings(), logging.getLogger()
    root.addHandler(warnings)
    try:
        problems = asyncio.run(problems_of(settings))
    finally:
        root.removeHandler(warnings)
    found.unusable += [lines.located(problem) for problem in problems]
    found.warnings += [lines.located(text) for text in warnings.texts]
    return found


def contradictions(settings: Settings) -> list[str]:
    """Why the settings do not go together."""
    problems = [WITHOUT_UPSTREAM] if settings.upstream.address == UNSAID else []
    for check in (check_combination, check_identities):
        try:
            check(settings)
        except OperatorError as error:
            problems += str(error).splitlines()
    return problems


def check_settings(path: Path, output: str, *, fails_on_warnings: bool) -> int:
    """Show what is wrong with a settings file, or that it is ok; returns the exit code."""
    found = findings_of(path)
    problems = [*found.wrong, *found.unusable]
    if output == "json":
        shown = {"file": str(path), "problems": problems, "warnings": found.warnings}
        click.echo(json.dumps(shown, indent=2))
    else:
        lines = [f"{problem} (error)" for problem in problems]
        lines += [f"{warning} (warning)" for warning in found.warnings]
        if not problems:
            lines.append(f"{path}: ok")
        for line in lines:
            click.echo(CONTROLS.sub(escaped, line))
    return found.exit_code(fails_on_warnings=fails_on_warnings)
