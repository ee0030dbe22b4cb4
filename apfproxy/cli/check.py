"""`apfproxy check`: say what is wrong with object files, before a proxy gets them."""

from __future__ import annotations

import json
import re
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apfproxy.cli.errors import EXIT_CODES, FAILED, OK
from apfproxy.cli.offline import server_concurrency_limit_option
from apfproxy.cli.parameters import (
    Parsed,
    output_option,
    preset_option,
    suggested_objects_option,
)
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.lint.differences import differences
from apfproxy.lint.findings import (
    ADDED,
    CHANGED,
    FINDING_KINDS,
    GIVEN_UP,
    INVALID,
    LEFT_OUT,
    MISSING,
    NOTHING_GIVEN,
    Finding,
    FindingKind,
    Severity,
)
from apfproxy.lint.linter import ended, lint, other_api
from apfproxy.objects.additions import MATCH_METHODS
from apfproxy.objects.documents import LARGEST_INPUT_BYTES
from apfproxy.objects.field_errors import counted, one_line
from apfproxy.settings import KUBERNETES_API
from apfproxy.settings.file import is_settings
from apfproxy.sources.object_files import FileContents, decode_files, effective_objects, read_files

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

STDIN = "-"
STDIN_NAME = "<stdin>"

EPILOG = f"""\b
Examples:
  apfproxy check objects/
  apfproxy check --diff --fail-on warning --ignore APF204 objects/
  kubectl get flowschemas,prioritylevelconfigurations -o yaml |
    apfproxy check --no-suggested-objects --diff -
  apfproxy check --settings apfproxy.yaml
  apfproxy check --list-findings

{EXIT_CODES}
Findings as bad as --fail-on says, or worse, count as failed.  With --settings it ends as serve
would: 2 if the settings file is wrong, 1 if something that it names is."""


def parse_finding_id(text: str) -> str:
    found = text.upper()
    if found not in FINDING_KINDS and found not in GIVEN_UP:
        raise ValueError(f"{text!r} is no id of a finding: see --list-findings")
    if found == INVALID.id:
        raise ValueError(f"{found} cannot be ignored: what is invalid is not used")
    return found


def is_empty(path: str, read: ObjectsRead) -> bool:
    """Whether there is no object in the files of a path, not even a broken one."""
    files = {name for name, _ in read.written.values()}
    sources = files.union(problem.source for problem in read.problems)
    return not any(path == source or Path(path) == Path(source).parent for source in sources)


