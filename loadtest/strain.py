"""Deadlines under strain, for `soak --strain`: are they kept while clients stall and links fail?

A proxy stands between two links that fail at random.  Through the one, careless clients stall,
vanish and come back; through the other, it reaches its origin.  Meanwhile other clients send
requests as they should, objects change, and clients that stall on purpose measure how late each
deadline is kept.  None of these goes through a faulty link itself, so a deadline that is missed is
the proxy's fault.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import statistics
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, time
from typing import TYPE_CHECKING, Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from apfproxy.objects.types import QueuingConfiguration
from loadtest.clients import Connection, percentile
from loadtest.echo import CONFIGMAPS, GROUP, KINDS, NEVER, FirstFew, Habits, draw, level_of
from loadtest.echo_clients import EchoClients
from loadtest.faults import Faults
from loadtest.faulty_link import GOOD, Fault, FaultyLink
from loadtest.origin import Origin
from loadtest.processes import Proxy, fetch, replace_file
from loadtest.program import Results, Table
from tests.support.builders import as_text, flow_schema, group_subject, priority_level

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from pathlib import Path

LATE_S = 1.0
EARLY_S = 0.3
"""How early: the proxy's clock starts before the client knows that its bytes are there."""
PATIENCE_S = 30.0
"""After which a deadline counts as not kept at all."""
ASK_PERIOD_S = 0.05
"""Between two requests with a token that is about to expire."""
HEAD_S, IDLE_S, REQUEST_S, RESPONSE_S, BODY_GRACE_S = 4.0, 6.0, 8.0, 3.0, 2.0
ISSUER = "https://issuer.test"
STALLING_OF_EACH = 4
CONNECTIONS = 40
CARELESS = 40
CHANGE_PERIOD_S = 3.0
LIVEZ_PERIOD_S = 1.0
ROUND_S = 10.0
NAMED = "X-Remote-User: staller\r\nX-Remote-Group: testers\r\n"
WAITING = "X-Remote-User: waiter\r\nX-Remote-Group: waiters\r\n"

SETTINGS = f"""
downstream:
  headTimeout: {HEAD_S:g}s
  idleTimeout: {IDLE_S:g}s
  requestTimeout: {REQUEST_S:g}s
  limits: {{minBodyRateBytes: 1000000, bodyRateGrace: {BODY_GRACE_S:g}s}}
upstream: {{connectTimeout: 500ms, answerTimeout: {RESPONSE_S:g}s, maxConnections: 256}}
watch: {{silence: 100ms, limit: 1s}}
authentication:
  jwt: [{{issuer: "{ISSUER}", audiences: [soak], keysFile: keys.pem}}]
flowControl: {{serverConcurrencyLimit: 500, objects: [objects.yaml]}}
logLevel: warning
"""
NARROW = as_text(
    # One share of 546 makes one seat of 500.
    priority_level(
        "waiters",
        shares=1,
        queuing=QueuingConfiguration(queues=1, hand_size=1, queue_length_limit=50),
    ),
    flow_schema("waiters", "waiters", group_subject("waiters"), precedence=50, distinguish_by=None),
)


class Site:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._changes = 0
        public = self._key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (directory / "keys.pem").write_bytes(public)
        self.change_objects()

    def new_token(self, expires_s: int) -> str:
        self._changes += 1
        claims = {"iss": ISSUER, "sub": "bearer", "aud": "soak", "exp": expires_s}
        return jwt.encode({**claims, "jti": str(self._changes)}, self._key, algorithm="ES256")

    def change_objects(self) -> None:
        self._changes += 1
        text = level_of(GROUP, queues=32 + self._changes % 16) + NARROW
        replace_file(self._directory / "objects.yaml", text)

    async def change(self) -> None:
        while True:
            await asyncio.sleep(CHANGE_PERIOD_S)
            self.change_objects()


@dataclass(slots=True)
class Kept:
    """How one kind of deadline was kept.

    Attributes:
        late_s: How much later than the deadline each end came.
        cut: Ends other than by the deadline that a failure of the origin's link explains.
        wrong: Ends that nothing explains; the first few.
    """

    late_s: list[float] = field(default_factory=list)
    cut: int = 0
    wrong: FirstFew = field(default_factory=FirstFew)

    def judge(self, ended: Connection, status: int, expected: int, deadline_s: float) -> None:
        """Note an end: by a response of one status, or by none."""
        late_s = ended.ended_s - ended.sent_s - deadline_s
        if status == 502 and late_s < LATE_S:
            self.cut += 1
            return
        self.late_s.append(late_s)
        is_right = status == expected and bool(ended.first_s) == bool(expected)
        if not is_right or not -EARLY_S <= late_s <= LATE_S:
            self.wrong.add(f"{late_s:+.3f} s: {status}, {ended.body[:200]!r}")


