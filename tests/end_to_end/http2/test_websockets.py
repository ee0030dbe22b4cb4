"""A browser's WebSockets over HTTP/2, to a server that knows of HTTP/1.1 only."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from aiohttp import WSMsgType, web

from tests.end_to_end.http2.site import Site
from tests.end_to_end.scene import Setup, on_uvloop, running
from tests.support.browser import Tab, chromium
from tests.support.clocks import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PATH = "/api/v1/namespaces/a/pods/b/exec"
CONSOLE = "/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachineinstances/b/console"
CLOSINGS = (
    (PATH, "socket.send('end')", "4000 as asked true"),
    (CONSOLE, "socket.close(4001, 'enough')", "1000  true"),  # aiohttp's own to any close
)
"""The path, how the connection is ended, and what the page hears."""
BIG_BYTES = 1_000_000
PAGE = """<!doctype html><title>WebSockets</title><script>
const heard = [];
const url = `wss://${location.host}${location.hash.slice(1)}?command=cat`;
const socket = new WebSocket(url, ["v4.channel.k8s.io", "v5.channel.k8s.io"]);
socket.binaryType = "arraybuffer";
socket.onopen = () => { socket.send("hello"); socket.send(new Uint8Array(BYTES).fill(7)); };
socket.onmessage = (event) => {
  if (typeof event.data === "string") { heard.push(event.data); return; }
  const bytes = new Uint8Array(event.data);
  heard.push(`${bytes.length} of ${bytes.every((each) => each === 7)}`);
};
socket.onclose = (event) => heard.push(`${event.code} ${event.reason} ${event.wasClean}`);
</script>"""
"""Says hello and something large, and keeps what it hears."""


async def page(_: web.Request) -> web.Response:
    return web.Response(text=PAGE.replace("BYTES", str(BIG_BYTES)), content_type="text/html")


async def echo(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",), max_msg_size=2 * BIG_BYTES)
    await socket.prepare(request)
    async for message in socket:
        if message.type is WSMsgType.BINARY:
            await socket.send_bytes(message.data)
        elif message.data == "end":
            await socket.close(code=4000, message=b"as asked")
        else:
            await socket.send_str(message.data)
    return socket


@contextlib.asynccontextmanager
async def server() -> AsyncIterator[int]:
    application = web.Application()
    application.add_routes([web.get("/page", page)])
    application.add_routes([web.get(path, echo) for path, _, _ in CLOSINGS])
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


@on_uvloop
async def test_browser(tmp_path: Path) -> None:
    """Messages, compressed and large, go both ways on the page's connection; either side closes."""
    setup = Site(tmp_path).setup(Setup(), is_tls=True)
    async with server() as port, running(setup, upstream_port=port) as scene:
        counters = scene.process.cluster.counters
        with chromium(tmp_path / "profile", is_trusting=True) as driver:
            tab = Tab(driver)
            for path, close, closed in CLOSINGS:
                await tab.open("about:blank")
                await tab.open(f"https://localhost:{scene.process.port}/page#{path}")
                await tab.until("heard.length === 2")
                assert ["hello", f"{BIG_BYTES} of true"] == await tab.run("heard")
                assert "v5.channel.k8s.io" == await tab.run("socket.protocol")
                assert await tab.run("socket.extensions.startsWith('permessage-deflate')")
                assert 1 == counters.tunnels_open
                listener = counters.listener
                assert listener.connections_open == listener.http2.connections_open
                await tab.run(close)
                await tab.until("heard.length === 3")
                assert closed == await tab.run("heard[2]")
                await until(lambda: not counters.tunnels_open)
        assert 2 == counters.tunnels_by_protocol["websocket"]
