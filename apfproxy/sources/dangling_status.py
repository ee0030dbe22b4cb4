"""Writes the condition `Dangling` of a Kubernetes API's FlowSchemas.

kube-apiserver writes the same itself; then nothing is due here.  Several proxies write the same, as
one field manager.  Nothing is written before changes have rested, since a schema and its level come
one by one, nor while either resource cannot be followed.  A condition that another client changes
back is not written again for a while.
"""

from __future__ import annotations

import asyncio
import logging
import time
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote

from apfproxy.base.faults import Part, report
from apfproxy.base.tasks import Backoff
from apfproxy.objects.field_errors import one_line
from apfproxy.objects.go_text import rfc3339
from apfproxy.objects.types import GROUP, Object, due_condition
from apfproxy.sources.kubernetes_api import KubernetesApiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from apfproxy.sources.kubernetes_api import KubernetesApi
    from apfproxy.sources.reflector import Reflector

MANAGER = "apfproxy"  # owns the fields that are written
REST_S = 1.0  # during which changes are gathered
CONTESTED_S = 60.0  # between two writes of one condition to one schema

# Statuses that may concern one schema alone: the others are written all the same.
OF_ONE = {400, 403, 409, 413, 422}

FORBIDDEN_HINT = "; give the proxy's user the cluster role of config/kubernetes/rbac/status.yaml"

logger = logging.getLogger(__name__)


class DanglingStatus:
    """The writer; `problem` says why it cannot write at the moment."""

    def __init__(
        self,
        api: KubernetesApi,
        schemas: Reflector,
        levels: Reflector,
        *,
        wall_s: Callable[[], float] = time.time,
        now_s: Callable[[], float] = time.monotonic,
        backoff: Backoff | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._schemas = schemas
        self._levels = levels
        self._wall_s = wall_s
        self._now_s = now_s
        self._backoff = backoff or Backoff()
        self._sleep = sleep
        self._wake = asyncio.Event()
        self._last: dict[str, tuple[str, float]] = {}  # schema to the message written, and when
        self.problem: str | None = None

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Write what is due after each change, until cancelled."""
        while True:
            await self._wake.wait()
            await self._sleep(REST_S)
            self._wake.clear()
            least_s = 0.0
            try:
                await self._write_due()
            except KubernetesApiError as error:
                hint = FORBIDDEN_HINT if error.status == HTTPStatus.FORBIDDEN else ""
                problem = f"status of FlowSchemas: {error}{hint}"
                least_s = error.retry_after_s
                if self.problem is None:
                    logger.warning("%s: %s", self._api.server, problem)
                self.problem = problem
            except Exception as error:  # noqa: BLE001  the next attempt may do better
                report(
                    Part.OBJECTS,
                    error,
                    f"{self._api.server}: the status of FlowSchemas is not written",
                )
                self.problem = "status of FlowSchemas: an error of the proxy itself, see its log"
            else:
                self.problem = None
                self._backoff.reset()
                continue
            self._wake.set()
            await self._sleep(self._backoff.next_s(least_s))

    async def _write_due(self) -> None:
        refused = None
        names = self._schemas.objects.keys()
        self._last = {name: last for name, last in self._last.items() if name in names}
        for name in sorted(names):
            if self._schemas.problem is not None or self._levels.problem is not None:
                break  # and woken when they are followed again
            schema = self._schemas.objects.get(name)
            condition = None if schema is None else self._due(schema)
            if condition is None:
                continue
            message, written_s = self._last.get(name, ("", 0.0))
            if message == condition["message"] and self._now_s() - written_s < CONTESTED_S:
                self._wake.set()  # to look again later
                continue
            try:
                await self._write(name, condition)
            except KubernetesApiError as error:
                if error.status not in OF_ONE:
                    raise
                refused = refused or error
                continue
            self._last[name] = (condition["message"], self._now_s())
        if refused is not None:
            raise refused

    def _due(self, schema: Object) -> Object | None:
        try:
            return due_condition(schema, self._levels.objects, rfc3339(self._wall_s()))
        except (KeyError, TypeError, AttributeError):
            return None  # malformed, which is reported where it is read

    async def _write(self, name: str, condition: Object) -> None:
        obj = {
            "apiVersion": f"{GROUP}/{self._schemas.version}",
            "kind": "FlowSchema",
            "metadata": {"name": name},
            "status": {"conditions": [condition]},
        }
        path = f"{self._schemas.path}/{quote(name, safe='')}/status"
        try:
            await self._api.apply(path, {"fieldManager": MANAGER, "force": "true"}, obj)
        except KubernetesApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return  # it has gone meanwhile
        logger.info("FlowSchema %s: Dangling is %s", one_line(name), condition["status"])
