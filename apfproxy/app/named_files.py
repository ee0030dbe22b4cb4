"""What settings name, tried without a proxy: certificates, tokens, objects, and places for files.

Nothing is changed, and nobody is asked over the network.
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
from apfproxy.fleet.opened import open_store
from apfproxy.objects.decode import parts_of
from apfproxy.settings.store_address import Kind
from apfproxy.sources.api_credentials import ApiCredentials
from apfproxy.sources.kubeconfig import read_kubeconfig
from apfproxy.sources.object_files import decode_files, read_files
from apfproxy.sources.token_file import usable_token

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.settings import Settings

SQLITE = b"SQLite format 3\0"


async def problems_of(settings: Settings) -> list[str]:
    """Why a proxy with these settings, which go together, would not start; a line for each.

    Problems that only the network or the system can tell are not among them.  It blocks on the file
    system.
    """
    problems: list[str] = []
    looks = (_identities, _kubeconfig, _service, _objects, _admin_token, _store, _access_log)
    for look in (*looks, _admin_access, _tracing, _fleet):
        try:
            await asyncio.to_thread(look, settings, asyncio.get_running_loop())
        except OperatorError as error:
            problems += str(error).splitlines()
    return problems


def _identities(settings: Settings, loop: asyncio.AbstractEventLoop) -> None:
    nobody: Callable[[], None] = lambda: None  # noqa: E731 - nothing changes
    Identities(
        settings,
        LoopClock(loop),
        choose=lambda _: None,
        on_clients_change=nobody,
        on_own_change=nobody,
    )


def _kubeconfig(settings: Settings, _loop: asyncio.AbstractEventLoop) -> None:
    kubernetes = settings.flow_control.kubernetes
    if kubernetes.is_enabled and kubernetes.kubeconfig is not None:
        ApiCredentials(read_kubeconfig(kubernetes.kubeconfig, kubernetes.context))


def _service(settings: Settings, _loop: asyncio.AbstractEventLoop) -> None:
    service = settings.upstream.service
    if service.kubeconfig is not None:
        ApiCredentials(read_kubeconfig(service.kubeconfig, service.context))


def _objects(settings: Settings, _loop: asyncio.AbstractEventLoop) -> None:
    read = decode_files(read_files(settings.flow_control.objects))
    if read.problems:
        raise OperatorError("\n".join(parts_of(read.problems)))


def _admin_token(settings: Settings, _loop: asyncio.AbstractEventLoop) -> None:
    usable_token(settings.admin_token_file)


def _admin_access(settings: Settings, _loop: asyncio.AbstractEventLoop) -> None:
    Credentials(settings)


def _store(settings: Settings, _loop: asyncio.AbstractEventLoop) -> None:
    path = settings.flow_control.store
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


def _access_log(settings: Settings, _loop: asyncio.AbstractEventLoop) -> None:
    path = settings.access_log.path
    if path is not None and path != STDOUT:
        _see_place(path)


def _tracing(settings: Settings, loop: asyncio.AbstractEventLoop) -> None:
    trace_queue(settings.tracing, LoopClock(loop))  # exports nothing before it is opened


def _fleet(settings: Settings, _loop: asyncio.AbstractEventLoop) -> None:
    fleet = settings.fleet
    is_by_pod = fleet.kubeconfig is None and (fleet.store or "").startswith(Kind.KUBERNETES)
    if fleet.store is not None and not is_by_pod:
        open_store(fleet, fleet.name)  # asks nobody before it is used


def _see_place(path: str) -> None:
    """See that a file can be written, or made.

    Raises:
        OperatorError: It cannot be.
    """
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
