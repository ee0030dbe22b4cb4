"""`apfproxy demo`: what flow control changes for each client, measured on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import click
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from apfproxy.app.running import run_in_loop
from apfproxy.base.held_signals import INTERRUPTED
from apfproxy.base.signals import Hangup, Signals
from apfproxy.base.tasks import spawn
from apfproxy.cli.demo_servers import LOCALHOST, SEATS, SERVICE_S, Ports, demo_servers
from apfproxy.cli.errors import EXIT_CODES, OK, CommandError
from apfproxy.cli.parameters import Number
from apfproxy.objects.field_errors import counted

if TYPE_CHECKING:
    from collections.abc import Callable

WARM_UP_PART = 0.2
"""The part of each half until the queues are as full as they get."""
REFRESH_S = 0.25
PLAIN_WIDTH = 100
"""Columns of a table that is not shown in a terminal."""
SUCCESS = 200
TOO_MANY_REQUESTS = 429
PAUSE_AFTER_REJECTION_S = 0.1
"""Shorter than the Retry-After that it gets: the greedy client is no polite one."""
BUCKETS_PER_E = 50
"""Latencies are counted in buckets 2 % wide: bounded memory, however long the demo runs."""
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
A_LITTLE = 0.01
"""Part of a throughput: less of a difference is none."""

EPILOG = f"""\b
Example:
  apfproxy demo --seconds 10

{EXIT_CODES}"""


class ClientKind(NamedTuple):
    """Clients that behave alike; each of the `users` is a flow, with requests `in_flight`."""

    name: str
    users: tuple[str, ...]
    in_flight: int
    path: str


NAMESPACE = "/namespaces/load-0"
GREEDY = ClientKind("greedy", ("greedy",), 200, f"/apis/policy/v1{NAMESPACE}/poddisruptionbudgets")
MODEST = ClientKind(
    "modest", tuple(f"modest-{n}" for n in range(5)), 1, f"/api/v1{NAMESPACE}/pods/app-0-00000"
)
KINDS = (GREEDY, MODEST)


@click.command(epilog=EPILOG)
@click.option(
    "--seconds",
    type=Number(1, 600),
    metavar="NUMBER",
    default=20,
    show_default=True,
    help="How long to measure: half of it without flow control and half with it.",
)
def demo(seconds: float) -> int:
    """Show what each client gets with and without flow control.

    Starts an API server (10 ms a request while it has at most 20 of them, slower beyond), the
    proxy before it, and two kinds of client: a greedy one that lists budgets, with 200 requests in
    flight, and five modest ones that each get a pod, with one.  Everything stays on this machine,
    on ports that the system chooses.  The first lines name the address of the live page, and a
    kubectl command for the proxy's objects.  The last lines say what a modest client gains, and
    what the greedy one pays.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=PLAIN_WIDTH)
    with demo_servers() as ports:
        return run_in_loop(run_demo(ports, seconds, console))


async def run_demo(ports: Ports, seconds: float, console: Console) -> int:
    """Measure both halves, show them as they go, and print the summary; returns the exit code."""
    admin = f"http://{LOCALHOST}:{ports.admin}"
    arms = [Arm("without", ports.without), Arm("with", ports.limited)]
    begun: list[Arm] = []
    with contextlib.ExitStack() as stack:
        interrupted = stack.enter_context(Signals(Hangup.END)).first
        console.print(
            f"The proxy's page, while this runs:     {admin}/\n"
            f"The proxy's objects, while this runs:  kubectl --server {admin} get flowschemas",
            highlight=False,
            soft_wrap=True,
        )
        live = Live(console=console, auto_refresh=False, transient=True)
        if console.is_terminal:
            stack.enter_context(live)

        def show(status: str) -> None:
            if console.is_terminal:
                live.update(Group(table_of(begun), Text(status)), refresh=True)

        for arm in arms:
            if not interrupted.is_set():
                begun.append(arm)
                await arm.run(seconds / 2, interrupted, show)
    console.print(table_of(begun))
    console.print(summary(*arms, is_whole=not interrupted.is_set()), highlight=False)
    return INTERRUPTED if interrupted.is_set() else OK


class Tally:
    """Numbers of requests of the clients of one kind, since measuring began."""

    def __init__(self) -> None:
        self.served = self.rejected = self.failed = 0
        self._latencies: Counter[int] = Counter()

    def add(self, status: int, latency_s: float) -> None:
        """Count a response."""
        if status == SUCCESS:
            self.served += 1
            self._latencies[round(math.log(max(latency_s, 1e-6)) * BUCKETS_PER_E)] += 1
        elif status == TOO_MANY_REQUESTS:
            self.rejected += 1
        else:
            self.failed += 1

    def percentile_ms(self, percent: float) -> str:
        """The latency that `percent` of the served requests did not exceed; "-" without any."""
        needed = math.ceil(self.served * percent / 100)
        for bucket in sorted(self._latencies):
            needed -= self._latencies[bucket]
            if needed <= 0:
                return f"{math.exp(bucket / BUCKETS_PER_E) * 1000:.1f}"
        return "-"


