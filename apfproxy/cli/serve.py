"""`apfproxy serve`: the proxy, from the command line to its end."""

from __future__ import annotations

import dataclasses
import logging
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from apfproxy.app.cluster_checks import checked_clusters
from apfproxy.app.fleet_checks import fleet_warnings
from apfproxy.app.given_sockets import given_sockets
from apfproxy.app.log import configure_logging, name_worker
from apfproxy.app.reloading import SettingsFile
from apfproxy.app.running import run_in_loop, serve_until_signal
from apfproxy.app.server_checks import WITHOUT_UPSTREAM
from apfproxy.app.service_manager import ServiceManager
from apfproxy.app.settings_checks import (
    ConflictError,
    as_preset,
    check_combination,
    check_identities,
    lacks_server,
)
from apfproxy.app.worker_count import worker_count
from apfproxy.app.worker_link import ParentLink
from apfproxy.app.worker_place import placed, worker_place
from apfproxy.base.errors import OperatorError
from apfproxy.base.signals import Hangup
from apfproxy.cli.errors import EXIT_CODES, CommandError, SettingsFileError, exit_code
from apfproxy.cli.flags import SectionedCommand
from apfproxy.cli.parameters import (
    DNS_URL,
    LISTEN_ADDRESS,
    LISTEN_ADDRESS_OR_NONE,
    NETWORK,
    NOWHERE,
    SERVICE,
    STORE,
    UPSTREAM_URL,
    URL,
    WORKERS,
    preset_option,
    suggested_objects_option,
)
from apfproxy.settings import (
    ENFORCE,
    FULL,
    LEAN,
    LOG_FORMATS,
    LOG_LEVELS,
    MAX_SEATS,
    OBSERVE,
    EndpointSettings,
    Settings,
    with_each_cluster,
    with_values,
)
from apfproxy.settings.file import SettingsError, load_settings
from apfproxy.settings.store_address import store_address

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.app.parent import Parent
    from apfproxy.app.process import ProxyProcess
    from apfproxy.app.worker_place import WorkerPlace
    from apfproxy.base.signals import Signals
    from apfproxy.settings import UpstreamSettings

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
SIGUSR2 restarts: a new process takes over the listening sockets, then this one drains.  With
--workers send signals to the parent, which is the first process; SIGUSR2 then replaces the workers.

