"""`apfproxy ban` and `apfproxy unban`: two objects that stop one user, or slow it down.

The FlowSchema has the least precedence that others than `exempt` may have, and an early name.
"""

from __future__ import annotations

import hashlib
import math
import re
import shlex
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import yaml

from apfproxy.cli.errors import EXIT_CODES, OK, CommandError
from apfproxy.cli.parameters import Number, Parsed
from apfproxy.http.credential_fields import alias_of_address
from apfproxy.lint.dead_rules import why_no_subject
from apfproxy.objects.additions import BAN, LEAST_RATE, MOST_REQUESTS, REQUEST_RATE, UNTIL, decimal
from apfproxy.objects.decode import parts_of
from apfproxy.objects.field_errors import one_line
from apfproxy.objects.go_text import rfc3339
from apfproxy.objects.names import DNS_LABEL, well_formed
from apfproxy.objects.types import Subject, UserSubject
from apfproxy.request.attributes import ANONYMOUS_NAME, BY_ADDRESS, UNVERIFIED_PREFIXES
from apfproxy.settings.values import parse_duration
from apfproxy.sources.object_files import decode_files, read_files

if TYPE_CHECKING:
    from apfproxy.cli.parameters import Command

LONGEST_S = 8784 * 3600  # a year
PLAIN = re.compile(f"{DNS_LABEL}(:{DNS_LABEL})*")
LONGEST_PLAIN = 60
STOPPED = "{nominalConcurrencyShares: 0, borrowingLimitPercent: 0, limitResponse: {type: Reject}}"
SLOWED = """{nominalConcurrencyShares: 1, lendablePercent: 100, limitResponse: {type: Queue,
    queuing: {queues: 2, handSize: 1, queueLengthLimit: 50}}}"""
TEMPLATE = """\
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {{name: {name}, annotations: {{{of_level}}}}}
spec: {{type: Limited, limited: {limited}}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {{name: {name}, annotations: {{{of_schema}}}}}
spec:
  matchingPrecedence: 2
  priorityLevelConfiguration: {{name: {name}}}
  distinguisherMethod: {{type: ByUser}}
  rules:
  - subjects: [{{kind: User, user: {{name: {user}}}}}]
    resourceRules:
    - {{verbs: ["*"], apiGroups: ["*"], resources: ["*"], namespaces: ["*"], clusterScope: true}}
    nonResourceRules:
    - {{verbs: ["*"], nonResourceURLs: ["*"]}}
"""

EPILOG = f"""\b
Examples:
  apfproxy ban key:2c70e12b7a0646f9 --for 10m --objects objects/
  apfproxy ban system:serviceaccount:ci:runner --rate 5 --kubectl
  apfproxy ban alice | kubectl --server http://127.0.0.1:8081 apply -f -
  apfproxy unban alice | kubectl --server http://127.0.0.1:8081 delete -f -

USER is the name as the live page, top and the access log have it.  Without --objects and --kubectl
the objects are printed.

{EXIT_CODES}"""


def parse_for(text: str) -> float:
    if 1 <= (seconds := parse_duration(text)) <= LONGEST_S:
        return seconds
    raise ValueError("expected 1s to 8784h; without --for the ban stays until apfproxy unban")


def places(command: Command) -> Command:
    kind = click.Path(exists=True, file_okay=False, path_type=Path)
    text = "Write or remove a file in the directory that serve --objects reads."
    folder = click.option("--objects", "folder", metavar="DIR", type=kind, help=text)
    kubectl = click.option("--kubectl", is_flag=True, help="Change the objects by kubectl.")
    return click.argument("user")(folder(kubectl(command)))


@click.command(epilog=EPILOG)
@places
@click.option(
    "--for",
    "for_s",
    metavar="DURATION",
    type=Parsed("duration", parse_for),
    help="How long, such as 10m or 24h. [default: until apfproxy unban]",
)
@click.option(
    "--rate",
    type=Number(LEAST_RATE, MOST_REQUESTS),
    metavar="N",
    help="Do not stop the user, but allow N requests a second.",
)
def ban(
    user: str, folder: Path | None, for_s: float | None, rate: float | None, *, kubectl: bool
) -> int:
    """Stop a user's requests, or slow them down.

    The user gets 403 for every request, or with --rate 429 for those beyond it.  A second ban of
    the same user replaces the first.
    """
    check_user(user, folder, kubectl=kubectl)
    until = "" if for_s is None else rfc3339(math.ceil(time.time() + for_s))
    text = objects_text(user, rate, until)
    what = "403" if rate is None else f"429 beyond {decimal(rate)} requests a second"
    place = f" --objects {shlex.quote(str(folder))}" if folder else " --kubectl" * kubectl
    undo = f"apfproxy unban{place}{' --' * user.startswith('-')} {shlex.quote(user)}"
    lines = [f"{user} gets {what}{f' until {until}' * bool(until)}; to end it: {undo}", hint(user)]
    if folder is not None:
        write(folder / f"{name_of(user)}.yaml", text)
    elif kubectl:
        run_kubectl("apply", text)
        lines.append("kube-apiserver follows the objects, too, but not the annotations: run unban")
    else:
        click.echo(text, nl=False)
        lines[0] = f"for kubectl apply -f -: {lines[0]} | kubectl delete -f -"
    for line in lines:
        click.echo(one_line(line), err=True)
    return OK


