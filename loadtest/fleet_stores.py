"""The stores that a fleet under test shares its record in: one can be killed, hung, and be back."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections import Counter
from typing import TYPE_CHECKING

from loadtest.processes import LoadTestError, Process, free_ports, python_module
from loadtest.seat_watch import fetch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    Reading = Callable[[asyncio.StreamReader], Awaitable[bytes]]

ANSWER_WITHIN_S = 5.0
COMMANDS = {"evalsha", "hset", "publish"}
"""Members send the first; a look is one, and a write another."""
REQUESTS = re.compile(
    r'apiserver_request_total\{(?=.*resource="configmaps").*verb="([A-Z]+)".*\} ([0-9.e+]+)'
)

NAMESPACE = '{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}'
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: fleet
clusters: [{{name: fleet, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: fleet, user: {{}}}}]
contexts: [{{name: fleet, context: {{name: fleet, cluster: fleet, user: fleet}}}}]
"""


class StoreProcess:
    """What stores have in common.

    Args:
        directory: An existing directory for its output.

    Attributes:
        port: Of 127.0.0.1.
        is_well: Whether it runs, and answers.
    """

    def __init__(self, directory: Path) -> None:
        (self.port,) = free_ports(1)
        self.is_well = False
        self.directory = directory
        self._process: Process | None = None

    def command(self) -> list[str]:
        """The program and its arguments."""
        raise NotImplementedError

    async def start(self) -> None:
        """Have it run, with nothing in it."""
        self._process = await asyncio.to_thread(
            Process, "store", self.command(), port=self.port, directory=self.directory
        )
        self.is_well = True

    async def kill(self) -> None:
        """End it at once."""
        process, self.is_well = self.process, False
        os.kill(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.stop)

    def hang(self) -> None:
        """Have it do nothing more; its connections stay."""
        self.is_well = False
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """The end of that; harmless otherwise."""
        if self._process is not None and self._process.is_running:
            os.kill(self._process.pid, signal.SIGCONT)
            self.is_well = True

    def stop(self) -> None:
        """End it; harmless once done."""
        self.go_on()
        if self._process is not None:
            self._process.stop()

    @property
    def process(self) -> Process:
        """That it runs in; LoadTestError if it does not."""
        if self._process is None:
            raise LoadTestError("the store has not been started")
        return self._process

    def cpu_ns(self) -> int:
        """What it has cost."""
        return self.process.cpu_ns()

    async def ask(self, text: str, read: Reading) -> str:
        """Send it something; LoadTestError if no answer comes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                writer.write(text.encode())
                return (await read(reader)).decode()
        except (TimeoutError, ValueError, asyncio.IncompleteReadError) as error:
            raise LoadTestError("the store does not answer; see its log") from error
        finally:
            writer.close()


async def read_bulk(reader: asyncio.StreamReader) -> bytes:
    """A bulk string of Redis' protocol."""
    return await reader.readexactly(int((await reader.readline())[1:]))


async def read_all(reader: asyncio.StreamReader) -> bytes:
    """All that comes."""
    return await reader.read()


class RedisServer(StoreProcess):
    """A redis-server that keeps nothing on the disk."""

    def command(self) -> list[str]:
        """The program and its arguments."""
        return [
            *("redis-server", "--port", str(self.port), "--bind", "127.0.0.1"),
            *("--save", "", "--appendonly", "no", "--dir", str(self.directory)),
        ]

    async def commands(self) -> Counter[str]:
        """How often it was asked by a script, and how often that wrote or told the others."""
        found: Counter[str] = Counter()
        for line in (await self.ask("INFO commandstats\r\n", read_bulk)).splitlines():
            name, _, text = line.removeprefix("cmdstat_").partition(":calls=")
            if text and name in COMMANDS:
                found[name] = int(text.partition(",")[0])
        return found

    def settings(self, port: int, directory: Path) -> str:
        """A URL."""
        del directory
        return f"store: 'redis://127.0.0.1:{port}/0'"


class KubernetesApi(StoreProcess):
    """`apfproxy apiserver`, which has one ConfigMap for the fleet."""

    def command(self) -> list[str]:
        """The program and its arguments."""
        listen = f"127.0.0.1:{self.port}"
        arguments = ["apiserver", "--listen", listen, "--controllers", "-*"]
        return [*python_module("apfproxy"), *arguments, "--log-level", "error"]

    async def start(self) -> None:
        """Have it run, with nothing in it but a namespace."""
        await super().start()
        head = (
            f"POST /api/v1/namespaces HTTP/1.1\r\nHost: fleet\r\nContent-Length: {len(NAMESPACE)}"
        )
        kind = "Content-Type: application/json\r\nConnection: close"
        answer = await self.ask(f"{head}\r\n{kind}\r\n\r\n{NAMESPACE}", read_all)
        if " 201 " not in answer.partition("\r")[0]:
            raise LoadTestError(f"the API server does not create a namespace: {answer[:200]!r}")

    async def commands(self) -> Counter[str]:
        """How often there was which request for ConfigMaps."""
        found: Counter[str] = Counter()
        for line in (await fetch(self.port, "/metrics")).splitlines():
            verb = REQUESTS.match(line)
            if verb is not None:
                found[verb[1].lower()] += int(float(verb[2]))
        return found

    def settings(self, port: int, directory: Path) -> str:
        """A ConfigMap, and how to reach its server."""
        path = directory / f"kubeconfig-{port}"
        path.write_text(KUBECONFIG.format(port=port))
        return f"store: 'kubernetes:default/fleet'\n  kubeconfig: {path}"


STORES: dict[str, type[RedisServer | KubernetesApi]] = {
    "redis": RedisServer,
    "kubernetes": KubernetesApi,
}