@click.command(epilog=EPILOG)
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path())
@output_option
@preset_option
@suggested_objects_option
@server_concurrency_limit_option
@click.option("--diff", is_flag=True, help="Show how the objects differ from the built-in ones.")
@click.option(
    "--ignore",
    multiple=True,
    type=Parsed("id", parse_finding_id),
    help="Leave out findings of this kind.  Repeatable.",
)
@click.option(
    "--fail-on",
    type=click.Choice([str(severity) for severity in Severity]),
    default=str(Severity.ERROR),
    show_default=True,
    help="The least severity that makes the exit code 1.",
)
@click.option(
    "--settings",
    "settings_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Instead of PATH: whether a proxy would start with this settings file.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Take what is no object of flow control, such as a Deployment, for an error.",
)
@click.option("--list-findings", is_flag=True, help="Explain all findings, and do nothing else.")
def check(  # noqa: PLR0913  flags
    paths: tuple[str, ...],
    output: str,
    server_concurrency_limit: int,
    ignore: tuple[str, ...],
    fail_on: str,
    *,
    preset: str | None,
    suggested_objects: bool,
    diff: bool,
    strict: bool,
    list_findings: bool,
    settings_path: Path | None,
) -> int:
    """Validate and lint objects in files, or check a settings file.

    Objects are FlowSchemas and priority levels; others beside them are left out.  PATH is a file, a
    directory (its *.yaml, *.yml and *.json) or - for standard input.  Every finding is printed on a
    line of its own, with its file and line, object and field, its severity and its id.  Errors are
    objects that cannot be used; warnings and infos are about the configuration as a whole, with the
    built-in objects that would be in force.

    With --settings it reads a settings file and all that it names, as a proxy does at its start:
    certificates and their keys, CAs, tokens, objects, a kubeconfig.  It changes and asks
    nothing.
    """
    if list_findings:
        kinds = json.dumps([asdict(kind) for kind in FINDING_KINDS.values()], indent=2)
        click.echo(kinds if output == "json" else kinds_as_text())
        return OK
    worst = Severity(fail_on).rank
    if settings_path is not None:
        if paths:
            raise click.UsageError("give either --settings FILE or PATH...: one at a time")
        from apfproxy.cli.check_settings import check_settings  # noqa: PLC0415 - imports a proxy

        fails_on_warnings = Severity.WARNING.rank <= worst
        return check_settings(settings_path, output, fails_on_warnings=fails_on_warnings)
    if not paths:
        raise click.UsageError("Missing argument 'PATH...'.", click.get_current_context())
    paths = tuple(STDIN_NAME if path == STDIN else path for path in dict.fromkeys(paths))
    contents = read_files([path for path in paths if path != STDIN_NAME], streams=True)
    if STDIN_NAME in paths:
        data = sys.stdin.buffer.read(LARGEST_INPUT_BYTES + 1)
        files = (*contents.files, (STDIN_NAME, data))
        contents = FileContents(files, contents.problems, contents.found)
    read = decode_files(contents)
    for name, data in contents.files:
        if any(problem.source == name for problem in read.problems) and is_settings(data):
            raise click.UsageError(
                f"{name} has settings, not objects; try apfproxy check --settings {name}"
            )
    kind = PRESETS[preset or KUBERNETES_API]
    effective = effective_objects(read.objects, with_suggested=suggested_objects, preset=kind)
    findings = lint(effective, server_concurrency_limit, kind)
    findings += ended(read.objects, time.time())
    if preset is None:
        findings += other_api(read.objects)
    differing = differences(effective, kind) if diff else []
    findings += [each.finding() for each in differing]
    differing = [each for each in differing if each.finding().found.id not in ignore]

    entries = [entry for problem in read.problems for entry in problem_entries(problem)]
    severity = {"severity": str(Severity.ERROR)} if strict else {}
    left_out = {each.source for each in read.left_out}  # which says enough beside objects
    nothing = not (read.objects or read.problems)
    entries += [
        entry_of(LEFT_OUT, each.source, each.message, line=each.line, **severity)
        for each in read.left_out
    ]
    entries += [
        entry_of(NOTHING_GIVEN, path, "there is no object in it")
        for path in paths
        if is_empty(path, read) and (nothing or path not in left_out)
    ]
    entries += [finding_entry(finding, read) for finding in findings]
    places = {name: place for place, (name, _) in enumerate(contents.files)}
    entries.sort(
        key=lambda each: (each["file"] is None, places.get(each["file"], -1), each["line"] or 0)
    )
    kept = [entry for entry in entries if entry["id"] not in ignore]
    ignored = len(entries) - len(kept)
    report = Report(len(contents.files), len(read.objects), kept, differing, ignored)
    click.echo(report.as_json() if output == "json" else report.as_text())
    return FAILED if any(Severity(entry["severity"]).rank <= worst for entry in kept) else OK


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check: `entries` that count, and how many findings were `ignored`."""

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
    return textwrap.fill(text, WIDTH, initial_indent=" " * first, subsequent_indent=" " * rest)


def entry_of(found: FindingKind, file: str | None, message: str, /, **more: object) -> Entry:
    return {
        "id": found.id,
        "severity": str(found.severity),
        "file": file,
        **dict.fromkeys(("line", "kind", "name", "field")),
        "message": message,
        **more,
    }


def problem_entries(problem: Problem) -> list[Entry]:
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
    """File and line are null for a built-in object."""
    file, written = read.written.get((finding.kind, finding.name), (None, None))
    return entry_of(
        finding.found,
        file,
        finding.message,
        line=written and written.line_of(finding.field),
        kind=finding.kind,
        name=finding.name,
        field=finding.field or None,
        advice=finding.found.advice,
    )


def entry_line(entry: Entry) -> str:
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
    return "\n\n".join(
        f"{click.style(kind.id, bold=True)}  {kind.severity}  {kind.title}\n"
        f"{wrapped(kind.meaning, 4, 4)}\n{wrapped(f'What to do: {kind.advice}', 4, 4)}"
        for kind in FINDING_KINDS.values()
    )
