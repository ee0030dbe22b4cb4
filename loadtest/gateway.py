"""A gateway before several servers, which die, hang, are slow, fail, leave and come back in turn.

Clients send requests at a steady rate and hold watches, while one server after the other has a bad
time and then a good one.  Each server writes down what it got, so it is known of every request
whether it was lost or sent twice, and which server responded.  What a killed or hung server had
before a gateway can know is its own; every other bad response is the gateway's.  Found besides: how
evenly requests are spread over the servers that are well, and how soon the limit follows their
number.

    python -m loadtest.gateway --requests 100000 --rate 2000 --json gateway.json

The exit status is 2 if a promise was not kept.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from contextlib import ExitStack
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec
import uvloop

from loadtest.admin_pages import fetch
from loadtest.arguments import Parser, count_up_to
from loadtest.clients import MISPAIRED, Connection, OpenLoop, Outcome
from loadtest.gateway_phases import (
    DETECTED_WITHIN_S,
    FAULTS,
    GOOD,
    Event,
    Notes,
    Phase,
    WatchEnd,
    judge,
    judge_limits,
    schedule,
)
from loadtest.gateway_servers import NAMES, Servers
from loadtest.origin import ITEM, LIST_ITEMS
from loadtest.processes import measured
from loadtest.soak_site import OBJECTS, log_problem, start_proxy
from loadtest.tables import Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


PATH = "/api/v1/namespaces/default/configmaps"
KINDS = {"GET": 60, "LIST": 10, "POST": 20, "PUT": 10}
USERS = 20
MAX_BODY_BYTES = 3000
PATIENCE_S = 8.0
"""After which a request without an end counts as hung."""
WATCHES = 60
BETWEEN_WATCHES_S = 0.1
SEATS_PER_ENDPOINT = 200
POLL_S = 0.05

SETTINGS = f"""
downstream: {{requestTimeout: 6s}}
upstream:
  connectTimeout: 500ms
  answerTimeout: 2s
  slowStart: 1s
  healthCheck: {{path: /readyz, interval: 500ms, timeout: 500ms, unhealthyThreshold: 2}}
  ejection: {{failures: 5, pause: 1s, maxPause: 2s}}
  rebalance: {{percentPerMinute: 100}}
