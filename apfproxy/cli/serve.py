"""`apfproxy serve`: the proxy, from the command line to its end."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import uvloop

from apfproxy import __version__
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.store.entries import StoreError
from apfproxy.app.identities import IdentitySettingsError
from apfproxy.app.log import configure_logging
from apfproxy.app.process import ListenError, ProxyProcess
from apfproxy.app.reloading import Reloading
from apfproxy.app.running import Signals, raise_descriptor_limit, share_processor, spare_collector
from apfproxy.cli.errors import EXIT_CODES, FAILED, OK, CommandError, SettingsFileError
from apfproxy.cli.parameters import ADDRESS, ADDRESS_OR_NONE, NETWORK, NOWHERE, ORIGIN, URL
from apfproxy.observe.access_log import AccessLogError
from apfproxy.settings import ENFORCE, LOG_LEVELS, OBSERVE, Settings
from apfproxy.sources.files import ObjectsError
from apfproxy.sources.kubeconfig import KubeconfigError
from apfproxy.sources.settings_file import SettingsError, load_settings
from apfproxy.sources.token_file import TokenFileError
from apfproxy.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

EPILOG = f"""\b
Examples:
  apfproxy serve --upstream http://127.0.0.1:8000 --listen 0.0.0.0:8080
  apfproxy serve --settings apfproxy.yaml --objects objects/
  apfproxy serve --upstream http://127.0.0.1:8000 --store objects.db
  apfproxy serve --upstream http://127.0.0.1:8000 --objects-from-kubernetes

SIGTERM or SIGINT drains: /readyz fails at once, connections are accepted for the shutdown delay,
then requests get their time to end.  A second signal stops at once.  SIGHUP reads the settings and
all files again; the log says what has changed, and what takes a restart.

