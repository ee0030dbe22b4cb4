"""`apfproxy demo`: what flow control changes for each client, measured on this machine.

The servers run in processes of their own: an API server, and two proxies before it.  The API server
responds after 10 ms while at most 20 requests are there.  Beyond, requests contend for what there
is, as in real servers: it does less, the more there are.  Both proxies forward to it and differ
only in the objects of their stores: one limits and queues, one exempts all requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import math
import multiprocessing
import re
import signal
import tempfile
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import aiohttp
import click
import uvloop
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from apfproxy.apiserver.gate import EVERY_VERB, Latency, LoadSettings, Shape
from apfproxy.apiserver.seeds import SeedCounts
from apfproxy.app.apiserver_process import ApiServerProcess, ApiServerSettings
from apfproxy.app.log import configure_logging
from apfproxy.app.process import ProxyProcess
from apfproxy.app.running import run_in_loop
from apfproxy.base.held_signals import INTERRUPTED
from apfproxy.base.signals import Hangup, Signals
from apfproxy.base.tasks import spawn
from apfproxy.cli.errors import EXIT_CODES, OK, CommandError
from apfproxy.cli.parameters import LOCALHOST, Number
from apfproxy.objects.field_errors import counted
from apfproxy.settings import (
    Address,
    DownstreamSettings,
    FlowControlSettings,
    Settings,
    UpstreamSettings,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from multiprocessing.connection import Connection

    Start = Callable[..., Awaitable[tuple[int, ...]]]

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

SEATS = 20
SERVICE_S = 0.01
START_TIMEOUT_S, END_TIMEOUT_S = (30.0, 5.0)
ANY_PORT = Address(host=LOCALHOST, port=0)
API_SERVER = ApiServerSettings(
    listen=ANY_PORT,
    load=LoadSettings({EVERY_VERB: Latency(Shape.FIXED, SERVICE_S)}, SEATS),
    seeds=SeedCounts(pods=20, budgets=2),
)

FLOW_SCHEMA = """\
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: demo}
spec:
  matchingPrecedence: 2
  distinguisherMethod: {type: ByUser}
  priorityLevelConfiguration: {name: LEVEL}
  rules:
  - subjects: [{kind: Group, group: {name: "*"}}]
    nonResourceRules: [{verbs: ["*"], nonResourceURLs: ["*"]}]
    resourceRules:
    - {verbs: ["*"], apiGroups: ["*"], resources: ["*"], namespaces: ["*"], clusterScope: true}
"""
# Nearly all of the server's seats.  A flow is dealt 6 of 128 queues: the greedy one fills its six,
# and a modest one has nearly always a queue that is its own.
LEVEL = """\
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: demo}
spec:
  type: Limited
  limited:
    nominalConcurrencyShares: 10000
    limitResponse:
      type: Queue
      queuing: {queues: 128, handSize: 6, queueLengthLimit: 50}
"""
FLOW_SCHEMAS, LEVELS = "flowschemas", "prioritylevelconfigurations"
EXEMPT = ((FLOW_SCHEMAS, FLOW_SCHEMA.replace("LEVEL", "exempt")),)
LIMITED = ((LEVELS, LEVEL), (FLOW_SCHEMAS, FLOW_SCHEMA.replace("LEVEL", "demo")))
"""The objects of the two proxies, beside the mandatory ones."""

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


class Ports(NamedTuple):
    """The ports of the proxy that exempts all, of that which limits, and of its admin listener."""

    without: int
    limited: int
    admin: int


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
    def __init__(self) -> None:
        self.served = self.rejected = self.failed = 0
        self._latencies: Counter[int] = Counter()

    def add(self, status: int, latency_s: float) -> None:
        if status == SUCCESS:
            self.served += 1
            self._latencies[round(math.log(max(latency_s, 1e-6)) * BUCKETS_PER_E)] += 1
        elif status == TOO_MANY_REQUESTS:
            self.rejected += 1
        else:
            self.failed += 1

    def percentile_ms(self, percent: float) -> str:
        needed = math.ceil(self.served * percent / 100)
        for bucket in sorted(self._latencies):
            needed -= self._latencies[bucket]
            if needed <= 0:
                return f"{math.exp(bucket / BUCKETS_PER_E) * 1000:.1f}"
        return "-"


class Arm:
    """One half of the demo: all clients against one proxy, `without` or `with` flow control."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.tallies = {kind: Tally() for kind in KINDS}
        self.duration_s = 0.0
        self._port = port

    def rate(self, kind: ClientKind) -> float:
        """Requests served a second."""
        return self.tallies[kind].served / self.duration_s if self.duration_s else 0.0

    async def run(
        self, duration_s: float, interrupted: asyncio.Event, show: Callable[[str], None]
    ) -> None:
        """Measure, until `interrupted`; CommandError if the proxy cannot be reached."""
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
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), duration_s)


