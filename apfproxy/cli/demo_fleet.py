"""`apfproxy demo --fleet`: three replicas share one limit, wherever the requests are."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import aiohttp
from rich import box
from rich.table import Table

from apfproxy.admin.fleet_page import PATH
from apfproxy.apiserver.load import EVERY_VERB, Latency, LoadSettings, Shape
from apfproxy.app.process import ProxyProcess
from apfproxy.app.running import run_in_loop
from apfproxy.base.signals import Hangup, Signals
from apfproxy.cli.demo_clients import MODEST, ClientKind, Load, Tally, wait
from apfproxy.cli.demo_report import milliseconds
from apfproxy.cli.demo_servers import (
    ANY_PORT,
    API_SERVER,
    LIMITED,
    LOCALHOST,
    TRUSTING,
    ServerProcess,
    run_api_server,
    run_process,
)
from apfproxy.cli.errors import FAILED, OK, CommandError
from apfproxy.fleet.ledger_server import LedgerServer
from apfproxy.settings import (
    Address,
    FleetSettings,
    FlowControlSettings,
    Settings,
    UpstreamSettings,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection

    from rich.console import Console

    from apfproxy.app.apiserver_process import ApiServerSettings

CLIENTS = ClientKind(
    "clients", tuple(f"client-{number}" for number in range(36)), in_flight=1, path=MODEST.path
)
REPLICAS = 3
SEATS = 12
"""Of the server, which is at its best up to so many requests at once: clients always wait."""
SERVICE_S = 0.04
THIRDS = [SEATS // REPLICAS] * REPLICAS
REFRESH_S = 0.1
"""Between two looks at the replicas and the server."""
AT_ONCE = re.compile(r"^apiserver_current_inflight_requests\{.*\} ([0-9.e+]+)$", re.MULTILINE)

APART, AT_1, AT_ALL, AT_3 = PARTS = (
    "a third, all at 1",
    "one limit, all at 1",
    "at all three",
    "all at 3",
)
"""Of the demo: what replicas may use, and where the clients are."""
PLACES = {APART: (0,), AT_1: (1,), AT_ALL: (1, 2, 3), AT_3: (3,)}
"""The proxies that get requests; 0 is the one that has a third for itself."""


class Replica(NamedTuple):
    """Where a replica listens on this machine: for clients, and for those who look at it."""

    port: int
    admin: int


class Fleet:
    """A server, a replica with a third of its seats, and three that share all of them.

    Args:
        stack: Ends what is started here, each in a process of its own.
        directory: An existing directory for their objects and the socket of their record.

    Attributes:
        server: The port of the server.
        replicas: The one with a third, and the three.

    CommandError if they do not start.
    """

    def __init__(self, stack: contextlib.ExitStack, directory: Path) -> None:
        self.ledger = directory / "ledger.sock"
        self._stack = stack
        self._objects = directory / "objects.yaml"
        self._objects.write_text("\n---\n".join(map(json.dumps, LIMITED)))
        server = ServerProcess(run_api_server, api_server())
        stack.callback(server.end)
        (self.server,) = server.ports()
        self.replicas: list[Replica] = []

    async def start(self) -> None:
        """Start the replicas; what they share has to be there."""
        processes = []
        for number in range(REPLICAS + 1):
            settings = replica_settings(
                self.server, self._objects, self.ledger if number else None, number
            )
            process = ServerProcess(run_replica, settings)
            self._stack.callback(process.end)
            processes.append(process)
        self.replicas += [Replica(*await process.started()) for process in processes]


def api_server() -> ApiServerSettings:
    """Settings of the server."""
    return replace(
        API_SERVER, load=LoadSettings({EVERY_VERB: Latency(Shape.FIXED, SERVICE_S)}, SEATS)
    )


def replica_settings(server_port: int, objects: Path, ledger: Path | None, number: int) -> Settings:
    """Settings of a replica: it has a third of the seats, or shares all of them by a ledger."""
    return Settings(
        downstream=TRUSTING,
        upstream=UpstreamSettings(url=Address(host=LOCALHOST, port=server_port)),
        flow_control=FlowControlSettings(
            server_concurrency_limit=SEATS if ledger else SEATS // REPLICAS,
            objects=(str(objects),),
            suggested_objects=False,
        ),
        fleet=FleetSettings(
            store=f"parent:{ledger}" if ledger else None,
            member=f"replica-{number}",
            replicas=REPLICAS,
        ),
        admin=ANY_PORT,
    )


def run_replica(pipe: Connection, settings: Settings) -> None:
    """Serve a replica in this process until the pipe closes."""

    async def start() -> tuple[int, ...]:
        process = ProxyProcess(settings)
        await process.start()
        return process.port, process.admin_port or 0

    run_process(pipe, start)


class Seen(NamedTuple):
    """What each of the three replicas may use, and how many requests the server has at once."""

    claims: list[int]
    at_once: int


class Part(NamedTuple):
    """A part of the demo.

    Attributes:
        claims: What each of the three might use at the end.
        most: The most requests that the server had at once, of all looks at it.
    """

    name: str
    tally: Tally
    duration_s: float
    claims: list[int]
    most: int


def fleet_demo(seconds: float, console: Console) -> int:
    """Start the servers, run the demo, and stop them; returns the exit code."""
    with (
        tempfile.TemporaryDirectory(prefix="apfproxy-demo-") as directory,
        contextlib.ExitStack() as stack,
    ):
        return run_in_loop(serve_ledger(Fleet(stack, Path(directory)), seconds, console))


async def serve_ledger(fleet: Fleet, seconds: float, console: Console) -> int:
    """Have the record in this process while the demo runs; returns the exit code."""
    ledger = LedgerServer()
    await ledger.start(str(fleet.ledger))
    try:
        await fleet.start()
        return await run_demo(fleet, seconds, console)
    finally:
        await ledger.close()


async def run_demo(fleet: Fleet, seconds: float, console: Console) -> int:
    """Have clients ask at one replica, at all, and at another one; returns the exit code."""
    replicas = fleet.replicas
    say = partial(console.print, highlight=False, soft_wrap=True)
    say(f"Replica 1's page, while this runs: http://{LOCALHOST}:{replicas[1].admin}/\n")
    say(
        f"The server does {SEATS} requests at once in {SERVICE_S * 1000:.0f} ms."
        f"\n{len(CLIENTS.users)} clients ask {REPLICAS} replicas before it;"
        f" takes {seconds:.0f} s (Ctrl-C ends)."
    )
    parts: list[Part] = []
    with Signals(Hangup.END) as signals:
        interrupted = signals.first
        async with aiohttp.ClientSession() as session:
            for name in PARTS:
                ports = [replicas[place].port for place in PLACES[name]]
                load = Load((CLIENTS,), *ports)
                try:
                    await load.start()
                    load.measure()
                    seen: list[Seen] = []
                    while not interrupted.is_set() and load.duration_s < seconds / len(PARTS):
                        await wait(interrupted, REFRESH_S)
                        seen.append(await look(session, fleet))
                except (OSError, aiohttp.ClientError) as error:
                    raise CommandError(f"no answer from a replica of the demo: {error}") from error
                finally:
                    load.stop()
                parts.append(
                    Part(
                        name,
                        load.tallies[CLIENTS.name],
                        load.duration_s,
                        seen[-1].claims if seen and name is not APART else THIRDS,
                        max((each.at_once for each in seen), default=0),
                    )
                )
                if interrupted.is_set():
                    break
    console.print(table_of(parts))
    say(summary(parts, is_whole=not interrupted.is_set()))
    return OK if all(part.most <= SEATS for part in parts) else FAILED


async def look(session: aiohttp.ClientSession, fleet: Fleet) -> Seen:
    """Ask replicas for their seats, and the server; aiohttp.ClientError if one does not answer."""
    claims = []
    for replica in fleet.replicas[1:]:
        async with session.get(
            f"http://{LOCALHOST}:{replica.admin}{PATH}", headers={"Accept": "application/json"}
        ) as response:
            response.raise_for_status()
            view = await response.json()
        claims.append(next(each["claim"] for each in view["members"] if each["isSelf"]))
    async with session.get(f"http://{LOCALHOST}:{fleet.server}/metrics") as response:
        response.raise_for_status()
        page = await response.text()
    at_once = sum(int(float(value)) for value in AT_ONCE.findall(page))
    return Seen(claims, at_once)


def table_of(parts: Sequence[Part]) -> Table:
    """What replicas and clients got in each part."""
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    # Short: the table fits into a terminal of 80 columns.
    for heading in ("seats 1/2/3", "at once", "answers/s", "p50 ms", "p99 ms", "failed"):
        table.add_column(heading, justify="right", no_wrap=True)
    for part in parts:
        tally = part.tally
        table.add_row(
            part.name,
            "/".join(map(str, part.claims)),
            f"{part.most} of {SEATS}",
            f"{tally.answered / part.duration_s:.0f}",
            *(milliseconds(tally.percentile_s(percent)) for percent in (50, 99)),
            str(tally.failed + tally.rejected),
        )
    return table


def summary(parts: Sequence[Part], *, is_whole: bool) -> str:
    """What the numbers mean."""
    rates = {part.name: part.tally.answered / part.duration_s for part in parts}
    if not is_whole or not rates.get(APART):
        return "(Interrupted.)"
    most = max(part.most for part in parts)
    gain = min(rates[name] for name in PARTS if name is not APART) / rates[APART]
    return (
        f"With one limit the clients of one replica have all seats: {gain:.1f} times as many"
        f" answers as with a third.\nThe server never had more than {most} requests at once."
    )
