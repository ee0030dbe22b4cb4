"""Programs that a load test starts, measures and stops, each by its own process id.

What a process has cost is read from `/proc`: CPU time from every thread's `schedstat`, which counts
nanoseconds (the clock ticks in `stat` are 10 ms), memory from `statm`.  Memory is what the process
holds itself; the kernel's socket buffers are in no figure.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from loadtest.contenders import Build

READY_WITHIN_S = 15.0
"""How long until a program's port has to answer; an interpreter on a busy core needs seconds."""

RESPONDS_WITHIN_S = 10.0
QUIET_WITHIN_S = 8.0
"""More than any deadline that the load tests set."""

SAMPLE = re.compile(r"^([a-z_]+)(?:\{([^}]*)\})? ([0-9.e+-]+)$", re.MULTILINE)
"""A line of the metrics page: name, labels, value."""

STOP_WITHIN_S = 5.0

PORTS = range(20000, 32000)
"""Ports to listen on: below Linux' ephemeral range, so that no outgoing connection takes one."""

CPUS = sorted(os.sched_getaffinity(0))
"""The CPUs that we may use, read before anything is pinned."""

SEARCH_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"
"""Where programs are looked for: Debian puts servers where a user's PATH may not look."""

ROOT = Path(__file__).parents[1]

SEARCHED = os.environ.get("PYTHONPATH") or str(ROOT)
"""Where programs find them; in tests of the compiled build that comes first."""

PAGE_BYTES = resource.getpagesize()


class LoadTestError(Exception):
    """A load test cannot run; the text is one line that says what to do."""


