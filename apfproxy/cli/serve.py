"""`apfproxy serve`: the proxy, from the command line to its end."""

from __future__ import annotations

import logging
import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from apfproxy.app.log import configure_logging, name_worker
from apfproxy.app.reloading import SettingsFile
from apfproxy.app.running import run_in_loop, serve_until_signal
from apfproxy.base.errors import OperatorError
from apfproxy.base.listeners import of_parent, of_systemd
from apfproxy.base.service_manager import ServiceManager
from apfproxy.base.signals import Hangup
from apfproxy.cli.errors import EXIT_CODES, CommandError, SettingsFileError, exit_code
from apfproxy.cli.parameters import PRESET_HELP, SUGGESTED_HELP, Parsed, WholeNumber
from apfproxy.settings import (
    UNSAID,
    EndpointSettings,
    ServiceSettings,
    Settings,
    with_each_cluster,
    with_values,
)
from apfproxy.settings.contradictions import (
    WITHOUT_UPSTREAM,
    ConflictError,
    as_preset,
    check,
    checked_clusters,
    fleet_warnings,
    lacks_server,
)
from apfproxy.settings.file import SettingsError, field_path, load_settings, way_to
from apfproxy.settings.store_address import store_address
from apfproxy.settings.values import (
    BOOL,
    FILE,
    LOG_FILE,
    TEXT,
    WHOLE,
    parse_listen_address,
    parse_service,
    parse_upstream_url,
)
from apfproxy.workers.place import SentSettings, worker_count, worker_place
from apfproxy.workers.worker import ParentLink

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.app.parent import Parent
    from apfproxy.app.process import ProxyProcess
    from apfproxy.base.signals import Signals

EPILOG = f"""\b
Examples:
  apfproxy serve --upstream http://127.0.0.1:8000 --listen :8080
  apfproxy serve --upstream https://10.0.0.1:6443 --upstream-ca-file ca.crt \\
      --listen :8443 --tls-cert-file s.crt --tls-private-key-file s.key
  apfproxy serve --upstream https://10.0.0.1:6443 \\
      --upstream https://10.0.0.2:6443 --per-endpoint 200
  apfproxy serve --settings apfproxy.yaml --objects objects/
  apfproxy serve --upstream http://127.0.0.1:8000 --store objects.db
  apfproxy serve --upstream http://127.0.0.1:8000 --objects-from-kubernetes
  apfproxy serve --upstream http://127.0.0.1:8000 --workers auto
  apfproxy serve --upstream http://10.0.0.1:8000 --fleet redis://10.0.0.9 \\
      --fleet-replicas 3

SIGTERM or SIGINT drains: /readyz fails at once, connections are accepted for the shutdown delay,
then requests get their time to end.  A second signal stops at once.  The settings file is watched;
SIGHUP reads it and all files again.  The log says what has changed, and what takes a restart.
With --workers send signals to the parent, which is the first process; SIGUSR2 has new processes
take the workers' places, one after the other, without a request that fails.

{EXIT_CODES}"""

NOWHERE = "none"
"""Stands for an address where nothing is to listen."""