class StallingClients:
    """Clients that do one thing for which the proxy has a deadline, again and again.

    Attributes:
        kept: Kind to what came of it.
    """

    def __init__(self, port: int, dice: random.Random, new_token: Callable[[int], str]) -> None:
        self._port = port
        self._dice = dice
        self._new_token = new_token
        self._seat_lock = asyncio.Lock()
        head, sized = b"GET / HTTP/1.1\r\nHost: a.test\r\nX-A: ", request("sized 3", NAMED)
        put = request("put-in-chunks 3", f"{NAMED}Content-Length: 3\r\n", "PUT")
        slow = request("put-in-chunks 3", f"{NAMED}Content-Length: 1000000\r\n", "PUT")
        never = request(f"{NEVER} 0", NAMED)
        stall, late = self._stall, 408
        self._kinds: dict[str, Callable[[Kept], Awaitable[None]]] = {
            "silence": lambda kept: stall(kept, b"", 0, HEAD_S),
            "half a head": lambda kept: stall(kept, head, late, HEAD_S),
            "idle": lambda kept: stall(kept, b"", 0, IDLE_S, [sized]),
            # A body that is gathered, after whole requests of the same user.
            "body": lambda kept: stall(kept, put + b"s", late, BODY_GRACE_S, [put + b"s|s"] * 2),
            # Larger than what is gathered, so that its request has seats.
            "slow body": lambda kept: stall(kept, slow + bytes(40_000), late, BODY_GRACE_S),
            "response": lambda kept: stall(kept, never, 504, RESPONSE_S),
            "seat": self._seat,
            "token": self._token,
        }
        self.kept = {kind: Kept() for kind in self._kinds}

    async def run(self, of_each: int) -> None:
        async with asyncio.TaskGroup() as group:
            for kind in self._kinds:
                for _ in range(of_each):
                    group.create_task(self._again_and_again(kind))

    async def _again_and_again(self, kind: str) -> None:
        once, kept = self._kinds[kind], self.kept[kind]
        while True:
            await asyncio.sleep(self._dice.uniform(0, 0.5))
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await once(kept)
            except TimeoutError:
                kept.wrong.add(f"no end within {PATIENCE_S:g} s")
            except (OSError, EOFError) as error:
                kept.wrong.add(repr(error))

    async def _stall(
        self,
        kept: Kept,
        data: bytes,
        expected: int,
        deadline_s: float,
        before: Sequence[bytes] = (),
    ) -> None:
        with await Connection.open(self._port) as connection:
            for each in before:
                await connection.ask(each)
            status = await connection.ask(data)
            kept.judge(connection, status, expected, deadline_s)

    async def _seat(self, kept: Kept) -> None:
        # A quarter of its time is what a request may wait.
        wait_s = self._dice.choice((1.0, 1.5))
        held = request(f"{NEVER} 0", WAITING)
        data = held.replace(b" HTTP/1.1", b"?timeout=%gs HTTP/1.1" % (4 * wait_s), 1)
        async with self._seat_lock:
            with (
                await Connection.open(self._port) as holder,
                await Connection.open(self._port) as connection,
            ):
                holding = holder.ask(held)
                await asyncio.sleep(0.2)
                status = await connection.ask(data)
                if holding.done():
                    kept.cut += 1  # its link failed, so that the seat came free
                else:
                    kept.judge(connection, status, 429, wait_s)

    async def _token(self, kept: Kept) -> None:
        expires_s = int(time()) + self._dice.randint(2, 5)
        data = request("sized 3", f"Authorization: Bearer {self._new_token(expires_s)}\r\n")
        served_s, sent_s, status = 0.0, 0.0, 0
        while status != 401:
            # Another connection when the origin's link fails in the middle of a response.
            with contextlib.suppress(OSError), await Connection.open(self._port) as connection:
                while status != 401 and not connection.is_gone:
                    sent_s = time()
                    status = await connection.ask(data)
                    if status not in (0, 401):
                        served_s = sent_s
                        await asyncio.sleep(ASK_PERIOD_S)
        late_s = max(0.0, served_s - expires_s)
        kept.late_s.append(late_s)
        if late_s > LATE_S or sent_s + EARLY_S < expires_s:
            kept.wrong.add(
                f"served until {late_s:.3f} s, refused {sent_s - expires_s:+.3f} s after"
            )


