"""Servers that speak Redis' protocol, for tests: on free ports, without a file, ended by pid."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests.end_to_end.programs import free_port, installed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

READY_WITHIN_S = 60
HOST = "127.0.0.1"


async def until_so(ask: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(READY_WITHIN_S):
        while not await ask():  # noqa: ASYNC110  another process has no event to give
            await asyncio.sleep(0)


class RedisServer:
    def __init__(
        self, folder: Path, *options: str, program: str = "redis-server", port: int | None = None
    ) -> None:
        self.port = free_port() if port is None else port
        self._program = program
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}"

    @contextlib.asynccontextmanager
    async def client(self, **arguments: Any) -> AsyncIterator[Redis]:  # noqa: ANN401 - redis-py's
        client = Redis(host=HOST, port=self.port, protocol=2, **arguments)
        try:
            yield client
        finally:
            await client.aclose()

    async def start(self, **arguments: Any) -> None:  # noqa: ANN401 - as above
        name = f"{self._program}-{self.port}"
        log = self._folder / f"{name}.log"
        plain = ("--port", str(self.port), "--bind", HOST, "--dir", str(self._folder))
        memory = ("--save", "", "--appendonly", "no")
        options = (*plain, *memory, *self._options)
        if self._program == "redis-sentinel":
            configuration = self._folder / f"{name}.conf"
            if not configuration.exists():
                configuration.write_text("\n".join(self._options))
            options = (str(configuration), "--port", str(self.port), "--bind", HOST)
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: ASYNC220, S603 - does not wait; a program of the system
                [installed(self._program), *options], stdout=output, stderr=output
            )
        async with asyncio.timeout(READY_WITHIN_S), self.client(**arguments) as client:
            while True:
                with contextlib.suppress(RedisError, OSError):
                    await client.ping()
                    return
                if self._process.poll() is not None:
                    pytest.fail(f"{name} has ended: {log.read_text()[-2000:]}")
                await asyncio.sleep(0.02)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


@asynccontextmanager
async def redis_server(
    folder: Path,
    *options: str,
    **arguments: Any,  # noqa: ANN401 - redis-py's
) -> AsyncIterator[RedisServer]:
    server = RedisServer(folder, *options)
    try:
        await server.start(**arguments)
        yield server
    finally:
        server.kill()
