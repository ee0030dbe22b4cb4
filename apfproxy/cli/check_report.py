"""The output of `apfproxy check`: findings as lines and as JSON, diffs, and all their kinds."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from apfproxy.lint.findings import (
    ADDED,
    CHANGED,
    FINDING_KINDS,
    INVALID,
    MISSING,
    Finding,
    FindingKind,
    Severity,
)
from apfproxy.objects.additions import MATCH_METHODS
from apfproxy.objects.field_errors import counted, one_line

if TYPE_CHECKING:
    from apfproxy.lint.differences import Difference
    from apfproxy.objects.decode import Problem
    from apfproxy.objects.field_errors import FieldError
    from apfproxy.sources.object_files import ObjectsRead

BUILT_IN = "(built in)"
COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
DIFF_COLOURS = {"-": "red", "+": "green", "@": "cyan"}
WIDTH = 100

DIFFERENCES = frozenset({CHANGED.id, MISSING.id, ADDED.id})

NO_VERBS = frozenset({"POST", "PUT", "HEAD", "OPTIONS"})
"""Methods that are no verbs of Kubernetes, but may be meant as such."""

NON_RESOURCE_VERBS = re.compile(r"spec\.rules\[\d+\]\.nonResourceRules\[\d+\]\.verbs")

Entry = dict[str, Any]
"""One finding as the JSON report has it."""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check.

    Attributes:
        entries: The findings that count.
        differences: From the built-in objects, where they were asked for.
        ignored: How many findings were to be ignored.
    """

    files: int
    objects: int
    entries: Sequence[Entry]
    differences: Sequence[Difference]
    ignored: int

    def as_text(self) -> str:
        """Lines for people: findings, the remedy of each kind once, diffs, and a summary."""
        remedies = {
            each["id"]: each["advice"]
            for each in self.entries
            if "advice" in each and each["id"] not in DIFFERENCES
        }
        lines = [entry_line(entry) for entry in self.entries]
        lines += ["", "What to do:"] if remedies else []
        lines += [wrapped(f"{id_}  {advice}", 2, 10) for id_, advice in remedies.items()]
        for difference in self.differences:
            lines += ["", *map(diff_line, difference.lines)]
        # Blocks of several lines are set apart, and from the summary too.
        lines += [""] if "" in lines else []
        valid = counted(self.objects, "valid object")
        problems, warnings, infos = (len(self.of(each)) for each in Severity)
        summary = [
            f"{valid} in {counted(self.files, 'file')}",
            counted(problems, "problem"),
            counted(warnings, "warning"),
        ]
        summary += [counted(infos, "info")] if infos else []
        summary += [f"{self.ignored} ignored"] if self.ignored else []
        return "\n".join([*lines, ", ".join(summary)])

    def of(self, severity: Severity) -> list[Entry]:
        return [entry for entry in self.entries if entry["severity"] == severity]

    def as_json(self) -> str:
        """One document for programs."""
        report = {
            "valid": not self.of(Severity.ERROR),
            "files": self.files,
            "objects": self.objects,
            "problems": self.of(Severity.ERROR),
            "warnings": self.of(Severity.WARNING),
            "infos": self.of(Severity.INFO),
            "ignored": self.ignored,
            "differences": [
                {"change": change, "kind": kind, "name": name, "diff": lines}
                for change, kind, name, lines in self.differences
            ],
        }
        return json.dumps(report, indent=2)


def wrapped(text: str, first: int, rest: int) -> str:
    """A paragraph, its first line and the others indented by so many blanks."""
    return textwrap.fill(text, WIDTH, initial_indent=" " * first, subsequent_indent=" " * rest)


def entry_of(found: FindingKind, file: str | None, message: str, /, **more: object) -> Entry:
    """An entry with all members that each has."""
    return {
        "id": found.id,
        "severity": str(found.severity),
        "file": file,
        **dict.fromkeys(("line", "kind", "name", "field")),
        "message": message,
        **more,
    }


def problem_entries(problem: Problem) -> list[Entry]:
    """A problem's messages, each as one entry; the field's path apart from what is wrong there."""
    entry = partial(
        entry_of, INVALID, problem.source, kind=problem.kind or None, name=problem.name or None
    )
    if not problem.errors:
        return [entry(text, line=problem.line) for text in problem.messages]
    return [
        entry(
            error.message,
            line=line,
            field=error.field or None,
            reason=str(error.reason),
            **_method_advice(error),
        )
        for error, line in zip(problem.errors, problem.lines, strict=True)
    ]


def _method_advice(error: FieldError) -> Entry:
    """The remedy where a rule for paths of no resource names HTTP methods as verbs."""
    if not NON_RESOURCE_VERBS.fullmatch(error.field) or not isinstance(error.value, Sequence):
        return {}
    methods = [str(verb).upper() for verb in error.value if str(verb).upper() in NO_VERBS]
    if not methods:
        return {}
    return {
        "advice": f'Write verbs: ["*"], and the annotation {MATCH_METHODS}: {", ".join(methods)}.'
    }


def finding_entry(finding: Finding, read: ObjectsRead) -> Entry:
    """The entry of a finding of the linter; file and line are null for a built-in object."""
    key = finding.kind, finding.name
    written = read.written.get(key)
    return entry_of(
        finding.found,
        read.origins.get(key),
        finding.message,
        line=written and written.line_of(finding.field),
        kind=finding.kind,
        name=finding.name,
        field=finding.field or None,
        advice=finding.found.advice,
    )


def entry_line(entry: Entry) -> str:
    """An entry as a line: file and line, kind and name, field, message, severity and id."""
    line, file = entry["line"], entry["file"] or BUILT_IN
    parts = [
        file if line is None else f"{file}:{line}",
        "/".join(part for part in (entry["kind"], entry["name"]) if part),
        entry["field"],
        entry["message"],
    ]
    text = one_line(" ".join(": ".join(part for part in parts if part).split()))
    severity = Severity(entry["severity"])
    return f"{text} ({click.style(severity, fg=COLOURS[severity])} {entry['id']})"


def diff_line(line: str) -> str:
    """A line of a diff with its colour, which `click.echo` takes away where no terminal is."""
    if line.startswith(("--- ", "+++ ")):
        return click.style(line, bold=True)
    colour = DIFF_COLOURS.get(line[:1])
    return click.style(line, fg=colour) if colour else line


def kinds_as_text() -> str:
    """All kinds of findings, explained."""
    return "\n\n".join(
        f"{click.style(kind.id, bold=True)}  {kind.severity}  {kind.title}\n"
        f"{wrapped(kind.meaning, 4, 4)}\n{wrapped(f'What to do: {kind.advice}', 4, 4)}"
        for kind in FINDING_KINDS.values()
    )


def kinds_as_json() -> str:
    """All kinds of findings, for programs."""
    return json.dumps([asdict(kind) for kind in FINDING_KINDS.values()], indent=2)
