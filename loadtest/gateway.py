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
import enum
import random
import sys
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec

from loadtest.clients import MISPAIRED, Connection, OpenLoop, Outcome, percentile
from loadtest.echo import OBJECTS
from loadtest.origin import ITEM, LIST_ITEMS, Entry, read_journal
from loadtest.processes import Proxy, fetch, read_limits, start_origin
from loadtest.program import Parser, Results, Table, count_up_to, measured

if TYPE_CHECKING:
    import argparse
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
NAMES = "abcdefghi"
NOTICED_S = 2.0
"""How long a server that will leave says that it is not ready, before it does."""
GOOD = "200"
DETECTED_WITHIN_S = 3.0
"""By then a gateway has to know that a server hangs or fails: two checks, and the time of each."""
FOLLOWS_WITHIN_S = {"killed": 1.0, "back": 2.0}
"""How soon the limit has to follow; where health checks have to see it first, those count, too."""
SLACK_S = 0.05
"""For what is on its way between processes of a busy machine."""
BALANCE = 0.1
"""By how much a server's share of the requests may differ from that of the others."""
SETTLED = 2 / 3
"""For a phase, after which the balance counts."""
FEWEST_TO_BALANCE = 600
"""Requests to a server: of fewer, chance alone makes a difference of a tenth."""

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


class Servers:
    def __init__(self, directory: Path, count: int) -> None:
        self.names = NAMES[:count]
        self._journals = [directory / f"{name}.journal" for name in self.names]
        self._running = ExitStack()
        self.each = [
            self._running.enter_context(
                start_origin(
                    directory=directory,
                    name=f"server-{name}",
                    arguments=[
                        *("--name", name, "--journal", str(journal)),
                        *("--delay-ms", "4", "--event-period", "1"),
                    ],
                )
            )
            for name, journal in zip(self.names, self._journals, strict=True)
        ]

    @property
    def ports(self) -> list[int]:
        return [each.port for each in self.each]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._running.close()

    async def be(self, at: int, manner: str) -> None:
        await fetch(self.each[at].port, f"/-/be/{manner}")

    async def drain(self, at: int) -> None:
        await self.be(at, "unready")
        await asyncio.sleep(NOTICED_S)
        await asyncio.to_thread(self.each[at].stop)

    async def be_well(self, at: int) -> None:
        self.each[at].go_on()
        if self.each[at].is_running:
            await self.be(at, "well")
        else:
            await asyncio.to_thread(self.each[at].start)

    def journals(self) -> list[list[Entry]]:
        return [read_journal(path) for path in self._journals]


class Event(enum.StrEnum):
    """An event at the beginning of a phase; at `ALL` all servers are well."""

    ALL = "all"
    KILLED = "killed"
    HUNG = "hung"
    SLOW = "slow"
    FAILING = "failing"
    DRAINED = "drained"
    BACK = "back"


FAULTS = (Event.KILLED, Event.HUNG, Event.SLOW, Event.FAILING, Event.DRAINED)
WHOLE = (Event.ALL, Event.BACK)


class WatchEnd(NamedTuple):
    """A watch that ended: when, at which origin, and whether in order."""

    at_s: float
    origin: str
    is_clean: bool