@click.command(epilog=EPILOG)
@places
def unban(user: str, folder: Path | None, *, kubectl: bool) -> int:
    """Take a ban or a rate of a user back."""
    check_user(user, folder, kubectl=kubectl)
    # The FlowSchema first: without its level it would dangle.
    text = "---\n".join(reversed(objects_text(user, None, "").split("---\n")))
    if folder is not None:
        write(folder / f"{name_of(user)}.yaml", None)
    elif kubectl:
        run_kubectl("delete", text)
    else:
        click.echo(text, nl=False)
        return OK
    click.echo(one_line(f"{user} is free again"), err=True)
    return OK


def check_user(user: str, folder: Path | None, *, kubectl: bool) -> None:
    """UsageError or CommandError if the user cannot be banned."""
    if folder is not None and kubectl:
        raise click.UsageError("give one of --objects and --kubectl")
    if user in ("", "*") or user != well_formed(user):
        raise click.UsageError('USER is one user, in Unicode: "" is none, and "*" would be all')
    if why := why_no_subject(Subject(kind="User", user=UserSubject(name=user))):
        exempt = "; its users are exempt, so nothing bans them" * (user == "system:masters")
        raise CommandError(one_line(f"{user} cannot be banned: {why}{exempt}"))


def name_of(user: str) -> str:
    """The name of both objects, and of no other user's."""
    if len(user) <= LONGEST_PLAIN and PLAIN.fullmatch(user):
        return f"ban-{user.replace(':', '.')}"
    part = re.sub("[^a-z0-9]+", "-", user.lower())[:24].strip("-")
    return f"banned-{part or 'user'}-{hashlib.sha256(user.encode()).hexdigest()[:26]}"


def objects_text(user: str, rate: float | None, until: str) -> str:
    """The level and the FlowSchema, as YAML of ASCII only, so that a terminal shows what it is."""
    end = f'{UNTIL}: "{until}"' if until else ""
    allowed = "" if rate is None else f'{REQUEST_RATE}: "{decimal(rate)}"'
    closed = f'{BAN}: "true"' if rate is None else ""
    return TEMPLATE.format(
        name=name_of(user),
        of_level=", ".join(filter(None, (closed, end))),
        of_schema=", ".join(filter(None, (allowed, end))),
        limited=STOPPED if rate is None else SLOWED,
        user=yaml.safe_dump(user, default_style='"', width=math.inf).rstrip("\n"),
    )


def hint(user: str) -> str:
    if user == ANONYMOUS_NAME:
        return "these are all clients without a name"
    if (there := alias_of_address(user.removeprefix(BY_ADDRESS))) and user != there.name:
        return f"clients at this address have another name, which this does not stop: {there.name}"
    if user.startswith(BY_ADDRESS):
        return "requests from there that show a key, a token or a name go on"
    if user.startswith(UNVERIFIED_PREFIXES):
        return f"its client can take other names, but few if you ban {BY_ADDRESS}ITS-ADDRESS, too"
    return "users in system:masters stay exempt; flows by namespace, group or header are no users"


def write(path: Path, text: str | None) -> None:
    """Replace a file of a directory of objects in one step, or remove it, if a proxy takes it."""
    before = read_files([str(path.parent)])
    files = [(name, data) for name, data in before.files if name != str(path)]
    files += [] if text is None else [(str(path), text.encode())]
    if problems := decode_files(replace(before, files=tuple(files))).problems:
        text = "nothing was changed, as a proxy takes no change before this is repaired:"
        raise CommandError(text, *parts_of(problems))
    new = path.with_name(f".{path.name}.new")
    try:
        if text is None:
            path.unlink()
        else:
            new.write_text(text, encoding="ascii")
            new.replace(path)
    except OSError as error:
        why = "there is no such ban" if text is None and not path.exists() else error.strerror
        raise CommandError(f"{path} cannot be changed: {why}") from error


def run_kubectl(verb: str, text: str) -> None:
    command = ["kubectl", verb, "-f", "-", *["--ignore-not-found"] * (verb == "delete")]
    try:
        done = subprocess.run(command, input=text, text=True, check=False)  # noqa: S603
    except OSError as error:
        why = f"kubectl cannot be run: {error.strerror}; without --kubectl the objects are printed"
        raise CommandError(why) from error
    if done.returncode:
        raise CommandError(f"kubectl {verb} failed")
