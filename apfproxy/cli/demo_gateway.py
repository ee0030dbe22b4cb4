"""`apfproxy demo --gateway`: what clients notice when one of two servers behind is killed."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from rich import box
from rich.table import Table

from apfproxy.apiserver.load import EVERY_VERB, Latency, LoadSettings, Shape
from apfproxy.app.process import ProxyProcess
from apfproxy.app.running import run_in_loop
from apfproxy.base.signals import Hangup, Signals
from apfproxy.cli.demo_clients import MODEST, TOO_MANY_REQUESTS, ClientKind, Load, Tally, wait
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
from apfproxy.objects.field_errors import counted
from apfproxy.settings import (
    Address,
    EndpointSettings,
    FlowControlSettings,
    HealthCheckSettings,
    Settings,
    UpstreamSettings,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from multiprocessing.connection import Connection

    from rich.console import Console

    from apfproxy.app.apiserver_process import ApiServerSettings

CLIENTS = ClientKind(
    "clients", tuple(f"client-{number}" for number in range(40)), in_flight=1, path=MODEST.path
)
SEATS = 10
"""Of each server, which is at its best up to so many requests at once: some always wait."""
SERVICE_S = 0.02
CHECK_S = 0.5
SLOW_START_S = 1.0
"""Shorter than the default, as the demo is."""
BOTH, KILLED, BACK = PARTS = ("both servers", "one killed", "it is back")
"""Of the demo."""

SEATS_OF_LEVEL = "apiserver_flowcontrol_nominal_limit_seats"
ANSWERS = "apfproxy_endpoint_answers_total"


class Gateway:
    """Two API servers and a proxy before them, in a process each.

    Attributes:
        servers: The ports of the servers.
        port: That of the proxy.
        admin: That of its admin listener.

    CommandError if they do not start.
    """

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        first, self._second = self._started(ANY_PORT), self._started(ANY_PORT)
        self.servers = (*first.ports(), *self._second.ports())
        proxy = ServerProcess(run_gateway, self.servers)
        stack.callback(proxy.end)
        self.port, self.admin = proxy.ports()

    def _started(self, listen: Address) -> ServerProcess:
        process = ServerProcess(run_api_server, api_server(listen))
        self._stack.callback(process.end)
        return process

    def kill(self) -> None:
        """End the second server as a crash does."""
        self._second.kill()

    async def start_again(self) -> None:
        """Start the second server again, where it was; CommandError if it does not start."""
        self._second = self._started(Address(host=LOCALHOST, port=self.servers[1]))
        await self._second.started()


def api_server(listen: Address) -> ApiServerSettings:
    """Settings of one of the servers."""
    load = LoadSettings({EVERY_VERB: Latency(Shape.FIXED, SERVICE_S)}, SEATS)
    return replace(API_SERVER, listen=listen, load=load)


def gateway_settings(server_ports: Iterable[int], objects: Path) -> Settings:
    """Settings of the proxy before the servers."""
    endpoints = (EndpointSettings(url=Address(host=LOCALHOST, port=port)) for port in server_ports)
    return Settings(
        downstream=TRUSTING,
        upstream=UpstreamSettings(
            endpoints=tuple(endpoints),
            slow_start_s=SLOW_START_S,
            health_check=HealthCheckSettings(interval_s=CHECK_S),
        ),
        flow_control=FlowControlSettings(
            per_endpoint=SEATS, objects=(str(objects),), suggested_objects=False
        ),
        admin=ANY_PORT,
    )


def run_gateway(pipe: Connection, server_ports: tuple[int, ...]) -> None:
    """Serve the proxy in this process until the pipe closes."""
    with tempfile.TemporaryDirectory(prefix="apfproxy-demo-") as directory:
        objects = Path(directory) / "objects.yaml"
        objects.write_text("\n---\n".join(map(json.dumps, LIMITED)))

        async def start() -> tuple[int, ...]:
            process = ProxyProcess(gateway_settings(server_ports, objects))
            await process.start()
            return process.port, process.admin_port or 0

        run_process(pipe, start)


class Seen(NamedTuple):
    """What the proxy says of itself: the seats of all requests, and the answers of each server."""

    seats: int
    answers: list[int]


class Part(NamedTuple):
    """A part of the demo: what the servers did, what the clients got, what the proxy said."""

    name: str
    tally: Tally
    duration_s: float
    seats: int
    answers: list[int]


def gateway_demo(seconds: float, console: Console) -> int:
    """Start the servers, run the demo, and stop them; returns the exit code."""
    with contextlib.ExitStack() as stack:
        return run_in_loop(run_demo(Gateway(stack), seconds, console))


async def run_demo(gateway: Gateway, seconds: float, console: Console) -> int:
    """Have clients ask while a server is killed and comes back; returns the exit code."""
    say = partial(console.print, highlight=False, soft_wrap=True)
    say(f"The proxy's page, while this runs: http://{LOCALHOST}:{gateway.admin}/\n")
    say(f"{len(CLIENTS.users)} clients ask two servers; takes {seconds:.0f} s (Ctrl-C ends).")
    load = Load((CLIENTS,), gateway.port)
    parts: list[Part] = []
    with Signals(Hangup.END) as signals:
        interrupted = signals.first
        async with aiohttp.ClientSession() as session:
            try:
                await load.start()
                seen = await look(session, gateway)
                for name in PARTS:
                    load.measure()
                    if name is KILLED:
                        say("Server 2 is killed: what it was asked, server 1 answers.")
                        gateway.kill()
                    await wait(interrupted, seconds / len(PARTS))
                    seats = (await look(session, gateway)).seats
                    if name is KILLED and not interrupted.is_set():
                        say("Server 2 is started again: it gets more and more of the work.")
                        await gateway.start_again()
                    before, seen = seen.answers, await look(session, gateway)
                    answers = [now - then for now, then in zip(seen.answers, before, strict=True)]
                    parts.append(
                        Part(name, load.tallies[CLIENTS.name], load.duration_s, seats, answers)
                    )
                    if interrupted.is_set():
                        break
            except (OSError, aiohttp.ClientError) as error:
                raise CommandError(f"no answer from the proxy of the demo: {error}") from error
            finally:
                load.stop()
    console.print(table_of(parts))
    errors: Counter[str] = Counter()
    for part in parts:
        errors += part.tally.failures + Counter({str(TOO_MANY_REQUESTS): part.tally.rejected})
    say(summary(errors, is_whole=not interrupted.is_set()))
    return FAILED if errors else OK


async def look(session: aiohttp.ClientSession, gateway: Gateway) -> Seen:
    """Read the proxy's metrics page; aiohttp.ClientError if there is none."""
    async with session.get(f"http://{LOCALHOST}:{gateway.admin}/metrics") as response:
        page = await response.text()
    seats, answers = 0, dict.fromkeys(gateway.servers, 0)
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name == SEATS_OF_LEVEL and sample.labels["priority_level"] == "demo":
                seats = int(sample.value)
            elif sample.name == ANSWERS:
                answers[int(sample.labels["endpoint"].rpartition(":")[2])] += int(sample.value)
    return Seen(seats, list(answers.values()))


def table_of(parts: list[Part]) -> Table:
    """What the clients got in each part."""
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    # Short: the table fits into a terminal of 80 columns.
    for heading in ("seats", "answers/s", "server 1", "server 2", "p50 ms", "p99 ms", "errors"):
        table.add_column(heading, justify="right", no_wrap=True)
    for part in parts:
        tally = part.tally
        table.add_row(
            part.name,
            str(part.seats),
            *(f"{number / part.duration_s:.0f}" for number in (tally.answered, *part.answers)),
            *(milliseconds(tally.percentile_s(percent)) for percent in (50, 99)),
            str(tally.failed + tally.rejected),
        )
    return table


def summary(errors: Counter[str], *, is_whole: bool) -> str:
    """What the numbers mean; `errors` are counted by what they are."""
    text = "No client saw an error."
    if errors:
        kinds = ", ".join(f"{number} times {kind}" for kind, number in errors.most_common())
        text = f"{counted(errors.total(), 'request')} failed: {kinds}."
    return text if is_whole else f"{text}\n(Interrupted.)"
