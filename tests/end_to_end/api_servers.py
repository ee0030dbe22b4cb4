"""API servers for clients that block: behind the proxy, in a thread, or restarted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import uvloop

from apfproxy.app.apiserver_process import ApiServerProcess, ApiServerSettings
from apfproxy.app.process import ProxyProcess
from apfproxy.settings import (
    Address,
    DownstreamSettings,
    DownstreamTlsSettings,
    DrainSettings,
    FlowControlSettings,
    OverloadSettings,
    Settings,
    UpstreamSettings,
)
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

T = TypeVar("T")

PROXIED = "proxied"
PROXIED_HTTP2 = "proxied-http2"
WITHIN_S = 100
"""For the servers to start, and to end."""

ANY_PORT = Address(host="127.0.0.1", port=0)


def url_of(port: int) -> str:
    return f"http://127.0.0.1:{port}"


@contextlib.asynccontextmanager
async def api_server() -> AsyncIterator[int]:
    process = ApiServerProcess(ApiServerSettings(listen=ANY_PORT))
    await process.start()
    try:
        yield process.port
    finally:
        await process.stop()


@contextlib.asynccontextmanager
async def proxy(upstream_port: int, tls: DownstreamTlsSettings | None = None) -> AsyncIterator[int]:
    process = ProxyProcess(
        Settings(
            downstream=DownstreamSettings(
                listen=ANY_PORT,
                tls=tls or DownstreamTlsSettings(),
                overload=OverloadSettings(loop_delay_s=None),
            ),
            upstream=UpstreamSettings(url=Address(host="127.0.0.1", port=upstream_port)),
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
def in_thread(running: contextlib.AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Run what is in a thread with a loop of its own, until the end of the context."""
    started: Future[T] = Future()
    stop: Future[None] = Future()

    async def serve() -> None:
        async with running as value:
            started.set_result(value)
            await asyncio.wrap_future(stop)

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(serve())
        except BaseException as error:
            if started.done():
                raise  # pytest tells what ended a thread
            started.set_exception(error)

    thread = threading.Thread(target=run, name="servers")
    thread.start()
    try:
        yield started.result(WITHIN_S)
    finally:
        stop.set_result(None)
        thread.join(WITHIN_S)
    assert not thread.is_alive()


@contextlib.asynccontextmanager
async def api_servers(folder: Path) -> AsyncIterator[dict[str, str]]:
    """Servers of their own behind proxies: name to URL.

    All of them run in one loop: connections of one process share a buffer.
    """
    authority = Authority("servers")
    authority.write(folder)
    files = authority.issue("a", usage="server").write(folder, "server")
    tls = DownstreamTlsSettings(certificate_file=files[0], key_file=files[1])
    async with (
        api_server() as one,
        proxy(one) as plain,
        api_server() as other,
        proxy(other, tls) as secure,
    ):
        yield {PROXIED: url_of(plain), PROXIED_HTTP2: f"https://127.0.0.1:{secure}"}


class Restarted:
    """A server on a file and a port that is ended and started again."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self._process = process
        self.port = port
        self._pid = 0

    def start(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{self.port}\n")
        self._process.stdin.flush()
        fields: dict[str, int] = {}
        while not fields.keys() >= {"pid", "port"}:
            fields |= self._read()
        self._pid = fields["pid"]

    def end(self, number: signal.Signals) -> int:
        """End it by a signal: its exit code, negative for a signal that killed it."""
        os.kill(self._pid, number)
        while (status := self._read().get("status")) is None:
            pass
        self._pid = 0
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)

    def _read(self) -> dict[str, int]:
        assert self._process.stdout is not None
        fields: dict[str, int] = json.loads(self._process.stdout.readline())
        return fields


@contextlib.contextmanager
def restarted(store: Path, port: int, *, is_kept: bool = True) -> Iterator[Restarted]:
    """Have a server, not started yet, that keeps its objects in a file, or not beyond its end."""
    kept = str(store) if is_kept else ""
    with (
        store.with_suffix(".log").open("wb") as log,
        subprocess.Popen(  # noqa: S603  Python, on a module of the tests
            [sys.executable, "-m", "tests.end_to_end.forked_apiserver", kept],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        server = Restarted(process, port)
        try:
            yield server
        finally:
            server.close()
