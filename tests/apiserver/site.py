"""A server of all kinds in this process, and clients of it."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import web
from yarl import URL

from apfproxy.apiserver.app import Api
from apfproxy.apiserver.core.cluster import NAMESPACE
from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.registry import Registry, completed
from apfproxy.apiserver.store.store import Store
from tests.apiserver.controllers.scene import NOW_S, TESTER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from apfproxy.apiserver.kind import Kind
    from apfproxy.objects.types import Object

JSON = "application/json"
YAML = "application/yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

FLOW_CONTROL = "/apis/flowcontrol.apiserver.k8s.io/v1"
SCHEMAS = f"{FLOW_CONTROL}/flowschemas"
LEVELS = f"{FLOW_CONTROL}/prioritylevelconfigurations"
NAMESPACES = "/api/v1/namespaces"
PODS = f"{NAMESPACES}/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@dataclass(frozen=True)
class Answer:
    """A response, with its body as it came over the wire."""

    status: int
    headers: Any
    data: bytes

    @property
    def body(self) -> Any:  # noqa: ANN401  JSON
        return json.loads(self.data)

    @property
    def warnings(self) -> list[str]:
        return [
            json.loads(each.removeprefix("299 - ")) for each in self.headers.getall("Warning", [])
        ]

    @property
    def summary(self) -> tuple[int, str]:
        body = self.body
        assert "Status" == body["kind"], body
        assert self.status == body.get("code", self.status)
        return self.status, body.get("reason", "")

    @property
    def causes(self) -> list[tuple[str, str]]:
        causes = self.body["details"]["causes"]
        return [(cause.get("field", ""), cause["reason"]) for cause in causes]


class Events:
    """A watch as its client sees it."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.status = response.status

    async def next(self) -> Any:  # noqa: ANN401  JSON
        line = await self.response.content.readline()
        return json.loads(line) if line else None

    async def seen(self) -> tuple[str, str]:
        event = await self.next()
        return event["type"], event["object"]["metadata"].get("name", "")


class Site:
    """A server whose clock moves only when a test moves it; `window` changes are kept."""

    def __init__(self, kinds: tuple[Kind, ...] = KINDS, window: int = 1000) -> None:
        self.now_s = NOW_S
        self.store = Store(window=window)
        self.registry = Registry(kinds, self.store, lambda: self.now_s, random.Random(1))  # noqa: S311  uids of tests
        self.api = Api(self.registry, random.Random(2))  # noqa: S311  durations of watches
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None
        self.port = 0

    async def start(self) -> None:
        app = web.Application()
        app.add_routes(self.api.routes())
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        self._session = aiohttp.ClientSession(
            auto_decompress=False,
            skip_auto_headers=["User-Agent", "Accept", "Accept-Encoding"],
            timeout=aiohttp.ClientTimeout(),  # none: a watch may take an hour of virtual time
        )
        if NAMESPACE in self.registry.kinds:
            await self.add(NAMESPACE, {"metadata": {"name": "default"}})

    async def stop(self) -> None:
        assert self._session is not None
        assert self._runner is not None
        await self._session.close()
        await self.store.close()
        await self._runner.cleanup()

    async def add(self, kind: Kind, raw: Object, namespace: str = "") -> Object:
        obj = completed(kind, raw)
        return (await self.registry.create(kind, namespace, obj, TESTER)).obj

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,  # noqa: ANN401  JSON, or bytes as they are
        *,
        accept: str = "",
        content_type: str = "",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        sent = dict(headers or {})
        if accept:
            sent["Accept"] = accept
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        if content_type or data is not None:
            sent["Content-Type"] = content_type or JSON
        assert self._session is not None
        async with self._session.request(
            method, self.url(path), data=data, headers=sent
        ) as response:
            return Answer(response.status, response.headers, await response.read())

    async def get(self, path: str, **how: Any) -> Answer:  # noqa: ANN401  as for `send`
        return await self.send("GET", path, **how)

    @asynccontextmanager
    async def watch(self, path: str, accept: str = "") -> AsyncIterator[Events]:
        """Watch a path, whose query is complete but for `watch`."""
        assert self._session is not None
        url = path if "/watch/" in path else f"{path}{'&' if '?' in path else '?'}watch=true"
        headers = {"Accept": accept} if accept else {}
        async with self._session.get(self.url(url), headers=headers) as response:
            yield Events(response)

    async def raw(self, *parts: bytes, reads_first: bool = False) -> bytes:
        """Send bytes on a connection of its own; all that comes back until the server closes it.

        With `reads_first` a head of a response comes after the first part.
        """
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        first = b""
        for position, part in enumerate(parts):
            writer.write(part)
            await writer.drain()
            if reads_first and position == 0:
                first = await reader.readuntil(b"\r\n\r\n")
        rest = await reader.read()
        writer.close()
        await writer.wait_closed()
        return first + rest

    def url(self, path: str) -> URL:
        return URL(f"http://127.0.0.1:{self.port}{path}", encoded=True)


def flow_schema(name: str = "f", precedence: int = 1000, **metadata: Any) -> Object:  # noqa: ANN401  JSON
    return {
        "metadata": {"name": name, **metadata},
        "spec": {
            "priorityLevelConfiguration": {"name": "exempt"},
            "matchingPrecedence": precedence,
        },
    }


def pod(name: str = "p", **metadata: Any) -> Object:  # noqa: ANN401  JSON
    return {
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


def budget(name: str = "b", **metadata: Any) -> Object:  # noqa: ANN401  JSON
    return {"metadata": {"name": name, **metadata}, "spec": {"minAvailable": 1}}


def namespace(name: str, **metadata: Any) -> Object:  # noqa: ANN401  JSON
    return {"metadata": {"name": name, **metadata}}
