"""API servers in a thread, for clients that block: one to reach direct, one behind the proxy."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

import uvloop

from apfproxy.cli.apiserver_process import ApiServerProcess, ApiServerSettings
from apfproxy.cli.process import ProxyProcess
from apfproxy.settings import (
    Address,
    DownstreamSettings,
    DrainSettings,
    FlowControlSettings,
    Settings,
    UpstreamSettings,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

DIRECT = "direct"
PROXIED = "proxied"
WITHIN_S = 30
"""For the servers to start, and to end."""

ANY_PORT = Address(host="127.0.0.1", port=0)


def url_of(port: int) -> str:
    """The URL of a server on this machine."""
    return f"http://127.0.0.1:{port}"


@contextlib.asynccontextmanager
async def api_server() -> AsyncIterator[int]:
    """A server with all controllers: its port."""
    process = ApiServerProcess(ApiServerSettings(listen=ANY_PORT))
    await process.start()
    try:
        yield process.port
    finally:
        await process.stop()


@contextlib.asynccontextmanager
async def proxy(upstream_port: int) -> AsyncIterator[int]:
    """The proxy before a port: its own port."""
    process = ProxyProcess(
        Settings(
            downstream=DownstreamSettings(listen=ANY_PORT),
            upstream=UpstreamSettings(address=Address(host="127.0.0.1", port=upstream_port)),
            drain=DrainSettings(timeout_s=WITHIN_S),
            flow_control=FlowControlSettings(hash_seed=1),
            admin=None,
        )
    )
    await process.start()
    try:
        yield process.port
    finally:
        await process.stop()


@contextlib.contextmanager
def api_servers() -> Iterator[dict[str, str]]:
    """Run two servers in a thread until the end of the context: their URLs by name."""
    started: Future[dict[str, str]] = Future()
    stop: Future[None] = Future()

    async def serve() -> None:
        async with api_server() as direct, api_server() as origin, proxy(origin) as proxied:
            started.set_result({DIRECT: url_of(direct), PROXIED: url_of(proxied)})
            await asyncio.wrap_future(stop)

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(serve())
        except BaseException as error:
            if started.done():
                raise  # pytest tells what ended a thread
            started.set_exception(error)

    thread = threading.Thread(target=run, name="API servers")
    thread.start()
    try:
        yield started.result(WITHIN_S)
    finally:
        stop.set_result(None)
        thread.join(WITHIN_S)
    assert not thread.is_alive()
