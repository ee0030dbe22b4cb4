"""Failing connections to the origin, for `soak --faults`: each response is its own request's."""

from __future__ import annotations

import asyncio
import math
import random
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING

from loadtest.clients import Connection
from loadtest.echo import CONFIGMAPS, OBJECTS, Habits, Tally
from loadtest.echo_clients import EchoClients
from loadtest.faulty_link import GOOD, Ending, Fault, FaultyLink
from loadtest.origin import Origin, Seen
from loadtest.processes import Proxy, ProxyState
from loadtest.program import Results, Table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

CONNECTIONS, HTTP2_CONNECTIONS = 100, 16
RECOVERS_WITHIN_S = 5.0
GOOD_IN_A_ROW = 50
"""Responses that have to be good one after the other before all is well again."""
PROBE_S = 20.0
WARM = 40
"""Connections to the origin that are idle when their peers vanish all at once."""

SETTINGS = """
downstream: {{requestTimeout: 4s, headTimeout: 5s{http2}}}
upstream: {{connectTimeout: 500ms, answerTimeout: 1s, maxConnections: 64}}
watch: {{silence: 100ms, limit: 1s}}
flowControl: {{serverConcurrencyLimit: 120, objects: [objects.yaml]}}
logLevel: warning
"""
HTTP2 = ", http2: {cleartext: true}"
TABLE = Table(
    "fault <11 | requests >9 | good >9 | 502 >7 | 504 >7 | 429 >6 | other >6 | broken >8"
    "| lost >7 | left >6 | cut >5 | mispaired >10 | hung >5 | seats >6 | open >5"
    "| recovery s >11.2f | s >7.1f"
)


