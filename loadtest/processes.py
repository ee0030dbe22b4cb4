"""Programs that a load test starts, measures and stops, each by its own process id.

What a process has cost is read from `/proc`: CPU time from every thread's `schedstat`, which counts
nanoseconds (the clock ticks in `stat` are 10 ms), memory from `statm`.  Memory is what the process
holds itself; the kernel's socket buffers are in no figure.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from loadtest.site import Build

READY_WITHIN_S = 15.0
"""How long until a program's port has to answer; an interpreter on a busy core needs seconds."""

STOP_WITHIN_S = 5.0
"""How long a program may take to end after SIGTERM before it is killed."""

PORTS = range(20000, 32000)
"""Ports to listen on: below Linux' ephemeral range, so that no outgoing connection takes one."""

CPUS = sorted(os.sched_getaffinity(0))
"""The CPUs that we may use, read before anything is pinned."""

SEARCH_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"
"""Where programs are looked for: Debian puts servers where a user's PATH may not look."""

ROOT = Path(__file__).parents[1]
"""The folder of the packages `loadtest` and `apfproxy`."""

SEARCHED = os.environ.get("PYTHONPATH") or str(ROOT)
"""Where programs find them; in tests of the compiled build that comes first."""

PAGE_BYTES = resource.getpagesize()

BEYOND_A_LIMIT = 2
"""The exit status where something is wrong, or a figure beyond its limit."""


class LoadTestError(Exception):
    """A load test cannot run; the text is one line that says what to do."""


class Process:
    """One running program, whose port responds; as a context manager it is stopped at the end."""

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
        program = installed(argv[0])
        with self.log.open("wb") as log:
            self._popen = subprocess.Popen(
                [program, *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": SEARCHED, **(environment or {})},
                pass_fds=descriptors,
                # An interrupt from the terminal is ours to handle: we stop each by its id.
                start_new_session=True,
            )
        try:
            if core is not None:
                pin(self.pid, core)
            for each in (port, *more_ports):
                self.wait_for_port(each)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def is_running(self) -> bool:
        return self._popen.poll() is None

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

    def wait_for_port(self, port: int) -> None:
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


def raise_descriptor_limit(needed: int) -> None:
    """Let this process and those it starts hold as many descriptors as the system permits."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard not in (-1, resource.RLIM_INFINITY) and hard < needed:
        raise LoadTestError(
            f"one process needs {needed} open files and {hard} are permitted; "
            f"raise `ulimit -Hn` or ask for fewer connections"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def start_apfproxy(
    *,
    upstream_port: int,
    upstream_scheme: str = "http",
    believes_headers: bool = True,
    directory: Path,
    core: int | None = None,
    arguments: Sequence[str] = (),
    name: str = "apfproxy",
    build: Build | None = None,
) -> tuple[Process, int]:
    """Start `apfproxy serve`: its process and its admin port."""
    port, admin_port = free_ports(2)
    # The name is for its certificate; without one, no name is to be looked up.
    host = "127.0.0.1" if upstream_scheme == "http" else "localhost"
    process = Process(
        name,
        [
            *(python_module("apfproxy") if build is None else build.command()),
            *("serve", "--upstream", f"{upstream_scheme}://{host}:{upstream_port}"),
            *("--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin_port}"),
            *(["--identity-headers-from", "127.0.0.0/8"] if believes_headers else []),
            *arguments,
        ],
        port=port,
        core=core,
        directory=directory,
        environment=None if build is None else build.environment(),
        more_ports=[admin_port],
    )
    return process, admin_port


def start_origin(
    *, directory: Path, core: int | None = None, arguments: Sequence[str] = ()
) -> Process:
    (port,) = free_ports(1)
    argv = [*python_module("loadtest.origin"), "--port", str(port), *arguments]
    return Process("origin", argv, port=port, core=core, directory=directory)


def measured(
    name: str,
    measure: Callable[[Path], tuple[object, Sequence[str]]],
    *,
    descriptors: int,
    json_file: Path | None,
    directory: Path | None = None,
) -> int:
    """Measure in a temporary directory, until an interrupt or SIGTERM ends it: the exit status.

    Args:
        name: The program's.
        measure: Gives the results, and texts that say what is wrong.
        descriptors: As many as one process may need.
        json_file: For the results.
        directory: Where the temporary one is made; by default where the system has them.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        raise_descriptor_limit(descriptors)
        with tempfile.TemporaryDirectory(prefix=f"apfproxy-{name}-", dir=directory) as place:
            results, wrong = measure(Path(place))
        for text in wrong:
            print(f"WRONG: {text}")
        if json_file is not None:
            json_file.write_text(json.dumps(results, indent=2) + "\n")
    except (LoadTestError, OSError, ImportError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: interrupted; what it started is stopped", file=sys.stderr)
        return 130
    return BEYOND_A_LIMIT if wrong else 0