flowControl: {{perEndpoint: {SEATS_PER_ENDPOINT}, objects: [objects.yaml]}}
logLevel: warning
"""


class Clients:
    """Requests at a steady rate, each of which names itself, and watches."""

    def __init__(self, port: int, rate: float) -> None:
        self.notes = Notes()
        self._port = port
        self._random = random.Random(1)  # noqa: S311 - no secret
        self._kinds = self._random.choices(list(KINDS), list(KINDS.values()), k=10_000)
        self._loop = OpenLoop(port, rate, request=self._request, check=check, patience_s=PATIENCE_S)
        self.notes.outcomes = self._loop.outcomes

    async def ask(self, count: int) -> None:
        await self._loop.run(count)

    async def watch(self) -> None:
        notes = self.notes
        head = self._head("GET", f"{PATH}?watch=true", 0) + b"\r\n"
        while True:
            ended: asyncio.Future[WatchEnd] = asyncio.get_running_loop().create_future()
            try:
                watch = await Watch.watching(self._port, notes, ended)
            except OSError:
                notes.watch_ends.append(WatchEnd(monotonic(), "", is_clean=False))
            else:
                try:
                    watch.send(head)
                    notes.watch_ends.append(await ended)
                finally:
                    watch.close()
            await asyncio.sleep(BETWEEN_WATCHES_S * (1 + self._random.random()))

    def _request(self, number: int) -> tuple[str, bytes]:
        kind = self._kinds[number % len(self._kinds)]
        if kind in ("POST", "PUT"):
            size = self._random.randrange(MAX_BODY_BYTES)
            head = self._head(kind, PATH if kind == "POST" else f"{PATH}/x", number)
            return kind, b"%bContent-Length: %d\r\n\r\n%b" % (head, size, b"x" * size)
        target = f"{PATH}?limit=500" if kind == "LIST" else f"{PATH}/x-{number % 100}"
        return kind, self._head("GET", target, number) + b"\r\n"

    def _head(self, method: str, target: str, number: int) -> bytes:
        return (
            f"{method} {target} HTTP/1.1\r\nHost: a.test\r\n"
            f"X-Remote-User: user-{number % USERS}\r\nX-Remote-Group: testers\r\n"
            f"X-Request-Id: {number}\r\n"
        ).encode()


def check(connection: Connection, outcome: Outcome) -> None:
    fields, size = connection.fields, len(connection.body)
    outcome.origin = fields.get(b"x-origin", b"").decode()
    if outcome.result != GOOD:
        return
    expected = len(ITEM) * (LIST_ITEMS if outcome.kind == "LIST" else 1)
    if fields.get(b"x-request-id") != b"%d" % outcome.number or size != expected:
        outcome.result = MISPAIRED


class Watch(Connection):
    """A watch, until it ends."""

    @classmethod
    async def watching(cls, port: int, notes: Notes, ended: asyncio.Future[WatchEnd]) -> Watch:
        def on_end(connection: Connection, status: int) -> None:
            origin = connection.fields.get(b"x-origin", b"").decode()
            notes.watching[origin] -= connection.first_s > 0
            ended.set_result(WatchEnd(monotonic(), origin, is_clean=status == int(GOOD)))

        loop = asyncio.get_running_loop()
        _, watch = await loop.create_connection(lambda: cls(on_end), "127.0.0.1", port)
        watch.notes = notes
        return watch

    notes: Notes

    def on_headers_complete(self) -> None:
        self.notes.watching[self.fields.get(b"x-origin", b"").decode()] += 1

    def on_body(self, data: bytes) -> None:
        del data


async def strike(servers: Servers, phase: Phase) -> None:
    phase.begun_s = monotonic()
    at = phase.victim
    if at is not None:
        match phase.event:
            case Event.KILLED:
                await servers.kill(at)
            case Event.HUNG:
                servers.hang(at)
            case Event.SLOW:
                await servers.be(at, "slow")
            case Event.FAILING:
                await servers.be(at, "failing")
            case Event.DRAINED:
                await servers.drain(at)
            case _:
                await servers.be_well(at)
    phase.done_s = monotonic()


async def follow_limit(admin_port: int, phase: Phase, end_s: float) -> None:
    while monotonic() < min(end_s, phase.begun_s + DETECTED_WITHIN_S):
        limit = json.loads(await fetch(admin_port, "/debug/limits"))["serverConcurrencyLimit"]
        if limit == phase.limit:
            phase.follows_s = monotonic() - phase.begun_s
            return
        await asyncio.sleep(POLL_S)


async def run_phases(
    servers: Servers, notes: Notes, admin_port: int, phase_s: float
) -> list[Phase]:
    phases = schedule(servers.count)
    for phase in phases:
        is_less = phase.event in FAULTS and phase.event is not Event.SLOW
        phase.limit = SEATS_PER_ENDPOINT * (servers.count - is_less)
        striking = asyncio.create_task(strike(servers, phase))
        await asyncio.sleep(0)
        end_s = monotonic() + phase_s
        await follow_limit(admin_port, phase, end_s)
        await asyncio.sleep(end_s - monotonic())
        await striking
        phase.end_s = monotonic()
        phase.watching = {name: notes.watching[name] for name in servers.names}
        print(f"\r{phase.label:<11}", end="", flush=True)
    print()
    return phases


def print_phases(phases: Sequence[Phase], names: Sequence[str]) -> None:
    servers = "/".join(names)
    table = Table(
        "phase <11 | requests >9 | good >8 | own >6 | bad >6 | p99 ms >8.1f"
        f"| requests {servers} >22 | spread >8.1% | watches {servers} >18"
        "| limit >7 | after s >9.2f"
    )
    table.head()
    for phase in phases:
        table.row(
            phase.label,
            phase.counts.total(),
            phase.counts[GOOD],
            phase.own,
            phase.bad.total(),
            phase.p99_ms,
            "/".join(map(str, phase.requests.values())),
            phase.spread,
            "/".join(map(str, phase.watching.values())),
            phase.limit,
            "never" if phase.follows_s is None else phase.follows_s,
        )


async def measure(
    servers_count: int, requests: int, rate: float, directory: Path
) -> tuple[dict[str, Any], list[str]]:
    """Run all phases: the results, and what is wrong with them."""
    (directory / "objects.yaml").write_text(OBJECTS)
    (directory / "gateway.yaml").write_text(SETTINGS)
    with ExitStack() as running:
        servers = running.enter_context(Servers(directory, servers_count))
        gateway, admin_port = await start_proxy(directory, "gateway", servers.ports)
        running.enter_context(gateway)
        clients = Clients(gateway.port, rate)
        watching = [asyncio.create_task(clients.watch()) for _ in range(WATCHES)]
        phase_s = requests / rate / len(schedule(servers_count))
        asking = asyncio.create_task(clients.ask(requests))
        phases = await run_phases(servers, clients.notes, admin_port, phase_s)
        await asking
        for each in watching:
            each.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        problem = log_problem(gateway.log)
        journals = servers.journals()
    wrong, totals = judge(phases, clients.notes, journals)
    wrong += judge_limits(phases)
    if problem:
        wrong.append(problem)
    print_phases(phases, servers.names)
    print(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in totals.items()))
    results = {
        "totals": totals,
        "wrong": wrong,
        "phases": [msgspec.to_builtins(phase) for phase in phases],
        "journals": {
            name: [entry.at_s for entry in journal]
            for name, journal in zip(servers.names, journals, strict=True)
        },
    }
    return results, wrong


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(__doc__)
    add = parser.add_argument
    add("--servers", type=count_up_to(len(NAMES), 2), default=3, help="behind the gateway (3)")
    add("--requests", type=count_up_to(10**8), default=100_000, help="in all (100000)")
    add("--rate", type=count_up_to(20_000), default=2000, help="requests a second (2000)")
    options = parser.parse_args(arguments)

    def run(directory: Path) -> tuple[object, Sequence[str]]:
        servers, requests, rate = options.servers, options.requests, options.rate
        results: tuple[object, list[str]] = uvloop.run(measure(servers, requests, rate, directory))
        return results

    return measured("gateway", run, descriptors=8000, json_file=options.json)


if __name__ == "__main__":
    sys.exit(main())
