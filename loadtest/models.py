"""Show what tenants of a model server get, with and without the proxy before it.

The server has no model, but slots and a token each round for each request in one.  The scenes:
`turns`: tenants with 50 and 2 streams at 8 slots.  The small one's time to first token has to be at
most 1.3 times the mean wait for a slot, and all tokens a second 95 % of those without the proxy.
`tokens`: two tenants with as many requests of 200 and of 2000 tokens, whose tokens have to be
within 10 %.  `added`: 500 streams, each with a slot.  What the proxy adds to the time between two
tokens has to be under 5 ms in 99 % of all cases.

    python -m loadtest.models --seconds 30 --json models.json
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import re
import statistics
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from loadtest.processes import Process, Proxy, free_ports, python_module
from loadtest.program import Parser, Table, count_up_to, measured, names_from

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

DIRECT, PROXY = "direct", "proxy"
TURNS, TOKENS, ADDED = "turns", "tokens", "added"
SCENES = (TURNS, TOKENS, ADDED)
LEAD_IN_S = 5.0
MOST_WAIT, LEAST_TOKENS, MOST_UNFAIR, MOST_ADDED_MS = 1.3, 0.95, 0.1, 5.0
TABLE = Table(
    "scene <8 | way <8 | tenant <8 | tokens/s >10.1f | first token s >15.2f"
    " | between tokens p99 ms >25.2f"
)
PROMPT = re.compile(rb'"prompt_tokens": (\d+)')
SLOTS_AND_ROUNDS_MS = {TURNS: (8, 20), TOKENS: (8, 2), ADDED: (500, 200)}
TENANTS = {
    TURNS: {"large": (50, 100), "small": (2, 100)},
    TOKENS: {"brief": (16, 200), "verbose": (16, 2000)},
    ADDED: {"all": (500, 30)},
}
"""The streams of each tenant, and their tokens in the mean: from half to one and a half of that."""


class Tenant:
    """Counts what the streams of one tenant see.

    Attributes:
        tokens: Those of its prompts and responses.
        first_s: Times to the first token.
        late_ms: How much longer than at the server it took from each token to the next one.
    """

    def __init__(self) -> None:
        self.tokens = 0
        self.first_s: list[float] = []
        self.late_ms: list[float] = []

    def note(self, events: list[tuple[int, int]], asked_ns: int) -> None:
        """Note a whole stream: when each token was sent, and when it came."""
        self.first_s.append((events[0][1] - asked_ns) / 1e9)
        for (sent, came), (next_sent, next_came) in itertools.pairwise(events):
            self.late_ms.append((next_came - came - (next_sent - sent)) / 1e6)

    def figures(self, seconds: float) -> dict[str, float]:
        return {
            "tokens": self.tokens / seconds,
            "first_s": statistics.fmean(self.first_s),
            "late_p99_ms": statistics.quantiles(self.late_ms, n=100)[-1],
        }


async def stream(port: int, key: str, tokens: int, tenant: Tenant, draw: random.Random) -> None:
    """Have one stream after the other, on one connection, of so many tokens in the mean."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while True:
            request = request_of(key, round(tokens * draw.uniform(0.5, 1.5)))
            asked_ns = time.monotonic_ns()
            writer.write(request)
            events = [each async for each in tokens_of(reader, tenant)]
            tenant.note(events, asked_ns)
    finally:
        writer.close()


