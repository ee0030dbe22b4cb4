"""Follows the objects of a resource of a Kubernetes API: lists them, then watches their changes.

1. A list comes in chunks; if its continuation expires, all is listed in one piece.
2. A watch goes on from the version of the list, of the last event or of the last bookmark.  Its end
   is no error: another watch goes on from the last version.
3. After 410, as a status or within a watch, all is listed again: the server has forgotten the last
   version.  Also after 404: the API's version is no longer served.
4. A connection that breaks, falls silent or is refused is made again after growing pauses.
   The known objects stay known meanwhile.
5. A server that comes back may have lost its newest state and reached the last version by other
   changes, which a watch from there would miss.  So all is listed again after anything but the
   orderly end of a watch.

Source: Kubernetes documentation, "API Concepts", "Efficient detection of changes"; client-go's
`tools/cache/reflector.go`, which has no rule 5.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from contextlib import aclosing, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from apfproxy.base.faults import Part, report
from apfproxy.base.tasks import Backoff
from apfproxy.objects.reading import with_type
from apfproxy.sources.kubernetes_api import (
    Json,
    KubernetesApiError,
    message_of,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from apfproxy.sources.kubernetes_api import KubernetesApi

CHUNK = 250  # objects of one list; clusters have a few dozen
MAX_OBJECTS = 20_000  # of one resource: more are no configuration
MAX_CHUNKS = 1000  # of one list: a server may make chunks smaller than it is asked to
# Bounds of a watch's random duration, as client-go's, so that not all end together.
WATCH_S = (300, 600)
OVERDUE_S = 60.0  # beyond its duration, a watch is given up for another
STEADY_S = 1.0  # after a shorter watch there is a pause, lest a server make us watch in a busy loop

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """The objects that are followed.

    Attributes:
        versions: Of the group; the first one that is served is used.
        right: The right to give to the proxy's user if it may not.
        selector: Labels that the objects have; "" for all.
        part: Of the program, for errors.
    """

    kind: str
    plural: str
    group: str
    versions: tuple[str, ...]
    right: str
    namespace: str = ""
    selector: str = ""
    part: Part = Part.OBJECTS

    def path(self, version: str) -> str:
        within = f"namespaces/{self.namespace}/" if self.namespace else ""
        return f"/apis/{self.group}/{version}/{within}{self.plural}"

    def hint(self, status: int) -> str:
        if status == HTTPStatus.UNAUTHORIZED:
            return "; see to the token or certificate that the proxy shows"
        if status == HTTPStatus.NOT_FOUND:
            return f"; it has to serve {self.group}/{' or '.join(self.versions)}"
        return f"; give the proxy's user {self.right}" if status == HTTPStatus.FORBIDDEN else ""


class Reflector:
    """The objects of one resource; `on_change` is called for each change.

    Attributes:
        objects: Name to object, with its type; replaced, never changed.
        is_synced: Whether they were ever listed.
        version: Of the group that is used, such as v1.
        problem: Why it cannot follow them at the moment.
    """

    def __init__(
        self,
        api: KubernetesApi,
        resource: Resource,
        on_change: Callable[[], None],
        *,
        now_s: Callable[[], float] = time.monotonic,
        backoff: Backoff | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._resource = resource
        self.kind = resource.kind
        self._chosen = {"labelSelector": resource.selector} if resource.selector else {}
        self._on_change = on_change
        self._now_s = now_s
        self._backoff = backoff or Backoff()
        self._sleep = sleep
        self._at: str | None = None  # the resource version that a watch goes on from
        self._has_news = False  # whether the watch brought anything
        self._began_s = math.inf  # when the watch did
        self.objects: dict[str, Json] = {}
        self.is_synced = False
        self.version = resource.versions[0]
        self.problem: str | None = f"{resource.plural}: not listed yet"

    @property
    def path(self) -> str:
        return self._resource.path(self.version)

    async def run(self) -> None:
        while True:
            self._has_news, self._began_s = False, math.inf
            least_s, is_failure = 0.0, True
            try:
                if self._at is None:
                    await self._list()
                await self._watch()
                is_failure = False
            except KubernetesApiError as error:
                least_s = error.retry_after_s
                self._failed(error)
            except Exception as error:  # noqa: BLE001  the next attempt may do better than none
                what = self._resource.plural
                report(self._resource.part, error, f"{self._api.server}: {what} cannot be followed")
                self._at = None
                self.problem = f"{what}: an error of the proxy itself, see its log"
            is_steady = self._now_s() - self._began_s >= STEADY_S
            if self._has_news or is_steady:
                self._backoff.reset()
            if is_failure or not is_steady:
                await self._sleep(self._backoff.next_s(least_s))

    def _failed(self, error: KubernetesApiError) -> None:
        # Without a version even a list is refused.
        is_expired = error.status == HTTPStatus.GONE and self._at is not None
        self._at = None
        if is_expired:
            logger.debug("%s: %s; listing them again", self._resource.plural, error)
            return
        problem = f"{self._resource.plural}: {error}{self._resource.hint(error.status)}"
        if self.problem != problem:
            logger.warning("%s: %s", self._api.server, problem)
        self.problem = problem

    def _well(self) -> None:
        if self.problem is None:
            return
        self.problem = None
        logger.info("%s: %s are followed", self._api.server, self._resource.plural)
        self._on_change()  # what is known may be relied on again

    async def _list(self) -> None:
        versions = self._resource.versions
        for version in versions:
            self.version = version
            try:
                objects, at = await self._listed()
                break
            except KubernetesApiError as error:
                if error.status != HTTPStatus.NOT_FOUND or version == versions[-1]:
                    raise
        self._at = at
        self.objects = objects
        self.is_synced = True
        self._well()
        self._on_change()

    async def _listed(self) -> tuple[dict[str, Json], str]:
        try:
            return await self._listed_in_chunks({**self._chosen, "limit": str(CHUNK)})
        except KubernetesApiError as error:
            if error.status != HTTPStatus.GONE:
                raise
        return await self._listed_in_chunks(self._chosen)

    async def _listed_in_chunks(self, query: dict[str, str]) -> tuple[dict[str, Json], str]:
        objects: dict[str, Json] = {}
        for _ in range(MAX_CHUNKS):
            page = await self._api.get(self.path, query)
            at = object_version(page)
            items = page.get("items") or ()
            if not isinstance(items, list | tuple):
                raise KubernetesApiError("the response is no list of objects")
            for item in items:
                name, obj, _ = self._read(item)
                objects[name] = obj
            self._check_count(len(objects))
            token = page["metadata"].get("continue") or ""
            if not isinstance(token, str):
                raise KubernetesApiError("the continuation of the list is no string")
            if not token:
                return objects, at
            query = {**query, "continue": token}
        raise KubernetesApiError(f"a list of more than {MAX_CHUNKS} chunks")

    async def _watch(self) -> None:
        assert self._at is not None, "all were listed"
        # The jitter needs no secrecy.
        watch_s = random.randint(*WATCH_S)  # noqa: S311
        query = {
            **self._chosen,
            "watch": "1",
            "resourceVersion": self._at,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(watch_s),
        }
        with suppress(TimeoutError):
            async with (
                asyncio.timeout(watch_s + OVERDUE_S),
                aclosing(self._api.watch(self.path, query)) as events,
            ):
                async for event in events:
                    if event is None:
                        self._began_s = self._now_s()
                        self._well()
                    else:
                        self._take(event)

    def _take(self, event: Json) -> None:
        """Take an event; an error event is raised."""
        type_, content = event.get("type"), event.get("object")
        if type_ == "ERROR" and isinstance(content, dict):
            code, why = content.get("code"), message_of(content) or "it is not said why"
            raise KubernetesApiError(
                f"the watch ended: {why}", code if isinstance(code, int) else 0
            )
        if type_ == "BOOKMARK":
            self._at = object_version(content)
            self._has_news = True
            return
        name, obj, at = self._read(content)
        if type_ == "DELETED":
            self.objects = {key: value for key, value in self.objects.items() if key != name}
        elif type_ in ("ADDED", "MODIFIED"):  # no set: it may be of any type
            self.objects = {**self.objects, name: obj}
            self._check_count(len(self.objects))
        else:
            raise KubernetesApiError("an event of the watch is of no known type")
        self._at = at
        self._has_news = True
        self._on_change()

    def _read(self, content: object) -> tuple[str, Json, str]:
        """Name, object with its type and without managed fields, and version."""
        at = object_version(content)
        obj = with_type(content, self._resource.kind, f"{self._resource.group}/{self.version}")
        assert isinstance(obj, dict), "it has a version"
        metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
        name = metadata.get("name")
        if not isinstance(name, str) or not name:
            raise KubernetesApiError("an object has no name")
        return name, {**obj, "metadata": metadata}, at

    def _check_count(self, count: int) -> None:
        if count > MAX_OBJECTS:
            raise KubernetesApiError(f"more than {MAX_OBJECTS} objects")


def object_version(content: object) -> str:
    metadata = content.get("metadata") if isinstance(content, dict) else None
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    if not isinstance(version, str) or not version:
        raise KubernetesApiError("an object has no resourceVersion: is this a Kubernetes API?")
    return version
