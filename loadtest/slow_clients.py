"""What thousands of slow clients do to another one: slowhttptest against apfproxy, by its modes.

slowhttptest (a Debian package) opens connections that send a head a few bytes at a time, or a body,
or take in a large answer as slowly.  Meanwhile two clients that mean no harm ask 20 times a second
each, every other time on a connection of its own: a service account, which has a priority level
apart from that of the slow clients, and a user who shares theirs.  Counted are their answers and
how long the worst took, what the proxy holds in memory and in descriptors before, meanwhile and
after, and that in the end no seat is in use and no connection is left.

Slow bodies hold seats of their level until `downstream.limits.bodyRateGrace` is over, and slow
readers, by the settings here, until `slowReaderGrace` is, so for that long whoever shares the level
may have to wait; nobody else does.  (By default slow readers hold theirs for as long as their
requests may take, as in kube-apiserver, and so could keep whoever shares their level out.)

    python -m loadtest.slow_clients --connections 4000 --seconds 40 --json slow.json
    python -m loadtest.slow_clients --only body --connections 500

The exit status is 2 if a figure is beyond its limit.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import uvloop

from loadtest.admin_pages import ProxyState, read_state
from loadtest.arguments import Parser, count_up_to, names_from, output_file
from loadtest.clients import percentile
from loadtest.processes import (
    LoadTestError,
    Process,
    free_ports,
    measured,
    python_module,
    start_apfproxy,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

MODES = {
    "head": ("-H", "-i", "2", "-x", "24"),
    "body": ("-B", "-i", "2", "-x", "10", "-s", "8192", "-t", "POST"),
    "read": ("-X", "-w", "512", "-y", "1024", "-n", "1", "-z", "32", "-k", "1"),
}
"""Of slowhttptest; a piece every two seconds, or a read of 32 bytes every second."""
TARGETS = {"head": "/slow", "body": "/slow", "read": "/large"}
REQUESTS_PER_S = 20
WORST_MS = 1000.0
GRACE_MS = {"head": 0.0, "body": 5000.0, "read": 1000.0}
"""For which slow clients hold seats: `bodyRateGrace`'s default, and `slowReaderGrace` as below."""
SETTINGS = """
downstream:
  limits:
    slowReaderGrace: 1s
    slowReadersPerLevel: 100000
"""
GROWTH_MIB = 48.0
"""Of memory that may stay after a mode: what the allocator keeps for the next one."""
SPARE_DESCRIPTORS = 8
"""Open after a mode above those before it, pooled connections to the origin apart."""
ANSWER_WITHIN_S = 20.0
QUIET_WITHIN_S = 60.0
NICE = 10

APART, BESIDE = "apart", "beside"
FIELDS = {
    APART: b"X-Remote-User: system:serviceaccount:kube-system:worker\r\n"
    b"X-Remote-Group: system:serviceaccounts\r\n"
    b"X-Remote-Group: system:serviceaccounts:kube-system\r\n",
    BESIDE: b"X-Remote-User: alice\r\n",
}
"""What says who asks: in the level workload-high, or as the slow clients in global-default."""
REQUEST = b"GET /api/v1/namespaces/default/configmaps/x HTTP/1.1\r\nHost: localhost\r\n%b\r\n"

Numbers = dict[str, float]


@dataclass
class Answers:
    """What a client got that means no harm.

    Attributes:
        asked, answered: Its requests, and those answered by 200.
        refusals: What else it got.
        worst_ms, p99_ms: From the moment when it was to ask to the end of the answer.
    """

    asked: int
    answered: int
    refusals: list[str]
    worst_ms: float
    p99_ms: float