def request_of(key: str, tokens: int) -> bytes:
    body = {
        "model": "talker",
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    text = json.dumps(body)
    lines = (
        "POST /v1/chat/completions HTTP/1.1",
        "Host: models",
        f"Authorization: Bearer {key}",
        "Content-Type: application/json",
        f"Content-Length: {len(text)}",
    )
    return "\r\n".join((*lines, "", text)).encode()


async def tokens_of(reader: asyncio.StreamReader, tenant: Tenant) -> AsyncIterator[tuple[int, int]]:
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    while (line := await reader.readline()) != b"0\r\n":
        _, mark, rest = line.partition(b'"content": "')
        if mark:
            tenant.tokens += 1
            yield int(rest.partition(b'"')[0]), time.monotonic_ns()
        elif (found := PROMPT.search(line)) is not None:
            tenant.tokens += int(found[1])
    await reader.readline()


async def drive(port: int, scene: str, seconds: float) -> dict[str, dict[str, float]]:
    found: dict[str, Tenant] = defaultdict(Tenant)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                stream(port, key, tokens, found[key], random.Random(f"{key} {number}"))  # noqa: S311
            )
            for key, (streams, tokens) in TENANTS[scene].items()
            for number in range(streams)
        ]
        await asyncio.sleep(LEAD_IN_S)
        for tenant in found.values():
            tenant.tokens = 0
            tenant.first_s.clear()
            tenant.late_ms.clear()
        await asyncio.sleep(seconds)
        figures = {key: tenant.figures(seconds) for key, tenant in found.items()}
        for task in tasks:
            task.cancel()
    return figures


@contextlib.contextmanager
def servers(scene: str, way: str, directory: Path) -> Iterator[int]:
    """The port of the server or of the proxy before it."""
    slots, round_ms = SLOTS_AND_ROUNDS_MS[scene]
    (port,) = free_ports(1)
    argv = [*python_module("tests.support.model_server"), "--port", str(port)]
    argv += ["--slots", str(slots), "--round-ms", str(round_ms)]
    with Process("models", argv, port=port, directory=directory):
        if way == DIRECT:
            yield port
            return
        arguments = ["--preset", "llm", "--server-concurrency-limit", str(slots)]
        with Proxy(directory, [port], arguments=arguments, believes_headers=False) as proxy:
            yield proxy.port


async def measure(options: argparse.Namespace, directory: Path) -> tuple[dict[str, Any], list[str]]:
    results: dict[str, Any] = {}
    TABLE.head()
    for scene in options.scenes:
        for way in (DIRECT, PROXY):
            with servers(scene, way, directory) as port:
                found = await drive(port, scene, options.seconds)
            results.setdefault(scene, {})[way] = found
            for key, figures in found.items():
                TABLE.row(scene, way, key, *figures.values())
    return results, [each for scene in results for each in judged(scene, results[scene])]


def judged(scene: str, found: dict[str, dict[str, dict[str, float]]]) -> Iterator[str]:
    direct, proxy = found[DIRECT], found[PROXY]
    slots, round_ms = SLOTS_AND_ROUNDS_MS[scene]
    totals = {way: sum(each["tokens"] for each in found[way].values()) for way in found}
    if scene == TURNS and totals[PROXY] < LEAST_TOKENS * totals[DIRECT]:
        yield f"{scene}: {totals[PROXY]:.0f} tokens a second, of {totals[DIRECT]:.0f} without"
    if scene == TURNS:
        # At any time the next slot is free after a stream's time, divided by the slots.
        wait_s = TENANTS[scene]["small"][1] * round_ms / 1e3 / slots
        if proxy["small"]["first_s"] > MOST_WAIT * wait_s + round_ms / 1e3:
            yield f"{scene}: small waits {proxy['small']['first_s']:.2f} s, a slot {wait_s:.2f} s"
    if scene == TOKENS:
        ratio = proxy["brief"]["tokens"] / proxy["verbose"]["tokens"]
        if not 1 - MOST_UNFAIR < ratio < 1 + MOST_UNFAIR:
            yield f"{scene}: brief has {ratio:.2f} times the tokens of verbose"
    if scene == ADDED:
        added_ms = proxy["all"]["late_p99_ms"] - direct["all"]["late_p99_ms"]
        if added_ms > MOST_ADDED_MS:
            yield f"{scene}: {added_ms:.1f} ms between tokens"


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("--scenes", type=names_from(SCENES, "scene"), default=list(SCENES))
    parser.add_argument("--seconds", type=count_up_to(3600), default=30, help="measured")
    return measured(parser.parse_args(), measure, descriptors=2000)


if __name__ == "__main__":
    sys.exit(main())
