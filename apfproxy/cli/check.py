"""`apfproxy check`: say what is wrong with object files, before a proxy gets them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from apfproxy.api.documents import LARGEST_INPUT_BYTES
from apfproxy.cli.errors import EXIT_CODES, FAILED, OK
from apfproxy.sources.object_files import (
    FileContents,
    dangling_flow_schemas,
    decode_files,
    effective_objects,
    read_files,
)

if TYPE_CHECKING:
    from apfproxy.api.decode import Problem
    from apfproxy.sources.object_files import ObjectsRead

STDIN = "-"
NOWHERE: dict[str, str | None] = dict.fromkeys(("file", "kind", "name", "field", "message"))

EPILOG = f"""\b
Examples:
  apfproxy check objects/
  kubectl get flowschemas,prioritylevelconfigurations -o yaml | apfproxy check -

{EXIT_CODES}"""


@click.command(epilog=EPILOG)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path())
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Lines for people, or one JSON document.",
)
@click.option(
    "--suggested-objects/--no-suggested-objects",
    default=True,
    show_default=True,
    help="Whether a FlowSchema may name a priority level that Kubernetes suggests.",
)
def check(paths: tuple[str, ...], output: str, *, suggested_objects: bool) -> int:
    """Validate the FlowSchemas and PriorityLevelConfigurations in files.

    PATH is a file, a directory (its *.yaml, *.yml and *.json) or - for standard input.  Every
    problem is printed on a line of its own, with its file, object and field.  A FlowSchema whose
    priority level does not exist is only warned about: it is not used until the level is there.
    """
    contents = read_files([path for path in paths if path != STDIN])
    if STDIN in paths:
        data = sys.stdin.buffer.read(LARGEST_INPUT_BYTES + 1)
        contents = FileContents((*contents.files, ("<stdin>", data)), contents.problems)
    read = decode_files(contents)
    dangling = dangling_flow_schemas(
        effective_objects(read.objects, with_suggested=suggested_objects)
    )
    warnings: list[dict[str, Any]] = [
        {
            "file": read.origins["FlowSchema", name],
            "kind": "FlowSchema",
            "name": name,
            "field": "spec.priorityLevelConfiguration.name",
            "message": f'there is no PriorityLevelConfiguration "{level}"',
        }
        for name, level in dangling.items()
    ]
    if not read.objects and not read.problems:
        nothing = "there is no object in it: only the built-in ones would be in force"
        warnings += [{**NOWHERE, "file": path, "message": nothing} for path in paths]
    problems = [entry for problem in read.problems for entry in problem_entries(problem)]
    if output == "json":
        click.echo(json_report(contents, read, problems, warnings))
    else:
        for entry in problems:
            click.echo(entry_line(entry))
        for entry in warnings:
            click.echo(f"{entry_line(entry)} (warning)")
        click.echo(summary(contents, read, len(problems), len(warnings)))
    return FAILED if problems else OK


def problem_entries(problem: Problem) -> list[dict[str, Any]]:
    """A problem's messages, each as one entry; the field's path apart from what is wrong there."""
    where = {
        "file": problem.source,
        "line": problem.line,
        "kind": problem.kind or None,
        "name": problem.name or None,
    }
    if not problem.errors:
        return [{**where, "field": None, "message": text} for text in problem.messages]
    return [
        {
            **where,
            "field": error.field or None,
            "reason": str(error.reason),
            "message": str(error).removeprefix(f"{error.field}: "),
        }
        for error in problem.errors
    ]


def entry_line(entry: dict[str, Any]) -> str:
    """An entry as a line: file and line, kind and name, field, message."""
    line = entry.get("line")
    parts = [
        entry["file"] if line is None else f"{entry['file']}:{line}",
        "/".join(part for part in (entry["kind"], entry["name"]) if part),
        entry["field"],
        entry["message"],
    ]
    return " ".join(": ".join(part for part in parts if part).split())


def summary(contents: FileContents, read: ObjectsRead, problems: int, warnings: int) -> str:
    """The last line."""
    found = (
        f"{counted(len(read.objects), 'valid object')} in {counted(len(contents.files), 'file')}"
    )
    return f"{found}, {counted(problems, 'problem')}, {counted(warnings, 'warning')}"


def counted(number: int, noun: str) -> str:
    """A number of things."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def json_report(
    contents: FileContents,
    read: ObjectsRead,
    problems: list[dict[str, Any]],
    warnings: list[dict[str, Any]],
) -> str:
    """The whole result as JSON."""
    report = {
        "valid": not problems,
        "files": len(contents.files),
        "objects": len(read.objects),
        "problems": problems,
        "warnings": warnings,
    }
    return json.dumps(report, indent=2)