{EXIT_CODES}"""


@click.command(epilog=EPILOG)
@click.option("--upstream", type=ORIGIN, metavar="URL", help="The server behind: http://HOST:PORT.")
@click.option(
    "--listen", type=ADDRESS, metavar="HOST:PORT", help="For clients. [default: 127.0.0.1:8080]"
)
@click.option(
    "--admin",
    type=ADDRESS_OR_NONE,
    metavar="HOST:PORT",
    help="For the live page, metrics and health, or none. [default: 127.0.0.1:8081]",
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
    help="SQLite file of such objects instead, for kubectl --server http://ADMIN; followed live.",
)
@click.option(
    "--objects-from-kubernetes",
    is_flag=True,
    default=None,
    help="Follow the objects of a Kubernetes API instead: that of the pod's cluster, or of ...",
)
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="... the cluster that this says how to reach.",
)
@click.option(
    "--context",
    metavar="NAME",
    help="Of the kubeconfig. [default: its current one]",
)
@click.option(
    "--write-status/--no-write-status",
    default=None,
    help="Whether to keep the condition Dangling of FlowSchemas there. [default: no]",
)
@click.option(
    "--admin-token-file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Has the bearer token that writing to the store takes. [default: --admin on loopback]",
)
@click.option(
    "--suggested-objects/--no-suggested-objects",
    default=None,
    help="Whether the objects that Kubernetes suggests are built in. [default: yes]",
)
@click.option(
    "--enforcement",
    type=click.Choice([ENFORCE, OBSERVE]),
    help="Whether flow control does its work, or only counts what it would do. [default: enforce]",
)
@click.option(
    "--server-concurrency-limit",
    type=click.IntRange(1, (1 << 31) - 1),
    metavar="SEATS",
    help="Seats of the whole server, divided among the priority levels. [default: 600]",
)
@click.option(
    "--identity-headers-from",
    multiple=True,
    type=NETWORK,
    metavar="CIDR",
    help="Clients whose X-Remote-* fields say who asks. [default: none]  Repeatable.",
)
@click.option(
    "--object-counts-from",
    type=URL,
    metavar="URL",
    help="The server's metrics page, for the numbers of stored objects.",
)
@click.option(
    "--access-log",
    metavar="FILE",
    help="A line of JSON for each request; - for stdout.  SIGUSR1 opens it again. [default: none]",
)
@click.option("--log-level", type=click.Choice(LOG_LEVELS), help="[default: info]")
@click.option(
    "--settings",
    "settings_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A YAML file of all settings; flags win over it.",
)
def serve(settings_path: Path | None, **flags: Any) -> int:  # noqa: ANN401 - as click gives them
    """Forward requests to a server, with flow control."""
    if settings_path is None and flags["upstream"] is None:
        raise click.UsageError("say where to forward: --upstream URL, or --settings FILE")
    read = partial(read_settings, settings_path, flags)
    try:
        settings = read()
    except SettingsError as error:
        raise SettingsFileError(*error.problems) from error
    configure_logging(settings.log_level)
    raise_descriptor_limit()
    share_processor()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run(settings, read_again=read))


def read_settings(path: Path | None, flags: dict[str, Any]) -> Settings:
    """Read the settings file, if there is one, and put the flags over it.

    Raises:
        SettingsError: The file cannot be used.
        click.UsageError: Settings make no sense together.
    """
    settings = with_flags(Settings() if path is None else load_settings(path), flags)
    check_combination(settings)
    return settings


def with_flags(settings: Settings, flags: dict[str, Any]) -> Settings:
    """Put the flags that were given over the settings."""
    given = {name: value for name, value in flags.items() if value not in (None, ())}

    def picked(**names: str) -> dict[str, Any]:
        return {field: given[flag] for field, flag in names.items() if flag in given}

    changes: dict[str, Any] = picked(
        admin="admin",
        admin_token_file="admin_token_file",  # noqa: S106 - the name of a flag
        log_level="log_level",
    )
    if changes.get("admin") == NOWHERE:
        changes["admin"] = None
    return dataclasses.replace(
        settings,
        downstream=dataclasses.replace(
            settings.downstream,
            **picked(listen="listen", identity_headers_from="identity_headers_from"),
        ),
        upstream=dataclasses.replace(settings.upstream, **picked(address="upstream")),
        flow_control=dataclasses.replace(
            settings.flow_control,
            **picked(
                enforcement="enforcement",
                server_concurrency_limit="server_concurrency_limit",
                objects="objects",
                store="store",
                suggested_objects="suggested_objects",
                object_counts_from="object_counts_from",
            ),
            kubernetes=dataclasses.replace(
                settings.flow_control.kubernetes,
                **picked(
                    is_enabled="objects_from_kubernetes",
                    kubeconfig="kubeconfig",
                    context="context",
                    write_status="write_status",
                ),
            ),
        ),
        access_log=dataclasses.replace(settings.access_log, **picked(path="access_log")),
        **changes,
    )


def check_combination(settings: Settings) -> None:
    """Refuse settings that make no sense together.

    Raises:
        click.UsageError: There are some.
    """
    store, objects = settings.flow_control.store, settings.flow_control.objects
    kubernetes = settings.flow_control.kubernetes
    if store is not None and objects:
        raise click.UsageError(
            "give either --store or --objects: with both, what is in force would depend on which"
            " changed last; to move files into a store: kubectl --server http://ADMIN apply -f PATH"
        )
    if kubernetes.is_enabled and (store is not None or objects):
        other = "--store" if store is not None else "--objects"
        raise click.UsageError(
            f"give either --objects-from-kubernetes or {other}: with both, what is in force would"
            " depend on which changed last"
        )
    if not kubernetes.is_enabled:
        flags = {
            "--kubeconfig": kubernetes.kubeconfig,
            "--context": kubernetes.context,
            "--write-status": kubernetes.write_status or None,
        }
        for flag in (flag for flag, value in flags.items() if value is not None):
            raise click.UsageError(f"{flag} is of no use without --objects-from-kubernetes")
    elif kubernetes.context is not None and kubernetes.kubeconfig is None:
        raise click.UsageError("--context needs --kubeconfig FILE, which has the contexts")
    if store is not None and settings.admin is None:
        raise click.UsageError("--store needs --admin: nobody could read or change the objects")
    if store is None and settings.admin_token_file is not None:
        raise click.UsageError("--admin-token-file is of no use without --store")


async def run(
    settings: Settings,
    on_started: Callable[[ProxyProcess], None] | None = None,
    *,
    read_again: Callable[[], Settings] | None = None,
) -> int:
    """Serve until a signal, then drain.

    Args:
        settings: All of them.
        on_started: Called when connections are accepted.
        read_again: Reads the settings again, at SIGHUP; None where they never change.

    Returns:
        `OK` after a drain, `FAILED` if a second signal cut it short.

    Raises:
        CommandError: It cannot start.
    """
    signals = Signals(asyncio.get_running_loop(), reloads=True)
    try:
        return await run_until(signals, settings, on_started, read_again or (lambda: settings))
    finally:
        signals.forget()


async def run_until(
    signals: Signals,
    settings: Settings,
    on_started: Callable[[ProxyProcess], None] | None,
    read_again: Callable[[], Settings],
) -> int:
    """Serve until the first signal, drain until the second."""
    try:
        process = ProxyProcess(settings)
    except IdentitySettingsError as error:
        raise CommandError(*str(error).splitlines()) from error
    hurrying = spawn(hurry_at(signals.first, process), name="heeding a signal at the start")
    try:
        await process.start()
    except ObjectsError as error:
        raise CommandError(*error.problems) from error
    except ListenError as error:
        raise CommandError(f"{error}; {error.hint}") from error
    except (AccessLogError, StoreError, TokenFileError, KubeconfigError) as error:
        raise CommandError(str(error)) from error
    except StatusError as error:
        raise CommandError(f"the built-in objects cannot be stored: {error.message}") from error
    finally:
        hurrying.cancel()
    if process.observation.access_log is not None:
        signals.on_rotation(process.observation.reopen)
    log_start(process)
    spare_collector()
    if on_started is not None:
        on_started(process)
    reloading = spawn(Reloading(process, read_again).run(signals.hangup), name="heeding SIGHUP")
    await signals.first.wait()
    reloading.cancel()
    logger.info("draining; another signal stops at once")
    if await signals.before_second(process.drain(), name="draining"):
        logger.info("stopped")
        return OK
    await process.stop()
    logger.warning("stopped before all requests ended")
    return FAILED


async def hurry_at(event: asyncio.Event, process: ProxyProcess) -> None:
    """Let a start that waits come to its end once something happens."""
    await event.wait()
    process.hurry()


def log_start(process: ProxyProcess) -> None:
    """Say where the process listens and what it does there."""
    settings = process.settings
    listen, admin = settings.downstream.listen, settings.admin
    logger.info(
        "apfproxy %s listens on %s%s, forwards to %s://%s, admin on %s;"
        " %d seats, %d priority levels, at most %s connections",
        __version__,
        dataclasses.replace(listen, port=process.port),
        "" if settings.downstream.tls.certificate_file is None else " with TLS",
        "https" if settings.upstream.address.is_tls else "http",
        settings.upstream.address,
        dataclasses.replace(admin, port=process.admin_port or 0) if admin else "no address",
        settings.flow_control.server_concurrency_limit,
        len(process.controller.levels),
        process.server.max_connections or "any number of",
    )
    if settings.flow_control.enforcement == OBSERVE:
        logger.warning(
            "flow control only observes: no request is rejected or delayed;"
            " apiserver_flowcontrol_* metrics tell what would have happened"
        )
    if process.kubernetes is not None:
        logger.info(
            "objects are those of %s%s",
            process.kubernetes.name,
            "" if process.kubernetes.is_synced else ", which are not here yet",
        )
    if settings.flow_control.store is not None:
        logger.info(
            "objects are in %s: kubectl --server http://%s get flowschemas",
            settings.flow_control.store,
            dataclasses.replace(admin, port=process.admin_port or 0) if admin else "",
        )