@dataclass
class Findings:
    """What came of one mode.

    Attributes:
        mode: Its name.
        slow_connections: The most that were open at once.
        others: Of the clients that mean no harm.
        before, during, after: `rss_mib` and `descriptors` of the proxy, without its connections
            to the origin; during, the most, with them.
        state: What the proxy held in the end.
        wrong: What is beyond its limit.
    """

    mode: str
    slow_connections: int
    others: dict[str, Answers]
    before: Numbers
    during: Numbers
    after: Numbers
    state: ProxyState
    wrong: list[str] = field(default_factory=list)

    def judge(self) -> None:
        wrong, state = self.wrong, self.state
        for name, other in self.others.items():
            if other.answered != other.asked:
                wrong.append(
                    f"{name}: {other.asked - other.answered} of {other.asked} requests were not"
                    f" answered by 200 ({', '.join(sorted(set(other.refusals))[:3])})"
                )
            limit_ms = WORST_MS + (GRACE_MS[self.mode] if name == BESIDE else 0.0)
            if other.worst_ms > limit_ms:
                wrong.append(
                    f"{name}: an answer took {other.worst_ms:.0f} ms, more than {limit_ms:.0f}"
                )
        if self.after["rss_mib"] - self.before["rss_mib"] > GROWTH_MIB:
            wrong.append(f"memory has grown by more than {GROWTH_MIB:.0f} MiB")
        if self.after["descriptors"] > self.before["descriptors"] + SPARE_DESCRIPTORS:
            wrong.append("descriptors are left")
        if not state.is_quiet or state.downstream:
            wrong.append(f"not quiet: {state}")


class OtherClient:
    """Asks at fixed times, whatever became of its earlier requests."""

    def __init__(self, port: int, fields: bytes) -> None:
        self._port = port
        self._request = REQUEST % fields
        self._kept: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.asked = 0
        self.took_ms: list[float] = []
        self.refusals: list[str] = []

    async def run(self) -> None:
        start_s = monotonic()
        try:
            while True:
                due_s = start_s + self.asked / REQUESTS_PER_S
                await asyncio.sleep(max(0.0, due_s - monotonic()))
                self.asked += 1
                self._tasks.add(asyncio.create_task(self._ask(due_s, is_kept=self.asked % 2 == 0)))
        finally:
            await asyncio.gather(*self._tasks)
            if self._kept is not None:
                self._kept[1].close()

    async def _ask(self, due_s: float, *, is_kept: bool) -> None:
        kept, self._kept = (self._kept, None) if is_kept else (None, self._kept)
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                reader, writer = kept or await asyncio.open_connection("127.0.0.1", self._port)
                writer.write(self._request)
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readuntil(b"}\n")
        except (OSError, EOFError, TimeoutError) as error:
            self.refusals.append(type(error).__name__)
            return
        self.took_ms.append((monotonic() - due_s) * 1000)
        if not head.startswith(b"HTTP/1.1 200 "):
            self.refusals.append(head.split(b"\r\n")[0].decode(errors="replace"))
        if is_kept and self._kept is None:
            self._kept = reader, writer
        else:
            writer.close()

    def answers(self) -> Answers:
        took_ms = self.took_ms or [0.0]
        answered = len(self.took_ms) - sum(text.startswith("HTTP") for text in self.refusals)
        worst_ms, p99_ms = round(max(took_ms), 1), round(percentile(took_ms, 99), 1)
        return Answers(self.asked, answered, self.refusals, worst_ms, p99_ms)


class Watch:
    """Looks at the proxy every now and then."""

    PERIOD_S = 0.5

    def __init__(self, proxy: Process, admin_port: int) -> None:
        self._proxy = proxy
        self._admin_port = admin_port
        self.most: Numbers = {"rss_mib": 0, "descriptors": 0}
        self.connections = 0

    async def run(self) -> None:
        while True:
            for name, number in numbers_of(self._proxy).items():
                self.most[name] = max(self.most[name], number)
            with suppress(LoadTestError, OSError):
                state = await read_state(self._admin_port)
                self.connections = max(self.connections, state.downstream)
            await asyncio.sleep(self.PERIOD_S)


def numbers_of(proxy: Process, state: ProxyState | None = None) -> Numbers:
    descriptors = len(list(Path(f"/proc/{proxy.pid}/fd").iterdir()))
    if state is not None:
        descriptors -= state.upstream_idle
    return {"rss_mib": round(proxy.rss_bytes() / 2**20, 1), "descriptors": descriptors}


