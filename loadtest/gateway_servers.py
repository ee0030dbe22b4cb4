"""The servers behind a gateway, which can be killed and told to misbehave."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from loadtest.admin_pages import fetch
from loadtest.origin import Entry, read_journal
from loadtest.processes import Process, free_ports, python_module

if TYPE_CHECKING:
    from pathlib import Path

NAMES = "abcdefghi"
"""For the servers."""
NOTICED_S = 2.0
"""How long a server that will leave says that it is not ready, before it does."""


class Servers:
    """Several servers; as a context manager all are stopped at the end."""

    def __init__(self, directory: Path, count: int) -> None:
        self.count = count
        self.names = NAMES[:count]
        self.ports = free_ports(count)
        self._directory = directory
        self._running = ExitStack()
        self._processes = [self._start(at) for at in range(count)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._running.close()

    async def kill(self, at: int) -> None:
        await self._processes[at].kill()

    def hang(self, at: int) -> None:
        self._processes[at].hang()

    async def be(self, at: int, manner: str) -> None:
        await fetch(self.ports[at], f"/-/be/{manner}")

    async def drain(self, at: int) -> None:
        await self.be(at, "unready")
        await asyncio.sleep(NOTICED_S)
        await asyncio.to_thread(self._processes[at].stop)

    async def be_well(self, at: int) -> None:
        self._processes[at].go_on()
        if self._processes[at].is_running:
            await self.be(at, "well")
        else:
            await self.start(at, "well")

    async def start(self, at: int, manner: str) -> None:
        self._processes[at] = await asyncio.to_thread(self._start, at, manner)

    def journals(self) -> list[list[Entry]]:
        return [read_journal(self._journal(at)) for at in range(self.count)]

    def _journal(self, at: int) -> Path:
        return self._directory / f"{NAMES[at]}.journal"

    def _start(self, at: int, manner: str = "well") -> Process:
        name, port = NAMES[at], self.ports[at]
        argv = [
            *python_module("loadtest.origin"),
            *("--port", str(port), "--name", name, "--journal", str(self._journal(at))),
            *("--delay-ms", "4", "--event-period", "1", "--manner", manner),
        ]
        process = Process(f"server-{name}", argv, port=port, directory=self._directory)
        return self._running.enter_context(process)