def table_of(arms: list[Arm]) -> Table:
    table = Table(
        title=f"Before a server that does {SEATS} requests at once in {SERVICE_S * 1000:.0f} ms",
        caption="  ".join(
            f"{kind.name}: {counted(len(kind.users), 'client')},"
            f" {counted(kind.in_flight, 'request')} in flight each."
            for kind in KINDS
        ),
        box=box.SIMPLE,  # fits into 80 columns
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


async def start_api_server() -> tuple[int, ...]:
    process = ApiServerProcess(API_SERVER)
    await process.start()
    return (process.port,)


async def start_proxies(server_port: int, directory: str) -> tuple[int, ...]:
    ports: list[int] = []
    admin_port = 0
    for name, objects in (("without", EXEMPT), ("limited", LIMITED)):
        local = (ipaddress.ip_network("127.0.0.0/8"),)  # clients say who they are
        settings = Settings(
            downstream=DownstreamSettings(listen=ANY_PORT, identity_headers_from=local),
            upstream=UpstreamSettings(url=Address(host=LOCALHOST, port=server_port)),
            flow_control=FlowControlSettings(
                server_concurrency_limit=SEATS,
                store=f"{directory}/{name}.db",
                suggested_objects=False,
            ),
            admin=ANY_PORT,
        )
        process = ProxyProcess(settings)
        await process.start()
        ports.append(process.port)
        admin_port = process.admin_port or 0
        async with aiohttp.ClientSession(f"http://{LOCALHOST}:{admin_port}") as session:
            for kind, text in objects:
                async with session.post(
                    f"/apis/flowcontrol.apiserver.k8s.io/v1/{kind}",
                    data=text,
                    headers={"Content-Type": "application/yaml"},
                ) as response:
                    response.raise_for_status()
    return (*ports, admin_port)


@contextlib.contextmanager
def demo_servers() -> Iterator[Ports]:
    """Run the servers, each kind in a process of its own; CommandError if they do not start."""
    with (
        tempfile.TemporaryDirectory(prefix="apfproxy-demo-") as directory,
        server_process(start_api_server) as (server_port,),
        server_process(start_proxies, server_port, directory) as ports,
    ):
        yield Ports(*ports)


@contextlib.contextmanager
def server_process(start: Start, *arguments: object) -> Iterator[tuple[int, ...]]:
    """Run what a coroutine function starts in a process of its own; gives what that returns."""
    # Not forked: a fork would share our terminal's and event loop's state.
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, start, *arguments), daemon=True)
    # The process inherits that Ctrl-C is ignored: it is ours, who close its pipe.
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, handler)
    theirs.close()
    ports: tuple[int, ...] = ()
    try:
        with contextlib.suppress(EOFError):  # it ended
            ports = pipe.recv() if pipe.poll(START_TIMEOUT_S) else ()
        if not ports:
            raise CommandError(
                "the demo's servers did not start; try again, or see the lines above"
            )
        yield ports
    finally:
        pipe.close()
        process.join(timeout=END_TIMEOUT_S)
        if process.is_alive():
            process.kill()
            process.join()


def serve(pipe: Connection, start: Start, *arguments: object) -> None:
    """Start servers, tell their ports, and serve until the other end of the pipe closes."""
    for number in (signal.SIGINT, signal.SIGHUP):  # the parent's, who closes the pipe
        signal.signal(number, signal.SIG_IGN)
    configure_logging("error")

    async def until_closed() -> None:
        ports = await start(*arguments)
        closed = asyncio.Event()
        with contextlib.suppress(BrokenPipeError):  # interrupted before it started
            pipe.send(ports)
            asyncio.get_running_loop().add_reader(pipe.fileno(), closed.set)
            await closed.wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(until_closed())
