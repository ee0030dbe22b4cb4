"""Files that settings name, tried without a proxy: certificates, tokens, objects, and others.

Nothing is changed, and no server is asked.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from apfproxy.admin.access import Credentials
from apfproxy.admin.access_log import STDOUT
from apfproxy.admin.tracing import trace_queue
from apfproxy.app.identities import Identities
from apfproxy.base.clock import LoopClock
from apfproxy.base.errors import OperatorError
from apfproxy.base.files import open_regular
from apfproxy.objects.decode import parts_of
from apfproxy.settings.change import nothing
from apfproxy.settings.store_address import Kind
from apfproxy.sources.api_credentials import ApiCredentials
from apfproxy.sources.fleet_store import open_store
from apfproxy.sources.kubeconfig import read_kubeconfig
from apfproxy.sources.object_files import decode_files, read_files
from apfproxy.sources.token_file import usable_token

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.settings import FleetSettings, Settings

SQLITE = b"SQLite format 3\0"


async def problems_of(settings: Settings) -> list[str]:
    """Why a proxy with these settings, which go together, would not start; a line for each.

    Problems that only the network or the system can tell are not among them.
    """
    clock, flow_control = LoopClock(asyncio.get_running_loop()), settings.flow_control
    kubernetes, service = flow_control.kubernetes, settings.upstream.service
    looks: list[tuple[str, Callable[[], object]]] = [  # the setting, where errors do not name it
        (
            "",
            lambda: Identities(
                settings,
                clock,
                choose=lambda _: None,
                on_clients_change=nothing,
                on_own_change=nothing,
            ),
        ),
        (
            "flowControl.kubernetes.kubeconfig",
            lambda: _see_access(
                kubernetes.kubeconfig if kubernetes.is_enabled else None, kubernetes.context
            ),
        ),
        ("upstream.service.kubeconfig", lambda: _see_access(service.kubeconfig, service.context)),
        ("", lambda: _see_objects(flow_control.objects)),
        ("adminTokenFile", lambda: usable_token(settings.admin_token_file)),
        ("flowControl.store", lambda: _see_store(flow_control.store)),
        ("accessLog.path", lambda: _see_place(settings.access_log.path)),
        ("", lambda: Credentials(settings)),
        ("", lambda: trace_queue(settings.tracing, clock)),  # exports nothing before it is opened
        ("", lambda: _see_fleet(settings.fleet)),
    ]
    problems: list[str] = []
    for setting, look in looks:
        try:
            await asyncio.to_thread(look)
        except OperatorError as error:
            before = f"{setting}: " if setting else ""
            problems += [f"{before}{each}" for each in str(error).splitlines()]
    return problems


def _see_access(kubeconfig: str | None, context: str | None) -> None:
    if kubeconfig is not None:
        ApiCredentials(read_kubeconfig(kubeconfig, context))


def _see_objects(paths: tuple[str, ...]) -> None:
    read = decode_files(read_files(paths))
    problems = [*parts_of(read.problems)]
    for index, path in enumerate(paths):  # of the file itself; within it, they name the line
        setting = f"flowControl.objects[{index}]"
        problems = [
            f"{setting}: {each}" if each.startswith(f"{path}: ") else each for each in problems
        ]
    if problems:
        raise OperatorError("\n".join(problems))


def _see_store(path: str | None) -> None:
    if path is None:
        return
    _see_place(path)
    try:
        if Path(path).exists():
            with open_regular(path) as file:
                start = file.read(len(SQLITE))
            if start not in (b"", SQLITE):
                raise OperatorError(f"{path}: is no SQLite file; name another one")
    except OSError as error:
        raise OperatorError(f"{path}: cannot be read: {error.strerror}") from error


def _see_fleet(fleet: FleetSettings) -> None:
    is_by_pod = fleet.kubeconfig is None and (fleet.store or "").startswith(Kind.KUBERNETES)
    if fleet.store is not None and not is_by_pod:
        open_store(fleet, fleet.name)  # connects when it is used


def _see_place(path: str | None) -> None:
    if path is None or path == STDOUT:
        return
    file = Path(path)
    if file.is_dir():
        raise OperatorError(f"{path}: is a directory; name a file")
    if file.exists():
        if not os.access(file, os.W_OK):
            raise OperatorError(f"{path}: cannot be written by this user")
    elif not file.parent.is_dir():
        raise OperatorError(f"{path}: its directory does not exist; make it")
    elif not os.access(file.parent, os.W_OK):
        raise OperatorError(f"{path}: cannot be made in its directory by this user")
