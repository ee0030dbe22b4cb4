"""What clients notice of restarts: apfproxy is restarted again and again while they ask.

Clients of three kinds ask all the time: some on a new connection for each request, some on one
that they keep, and some on one that they keep and leave idle between requests.  Counted is each
request without a whole answer: refused, broken on a new connection, broken on a kept one.  A kept
connection that was closed while it was idle is opened again, as any client does, and no failure.

    python -m loadtest.restart --by replacement --restarts 20 --requests 100000
    python -m loadtest.restart --by activation
    python -m loadtest.restart --by stop-start --restarts 3

`replacement` is SIGUSR2 to the parent of a worker; `activation` is SIGTERM and a start with sockets
that this program holds, as systemd does; `stop-start` is the same without.  The exit status is 2 if
a request failed.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import re
import signal
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass
from time import monotonic
from typing import TYPE_CHECKING

import uvloop

from loadtest.arguments import Parser, output_file
from loadtest.processes import SEARCHED, LoadTestError, free_ports, python_module, start_origin
from loadtest.program import measured

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

REPLACEMENT, ACTIVATION, STOP_START = "replacement", "activation", "stop-start"
REQUEST = b"GET /api/v1/namespaces/default/configmaps/x HTTP/1.1\r\nHost: a\r\n\r\n"
ENDS = re.compile(rb"\r\nconnection: close\r\n", re.IGNORECASE)
LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
REPLACED, STOPPED = "all workers are replaced", r"worker 1 \S+: stopped"
AS_SYSTEMD = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Gives a command a listening socket."""
WITHIN_S = 60.0
PAUSE_S = 0.5
"""Between two restarts."""
MOST_IDLE_S = 1.5
"""Longer than a draining proxy waits for a request on an idle connection."""


@dataclass(slots=True)
class Tally:
    """What came of the requests, and the longest that one took."""

    answered: int = 0
    refused: int = 0
    broken_new: int = 0
    broken_kept: int = 0
    wrong_status: int = 0
    worst_ms: float = 0.0

    @property
    def asked(self) -> int:
        """All requests."""
        return self.answered + self.failed

    @property
    def failed(self) -> int:
        """Requests without the answer that they should have."""
        return self.refused + self.broken_new + self.broken_kept + self.wrong_status


class Client:
    """Asks until it is told to end.

    Args:
        port: Of the proxy.
        tally: Where it counts.
        keeps: Whether it uses a connection again.
        idle_s: For how long it waits between requests, at most.
    """

    def __init__(self, port: int, tally: Tally, *, keeps: bool, idle_s: float = 0.0) -> None:
        self._port = port
        self._tally = tally
        self._keeps = keeps
        self._idle_s = idle_s
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._was_used = False

    async def run(self, end: asyncio.Event) -> None:
        """Ask."""
        while not end.is_set():
            begun_s = monotonic()
            await self._ask()
            self._tally.worst_ms = max(self._tally.worst_ms, (monotonic() - begun_s) * 1e3)
            if self._idle_s:
                await asyncio.sleep(random.random() * self._idle_s)  # noqa: S311
        self._close()

    async def _ask(self) -> None:
        if self._reader is not None and self._reader.at_eof():
            self._close()
        if self._reader is None or self._writer is None:
            try:
                self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
            except OSError:
                self._tally.refused += 1
                await asyncio.sleep(0.01)
                return
        try:
            self._writer.write(REQUEST)
            head = await self._reader.readuntil(b"\r\n\r\n")
            length = LENGTH.search(head)
            await self._reader.readexactly(int(length[1]) if length else 0)
        except (OSError, asyncio.IncompleteReadError):
            if self._was_used:
                self._tally.broken_kept += 1
            else:
                self._tally.broken_new += 1
            self._close()
            return
        self._was_used = True
        if head.startswith(b"HTTP/1.1 200 "):
            self._tally.answered += 1
        else:
            self._tally.wrong_status += 1
        if not self._keeps or ENDS.search(head):
            self._close()

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None
        self._was_used = False


