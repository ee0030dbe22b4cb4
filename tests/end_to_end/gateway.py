"""A proxy before several clusters, each of which has an upstream that says what it got."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING

from apfproxy.app.process import ProxyProcess
from apfproxy.app.reloading import SettingsFile, reload
from apfproxy.settings.file import load_settings
from tests.end_to_end.http2_peer import HTTP2, SPOKEN, Http2Peer
from tests.end_to_end.peer import Message, Peer
from tests.end_to_end.upstream import Arrival, Upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from typing import Any

WHOLE = """
downstream: {listen: "127.0.0.1:0", limits: {maxPipelinedRequests: 1000}, http2: {cleartext: true}}
drain: {timeout: 10s}
admin: null
"""


async def _say(name: str, arrival: Arrival) -> None:
    """Answer with the cluster's name, the target and the Host field."""
    request = arrival.request
    target = request.line.split(b" ")[1]
    body = b"%b %b %b" % (name.encode(), target, request.value(b"host") or b"")
    await arrival.peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


def get(host: str, target: str = "/", *fields: str) -> bytes:
    lines = "".join(f"{each}\r\n" for each in fields)
    return f"GET {target} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n".encode()


class Gateway:
    """The proxy, and the upstreams by their names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.upstreams: dict[str, Upstream] = {}
        self._path = folder / "gateway.yaml"
        self._file = SettingsFile(self._path, lambda: load_settings(self._path))
        self._clients: list[Peer] = []
        self.process: ProxyProcess

    def url_of(self, name: str) -> str:
        if name not in self.upstreams:
            upstream = self.upstreams[name] = Upstream()

            async def say(arrival: Arrival) -> None:
                await _say(name, arrival)

            upstream.answer_with(say)
            upstream.start()
        return f"http://127.0.0.1:{self.upstreams[name].port}"

    def write(self, *clusters: dict[str, Any], whole: str = WHOLE) -> None:
        """Write the settings; a cluster without `upstream` has an upstream of its name."""
        listed = [
            each if "upstream" in each else {**each, "upstream": {"url": self.url_of(each["name"])}}
            for each in clusters
        ]
        self._path.write_text(f"{whole}\nclusters: {json.dumps(listed)}\n")

    async def start(self) -> None:
        self.process = ProxyProcess(load_settings(self._path), self._file)
        await self.process.start()

    async def reload(self, *clusters: dict[str, Any], whole: str = WHOLE) -> None:
        self.write(*clusters, whole=whole)
        await reload(self.process, self._file)

    async def connect(self) -> Peer:
        peer = await self.connect_socket()
        return Http2Peer(peer) if SPOKEN.get() == HTTP2 else peer

    async def connect_socket(self) -> Peer:
        """A new client that has said nothing, and sends what it is given."""
        peer = await Peer.connect(self.process.port)
        self._clients.append(peer)
        return peer

    async def ask(self, request: bytes, client: Peer | None = None) -> Message:
        client = client or await self.connect()
        await client.send(request)
        return await client.read_answer()

    async def asked(self, host: str, target: str = "/", *fields: str) -> tuple[int, str]:
        """The status and the body of the answer to a request on a connection of its own."""
        answer = await self.ask(get(host, target, *fields))
        return answer.status, answer.body.decode()

    def member(self, name: str) -> Any:  # noqa: ANN401  what tests look at
        return next(each for each in self.process.clusters.members if each.wanted.name == name)

    async def stop(self) -> None:
        for client in self._clients:
            client.close()
        await self.process.stop()
        for upstream in self.upstreams.values():
            await upstream.stop()
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def gateway(
    folder: Path, *clusters: dict[str, Any], whole: str = WHOLE, errors: int = 0
) -> AsyncIterator[Gateway]:
    """A proxy before clusters; at its end all is closed, and nothing may be left."""
    scene = Gateway(folder)
    scene.write(*clusters, whole=whole)
    await scene.start()
    try:
        yield scene
    finally:
        await scene.stop()
    assert {asyncio.current_task()} == asyncio.all_tasks()
    assert errors == sum(scene.process.faults.totals.values())
    assert 0 == scene.process.server.connection_count
    for cluster in scene.process.clusters:
        assert 0 == cluster.served.pool.open_count
        assert 0 == cluster.served.connection_count
