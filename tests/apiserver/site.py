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
from tests.apiserver.controllers.scene import Scene

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from apfproxy.objects.types import Object

JSON = "application/json"
YAML = "application/yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
SCHEMAS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
NAMESPACES = "/api/v1/namespaces"
PODS = f"{NAMESPACES}/default/pods"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Any
    data: bytes

    @property
    def body(self) -> Any:  # noqa: ANN401  JSON
        return json.loads(self.data)

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
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.status = response.status

    async def next(self) -> Any:  # noqa: ANN401  JSON
        line = await self.response.content.readline()
        return json.loads(line) if line else None

    async def seen(self) -> tuple[str, str]:
        event = await self.next()
        return event["type"], event["object"]["metadata"].get("name", "")


class Site(Scene):
    """A server whose clock moves only when a test moves it."""

    async def start(self) -> None:
        await self.namespace()
        app = web.Application()
        app.add_routes(Api(self.registry, random.Random(2)).routes())  # noqa: S311  durations of watches
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        self._session = aiohttp.ClientSession(
            auto_decompress=False,
            skip_auto_headers=["User-Agent", "Accept", "Accept-Encoding"],
            timeout=aiohttp.ClientTimeout(),  # none: a watch may take an hour of virtual time
        )

    async def stop(self) -> None:
        await self._session.close()
        await self.store.close()
        await self._runner.cleanup()

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
        async with self._session.request(
            method, self.url(path), data=data, headers=sent
        ) as response:
            return Answer(response.status, response.headers, await response.read())

    async def get(self, path: str, **how: Any) -> Answer:  # noqa: ANN401  as for `send`
        return await self.send("GET", path, **how)

    @asynccontextmanager
    async def watch(self, path: str, accept: str = "") -> AsyncIterator[Events]:
        """Watch a path, whose query is complete but for `watch`."""
        url = path if "/watch/" in path else f"{path}{'&' if '?' in path else '?'}watch=true"
        headers = {"Accept": accept} if accept else {}
        async with self._session.get(self.url(url), headers=headers) as response:
            yield Events(response)

    async def raw(self, *parts: bytes) -> bytes:
        """Send bytes on a connection of its own; all that comes back until the server closes it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.writelines(parts)
        found = await reader.read()
        writer.close()
        await writer.wait_closed()
        return found

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