class Proxy:
    """The proxy, which is another process after each restart."""

    def __init__(self, by: str, upstream_port: int, directory: Path) -> None:
        self._by = by
        self._log = directory / "apfproxy.log"
        (self.port,) = free_ports(1)
        self._socket: socket.socket | None = None
        if by == ACTIVATION:
            self._socket = socket.create_server(("127.0.0.1", self.port), backlog=4096)
        self._command = [
            *python_module("apfproxy"),
            *("serve", "--upstream", f"http://127.0.0.1:{upstream_port}", "--admin", "none"),
            *("--listen", f"127.0.0.1:{self.port}"),
            *(("--workers", "1") if by == REPLACEMENT else ()),
        ]
        self._read = 0
        self._pid = 0

    async def start(self) -> None:
        """Start a process; it serves then."""
        command, passed = self._command, []
        if self._socket is not None:
            passed = [self._socket.fileno()]
            command = [sys.executable, "-c", AS_SYSTEMD, str(passed[0]), *command]
        with self._log.open("ab") as log:
            process = subprocess.Popen(  # noqa: ASYNC220 - takes a millisecond
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=passed,
                env={**os.environ, "PYTHONPATH": SEARCHED},
                start_new_session=True,
            )
        self._pid = process.pid
        process.returncode = 0  # it is waited for by its descriptor
        await self._line("parent is process" if self._by == REPLACEMENT else "listens on")

    async def restart(self) -> None:
        """Have another process in its place, and the one before at its end."""
        if self._by == REPLACEMENT:
            os.kill(self._pid, signal.SIGUSR2)
            for line in (REPLACED, STOPPED):
                await self._line(line)
            return
        await self.stop()
        await self.start()

    async def stop(self) -> None:
        """End it in order."""
        if self._pid:
            os.kill(self._pid, signal.SIGTERM)
            await gone(self._pid)
            self._pid = 0

    async def close(self) -> None:
        """End it for good."""
        await self.stop()
        if self._socket is not None:
            self._socket.close()

    async def _line(self, pattern: str) -> re.Match[str]:
        """The first line of the log that matches, after the last one that was found."""
        end_s = monotonic() + WITHIN_S
        while monotonic() < end_s:
            text = self._log.read_bytes()[self._read :].decode()
            found = re.search(pattern, text)
            if found is not None:
                self._read += len(text[: found.end()].encode())
                return found
            await asyncio.sleep(0.01)
        raise LoadTestError(f"apfproxy did not say {pattern!r}: {self._log.read_text()[-300:]}")


async def gone(pid: int) -> None:
    """Wait until a process is gone, whoever's child it is."""
    descriptor = os.pidfd_open(pid)
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(descriptor, ended.set)
    try:
        async with asyncio.timeout(WITHIN_S):
            await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def more(tally: Tally, requests: int) -> None:
    """Wait until so many requests more have come to an end."""
    end = tally.asked + requests
    while tally.asked < end:  # noqa: ASYNC110 - they are many
        await asyncio.sleep(PAUSE_S / 10)


async def measure(
    by: str, restarts: int, requests: int, clients: int, directory: Path
) -> tuple[Tally, float]:
    """Restart a proxy under load: what came of the requests, and for how many seconds.

    Before, between and after the restarts are as many requests, beside those during a restart.
    """
    tally, end = Tally(), asyncio.Event()
    share = math.ceil(requests / (restarts + 1))
    with start_origin(directory=directory, arguments=("--delay-ms", "2")) as origin:
        proxy = Proxy(by, origin.port, directory)
        await proxy.start()
        begun_s = monotonic()
        asking = [
            asyncio.create_task(Client(proxy.port, tally, **kind).run(end))
            for kind in ({"keeps": False}, {"keeps": True}, {"keeps": True, "idle_s": MOST_IDLE_S})
            for _ in range(clients)
        ]
        for done in range(restarts):
            await more(tally, share)
            await asyncio.sleep(PAUSE_S)
            await proxy.restart()
            print(f"\rrestart {done + 1} of {restarts}: {tally}", end="", flush=True)
        await more(tally, share)
        print()
        end.set()
        await asyncio.gather(*asking)
        elapsed_s = monotonic() - begun_s
        await proxy.close()
    return tally, elapsed_s


def report(by: str, restarts: int, tally: Tally, elapsed_s: float) -> list[str]:
    """Print what came of it; what is wrong."""
    print(
        f"{restarts} restarts by {by}, {tally.asked} requests in {elapsed_s:.0f} s:"
        f" {tally.refused} refused, {tally.broken_new} broken on new connections,"
        f" {tally.broken_kept} on kept ones, {tally.wrong_status} other answers;"
        f" the longest took {tally.worst_ms:.0f} ms"
    )
    return [f"{tally.failed} requests failed"] if tally.failed else []


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the load test."""
    parser = Parser(__doc__)
    parser.add_argument(
        "--by", choices=(REPLACEMENT, ACTIVATION, STOP_START), default=REPLACEMENT, help="how"
    )
    parser.add_argument("--restarts", type=int, default=20, help="default 20")
    parser.add_argument("--requests", type=int, default=100_000, help="at least; default 100000")
    parser.add_argument("--clients", type=int, default=8, help="of each kind; default 8")
    parser.add_argument("--json", type=output_file, help="file for the results")
    options = parser.parse_args(arguments)

    def run(directory: Path) -> tuple[object, Sequence[str]]:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            tally, elapsed_s = runner.run(
                measure(options.by, options.restarts, options.requests, options.clients, directory)
            )
        return asdict(tally), report(options.by, options.restarts, tally, elapsed_s)

    return measured("restart", run, descriptors=4096, json_file=options.json)


if __name__ == "__main__":
    sys.exit(main())