def request(answer: str, fields: str, method: str = "GET") -> bytes:
    return (
        f"{method} {CONFIGMAPS}/x HTTP/1.1\r\nHost: a.test\r\nX-Request-Id: s\r\n"
        f"X-Answer: {answer}\r\n{fields}\r\n"
    ).encode()


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


async def look(admin_port: int, wrong: FirstFew) -> None:
    while True:
        await asyncio.sleep(LIVEZ_PERIOD_S)
        text = await fetch(admin_port, "/livez")
        if text != "ok":
            wrong.add(f"/livez: {text!r}")


def random_fault(dice: random.Random, faults: Faults, share: float) -> Fault:
    return faults.anything() if dice.random() < share else GOOD


async def measure(options: argparse.Namespace, directory: Path) -> Results:
    dice = random.Random(options.seed)  # noqa: S311 - no secret
    faults, site, origin = Faults(dice), Site(directory), Origin()
    wrong = FirstFew()
    with contextlib.ExitStack() as running:
        running.callback(origin.stop)
        await origin.start()
        behind = FaultyLink(origin.port, dice)
        behind.choose = partial(random_fault, dice, faults, 0.3)
        running.callback(behind.stop)
        await behind.listen()
        proxy = Proxy(directory, [behind.port], name="strain", settings=SETTINGS)
        running.enter_context(proxy)
        before = FaultyLink(proxy.port, dice)
        before.choose = partial(random_fault, dice, faults, 0.7)
        running.callback(before.stop)
        await before.listen()
        stalling = StallingClients(proxy.port, dice, site.new_token)
        habits = Habits(requests_per_s=options.rate, patience_s=25.0)
        crowd = EchoClients(proxy.port, options.seed, habits, 10**8)
        numbers = itertools.count(2 * 10**8)
        asked = asyncio.create_task(crowd.run(10**8, CONNECTIONS))
        tasks = [asked] + [
            asyncio.create_task(each)
            for each in (
                site.change(),
                look(proxy.admin_port, wrong),
                stalling.run(STALLING_OF_EACH),
                *(careless(before.port, dice, numbers) for _ in range(CARELESS)),
            )
        ]
        end_s = monotonic() + options.minutes * 60
        while monotonic() < end_s and not any(task.done() for task in tasks):
            await asyncio.sleep(min(ROUND_S, max(0.1, end_s - monotonic())))
            late = {kind: max(kept.late_s, default=0.0) for kind, kept in stalling.kept.items()}
            print(
                f"{max(0.0, end_s - monotonic()):>7.0f} s to go, {crowd.tally.answered} responses;"
                f" latest: {', '.join(f'{kind} {worst:+.2f}' for kind, worst in late.items())}",
                flush=True,
            )
        for task in tasks:
            if task.done():
                task.result()
        crowd.stop()
        await asked
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        before.stop()
        behind.choose = lambda: GOOD
        state = await proxy.quiet()
    wrong += [*crowd.tally.wrong, *origin.seen.wrong, *proxy.problems()]
    if not state.is_quiet:
        wrong.append(f"not quiet: {state}")
    results, missed = judged(stalling)
    tally = crowd.tally
    print(f"{tally.answered} responses; those of the proxy itself, by status: {tally.by_status}")
    for name, link in (("clients", before), ("the origin", behind)):
        struck = ", ".join(f"{number} {ending}" for ending, number in link.struck.items())
        print(f"faults of the link to {name}: {struck}")
    print(f"at the end: {state}")
    print(f"deadlines kept within {LATE_S:g} s, seats back: {'no' if wrong + missed else 'yes'}")
    return {**results, "answered": tally.answered, "by_status": tally.by_status}, wrong + missed


def judged(stalling: StallingClients) -> tuple[dict[str, Any], list[str]]:
    results: dict[str, Any] = {}
    wrong = []
    table = Table(
        "deadline >12 | ends >8 | cut >6 | median s >+10.3f | p99 s >+8.3f | latest s >+10.3f"
    )
    table.head()
    for kind, kept in stalling.kept.items():
        wrong += [f"{kind}: {text}" for text in kept.wrong]
        if not kept.late_s:
            wrong.append(f"{kind}: never measured")
            continue
        row = statistics.median(kept.late_s), percentile(kept.late_s, 99), max(kept.late_s)
        ends = len(kept.late_s)
        results[kind] = {"ends": ends, "cut": kept.cut, "late_s": row}
        table.row(kind, ends, kept.cut, *row)
    return results, wrong