FLAG_LINES = f"""
# Addresses
upstream (upstream.endpoints): The server: http://HOST[:PORT], https://HOST[:PORT] or unix:/PATH.
  Repeatable, for several servers of the same API.
upstream-dns (upstream.dns): Instead: servers at all addresses of the URL's host name, which is
  resolved again.
upstream-service (upstream.service): Instead: servers of a Service in the pod's cluster, such as
  default/kubernetes; watched.
response-timeout (upstream.answerTimeout): The server's time to begin a response; raises also how
  long a body may stand still (downstream.requestTimeout). [default: 1m, or 10m with preset llm]
listen (downstream.listen): For clients; :8080 is every address; or unix:/PATH.
admin (admin): For the live page, metrics and health, or none.
# TLS and users
tls-cert-file (downstream.tls.certificateFile): Certificate shown to clients, PEM; turns TLS on.
  [default: plain HTTP]
tls-private-key-file (downstream.tls.keyFile): Its key, PEM.
client-ca-file (authentication.clientCaFile): CAs of client certificates, which name users, PEM.
token-auth-file (authentication.tokenFile): Bearer tokens: CSV of token,user,uid,groups.
token-review (authentication.tokenReview.enabled): Whether to ask the server about other tokens,
  by TokenReview.
identity-headers-from (downstream.identityHeadersFrom): Clients whose X-Remote-* fields name the
  user. [default: none]  Repeatable.
upstream-ca-file (upstream.tls.caFile): CAs that verify the server, PEM. [default: the system's]
upstream-token-file (upstream.tokenFile): The proxy's own bearer token, such as for reviews.
# Flow control
preset (preset): {PRESET_HELP}
server-concurrency-limit (flowControl.serverConcurrencyLimit): Seats of the whole server, divided
  among the priority levels; or auto, which finds how many do the most.
per-endpoint (flowControl.perEndpoint): Instead: seats of each server; the limit is that of all
  that are healthy.
no-rebalance (upstream.rebalance.percentPerMinute): End no watch to bring watches into balance
  among several servers.
enforcement (flowControl.enforcement): Whether requests are limited, or only what would happen is
  counted.
suggested-objects (flowControl.suggestedObjects): {SUGGESTED_HELP}
objects (flowControl.objects): File or directory of FlowSchemas and PriorityLevelConfigurations;
  watched.  Repeatable.
store (flowControl.store): Instead of --objects: an SQLite file of them, which kubectl --server
  http://ADMIN edits.
admin-token-file (adminTokenFile): File with the bearer token for writes to the store. [default:
  only loopback writes]
objects-from-kubernetes (flowControl.kubernetes.enabled): Instead of --objects: follow those of a
  Kubernetes API, by default of the pod's cluster.
kubeconfig (flowControl.kubernetes.kubeconfig): How to reach that API. [default: by the pod's
  service account]
context (flowControl.kubernetes.context): Context of the kubeconfig. [default: its current one]
write-status (flowControl.kubernetes.writeStatus): Whether to maintain the condition Dangling of
  FlowSchemas in that API.
object-counts-from (flowControl.objectCountsFrom): Metrics page with the numbers of stored
  objects, for the costs of LISTs.
fleet (fleet.store): Share the limit with other proxies, by the store at redis://HOST or
  kubernetes:NAMESPACE/NAME.
fleet-replicas (fleet.replicas): How many proxies are meant to share it. [default: as many as
  come]
# Processes
workers (workers): Processes that serve, or auto: one a processor.  They share the seats.
  [default: one, without a parent]
# Logs and settings
access-log (accessLog.path): Log a line of JSON for each request; - for stdout.  SIGUSR1 reopens
  it. [default: none]
log-level (logLevel):
log-format (logFormat): Lines of the log, on stderr: text, or a JSON object each.
metrics (metrics): Whether /metrics leaves out what was never used.
"""
"""The flags by the sections of help: the setting that each stands for, and what it is."""


def flags_of(lines: str) -> dict[str, dict[str, tuple[str, str]]]:
    sections: dict[str, dict[str, tuple[str, str]]] = {}
    for section in re.sub(r"\n +", " ", lines).split("\n# ")[1:]:
        title, *rows = section.strip().split("\n")
        flags = sections[title] = {}
        for row in rows:
            (flag, path), text = row.partition(":")[0].split(), row.partition(":")[2]
            flags[flag] = path.strip("()"), text.strip()
    return sections


FLAGS = flags_of(FLAG_LINES)
LAST = "Logs and settings"
GIVEN = {"no-rebalance": 0, "objects-from-kubernetes": True}
"""The values of flags that take none."""
KINDS = {
    "upstream": Parsed("url", parse_upstream_url),
    "upstream-service": Parsed("namespace/name", parse_service),
    "admin": Parsed(
        "[host]:port|none", lambda text: text if text == NOWHERE else parse_listen_address(text)
    ),
    "objects": click.Path(exists=True),
    "store": click.Path(dir_okay=False),
}
"""Flags that are not written as their settings are."""
METAVARS = {
    "response-timeout": "DURATION",
    "upstream-service": "NAMESPACE/NAME",
    "server-concurrency-limit": "SEATS",
    "per-endpoint": "SEATS",
    "fleet-replicas": "N",
    "objects": "PATH",
    "context": "NAME",
}


