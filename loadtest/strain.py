"""Deadlines under strain: are they kept while clients stall, links fail and tokens expire?

A proxy stands between two links that fail at random.  Through the one, careless clients stall,
vanish and come back; through the other, it reaches its origin.  Meanwhile other clients ask as
they should, objects change, and clients that stall on purpose measure how late each deadline is
kept: heads, bodies, idle connections, answers, waits for a seat, tokens.  At the end all seats have
to be back.  Exit status 2 says that a deadline was missed by more than a second, or a seat was not
given back.

    python -m loadtest.strain --minutes 20 --json strain.json
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import statistics
import sys
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import jwt
import uvloop
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from loadtest.admin_pages import fetch, wait_until_quiet
from loadtest.arguments import Parser, count_up_to, output_file
from loadtest.echo import KINDS, EchoOrigin, Seen, draw
from loadtest.echo_clients import EchoClients
from loadtest.echo_habits import Habits
from loadtest.faults import OBJECTS, Faults
from loadtest.faulty_link import GOOD, Fault, FaultyLink
from loadtest.processes import measured, start_apfproxy
from loadtest.strained_clients import LATE_S, Deadlines, StrainedClients

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from pathlib import Path

DEADLINES = Deadlines(head_s=4.0, idle_s=6.0, request_s=8.0, answer_s=3.0, body_grace_s=2.0)
ISSUER = "https://issuer.test"
STALLING_OF_EACH = 4
CONNECTIONS = 40
CARELESS = 40
CHANGE_PERIOD_S = 3.0
LIVEZ_PERIOD_S = 1.0
ROUND_S = 10.0

SETTINGS = f"""
downstream:
  headTimeout: {DEADLINES.head_s:g}s
  idleTimeout: {DEADLINES.idle_s:g}s
  requestTimeout: {DEADLINES.request_s:g}s
  limits: {{minBodyRateBytes: 1000000, bodyRateGrace: {DEADLINES.body_grace_s:g}s}}
upstream: {{connectTimeout: 500ms, answerTimeout: {DEADLINES.answer_s:g}s, maxConnections: 256}}
watch: {{silence: 100ms, limit: 1s}}
authentication:
  jwt: [{{issuer: "{ISSUER}", audiences: [soak], keysFile: keys.pem}}]
flowControl: {{serverConcurrencyLimit: 500, objects: [objects.yaml]}}
logLevel: warning
"""
# One share of 546 makes one seat of 500.
NARROW = """---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: waiters}
spec:
  type: Limited
  limited:
    nominalConcurrencyShares: 1
    borrowingLimitPercent: 0
    limitResponse: {type: Queue, queuing: {queues: 1, handSize: 1, queueLengthLimit: 50}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: waiters}
spec:
  matchingPrecedence: 50
  priorityLevelConfiguration: {name: waiters}
  rules:
  - subjects: [{kind: Group, group: {name: waiters}}]
    resourceRules:
    - {verbs: ["*"], apiGroups: ["*"], resources: ["*"], clusterScope: true, namespaces: ["*"]}
"""


class Site:
    """The files of the proxy."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._changes = 0
        public = self._key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (directory / "keys.pem").write_bytes(public)
        (directory / "settings.yaml").write_text(SETTINGS)
        self.change_objects()

    def __repr__(self) -> str:
        return f"<Site in {self._directory}>"

    def new_token(self, expires_s: int) -> str:
        self._changes += 1
        claims = {"iss": ISSUER, "sub": "bearer", "aud": "soak", "exp": expires_s}
        return jwt.encode({**claims, "jti": str(self._changes)}, self._key, algorithm="ES256")

    def change_objects(self) -> None:
        self._changes += 1
        text = OBJECTS.replace("queues: 32", f"queues: {32 + self._changes % 16}") + NARROW
        new = self._directory / ".objects.yaml.new"
        new.write_text(text)
        new.replace(self._directory / "objects.yaml")