@dataclass(slots=True)
class Notes:
    """Observations of clients: requests, ends of watches, and open watches by origin."""

    outcomes: list[Outcome] = field(default_factory=list)
    watch_ends: list[WatchEnd] = field(default_factory=list)
    watching: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Phase:
    """A part of the run.

    Attributes:
        victim: The number of the server that its event happens to.
        begun_s, done_s: When the event begins, and is over.
        limit: Seats that there must be at the end.
        follows_s: How long after `begun_s` there were; None if not in this phase.
        watching: Watches by server at the end.
        counts: Responses by result.
        own: Bad ones that the victim had before the gateway could know.
        bad: Other bad responses, by result.
        p99_ms: Of good responses.
        requests: To each server, once all has settled.
        spread: How much the share of a healthy server differs from the mean at most.
    """

    event: Event
    victim: int | None = None
    begun_s: float = 0.0
    done_s: float = 0.0
    end_s: float = 0.0
    limit: int = 0
    follows_s: float | None = None
    watching: dict[str, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    own: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    p99_ms: float = 0.0
    requests: dict[str, int] = field(default_factory=dict)
    spread: float = 0.0

    @property
    def label(self) -> str:
        return self.event if self.victim is None else f"{self.event} {NAMES[self.victim]}"

    def excuses(self, outcome: Outcome, seen_by: set[int]) -> bool:
        """Whether a bad answer is the victim's own."""
        if self.victim is None or seen_by - {self.victim}:
            return False
        match self.event:
            case Event.KILLED:
                return outcome.due_s <= self.done_s + SLACK_S
            case Event.HUNG:
                return outcome.due_s <= self.begun_s + DETECTED_WITHIN_S
            case Event.FAILING:
                return (
                    outcome.origin == NAMES[self.victim]
                    and outcome.due_s <= self.begun_s + DETECTED_WITHIN_S
                )
        return False

    def ends_watch(self, end: WatchEnd) -> bool:
        return (
            self.event in (Event.KILLED, Event.HUNG)
            and self.victim is not None
            and end.origin in ("", NAMES[self.victim])
            and self.begun_s <= end.at_s <= self.end_s + SLACK_S
        )


class Clients:
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
            end = WatchEnd(monotonic(), "", is_clean=False)
            with suppress(OSError), await Watch.open(self._port, notes) as watch:
                status = await watch.ask(head)
                end = WatchEnd(watch.ended_s, watch.origin, is_clean=status == int(GOOD))
            notes.watch_ends.append(end)
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
    def __init__(self, notes: Notes) -> None:
        super().__init__()
        self._notes = notes

    @property
    def origin(self) -> str:
        return self.fields.get(b"x-origin", b"").decode()

    def on_headers_complete(self) -> None:
        self._notes.watching[self.origin] += 1

    def on_body(self, data: bytes) -> None:
        del data

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._notes.watching[self.origin] -= self.first_s > 0


async def strike(servers: Servers, phase: Phase) -> None:
    phase.begun_s = monotonic()
    at = phase.victim
    if at is not None:
        match phase.event:
            case Event.KILLED:
                await servers.each[at].kill()
            case Event.HUNG:
                servers.each[at].hang()
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
        if (await read_limits(admin_port))["serverConcurrencyLimit"] == phase.limit:
            phase.follows_s = monotonic() - phase.begun_s
            return
        await asyncio.sleep(POLL_S)


async def run_phases(
    servers: Servers, notes: Notes, admin_port: int, phase_s: float
) -> list[Phase]:
    phases = schedule(len(servers.names))
    for phase in phases:
        is_less = phase.event in FAULTS and phase.event is not Event.SLOW
        phase.limit = SEATS_PER_ENDPOINT * (len(servers.names) - is_less)
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


def schedule(servers: int) -> list[Phase]:
    phases = [Phase(Event.ALL)]
    for at, fault in enumerate(FAULTS):
        phases += [Phase(fault, at % servers), Phase(Event.BACK, at % servers)]
    return phases


def judge(
    phases: Sequence[Phase], notes: Notes, journals: Sequence[Sequence[Entry]]
) -> tuple[list[str], dict[str, int]]:
    wrong: list[str] = []
    seen: dict[int, list[int]] = {}
    for at, journal in enumerate(journals):
        for entry in journal:
            seen.setdefault(entry.number, []).append(at)
    outcomes: list[list[Outcome]] = [[] for _ in phases]
    at = 0
    for outcome in sorted(notes.outcomes, key=lambda each: each.due_s):
        while at + 1 < len(phases) and outcome.due_s >= phases[at + 1].begun_s:
            at += 1
        phase = phases[at]
        phase.counts[outcome.result] += 1
        outcomes[at].append(outcome)
        got_it = seen.get(outcome.number, [])
        if outcome.result == GOOD:
            if NAMES.index(outcome.origin) not in got_it:
                wrong.append(f"{outcome} was not seen by the server that answered it")
        elif any(
            each.excuses(outcome, set(got_it))
            for each in phases[: at + 2]
            if each.begun_s <= outcome.done_s and outcome.due_s <= each.end_s
        ):
            phase.own += 1
        else:
            phase.bad[outcome.result] += 1
    doubled = [
        outcome
        for outcome in notes.outcomes
        if outcome.is_write and len(seen.get(outcome.number, [])) > 1
    ]
    wrong += [f"{outcome} was seen by {seen[outcome.number]}" for outcome in doubled[:10]]
    for number, phase in enumerate(phases):
        good = [each for each in outcomes[number] if each.result == GOOD]
        if good:
            phase.p99_ms = percentile([each.done_s - each.due_s for each in good], 99) * 1000
        from_s = phase.begun_s + (phase.end_s - phase.begun_s) * SETTLED
        phase.requests = {
            NAMES[index]: sum(from_s <= entry.at_s < phase.end_s for entry in journal)
            for index, journal in enumerate(journals)
        }
        judge_phase(phase, wrong)
    broken = Counter(
        each.origin or "none"
        for each in notes.watch_ends
        if not each.is_clean and not any(phase.ends_watch(each) for phase in phases)
    )
    wrong += [f"{count} watches of {origin} were broken off" for origin, count in broken.items()]
    totals = {
        "requests": len(notes.outcomes),
        "good": sum(phase.counts[GOOD] for phase in phases),
        "own": sum(phase.own for phase in phases),
        "bad": sum(sum(phase.bad.values()) for phase in phases),
        "doubled_writes": len(doubled),
        "repeated_reads": sum(len(each) > 1 for each in seen.values()) - len(doubled),
        "watches_ended": len(notes.watch_ends),
        "watches_ended_in_order": sum(each.is_clean for each in notes.watch_ends),
    }
    return wrong, totals


def judge_phase(phase: Phase, wrong: list[str]) -> None:
    label = phase.label
    if phase.bad:
        wrong.append(f"{label}: bad answers that were not the server's own: {dict(phase.bad)}")
    is_whole = phase.event in WHOLE
    counts = [
        count
        for name, count in phase.requests.items()
        if is_whole or phase.victim is None or name != NAMES[phase.victim]
    ]
    mean = sum(counts) / len(counts)
    phase.spread = max(abs(count - mean) for count in counts) / mean if mean else 1.0
    if phase.spread > BALANCE and mean >= FEWEST_TO_BALANCE:
        wrong.append(f"{label}: the shares of servers that are well differ by {phase.spread:.0%}")


def judge_limits(phases: Sequence[Phase]) -> list[str]:
    wrong = []
    for phase in phases:
        within_s = FOLLOWS_WITHIN_S.get(phase.event, DETECTED_WITHIN_S)
        if phase.follows_s is None and phase.end_s - phase.begun_s < within_s:
            continue  # it had no time to
        if phase.follows_s is None:
            wrong.append(f"{phase.label}: the limit did not become {phase.limit}")
        elif phase.follows_s > within_s:
            wrong.append(f"{phase.label}: the limit followed after {phase.follows_s:.2f} s")
    return wrong


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


async def measure(options: argparse.Namespace, directory: Path) -> Results:
    (directory / "objects.yaml").write_text(OBJECTS)
    with ExitStack() as running:
        servers = running.enter_context(Servers(directory, options.servers))
        gateway = Proxy(directory, servers.ports, name="gateway", settings=SETTINGS)
        running.enter_context(gateway)
        clients = Clients(gateway.port, options.rate)
        watching = [asyncio.create_task(clients.watch()) for _ in range(WATCHES)]
        phase_s = options.requests / options.rate / len(schedule(options.servers))
        asking = asyncio.create_task(clients.ask(options.requests))
        phases = await run_phases(servers, clients.notes, gateway.admin_port, phase_s)
        await asking
        for each in watching:
            each.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        journals = servers.journals()
    wrong, totals = judge(phases, clients.notes, journals)
    wrong += [*judge_limits(phases), *gateway.problems()]
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


def main() -> int:
    parser = Parser(__doc__)
    add = parser.add_argument
    add("--servers", type=count_up_to(len(NAMES), 2), default=3, help="behind the gateway (3)")
    add("--requests", type=count_up_to(10**8), default=100_000, help="in all (100000)")
    add("--rate", type=count_up_to(20_000), default=2000, help="requests a second (2000)")
    options = parser.parse_args()
    return measured(options, measure, descriptors=8000)


if __name__ == "__main__":
    sys.exit(main())