{EXIT_CODES}"""

SECTIONS = {
    "Addresses": ("upstream", "upstream_dns", "upstream_service", "listen", "admin"),
    "TLS and users": (
        *("tls_cert_file", "tls_private_key_file", "client_ca_file", "token_auth_file"),
        *("token_review", "identity_headers_from", "upstream_ca_file", "upstream_token_file"),
    ),
    "Flow control": (
        *("preset", "server_concurrency_limit", "per_endpoint", "no_rebalance", "enforcement"),
        *("suggested_objects", "objects"),
        *("store", "admin_token_file", "objects_from_kubernetes", "kubeconfig", "context"),
        *("write_status", "object_counts_from", "fleet", "fleet_replicas"),
    ),
    "Processes": ("workers",),
    "Logs and settings": ("settings_path", "access_log", "log_level", "log_format", "metrics"),
}
"""The flags, as help lists them."""

GLOBAL = ("preset", "workers", "admin", "admin_token_file", "metrics", "log_level", "log_format")
"""The flags of settings that are in no section."""

FILE = click.Path(exists=True, dir_okay=False)

log = logging.getLogger(__name__)


@click.command(cls=SectionedCommand, sections=SECTIONS, epilog=EPILOG)
@click.option(
    "--upstream",
    multiple=True,
    type=UPSTREAM_URL,
    metavar="URL",
    help="The server: http://HOST[:PORT], https://HOST[:PORT] or unix:/PATH.  Repeatable, for"
    " several servers of the same API.",
)
@click.option(
    "--upstream-dns",
    type=DNS_URL,
    metavar="URL",
    help="Instead: servers at all addresses of the URL's host name, which is resolved again.",
)
@click.option(
    "--upstream-service",
    type=SERVICE,
    metavar="NAMESPACE/NAME",
    help="Instead: servers of a Service in the pod's cluster, such as default/kubernetes; watched.",
)
@click.option(
    "--listen",
    type=LISTEN_ADDRESS,
    metavar="[HOST]:PORT",
    help="For clients; :8080 is every address; or unix:/PATH. [default: 127.0.0.1:8080]",
)
@click.option(
    "--admin",
    type=LISTEN_ADDRESS_OR_NONE,
    metavar="[HOST]:PORT",
    help="For the live page, metrics and health, or none. [default: 127.0.0.1:8081]",
)
@click.option(
    "--tls-cert-file",
    type=FILE,
    metavar="FILE",
    help="Certificate shown to clients, PEM; turns TLS on. [default: plain HTTP]",
)
@click.option("--tls-private-key-file", type=FILE, metavar="FILE", help="Its key, PEM.")
@click.option(
    "--client-ca-file",
    type=FILE,
    metavar="FILE",
    help="CAs of client certificates, which name users, PEM.",
)
@click.option(
    "--token-auth-file",
    type=FILE,
    metavar="FILE",
    help="Bearer tokens: CSV of token,user,uid,groups.",
)
@click.option(
    "--token-review/--no-token-review",
    default=None,
    help="Whether to ask the server about other tokens, by TokenReview. [default: no]",
)
@click.option(
    "--upstream-ca-file",
    type=FILE,
    metavar="FILE",
    help="CAs that verify the server, PEM. [default: the system's]",
)
@click.option(
    "--upstream-token-file",
    type=FILE,
    metavar="FILE",
    help="The proxy's own bearer token, such as for reviews.",
)
@click.option(
    "--objects",
    multiple=True,
    metavar="PATH",
    type=click.Path(exists=True),
    help="File or directory of FlowSchemas and PriorityLevelConfigurations; watched.  Repeatable.",
)
@click.option(
    "--store",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Instead of --objects: an SQLite file of them, which kubectl --server http://ADMIN edits.",
)
@click.option(
    "--objects-from-kubernetes",
    is_flag=True,
    default=None,
    help="Instead of --objects: follow those of a Kubernetes API, by default of the pod's cluster.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="How to reach that API. [default: by the pod's service account]",
)
@click.option(
    "--context",
    metavar="NAME",
    help="Context of the kubeconfig. [default: its current one]",
)
@click.option(
    "--write-status/--no-write-status",
    default=None,
    help="Whether to maintain the condition Dangling of FlowSchemas in that API. [default: no]",
)
@click.option(
    "--admin-token-file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="File with the bearer token for writes to the store. [default: only loopback writes]",
)
@preset_option
@suggested_objects_option
@click.option(
    "--enforcement",
    type=click.Choice([ENFORCE, OBSERVE]),
    help="Whether requests are limited, or only what would happen is counted. [default: enforce]",
)
@click.option(
    "--server-concurrency-limit",
    type=click.IntRange(1, MAX_SEATS),
    metavar="SEATS",
    help="Seats of the whole server, divided among the priority levels. [default: 600]",
)
@click.option(
    "--per-endpoint",
    type=click.IntRange(1, MAX_SEATS),
    metavar="SEATS",
    help="Instead: seats of each server; the limit is that of all that are healthy.",
)
@click.option(
    "--no-rebalance",
    is_flag=True,
    default=None,
    help="End no watch or tunnel to bring them into balance among several servers.",
)
@click.option(
    "--fleet",
    type=STORE,
    metavar="URL",
    help="Share the limit with other proxies, by the store at redis://HOST or"
    " kubernetes:NAMESPACE/NAME.",
)
@click.option(
    "--fleet-replicas",
    type=click.IntRange(1, 512),
    metavar="N",
    help="How many proxies are meant to share it. [default: as many as come]",
)
@click.option(
    "--identity-headers-from",
    multiple=True,
    type=NETWORK,
    metavar="CIDR",
    help="Clients whose X-Remote-* fields name the user. [default: none]  Repeatable.",
)
@click.option(
    "--object-counts-from",
    type=URL,
    metavar="URL",
    help="Metrics page with the numbers of stored objects, for the costs of LISTs.",
)
@click.option(
    "--workers",
    type=WORKERS,
    metavar="NUMBER",
    help="Processes that serve, or auto: one a processor.  They share the seats. [default: 1]",
)
@click.option(
    "--access-log",
    metavar="FILE",
    help="Log a line of JSON for each request; - for stdout.  SIGUSR1 reopens it. [default: none]",
)
@click.option("--log-level", type=click.Choice(LOG_LEVELS), help="[default: info]")
@click.option(
    "--log-format",
    type=click.Choice(LOG_FORMATS),
    help="Lines of the log, on stderr: text, or a JSON object each. [default: text]",
)
@click.option(
    "--metrics",
    type=click.Choice([LEAN, FULL]),
    help="Whether /metrics leaves out what was never used. [default: lean]",
)
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
    if place is not None:
        name_worker(place.index)
    file = SettingsFile(
        settings_path,
        lambda: placed(read_settings(settings_path, flags), place),
        is_told=place is not None,
    )
    try:
        settings = file.read()
        check_identities(settings)
    except ConflictError as error:
        problems = file.problems_of(error)
        if problems == tuple(str(error).splitlines()):
            raise click.UsageError(str(error)) from error  # of flags, as far as can be told
        raise SettingsFileError(*problems) from error
    except OperatorError as error:
        raise SettingsFileError(*file.problems_of(error)) from error
    configure_logging(settings.log_level, settings.log_format)
    if place is None:  # else the parent has said it
        warn_of_fleet(settings)
    return run_in_loop(run(settings, file=file, place=place))


def warn_of_fleet(settings: Settings) -> None:
    """Log what may be meant otherwise of how the seats are shared."""
    context = click.get_current_context()
    is_seen = context.get_parameter_source("fleet") is ParameterSource.COMMANDLINE
    if is_seen and store_address(context.params["fleet"]).password:
        log.warning(
            "--fleet has a password, which every user of this machine sees in the list of"
            " processes: have it in fleet.passwordFile, or the URL in APFPROXY_SERVE_FLEET"
        )
    for warning in fleet_warnings(settings, worker_count(settings.workers)):
        log.warning("%s", warning)


def read_settings(path: Path | None, flags: dict[str, Any]) -> Settings:
    """Read the settings file, if there is one, and put the flags over it.

    A cluster whose settings do not go together is refused alone, unless all are.

    Raises:
        SettingsError: The file cannot be used.
        ConflictError: Settings do not go together.
    """
    over = partial(with_flags, flags=flags)
    settings = over(Settings()) if path is None else load_settings(path, over)
    if lacks_server(settings):
        if path is None:
            raise ConflictError("say where to forward: --upstream URL, or --settings FILE")
        raise SettingsError((f"{path}: {WITHOUT_UPSTREAM}",))
    check_combination(settings)
    if path is not None and settings.clusters:
        settings = with_each_cluster(checked_clusters(settings, path), as_preset)
        if all(each.settings is None for each in settings.clusters):
            # Nothing could be served: rather the settings of before, or none.
            problems = (problem for each in settings.clusters for problem in each.problems)
            raise SettingsError(tuple(problems))
    return as_preset(settings)


def with_flags(settings: Settings, flags: dict[str, Any]) -> Settings:
    """Put the flags that were given over the settings; paths are as in the working directory."""
    given = {name: value for name, value in flags.items() if value not in (None, ())}

    def changed(record: Any, *names: str, **flag_of: str) -> Any:  # noqa: ANN401 - any record
        """The record with the flags of the same name, and with those named otherwise."""
        flag_of |= {name: name for name in names}
        values = {name: given[flag] for name, flag in flag_of.items() if flag in given}
        return with_values(record, values)

    if given.get("admin") == NOWHERE:
        given["admin"] = None
    if given.pop("no_rebalance", False):
        given["no_rebalance"] = 0  # percent
    flow_control = changed(
        settings.flow_control,
        *("enforcement", "server_concurrency_limit", "per_endpoint", "objects", "store"),
        *("suggested_objects", "object_counts_from"),
    )
    kubernetes = changed(
        settings.flow_control.kubernetes,
        *("kubeconfig", "context", "write_status"),
        is_enabled="objects_from_kubernetes",
    )
    settings = dataclasses.replace(
        settings,
        downstream=dataclasses.replace(
            changed(settings.downstream, "listen", "identity_headers_from"),
            tls=changed(
                settings.downstream.tls,
                certificate_file="tls_cert_file",
                key_file="tls_private_key_file",
            ),
        ),
        upstream=dataclasses.replace(
            with_values(
                changed(settings.upstream, token_file="upstream_token_file"),  # noqa: S106 - a path
                upstream_of(settings.upstream, given),
            ),
            rebalance=changed(settings.upstream.rebalance, percent_per_minute="no_rebalance"),
            tls=changed(settings.upstream.tls, ca_file="upstream_ca_file"),
        ),
        authentication=dataclasses.replace(
            changed(settings.authentication, "client_ca_file", token_file="token_auth_file"),  # noqa: S106 - as above
            token_review=changed(settings.authentication.token_review, is_enabled="token_review"),
        ),
        flow_control=dataclasses.replace(flow_control, kubernetes=kubernetes),
        fleet=changed(settings.fleet, store="fleet", replicas="fleet_replicas"),
        access_log=changed(settings.access_log, path="access_log"),
    )
    result: Settings = changed(settings, *GLOBAL)
    return result


def upstream_of(upstream: UpstreamSettings, given: dict[str, Any]) -> dict[str, object]:
    """What flags say of where the servers are, by fields of `upstream`."""
    found: dict[str, object] = {}
    if "upstream" in given:
        first, *others = given["upstream"]
        if others:
            found["endpoints"] = tuple(EndpointSettings(url=each) for each in (first, *others))
        else:
            found["url"] = first
    if "upstream_dns" in given:
        found["dns"] = given["upstream_dns"]
    if "upstream_service" in given:
        namespace, name = given["upstream_service"]
        found["service"] = dataclasses.replace(upstream.service, namespace=namespace, name=name)
    return found


async def run(
    settings: Settings,
    on_started: Callable[[Any], None] | None = None,
    *,
    file: SettingsFile | None = None,
    place: WorkerPlace | None = None,
) -> int:
    """Serve until a signal, then drain; returns the exit code; CommandError if it cannot start.

    `on_started` is called with the program when connections are accepted.  `file` is what the
    settings are read from again, at SIGHUP and when it changes; None where they never change.
    `place` is a worker's; None if this process is none.
    """
    count = 1 if place is not None else worker_count(settings.workers)
    # A parent does without most of a proxy's modules.
    if count > 1:
        from apfproxy.app.parent import Parent  # noqa: PLC0415 - as above
    else:
        from apfproxy.app.process import ProxyProcess  # noqa: PLC0415 - as above

    def make(signals: Signals) -> ProxyProcess | Parent:
        given, manager = given_sockets(os.environ), ServiceManager(os.environ)
        if count > 1:
            return Parent(settings, count, file, given=given, manager=manager)
        is_successor = False
        if place is not None:
            manager = ParentLink(place.link, signals, place.counts)
            is_successor = place.generation > 1
        return ProxyProcess(settings, file, given=given, manager=manager, is_successor=is_successor)

    return await exit_code(
        serve_until_signal(make, on_started, hangup=Hangup.RELOAD),
        None if file is None else file.problems_of,
    )
