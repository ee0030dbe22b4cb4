"""A small Kubernetes API of EndpointSlices, which a test cuts, empties of memory and takes away."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any, cast

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

Json = dict[str, Any]


class SlicesApi:
    """The EndpointSlices of one Service, listed and watched."""

    def __init__(self, namespace: str, service: str) -> None:
        self._path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        self._selector = f"kubernetes.io/service-name={service}"
        self._slices: dict[str, Json] = {}
        self._events: list[tuple[int, Json]] = []
        self._version = 1
        self._oldest = 0
        self._news = asyncio.Condition()
        self._watches: set[asyncio.Transport] = set()

    async def put(self, name: str, port: int, *hosts: str, draining: tuple[str, ...] = ()) -> None:
        """Have a slice with these addresses, of which some are about to go."""
        conditions = {True: {"ready": False, "serving": True, "terminating": True}, False: {}}
        obj = {
            "addressType": "IPv4",
            "ports": [{"name": "web", "port": port, "protocol": "TCP"}],
            "endpoints": [
                {"addresses": [host], "conditions": conditions[host in draining]} for host in hosts
            ],
        }
        await self._change("MODIFIED" if name in self._slices else "ADDED", name, obj)

    async def delete(self, name: str) -> None:
        await self._change("DELETED", name, self._slices[name])

    async def bookmark(self) -> None:
        self._version += 1
        await self._tell("BOOKMARK", {"metadata": {"resourceVersion": str(self._version)}})

    async def forget(self) -> None:
        """Forget all versions before this one, and cut all watches: 410 for who goes on."""
        self._version += 1
        self._oldest = self._version
        self.cut()

    def cut(self) -> None:
        for transport in list(self._watches):
            transport.abort()

    async def _change(self, type_: str, name: str, obj: Json) -> None:
        self._version += 1
        obj = {**obj, "metadata": {"name": name, "resourceVersion": str(self._version)}}
        if type_ == "DELETED":
            del self._slices[name]
        else:
            self._slices[name] = obj
        await self._tell(type_, obj)

    async def _tell(self, type_: str, obj: Json) -> None:
        self._events.append((self._version, {"type": type_, "object": obj}))
        async with self._news:
            self._news.notify_all()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("labelSelector") != self._selector:
            return web.json_response({"message": "another Service"}, status=403)
        if "watch" in request.query:
            return await self._watch(request)
        metadata = {"resourceVersion": str(self._version)}
        return web.json_response({"metadata": metadata, "items": list(self._slices.values())})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        at = int(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        if at < self._oldest:
            await response.write(line({"type": "ERROR", "object": {"code": 410}}))
            return response
        transport = cast("asyncio.Transport", request.transport)
        self._watches.add(transport)
        try:
            told = 0
            while True:
                async with self._news:
                    if told == len(self._events):
                        await self._news.wait()
                for version, event in self._events[told:]:
                    told += 1
                    if version > at:
                        await response.write(line(event))
        finally:
            self._watches.discard(transport)

    @contextlib.asynccontextmanager
    async def served(self, port: int = 0) -> AsyncIterator[int]:
        app = web.Application()
        app.router.add_get(self._path, self._answer)
        runner = web.AppRunner(app, shutdown_timeout=0.0, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            yield runner.addresses[0][1]
        finally:
            self.cut()
            await runner.cleanup()


def line(event: Json) -> bytes:
    return json.dumps(event).encode() + b"\n"


def kubeconfig(folder: Path, server: str) -> str:
    path = folder / "kubeconfig"
    contexts = [{"name": "c", "context": {"cluster": "c"}}]
    clusters = [{"name": "c", "cluster": {"server": server}}]
    named = {"current-context": "c", "contexts": contexts, "clusters": clusters}
    path.write_text(json.dumps(named))  # JSON is YAML
    return str(path)