class Faults:
    """Draws what is done to connections."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.choosers: dict[str, Callable[[], Fault]] = {
            "none": lambda: GOOD,
            "delay": lambda: Fault(delay_s=dice.uniform(0.001, 0.05)),
            "slice": lambda: Fault(piece_bytes=dice.choice((1, 2, 7, 40))),
            "bandwidth": lambda: Fault(bytes_per_s=dice.choice((100_000, 1_000_000))),
            "reset": lambda: self.ending(Ending.RESET),
            "close": lambda: self.ending(Ending.CLOSE),
            "stall": lambda: self.ending(Ending.STALL),
            "vanish": lambda: self.ending(Ending.VANISH),
            "refuse": lambda: GOOD,
            "black-hole": lambda: GOOD,
            "restart": lambda: GOOD,
        }

    def ending(self, ending: Ending) -> Fault:
        dice = self._dice
        after = 0 if dice.random() < 0.1 else int(math.exp(dice.uniform(0, math.log(1e6))))
        return Fault(ending=ending, after_bytes=after, is_towards_origin=dice.random() < 0.4)

    def anything(self) -> Fault:
        dice = self._dice
        chance = dice.random()
        end = self.ending(
            dice.choices(
                (Ending.RESET, Ending.CLOSE, Ending.STALL, Ending.VANISH), (40, 40, 10, 10)
            )[0]
        )
        return replace(
            end,
            delay_s=dice.uniform(0.001, 0.02) if chance < 0.2 else 0,
            piece_bytes=dice.choice((1, 7, 40)) if 0.2 <= chance < 0.4 else 0,
            bytes_per_s=1_000_000 if 0.4 <= chance < 0.5 else 0,
        )


HARMLESS = ("none", "delay", "slice")
"""Under these nothing breaks; a busy machine may make answers late."""
RANDOM = "random"
FAULTS = (*Faults(random.Random()).choosers, RANDOM)  # noqa: S311 - for the names


@dataclass(slots=True)
class Findings:
    """Results of one fault.

    Attributes:
        recovery_s: From the end of the fault to the first of many good responses; None for never.
        state: Of the proxy when it was quiet again, or had not become so in time.
    """

    fault: str
    tally: Tally
    seconds: float
    recovery_s: float | None
    state: ProxyState
    wrong: list[str] = field(default_factory=list)

    def judge(self, seen: Seen, *, is_harmless: bool) -> None:
        tally, wrong = self.tally, self.wrong
        wrong += [f"mispaired: {text}" for text in tally.wrong]
        wrong += seen.wrong
        if tally.asked != tally.ended:
            wrong.append(f"{tally.asked} requests were sent and {tally.ended} had an end")
        if not self.state.is_quiet:
            wrong.append(f"not quiet: {self.state}")
        if self.recovery_s is None or self.recovery_s > RECOVERS_WITHIN_S:
            wrong.append(f"answers were good again after {self.recovery_s} s")
        if is_harmless and tally.broken + tally.lost + tally.by_status.get(502, 0):
            wrong.append("answers are broken under a fault that breaks nothing")


@dataclass(frozen=True)
class Scene:
    link: FaultyLink
    faults: Faults
    seen: Seen
    proxy: Proxy
    habits: Habits

    async def suffer(self, fault: str, count: int, seed: int, first: int) -> Findings:
        """Send requests under a fault, and see what stays of it."""
        clients = EchoClients(self.proxy.port, seed, self.habits, first)
        self.link.choose = self.faults.choosers.get(fault, self.faults.anything)
        self.link.drop()
        episodes = asyncio.create_task(self._episodes(fault))
        began_s = monotonic()
        await clients.run(count, HTTP2_CONNECTIONS if self.habits.http2 else CONNECTIONS)
        seconds = monotonic() - began_s
        episodes.cancel()
        await asyncio.gather(episodes, return_exceptions=True)
        if fault == "vanish":
            self.link.choose = lambda: GOOD
            await self._warm()
            self.link.strike(Ending.VANISH)
        self.link.choose = lambda: GOOD
        await self.link.listen()
        recovery_s = await self._recovery()
        state = await self.proxy.quiet()
        findings = Findings(fault, clients.tally, seconds, recovery_s, state)
        findings.judge(self.seen, is_harmless=fault in HARMLESS)
        self.seen.wrong.clear()
        return findings

    async def _episodes(self, fault: str) -> None:
        link, dice = self.link, self.link.random
        if fault == "refuse":
            link.refuse()
        elif fault == "black-hole":
            link.swallow()
        while fault in ("restart", RANDOM):
            await asyncio.sleep(dice.uniform(0.1, 0.3) if fault == "restart" else 5)
            dice.choice((link.refuse, link.swallow))()
            if fault == "restart":
                link.strike(dice.choice((Ending.RESET, Ending.CLOSE)))
            await asyncio.sleep(dice.uniform(0.05, 0.3))
            await link.listen()

    async def _warm(self) -> None:
        """Have many connections to the origin idle: as many slow answers at once have been."""
        await asyncio.gather(*(self._probe(watch=True) for _ in range(WARM)))

    async def _recovery(self) -> float | None:
        began_s = monotonic()
        good = 0
        first_s = 0.0
        while good < GOOD_IN_A_ROW:
            if monotonic() - began_s > PROBE_S:
                return None
            sent_s = monotonic()
            if await self._probe():
                first_s = first_s if good else monotonic() - began_s
                good += 1
            else:
                good = 0
                await asyncio.sleep(max(0.0, 0.02 - (monotonic() - sent_s)))
        return first_s

    async def _probe(self, *, watch: bool = False) -> bool:
        target = "?watch=true" if watch else "/probe"
        data = (
            f"GET {CONFIGMAPS}{target} HTTP/1.1\r\nHost: a.test\r\n"
            f"X-Remote-User: prober\r\nX-Remote-Group: testers\r\nX-Request-Id: probe\r\n"
            f"X-Answer: {'watch 1' if watch else 'sized 100'}\r\n\r\n"
        ).encode()
        try:
            with await Connection.open(self.proxy.port) as connection:
                async with asyncio.timeout(10):
                    return await connection.ask(data) == 200
        except OSError:  # a time-out is one
            return False


async def measure(options: argparse.Namespace, directory: Path) -> Results:
    (directory / "objects.yaml").write_text(OBJECTS)
    habits = Habits(http2=options.protocol == "h2")
    settings = SETTINGS.format(http2=HTTP2 * habits.http2)
    dice = random.Random(options.seed)  # noqa: S311 - no secret
    origin = Origin()
    results = []
    first = 0
    with ExitStack() as running:
        running.callback(origin.stop)
        await origin.start()
        link = FaultyLink(origin.port, dice)
        running.callback(link.stop)
        await link.listen()
        proxy = Proxy(directory, [link.port], name="faults", settings=settings)
        running.enter_context(proxy)
        scene = Scene(link, Faults(dice), origin.seen, proxy, habits)
        TABLE.head()
        for fault in options.only or FAULTS:
            count = options.requests if fault == RANDOM else options.per_fault
            findings = await scene.suffer(fault, count, options.seed + first, first)
            first += count
            print_row(findings)
            results.append(findings)
            findings.wrong += proxy.problems()
        state = await proxy.state()
        print(f"{proxy.rss_bytes() / (1 << 20):.0f} MiB resident at the end; {state}")
    wrong = [f"{each.fault}: {text}" for each in results for text in each.wrong]
    return {"faults": [asdict(each) for each in results]}, wrong


def print_row(findings: Findings) -> None:
    tally, state = findings.tally, findings.state
    known = [tally.by_status.get(code, 0) for code in (502, 504, 429)]
    TABLE.row(
        findings.fault,
        tally.asked,
        tally.answered,
        *known,
        sum(tally.by_status.values()) - sum(known),
        *(tally.broken, tally.lost, tally.left, tally.cut, tally.mispaired, tally.hung),
        *(state.seats, state.upstream_active),
        "never" if findings.recovery_s is None else findings.recovery_s,
        findings.seconds,
    )