class Process:
    """One program, whose ports respond once it is started; as a context manager it is stopped."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        port: int,
        core: int | None = None,
        directory: Path,
        environment: Mapping[str, str] | None = None,
        descriptors: Sequence[int] = (),
        more_ports: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.port = port
        self.is_hung = False
        self.log = directory / f"{name}.log"
        self.log.write_bytes(b"")
        self._argv = [installed(argv[0]), *argv[1:]]
        self._core = core
        self._environment = {**os.environ, "PYTHONPATH": SEARCHED, **(environment or {})}
        self._descriptors = descriptors
        self._ports = [port, *more_ports]
        self._popen: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        """Start it, again if it has ended, with the same ports and a log that goes on."""
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                pass_fds=self._descriptors,
                # An interrupt from the terminal is ours to handle: we stop each by its id.
                start_new_session=True,
            )
        try:
            if self._core is not None:
                pin(self.pid, self._core)
            for each in self._ports:
                self._wait_for_port(each)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def is_running(self) -> bool:
        return self._popen.poll() is None

    @property
    def is_well(self) -> bool:
        return self.is_running and not self.is_hung

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def cpu_ns(self) -> int:
        self._check_alive()
        return cpu_ns(self.pid)

    def rss_bytes(self) -> int:
        self._check_alive()
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * PAGE_BYTES

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))  # noqa: PTH208 - names are enough

    async def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        await asyncio.to_thread(self.stop)

    def hang(self) -> None:
        """Have it do nothing until `go_on`; the kernel still takes connections for it."""
        self.is_hung = True
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        if self.is_hung and self.is_running:
            os.kill(self.pid, signal.SIGCONT)
        self.is_hung = False

    def stop(self) -> None:
        self.go_on()
        if not self.is_running:
            return
        self._popen.send_signal(signal.SIGTERM)
        try:
            self._popen.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()

    def _wait_for_port(self, port: int) -> None:
        end = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < end:
            self._check_alive()
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
        raise LoadTestError(f"{self.name}: port {port} did not answer: {self._last_words()}")

    def _check_alive(self) -> None:
        status = self._popen.poll()
        if status is not None:
            raise LoadTestError(f"{self.name} ended with status {status}: {self._last_words()}")

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it printed nothing"


@dataclass(frozen=True, slots=True)
class ProxyState:
    """Seats, requests and connections of a proxy.

    Attributes:
        seats: In use in all priority levels, those of requests that linger included.
        executing: Requests that have seats or have none because they are long-running.
        upstream_active, upstream_idle: Connections to the origin, with and without a request.
        upstream_waiters: Requests that wait for one.
        downstream: Connections of clients.
    """

    seats: int
    executing: int
    waiting: int
    upstream_active: int
    upstream_idle: int
    upstream_waiters: int
    downstream: int

    @property
    def is_quiet(self) -> bool:
        busy = self.seats, self.executing, self.waiting, self.upstream_active, self.upstream_waiters
        return not any(busy)


class Proxy(Process):
    """A running `apfproxy serve` before ports or URLs, with the pages of its admin listener."""

    def __init__(
        self,
        directory: Path,
        upstreams: Sequence[int | str],
        *,
        name: str = "apfproxy",
        settings: str = "",
        arguments: Sequence[str] = (),
        core: int | None = None,
        build: Build | None = None,
        believes_headers: bool = True,
    ) -> None:
        port, self.admin_port = free_ports(2)
        urls = [f"http://127.0.0.1:{each}" if isinstance(each, int) else each for each in upstreams]
        argv = [
            *(python_module("apfproxy") if build is None else build.command()),
            *("serve", "--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{self.admin_port}"),
            *(f"--upstream={url}" for url in urls),
            *arguments,
        ]
        if believes_headers:
            argv += ["--identity-headers-from", "127.0.0.0/8"]
        if settings:
            file = directory / f"{name}.yaml"
            file.write_text(settings)
            argv += ["--settings", str(file)]
        super().__init__(
            name,
            argv,
            port=port,
            core=core,
            directory=directory,
            environment=None if build is None else build.environment(),
            more_ports=[self.admin_port],
        )

    async def state(self) -> ProxyState:
        sums: dict[str, float] = {}
        for name, labels, value in SAMPLE.findall(await fetch(self.admin_port, "/metrics")):
            state = re.search(r'state="([a-z]+)"', labels)
            key = f"{name}/{state[1]}" if state else name
            sums[key] = sums.get(key, 0.0) + float(value)
        control = "apiserver_flowcontrol_current_"
        return ProxyState(
            int(sums[f"{control}executing_seats"]),
            int(sums.get(f"{control}executing_requests", 0)),
            int(sums.get(f"{control}inqueue_requests", 0)),
            int(sums["apfproxy_upstream_connections/active"]),
            int(sums["apfproxy_upstream_connections/idle"]),
            int(sums["apfproxy_upstream_waiters"]),
            int(sums["apfproxy_downstream_connections"]),
        )

    async def quiet(
        self, within_s: float = QUIET_WITHIN_S, *, clients_leave: bool = False
    ) -> ProxyState:
        """Wait until nothing is under way, or for a while: the state then."""
        end_s = time.monotonic() + within_s
        state = await self.state()
        while not state.is_quiet or (clients_leave and state.downstream):
            if time.monotonic() > end_s:
                break
            await asyncio.sleep(0.1)
            state = await self.state()
        return state

    def problems(self) -> list[str]:
        """The first traceback of its log, if there is one."""
        lines = self.log.read_text(errors="replace").splitlines()
        found = (at for at, line in enumerate(lines) if line.startswith("Traceback"))
        return [
            f"{self.name} logged: " + " | ".join(lines[max(0, at - 2) : at + 40])
            for at in itertools.islice(found, 1)
        ]


async def fetch(port: int, target: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {target} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
        async with asyncio.timeout(RESPONDS_WITHIN_S):
            head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
    except TimeoutError as error:
        raise LoadTestError(f"GET {target} on port {port}: no response in time") from error
    finally:
        writer.close()
    if b" 200 " not in head.split(b"\r\n")[0] + b" ":
        raise LoadTestError(f"GET {target} on port {port}: {head[:80]!r} instead of 200")
    return body.decode()


async def read_limits(admin_port: int) -> dict[str, Any]:
    limits: dict[str, Any] = json.loads(await fetch(admin_port, "/debug/limits"))
    return limits


def cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process so far, user and system."""
    return sum(
        int((thread / "schedstat").read_text().split()[0])
        for thread in Path(f"/proc/{pid}/task").iterdir()
    )


def installed(name: str) -> str:
    program = shutil.which(name, path=SEARCH_PATH)
    if program is None:
        raise LoadTestError(f"no program {name!r}; install it and try again")
    return program


def python_module(name: str) -> list[str]:
    return [sys.executable, "-m", name]


def replace_file(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.replace(path)


def pin(pid: int, core: int) -> None:
    if len(CPUS) > 1:
        os.sched_setaffinity(pid, {CPUS[min(core, len(CPUS) - 1)]})


def free_ports(count: int) -> list[int]:
    """Find ports of 127.0.0.1 that nothing listens on, each another one."""
    found: list[int] = []
    # Start where another load test at the same time most likely does not.
    offset = os.getpid() * 37
    for step in range(len(PORTS)):
        port = PORTS[(offset + step) % len(PORTS)]
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise LoadTestError(f"found {len(found)} free ports in {PORTS}, need {count}; stop something")


def start_origin(
    *,
    directory: Path,
    core: int | None = None,
    arguments: Sequence[str] = (),
    name: str = "origin",
) -> Process:
    (port,) = free_ports(1)
    argv = [*python_module("loadtest.origin"), "--port", str(port), *arguments]
    return Process(name, argv, port=port, core=core, directory=directory)