def option_of(name: str, path: str, text: str) -> click.Option:
    """A flag with the form, the choices, the bounds and the default of its setting."""
    setting, flag = way_to(path)[-1], f"--{name}"
    form, default = setting.form, setting.default
    if name in GIVEN:
        return click.Option([flag], flag_value=GIVEN[name], default=None, help=text)
    if form is BOOL:
        text = f"{text} [default: {'yes' if default else 'no'}]"
        return click.Option([f"{flag}/--no-{name}"], default=None, help=text)
    kind = KINDS.get(name)
    if kind is None and form.choices:
        kind = click.Choice(form.choices)
    elif kind is None and form is WHOLE:
        (bounds,) = setting.kind.__metadata__
        kind = WholeNumber(bounds.ge, bounds.le)
    elif kind is None and form is FILE:
        kind = click.Path(exists=True, dir_okay=False)
    elif kind is None and form not in (TEXT, LOG_FILE):
        kind = Parsed(form.metavar, form.parse)
    if default not in (None, (), UNSAID, ServiceSettings()) and "[default" not in text:
        text = f"{text} [default: {default}]".strip()
    metavar = METAVARS.get(name, form.metavar or None)
    return click.Option([flag], type=kind, multiple=setting.is_list, metavar=metavar, help=text)


ROWS = {name: row for flags in FLAGS.values() for name, row in flags.items()}
OPTIONS = [option_of(name, *row) for name, row in ROWS.items()]
FIELDS = {name.replace("-", "_"): field_path(path).split(".") for name, (path, _) in ROWS.items()}
"""By a flag's parameter, the fields on the way to its setting."""

log = logging.getLogger(__name__)


