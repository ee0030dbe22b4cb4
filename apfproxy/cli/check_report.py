"""The output of `apfproxy check`: findings as lines and as JSON, diffs, and all their kinds."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from apfproxy.lint.findings import (
    ADDED,
    CHANGED,
    FINDING_KINDS,
    INVALID,
    LEFT_OUT,
    MISSING,
    Finding,
    FindingKind,
    Severity,
)
from apfproxy.objects.additions import MATCH_METHODS
from apfproxy.objects.field_errors import counted, one_line

if TYPE_CHECKING:
    from apfproxy.lint.differences import Difference
    from apfproxy.objects.decode import LeftOut, Problem
    from apfproxy.objects.field_errors import FieldError
    from apfproxy.sources.object_files import FileContents, ObjectsRead

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

    contents: FileContents
    read: ObjectsRead
    entries: Sequence[Entry]
    differences: Sequence[Difference]
    ignored: int

    def as_text(self) -> str:
        """Lines for people."""
        lines = [entry_line(entry) for entry in self.entries] + self.advice()
        for difference in self.differences:
            lines += ["", *map(diff_line, difference.lines)]
        # Blocks of several lines are set apart, and from the summary too.
        if "" in lines:
            lines.append("")
        return "\n".join([*lines, self.summary()])

    def advice(self) -> list[str]:
        """The remedy of each kind of finding, once; nothing about a difference."""
        kinds = {
            entry["id"]: entry["advice"]
            for entry in self.entries
            if "advice" in entry and entry["id"] not in DIFFERENCES
        }
        lines = [
            textwrap.fill(
                f"{id_}  {advice}", WIDTH, initial_indent="  ", subsequent_indent=" " * 10
            )
            for id_, advice in kinds.items()
        ]
        return ["", "What to do:", *lines] if lines else []

    def summary(self) -> str:
        """The last line."""
        valid = counted(len(self.read.objects), "valid object")
        parts = [
            f"{valid} in {counted(len(self.contents.files), 'file')}",
            counted(len(self.of(Severity.ERROR)), "problem"),
            counted(len(self.of(Severity.WARNING)), "warning"),
        ]
        if infos := self.of(Severity.INFO):
            parts.append(counted(len(infos), "info"))
        if self.ignored:
            parts.append(f"{self.ignored} ignored")
        return ", ".join(parts)

    def of(self, severity: Severity) -> list[Entry]:
        """The findings of one severity."""
        return [entry for entry in self.entries if entry["severity"] == severity]

    def as_json(self) -> str:
        """One document for programs."""
        report = {
            "valid": not self.of(Severity.ERROR),
            "files": len(self.contents.files),
            "objects": len(self.read.objects),
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
    of = {"kind": problem.kind or None, "name": problem.name or None}
    if not problem.errors:
        return [
            entry_of(INVALID, problem.source, text, line=problem.line, **of)
            for text in problem.messages
        ]
    return [
        entry_of(
            INVALID,
            problem.source,
            error.message,
            line=line,
            field=error.field or None,
            reason=str(error.reason),
            **of,
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
    chosen = ", ".join(methods)
    return {"advice": f'Write verbs: ["*"], and the annotation {MATCH_METHODS}: {chosen}.'}


def left_out_entry(left_out: LeftOut, *, strict: bool) -> Entry:
    """The entry of what is no object of flow control."""
    severity = {"severity": str(Severity.ERROR)} if strict else {}
    return entry_of(LEFT_OUT, left_out.source, left_out.message, line=left_out.line, **severity)


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
    line = entry["line"]
    file = entry["file"] or BUILT_IN
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
    blocks = []
    for kind in FINDING_KINDS.values():
        heading = f"{click.style(kind.id, bold=True)}  {kind.severity}  {kind.title}"
        wrapped = [
            textwrap.fill(text, WIDTH, initial_indent="    ", subsequent_indent="    ")
            for text in (kind.meaning, f"What to do: {kind.advice}")
        ]
        blocks.append("\n".join([heading, *wrapped]))
    return "\n\n".join(blocks)


def kinds_as_json() -> str:
    """All kinds of findings, for programs."""
    return json.dumps([asdict(kind) for kind in FINDING_KINDS.values()], indent=2)