class Arm:
    """One half of the demo: all clients against one proxy, `without` or `with` flow control.

    Attributes:
        tallies: What each kind of client got.
        duration_s: How long that was measured.
    """

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.tallies = {kind: Tally() for kind in KINDS}
        self.duration_s = 0.0
        self._port = port

    def rate(self, kind: ClientKind) -> float:
        """Requests served a second to all clients of a kind."""
        return self.tallies[kind].served / self.duration_s if self.duration_s else 0.0

    async def run(
        self, duration_s: float, interrupted: asyncio.Event, show: Callable[[str], None]
    ) -> None:
        """Measure; ends early once `interrupted` is set.

        CommandError if the proxy cannot be reached.
        """
        clients = [
            (kind, user) for kind in KINDS for user in kind.users for _ in range(kind.in_flight)
        ]
        try:
            connections = await asyncio.gather(
                *(asyncio.open_connection(LOCALHOST, self._port) for _ in clients)
            )
        except OSError as error:
            raise CommandError(
                f"no connection to the proxy of the demo: {error.strerror}"
            ) from error
        asking = [
            spawn(self.ask(*client, *connection), name="client of the demo")
            for client, connection in zip(clients, connections, strict=True)
        ]
        try:
            show(f"{self.name} flow control: warming up (Ctrl-C ends)")
            await wait(interrupted, duration_s * WARM_UP_PART)
            self.tallies = {kind: Tally() for kind in KINDS}
            since_s, measured_s = time.perf_counter(), duration_s * (1 - WARM_UP_PART)
            while not interrupted.is_set() and self.duration_s < measured_s:
                await wait(interrupted, min(REFRESH_S, measured_s - self.duration_s))
                self.duration_s = time.perf_counter() - since_s
                left_s = max(0.0, measured_s - self.duration_s)
                show(f"{self.name} flow control: {left_s:.0f} s left (Ctrl-C ends)")
        finally:
            for each in asking:
                each.cancel()
            for _, writer in connections:
                writer.close()

    async def ask(
        self,
        kind: ClientKind,
        user: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Keep one request in flight until cancelled; ends if the connection does."""
        head = f"GET {kind.path} HTTP/1.1\r\nHost: demo\r\nX-Remote-User: {user}\r\n\r\n".encode()
        while True:
            sent_s = time.perf_counter()
            writer.write(head)
            try:
                response = await reader.readuntil(b"\r\n\r\n")
                if length := LENGTH.search(response):
                    await reader.readexactly(int(length[1]))
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                self.tallies[kind].add(0, 0.0)
                return
            status = int(response[9:12])
            self.tallies[kind].add(status, time.perf_counter() - sent_s)
            if status != SUCCESS:
                await asyncio.sleep(PAUSE_AFTER_REJECTION_S)


async def wait(event: asyncio.Event, duration_s: float) -> None:
    """Wait for the event, but no longer than the duration."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), duration_s)


def table_of(arms: list[Arm]) -> Table:
    """A line for each kind of client in each half that has begun."""
    # Simple enough to fit into 80 columns.
    table = Table(
        title=f"Before a server that does {SEATS} requests at once in {SERVICE_S * 1000:.0f} ms",
        caption="  ".join(
            f"{kind.name}: {counted(len(kind.users), 'client')},"
            f" {counted(kind.in_flight, 'request')} in flight each."
            for kind in KINDS
        ),
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
    )
    for heading in ("clients", "flow control"):
        table.add_column(heading, no_wrap=True)
    for heading in ("answers/s", "each", "p50 ms", "p99 ms", "rejected", "failed"):
        table.add_column(heading, justify="right", no_wrap=True)
    for kind in KINDS:
        for arm in arms:
            tally, rate = arm.tallies[kind], arm.rate(kind)
            table.add_row(
                kind.name if arm is arms[0] else "",
                arm.name,
                f"{rate:.0f}",
                f"{rate / len(kind.users):.0f}",
                tally.percentile_ms(50),
                tally.percentile_ms(99),
                str(tally.rejected),
                str(tally.failed),
                style="" if arm is arms[0] else "bold",
            )
        table.add_section()
    return table


def summary(without: Arm, limited: Arm, *, is_whole: bool) -> str:
    """The numbers in words: what a modest client gains, and what the greedy one pays."""
    waits = [arm.tallies[MODEST].percentile_ms(50) for arm in (without, limited)]
    if "-" in waits:
        reason = "no modest client got an answer in both" if is_whole else "interrupted"
        return f"Nothing to compare: {reason}."
    before, after = without.rate(GREEDY), limited.rate(GREEDY)
    costs = []
    if after < before * (1 - A_LITTLE):
        costs.append(f"{1 - after / before:.0%} of its throughput")
    if rejected := limited.tallies[GREEDY].rejected:
        costs.append(counted(rejected, "rejected request"))
    if costs:
        price = f"with {' and '.join(costs)}"
    else:
        price = f"nothing{', as a server that is not overloaded does more' * (after > before)}"
    return (
        f"Half of a modest client's requests took at most {waits[0]} ms without flow control,"
        f" and {waits[1]} ms with it.\n"
        f"The greedy client got {before:,.0f} answers/s without flow control, and {after:,.0f} with"
        f" it: it pays {price}.{'' if is_whole else chr(10) + '(Interrupted.)'}"
    )