class SectionedCommand(click.Command):
    """Lists its flags in the sections of `FLAGS`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        lines = {
            str(parameter.name): line
            for parameter in self.get_params(ctx)
            if (line := parameter.get_help_record(ctx)) is not None
        }
        for title, flags in FLAGS.items():
            names = [name.replace("-", "_") for name in flags]
            with formatter.section(title):
                first = [lines.pop("settings_path")] if title == LAST else []
                formatter.write_dl(first + [lines.pop(name) for name in names])
        with formatter.section("Other"):
            formatter.write_dl([*lines.values()])


@click.command(cls=SectionedCommand, epilog=EPILOG, params=OPTIONS)
@click.option(
    "--settings",
    "settings_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="YAML file that can hold every setting; flags win over it.",
)
def serve(settings_path: Path | None, **flags: Any) -> int:  # noqa: ANN401 - as click gives them
    """Forward requests to one or more servers, with flow control.

    Several servers of one API are several --upstream, a DNS name, or a Service: requests go to
    those that are well.  A settings file can also have several clusters, each with its own
    servers, users and seats.
    """
    try:
        place = worker_place(os.environ)
    except OperatorError as error:
        raise CommandError(str(error)) from error
    file = SettingsFile(settings_path, partial(read_settings, settings_path, flags))
    if place is None:
        return _serve(file, None)
    name_worker(place.index)
    configure_logging(Settings().log_level, Settings().log_format)
    sent = SentSettings(place, file.read_again)
    try:
        return _serve(SettingsFile(settings_path, sent, is_told=True), sent)
    except click.ClickException as error:
        for line in error.format_message().splitlines():
            log.error("%s", line)  # noqa: TRY400 - for the operator, with time and worker
        return error.exit_code


def _serve(file: SettingsFile, sent: SentSettings | None) -> int:
    try:
        settings = file.read()
    except ConflictError as error:
        problems = file.problems_of(error)
        if problems == tuple(str(error).splitlines()):
            raise click.UsageError(str(error)) from error  # of flags, as far as can be told
        raise SettingsFileError(*problems) from error
    except OperatorError as error:
        raise SettingsFileError(*file.problems_of(error)) from error
    configure_logging(settings.log_level, settings.log_format)
    if sent is None:  # else the parent has said it
        warn_of_fleet(settings)
    return run_in_loop(run(settings, file=file, sent=sent))


def warn_of_fleet(settings: Settings) -> None:
    context = click.get_current_context()
    is_seen = context.get_parameter_source("fleet") is ParameterSource.COMMANDLINE
    if is_seen and store_address(context.params["fleet"]).password:
        log.warning(
            "--fleet has a password, which every user of this machine sees in the list of"
            " processes: have it in fleet.passwordFile, or the URL in APFPROXY_SERVE_FLEET"
        )
    for warning in fleet_warnings(settings, worker_count(settings.workers) or 1):
        log.warning("%s", warning)


def read_settings(path: Path | None, flags: dict[str, Any]) -> Settings:
    """Read the settings file, if there is one, and put the flags over it.

    A cluster whose settings do not go together is refused alone, unless all are.  SettingsError if
    the file cannot be used, ConflictError if settings do not go together.
    """
    over = partial(with_flags, flags=flags)
    settings = over(Settings()) if path is None else load_settings(path, over)
    if lacks_server(settings):
        if path is None:
            raise ConflictError("say where to forward: --upstream URL, or --settings FILE")
        raise SettingsError((f"{path}: {WITHOUT_UPSTREAM}",))
    check(settings)
    if path is not None and settings.clusters:
        settings = with_each_cluster(checked_clusters(settings, path), as_preset)
        if all(each.settings is None for each in settings.clusters):
            # Nothing could be served: rather the settings of before, or none.
            problems = (problem for each in settings.clusters for problem in each.problems)
            raise SettingsError(tuple(problems))
    return as_preset(settings)


def with_flags(settings: Settings, flags: dict[str, Any]) -> Settings:
    """The settings with those of flags; their paths are as in the working directory."""
    tree: dict[str, Any] = {}
    for parameter, value in flags.items():
        if value in (None, ()):
            continue
        *sections, name = FIELDS[parameter]
        if parameter == "upstream":
            first, *others = value
            endpoints = tuple(EndpointSettings(url=each) for each in value)
            name, value = ("endpoints", endpoints) if others else ("url", first)  # noqa: PLW2901
        elif parameter == "upstream_service":
            value = {"namespace": value[0], "name": value[1]}  # noqa: PLW2901 - as the setting is
        elif value == NOWHERE and parameter == "admin":
            value = None  # noqa: PLW2901 - as the setting is
        place = tree
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = value
        if parameter == "response_timeout":
            tree.setdefault("downstream", {})["request_timeout_s"] = value
    return with_values(settings, tree)


async def run(
    settings: Settings,
    on_started: Callable[[Any], None] | None = None,
    *,
    file: SettingsFile | None = None,
    sent: SentSettings | None = None,
) -> int:
    """Serve until a signal, then drain; returns the exit code; CommandError if it cannot start.

    `on_started` gets the program when connections are accepted.  Settings are read from `file`
    again at SIGHUP and when it changes; None if they never change.  `sent` are those of a worker.
    """
    count = 0 if sent is not None else worker_count(settings.workers)
    if count:  # a parent does without most of a proxy's modules
        from apfproxy.app.parent import Parent  # noqa: PLC0415
    else:
        from apfproxy.app.process import ProxyProcess  # noqa: PLC0415

    def make(signals: Signals) -> ProxyProcess | Parent:
        if sent is not None:
            parent, place = ParentLink(sent, signals), sent.place
            return ProxyProcess(
                settings,
                file,
                listeners=of_parent(place.sockets),
                manager=parent,
                is_successor=place.generation > 1,
                open_store=parent.open_store,
            )
        listeners, manager = of_systemd(os.environ), ServiceManager(os.environ)
        if count:
            return Parent(settings, count, file, listeners=listeners, manager=manager)
        return ProxyProcess(settings, file, listeners=listeners, manager=manager)

    return await exit_code(
        serve_until_signal(make, on_started, hangup=Hangup.RELOAD),
        None if file is None else file.problems_of,
    )
