"""Keeps a controller's configuration as the objects of a Kubernetes API are.

A change is in force as soon as its event has come; many at once are taken together.  Until both
resources were listed, the built-in objects are in force; while the API cannot be reached, the last
that were known.  Suggested objects are in force only if the API has them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from apfproxy.flowcontrol.preset import KUBERNETES
from apfproxy.objects.reading import V1, V1BETA3
from apfproxy.objects.types import GROUP
from apfproxy.sources.dangling_status import DanglingStatus
from apfproxy.sources.in_force import InForce, load_when_woken
from apfproxy.sources.reflector import Reflector, Resource

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.preset import Preset
    from apfproxy.sources.in_force import LoadObserver
    from apfproxy.sources.kubernetes_api import KubernetesApi

RESOURCES = tuple(
    Resource(
        kind=kind,
        plural=plural,
        group=GROUP,
        versions=(V1, V1BETA3),  # v1 from Kubernetes 1.29 on
        right="the cluster role of config/kubernetes/rbac/reader.yaml",
    )
    for kind, plural in (
        ("PriorityLevelConfiguration", "prioritylevelconfigurations"),
        ("FlowSchema", "flowschemas"),
    )
)

logger = logging.getLogger(__name__)


class KubernetesObjects:
    """The source of a controller's configuration; `writes_status` has `Dangling` written."""

    stale_after_s: float | None = None  # it is told of changes, and says by itself when it is not

    def __init__(
        self,
        api: KubernetesApi,
        controller: Controller,
        *,
        with_suggested: bool = True,
        preset: Preset = KUBERNETES,
        writes_status: bool = False,
        on_load: LoadObserver | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.api = api
        self.in_force = InForce(api.server, controller, on_load)
        self._until_known = InForce(
            "", controller, on_load, with_suggested=with_suggested, preset=preset
        )
        self._sleep = sleep
        self._wake = asyncio.Event()
        self._waited = asyncio.Event()
        levels, schemas = (
            Reflector(api, resource, self._wake.set, sleep=sleep) for resource in RESOURCES
        )
        self.reflectors = (levels, schemas)
        self._status = DanglingStatus(api, schemas, levels, sleep=sleep) if writes_status else None

    @property
    def is_synced(self) -> bool:
        return all(each.is_synced for each in self.reflectors)

    def problem(self) -> str | None:
        """Why the objects cannot be followed at the moment; None while they can."""
        problems = [each.problem for each in self.reflectors if each.problem is not None]
        if problems:
            known = "last known" if self.is_synced else "built-in"
            problems.append(f"the {known} objects are in force")
        else:
            status = self._status and self._status.problem
            problems = [each for each in (self.api.problem, status) if each]
        return f"{self.api.server}: {'; '.join(problems)}" if problems else None

    def load_first(self) -> None:
        """Put the built-in objects in force, to serve with until the API's are known."""
        self._until_known.put(self._until_known.prepare(()))

    async def wait_until_synced(self, timeout_s: float) -> None:
        """Wait until the API's objects are in force, while `watch` runs."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._waited.wait()
        except TimeoutError:
            logger.warning(
                "the objects of %s did not come within %g s; the built-in ones serve until they do",
                self.api.server,
                timeout_s,
            )

    def stop_waiting(self) -> None:
        self._waited.set()

    async def reload(self) -> None:
        self.in_force.name = self.api.server
        await self.in_force.load(
            [
                (reflector.kind, name, wire)
                for reflector in self.reflectors
                for name, wire in sorted(reflector.objects.items())
            ]
        )

    async def _load(self) -> None:
        if not self.is_synced:
            return
        try:
            await self.reload()
        finally:
            self._waited.set()
            if self._status is not None:
                self._status.wake()

    async def watch(self, _beat: Callable[[], None]) -> None:
        """Follow the objects and load after each change, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                group.create_task(reflector.run())
            if self._status is not None:
                group.create_task(self._status.run())
            await load_when_woken(self._wake, self._load, self.api.server, self._sleep)
