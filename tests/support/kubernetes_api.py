"""A Kubernetes API that a test plays: objects in memory, watches that are told of each change."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from apfproxy.sources.kubernetes_api import KubernetesApiError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Mapping

Json = dict[str, Any]

LEVELS, SCHEMAS = "prioritylevelconfigurations", "flowschemas"
SLICES = "endpointslices"


class KubernetesDouble:
    """The API.

    Attributes:
        refused: Resources that may not be read, and field managers that may not write.
        asked: Verb and resource of each question.
        paths: Path and label selector of each question that reads.
        applied: Name, query and object of each write.
        problem: Of its credentials.
    """

    server = "https://api"

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.asked: list[tuple[str, str]] = []
        self.paths: list[tuple[str, str]] = []
        self.applied: list[tuple[str, Mapping[str, str], Json]] = []
        self.is_closed = False
        self.problem: str | None = None
        self._version = 1
        self._objects: dict[str, dict[str, Json]] = {LEVELS: {}, SCHEMAS: {}, SLICES: {}}
        self._history: list[tuple[int, str, Json]] = []
        self._watches: list[tuple[str, asyncio.Queue[Json | None]]] = []

    def put(self, resource: str, obj: Json) -> None:
        name = obj["metadata"]["name"]
        self._version += 1
        metadata = {"uid": f"u-{name}", **obj["metadata"], "resourceVersion": str(self._version)}
        self._objects[resource][name] = {**obj, "metadata": metadata}
        self._tell(resource, "MODIFIED", self._objects[resource][name])

    def delete(self, resource: str, name: str) -> None:
        self._version += 1
        obj = self._objects[resource].pop(name)
        metadata = {**obj["metadata"], "resourceVersion": str(self._version)}
        self._tell(resource, "DELETED", {**obj, "metadata": metadata})

    def cut(self) -> None:
        for _, queue in self._watches:
            queue.put_nowait(None)

    def _tell(self, resource: str, type_: str, obj: Json) -> None:
        event = {"type": type_, "object": obj}
        self._history.append((self._version, resource, event))
        for watched, queue in self._watches:
            if watched == resource:
                queue.put_nowait(event)

    async def get(self, path: str, query: Mapping[str, str]) -> Json:
        await asyncio.sleep(0)
        self.paths.append((path, query.get("labelSelector", "")))
        resource = path.rpartition("/")[2]
        self.asked.append(("list", resource))
        self._refuse(resource)
        return {
            "metadata": {"resourceVersion": str(self._version)},
            "items": list(self._objects[resource].values()),
        }

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Json | None, None]:
        self.paths.append((path, query.get("labelSelector", "")))
        resource = path.rpartition("/")[2]
        self.asked.append(("watch", resource))
        self._refuse(resource)
        queue: asyncio.Queue[Json | None] = asyncio.Queue()
        for version, changed, event in self._history:
            if changed == resource and version > int(query["resourceVersion"]):
                queue.put_nowait(event)
        self._watches.append((resource, queue))
        yield None
        while (told := await queue.get()) is not None:
            yield told
        self._watches.remove((resource, queue))
        raise KubernetesApiError("the connection broke")

    async def apply(self, path: str, query: Mapping[str, str], obj: Json) -> Json:
        await asyncio.sleep(0)
        *_, resource, name, subresource = path.split("/")
        self.asked.append(("patch", f"{resource}/{subresource}"))
        self._refuse(query["fieldManager"])
        if name not in self._objects[resource]:
            raise KubernetesApiError("answered 404", 404)
        self.applied.append((name, query, obj))
        self.put(resource, {**self._objects[resource][name], "status": obj["status"]})
        return self._objects[resource][name]

    def _refuse(self, what: str) -> None:
        if what in self.refused:
            raise KubernetesApiError("answered 403", 403)

    def leave(self, servers: Collection[str]) -> None:
        """There is one server."""

    async def close(self) -> None:
        self.is_closed = True
