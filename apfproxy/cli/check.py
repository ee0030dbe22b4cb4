"""`apfproxy check`: say what is wrong with object files, before a proxy gets them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from apfproxy.cli.check_report import (
    Report,
    entry_of,
    finding_entry,
    kinds_as_json,
    kinds_as_text,
    problem_entries,
)
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
    FINDING_KINDS,
    GIVEN_UP,
    INVALID,
    LEFT_OUT,
    NOTHING_GIVEN,
    Severity,
)
from apfproxy.lint.linter import lint, other_api
from apfproxy.objects.documents import LARGEST_INPUT_BYTES
from apfproxy.settings import KUBERNETES_API
from apfproxy.settings.file import is_settings
from apfproxy.sources.object_files import FileContents, decode_files, effective_objects, read_files

if TYPE_CHECKING:
    from apfproxy.sources.object_files import ObjectsRead

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
    """Read the id of a kind of finding that can be ignored, in any case.

    ValueError if it is none.
    """
    found = text.upper()
    if found not in FINDING_KINDS and found not in GIVEN_UP:
        raise ValueError(f"{text!r} is no id of a finding: see --list-findings")
    if found == INVALID.id:
        raise ValueError(f"{found} cannot be ignored: what is invalid is not used")
    return found


def is_empty(path: str, read: ObjectsRead) -> bool:
    """Whether there is no object in the files of a path, not even a broken one."""
    sources = {*read.origins.values(), *(problem.source for problem in read.problems)}
    return not any(path == source or Path(path) == Path(source).parent for source in sources)


FINDING_ID = Parsed("id", parse_finding_id)


@click.command(epilog=EPILOG)
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path())
@output_option
@preset_option
@suggested_objects_option
@server_concurrency_limit_option
@click.option("--diff", is_flag=True, help="Show how the objects differ from the built-in ones.")
@click.option(
    "--ignore", multiple=True, type=FINDING_ID, help="Leave out findings of this kind.  Repeatable."
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
        click.echo(kinds_as_json() if output == "json" else kinds_as_text())
        return OK
    if settings_path is not None:
        if paths:
            raise click.UsageError("give either --settings FILE or PATH...: one at a time")
        from apfproxy.cli.check_settings import check_settings  # noqa: PLC0415 - imports a proxy

        worst = Severity(fail_on).rank
        return check_settings(
            settings_path, output, fails_on_warnings=Severity.WARNING.rank <= worst
        )
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
    worst = Severity(fail_on).rank
    return FAILED if any(Severity(entry["severity"]).rank <= worst for entry in kept) else OK
