"""The source of a proxy's objects: files, a store or a Kubernetes API.

A source's modules are imported only by settings that name it.
"""

from __future__ import annotations

import asyncio
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from apfproxy.base.faults import Part
from apfproxy.base.health_checks import READYZ
from apfproxy.base.tasks import Supervised
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.settings.change import Change, nothing
from apfproxy.sources.in_force import STALE_LOOK_S, ObjectFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from apfproxy.base.health_checks import HealthChecks
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.settings import FlowControlSettings, Settings
    from apfproxy.sources.kubernetes import KubernetesObjects
    from apfproxy.sources.servers_behind import ServersBehind
    from apfproxy.sources.stored_objects import FlowControlApi, StoredObjects

    Source = ObjectFiles | StoredObjects | KubernetesObjects

OBJECTS, STORE = "objects", "store"  # health checks


def source_text(flow_control: FlowControlSettings) -> str:
    if flow_control.kubernetes.is_enabled:
        return "a Kubernetes API"
    if flow_control.store is not None:
        return f"the store {flow_control.store}"
    built_in = "the built-in objects"
    if not flow_control.objects:
        return built_in
    files = ", ".join(flow_control.objects)
    return f"{files}, over {built_in}" if flow_control.suggested_objects else files


def ban_command(settings: Settings) -> tuple[str, str]:
    """The command that bans a user where the objects are: before the name and after it."""
    flow_control, command = settings.flow_control, "apfproxy ban --for 10m "
    if flow_control.kubernetes.is_enabled:
        return f"{command}--kubectl ", ""
    if flow_control.store is not None and settings.admin is not None:
        return command, f" | kubectl --server {settings.admin.from_here.url} apply -f -"
    for path in flow_control.objects:
        if Path(path).is_dir():
            return f"{command}--objects {shlex.quote(str(Path(path).absolute()))} ", ""
    return command, " # put what it prints where this proxy has its objects"


class ObjectSource:
    """The source, None before the start, also as what it is; and the API over a store.

    `on_load` takes the outcome of a load, as `LoadObserver` does, and as `is_whole` whether the
    source takes a load as a whole or not at all.
    """

    def __init__(
        self,
        settings: Settings,
        controller: Controller,
        health: HealthChecks,
        on_load: Callable[..., None],
        behind: ServersBehind,
    ) -> None:
        self._settings = settings
        self._controller = controller
        self._health = health
        self._add_check = partial(health.add, pages=(READYZ,), is_blocking=False)
        self._on_load = on_load
        self._behind = behind
        self.source: Source | None = None
        self.kubernetes: KubernetesObjects | None = None
        self.api: FlowControlApi | None = None
        self.ban_command = ("", "")
        self._watching: list[asyncio.Task[None]] = []

    async def start(self, is_admin_local: Callable[[], bool]) -> None:
        """Put in force what the source has, and what it gets from now on; OperatorError.

        `is_admin_local` says whether only this machine reaches a store's API.
        """
        source = self.source = await self._open(is_admin_local)
        source.load_first()
        self._watch(source)

    def _watch(self, source: Source) -> None:
        watching = Supervised(
            Part.OBJECTS, "watching the objects", source.watch, stale_after_s=source.stale_after_s
        )
        end_in_time = source.in_force.end_in_time
        ending = Supervised(Part.OBJECTS, "ending objects", end_in_time, stale_after_s=STALE_LOOK_S)
        self._health.discard(OBJECTS)
        self._add_check(OBJECTS, look=lambda: watching.problem() or ending.problem())
        self._watching = [watching.start(), ending.start()]
        self.ban_command = ban_command(self._settings)

    async def prepare(self, settings: Settings) -> Change:
        """Read the files of other settings, of the same kind of source; OperatorError."""
        ask_for_token = nothing
        if self.api is not None:
            ask_for_token = self.api.prepare_token(settings)
        files, is_same = None, _of_files(settings) == _of_files(self._settings)
        if isinstance(self.source, ObjectFiles) and not is_same:
            files = self._files(settings)
            prepared = await files.prepare()

        def put() -> None:
            self._settings = settings
            ask_for_token()
            if files is not None:
                self.end_watching()
                self.source = files
                files.in_force.put(prepared)
                self._watch(files)

        return Change(put)

    async def wait(self) -> None:
        """Wait for the objects of a Kubernetes API, for as long as the settings say."""
        if self.kubernetes is not None:
            timeout_s = self._settings.flow_control.kubernetes.first_sync_timeout_s
            await self.kubernetes.wait_until_synced(timeout_s)

    async def _open(self, is_admin_local: Callable[[], bool]) -> Source:
        """The source; a store has the built-in objects by then."""
        flow_control = self._settings.flow_control
        if flow_control.kubernetes.is_enabled:
            from apfproxy.sources.kubernetes import KubernetesObjects  # noqa: PLC0415
            from apfproxy.sources.kubernetes_api import open_api  # noqa: PLC0415

            named = flow_control.kubernetes
            setting = "flowControl.kubernetes.kubeconfig (--kubeconfig FILE)"
            self.kubernetes = KubernetesObjects(
                open_api(named.kubeconfig, named.context, "the objects", setting, self._behind),
                self._controller,
                with_suggested=flow_control.suggested_objects,
                preset=PRESETS[self._settings.preset],
                writes_status=named.write_status,
                on_load=partial(self._on_load, is_whole=False),
            )
            self._add_check("kubernetes", look=self.kubernetes.problem)
            return self.kubernetes
        if flow_control.store is None:
            return self._files(self._settings)
        from apfproxy.sources.stored_objects import (  # noqa: PLC0415
            FlowControlApi,
            StoredObjects,
        )

        # The proxy goes on with what it has, and only the next write can tell that all is well.
        self._add_check(STORE)
        self.api = FlowControlApi(
            flow_control.store,
            self._settings,
            is_local=is_admin_local,
            on_problem=partial(self._health.report, STORE),
        )
        await self.api.start()
        return StoredObjects(
            self.api.store,
            flow_control.store,
            self._controller,
            on_load=partial(self._on_load, is_whole=False),
        )

    def _files(self, settings: Settings) -> ObjectFiles:
        flow_control = settings.flow_control
        return ObjectFiles(
            flow_control.objects,
            self._controller,
            with_suggested=flow_control.suggested_objects,
            preset=PRESETS[settings.preset],
            on_load=partial(self._on_load, is_whole=True),
        )

    def leave(self, servers: Collection[str]) -> None:
        """Follow the objects at none of these servers behind, which do not work, if at another."""
        if self.kubernetes is not None:
            self.kubernetes.api.leave(servers)

    def stop_waiting(self) -> None:
        if self.kubernetes is not None:
            self.kubernetes.stop_waiting()

    async def read_again(self) -> None:
        if isinstance(self.source, ObjectFiles):
            await self.source.reload()

    def end_watching(self) -> None:
        for each in self._watching:
            each.cancel()

    async def close(self) -> None:
        """End watches, finish writes; harmless once done."""
        self.end_watching()
        await asyncio.gather(*self._watching, return_exceptions=True)
        if self.kubernetes is not None:
            await self.kubernetes.api.close()
        if self.api is not None:
            await self.api.stop()
            self.api = None


def _of_files(settings: Settings) -> object:
    flow_control = settings.flow_control
    return flow_control.objects, flow_control.suggested_objects, settings.preset