async def attack(mode: str, port: int, options: argparse.Namespace, directory: Path) -> None:
    """Run slowhttptest to its end, at a low priority."""
    program = shutil.which("slowhttptest")
    if program is None:
        raise LoadTestError("slowhttptest is not installed; `apt-get install slowhttptest`")
    command = [program, *MODES[mode], "-c", str(options.connections), "-r", str(options.rate)]
    seconds = options.seconds
    command += ["-l", str(seconds), "-p", "5", "-u", f"http://127.0.0.1:{port}{TARGETS[mode]}"]
    with (directory / f"slowhttptest-{mode}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            "nice",
            *("-n", str(NICE), *command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        async with asyncio.timeout(seconds + 30):
            await process.wait()
    except TimeoutError:
        pass  # it waits for connections to close: it is ended below
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def suffer(
    mode: str, proxy: Process, admin_port: int, options: argparse.Namespace, directory: Path
) -> Findings:
    """Measure one mode.

    Args:
        mode: A key of `MODES`.
        proxy: The proxy.
        admin_port: Of its admin listener.
        options: Of the command line.
        directory: An existing directory for output.
    """
    others = {name: OtherClient(proxy.port, fields) for name, fields in FIELDS.items()}
    watch = Watch(proxy, admin_port)
    before = numbers_of(proxy, await read_state(admin_port))
    runs = [asyncio.create_task(other.run()) for other in others.values()]
    runs.append(asyncio.create_task(watch.run()))
    try:
        await attack(mode, proxy.port, options, directory)
    finally:
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)
    state = await wait_until_left(admin_port)
    return Findings(
        mode,
        watch.connections,
        {name: other.answers() for name, other in others.items()},
        before,
        watch.most,
        numbers_of(proxy, state),
        state,
    )


async def wait_until_left(admin_port: int) -> ProxyState:
    end_s = monotonic() + QUIET_WITHIN_S
    state = await read_state(admin_port)
    while (state.downstream or not state.is_quiet) and monotonic() < end_s:
        await asyncio.sleep(0.2)
        state = await read_state(admin_port)
    return state


async def warm_up(port: int) -> None:
    client = OtherClient(port, FIELDS[APART])
    run = asyncio.create_task(client.run())
    await asyncio.sleep(1.5)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)


def measure(options: argparse.Namespace, directory: Path) -> list[Findings]:
    (port,) = free_ports(1)
    command = [*python_module("loadtest.origin"), "--port", str(port)]
    origin = Process("origin", command, port=port, directory=directory)
    with origin:
        settings = directory / "settings.yaml"
        settings.write_text(SETTINGS)
        proxy, admin_port = start_apfproxy(
            upstream_port=port, directory=directory, arguments=("--settings", str(settings))
        )
        with proxy:

            async def run() -> list[Findings]:
                await warm_up(proxy.port)
                await wait_until_left(admin_port)
                found = []
                print_heading()
                for mode in options.only * options.rounds:
                    findings = await suffer(mode, proxy, admin_port, options, directory)
                    findings.judge()
                    print_row(findings)
                    found.append(findings)
                return found

            return uvloop.run(run())


COLUMNS = "{:6} {:>6}  {:>9} {:>9} {:>9} {:>9}   {:>19}   {:>19}"


def print_heading() -> None:
    print(
        COLUMNS.format("", "slow", "apart", "worst", "beside", "worst", "RSS, MiB", "descriptors")
    )
    moments = "before/during/after"
    print(COLUMNS.format("mode", "ones", "200/asked", "ms", "200/asked", "ms", moments, moments))


def print_row(findings: Findings) -> None:
    moments = (findings.before, findings.during, findings.after)
    cells = []
    for other in findings.others.values():
        cells += [f"{other.answered}/{other.asked}", f"{other.worst_ms:.0f}"]
    print(
        COLUMNS.format(
            findings.mode,
            findings.slow_connections,
            *cells,
            "/".join(f"{moment['rss_mib']:.1f}" for moment in moments),
            "/".join(f"{moment['descriptors']:.0f}" for moment in moments),
        ),
        flush=True,
    )
    for text in findings.wrong:
        print(f"       WRONG: {text}", flush=True)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add("--connections", type=count_up_to(20000), default=4000, help="slow ones at once")
    add("--rate", type=count_up_to(5000), default=200, help="of them opened in a second")
    add("--seconds", type=count_up_to(3600), default=40, help="of each mode, opening included")
    add("--only", type=names_from(list(MODES), "mode"), default=list(MODES), help="these modes")
    add("--rounds", type=count_up_to(100), default=1, help="of all modes, against one proxy")
    add("--json", type=output_file, metavar="FILE", help="write all results there as well")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)

    def run(directory: Path) -> tuple[list[dict[str, Any]], list[str]]:
        results = measure(options, directory)
        return [asdict(each) for each in results], [text for each in results for text in each.wrong]

    descriptors = 2 * options.connections + 500
    return measured("slow_clients", run, descriptors=descriptors, json_file=options.json)


if __name__ == "__main__":
    sys.exit(main())