async def careless(port: int, dice: random.Random, numbers: Iterator[int]) -> None:
    while True:
        with contextlib.suppress(TimeoutError, OSError, EOFError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                async with asyncio.timeout(dice.uniform(0.1, 12)):
                    for _ in range(dice.randint(1, 30)):
                        ask = draw(next(numbers), dice, dict.fromkeys(KINDS, 1))
                        data = ask.encode(f"careless-{dice.randint(0, 20)}")
                        if dice.random() < 0.3:
                            # What follows a part of a request could only be taken for its rest.
                            writer.write(data[: dice.randint(1, len(data) - 1)])
                            await reader.read()
                            break
                        writer.write(data)
                        await reader.read(dice.choice((1, 100, 65536)))
            finally:
                writer.transport.abort()
        await asyncio.sleep(dice.uniform(0, 0.2))


class Strain:
    """All that goes on at the same time.

    Args:
        site: The proxy's files.
        admin_port: Of the proxy.

    Attributes:
        wrong: What was wrong with the process as a whole.
    """

    def __init__(self, site: Site, admin_port: int) -> None:
        self._site = site
        self._admin_port = admin_port
        self.wrong: list[str] = []

    def __repr__(self) -> str:
        return f"<Strain, wrong: {self.wrong}>"

    async def change(self) -> None:
        while True:
            await asyncio.sleep(CHANGE_PERIOD_S)
            self._site.change_objects()

    async def look(self) -> None:
        while True:
            await asyncio.sleep(LIVEZ_PERIOD_S)
            text = await fetch(self._admin_port, "/livez")
            if text != "ok" and len(self.wrong) < 20:
                self.wrong.append(f"/livez: {text!r}")


def random_fault(dice: random.Random, faults: Faults, share: float) -> Fault:
    return faults.anything() if dice.random() < share else GOOD


async def measure(options: argparse.Namespace, directory: Path) -> tuple[dict[str, Any], list[str]]:
    """Strain the proxy: the results, and what was wrong.

    Args:
        options: The command line.
        directory: An existing directory for all files.
    """
    dice = random.Random(options.seed)  # noqa: S311 - no secret
    faults = Faults(dice)
    site = Site(directory)
    seen = Seen()
    loop = asyncio.get_running_loop()
    origin = await loop.create_server(lambda: EchoOrigin(seen), "127.0.0.1", 0, backlog=1024)
    behind = FaultyLink(origin.sockets[0].getsockname()[1], dice)
    behind.choose = partial(random_fault, dice, faults, 0.3)
    await behind.listen()
    process, admin_port = await asyncio.to_thread(
        partial(
            start_apfproxy,
            upstream_port=behind.port,
            directory=directory,
            arguments=["--settings", str(directory / "settings.yaml")],
        )
    )
    with process:
        before = FaultyLink(process.port, dice)
        before.choose = partial(random_fault, dice, faults, 0.7)
        await before.listen()
        stalling = StrainedClients(process.port, DEADLINES, dice, site.new_token)
        crowd = EchoClients(
            process.port, options.seed, Habits(requests_per_s=options.rate, patience_s=25.0), 10**8
        )
        strain = Strain(site, admin_port)
        numbers = itertools.count(2 * 10**8)
        asked = asyncio.create_task(crowd.run(10**8, CONNECTIONS))
        running = [asked] + [
            asyncio.create_task(each)
            for each in (
                strain.change(),
                strain.look(),
                stalling.run(STALLING_OF_EACH),
                *(careless(before.port, dice, numbers) for _ in range(CARELESS)),
            )
        ]
        end_s = monotonic() + options.minutes * 60
        while monotonic() < end_s and not any(task.done() for task in running):
            await asyncio.sleep(min(ROUND_S, max(0.1, end_s - monotonic())))
            late = {kind: max(kept.late_s, default=0.0) for kind, kept in stalling.kept.items()}
            print(
                f"{max(0.0, end_s - monotonic()):>7.0f} s to go,"
                f" {crowd.tally.answered} answered; latest: "
                + ", ".join(f"{kind} {worst:+.2f}" for kind, worst in late.items()),
                flush=True,
            )
        for task in running:
            if task.done():
                task.result()
        crowd.stop()
        await asked
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        before.stop()
        behind.choose = lambda: GOOD
        state = await wait_until_quiet(admin_port)
        log = process.log.read_text()
    behind.stop()
    origin.close()
    wrong = [*strain.wrong, *crowd.tally.wrong, *seen.wrong]
    if not state.is_quiet:
        wrong.append(f"not quiet: {state}")
    if "Traceback" in log:
        wrong.append(f"an exception in the log: {log[-3000:]}")
    results, missed = judged(stalling)
    tally = crowd.tally
    print(f"{tally.answered} answered; answers of the proxy itself, by status: {tally.by_status}")
    for name, link in (("clients", before), ("the origin", behind)):
        struck = ", ".join(f"{number} {ending}" for ending, number in link.struck.items())
        print(f"faults of the link to {name}: {struck}")
    print(f"at the end: {state}")
    results |= {"answered": tally.answered, "by_status": tally.by_status}
    return results, wrong + missed


def judged(stalling: StrainedClients) -> tuple[dict[str, Any], list[str]]:
    results: dict[str, Any] = {}
    wrong = []
    print(f"{'deadline':>12}{'ends':>8}{'cut':>6}{'median s':>10}{'p99 s':>8}{'latest s':>10}")
    for kind, kept in stalling.kept.items():
        wrong += [f"{kind}: {text}" for text in kept.wrong]
        if not kept.late_s:
            wrong.append(f"{kind}: never measured")
            continue
        ends = sorted(kept.late_s)
        row = (statistics.median(ends), ends[len(ends) * 99 // 100], ends[-1])
        results[kind] = {"ends": len(ends), "cut": kept.cut, "late_s": row}
        median, p99, latest = row
        print(f"{kind:>12}{len(ends):>8}{kept.cut:>6}{median:>+10.3f}{p99:>+8.3f}{latest:>+10.3f}")
    return results, wrong


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add("--minutes", type=count_up_to(10_000), default=20, help="how long (20)")
    add("--rate", type=count_up_to(100_000), default=300, help="requests a second beside it (300)")
    add("--seed", type=int, default=1, help="of all that is drawn (1)")
    add("--json", type=output_file, metavar="FILE", help="write all results there as well")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)

    def run(directory: Path) -> tuple[dict[str, Any], list[str]]:
        results, wrong = uvloop.run(measure(options, directory))
        for text in wrong:
            print(f"WRONG: {text}")
        print(f"deadlines kept within {LATE_S:g} s, seats back: {'no' if wrong else 'yes'}")
        return {**results, "wrong": wrong}, wrong

    return measured("strain", run, descriptors=4000, json_file=options.json)


if __name__ == "__main__":
    sys.exit(main())
