"""Show what the ASGI middleware gains a FastAPI program, and what it costs.

The program does 8 requests at once, in 40 ms each.  A greedy client keeps 60 in flight, a modest
one 2; in turn without flow control and with it, medians of all rounds.  The modest client's median
may be 60 ms, and all responses together 95 % of those without.  The cost is that of a call of a
program that does nothing, in one process, rounds with and without it in turn: 60 us at most.

    python -m loadtest.asgi --rounds 3 --seconds 5 --json asgi.json
"""

from __future__ import annotations

import asyncio
import statistics
import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any

import uvicorn
import uvloop
from fastapi import FastAPI

from apfproxy.asgi import FlowControl
from apfproxy.base import build
from loadtest.clients import Flow, drive, percentile
from loadtest.processes import Process, free_ports
from loadtest.program import Parser, Table, count_up_to, measured

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

SLOTS, DELAY_S = 8, 0.04
GREEDY, MODEST = 60, 2
MOST_MS, LEAST_PART, MOST_US = 60.0, 0.95, 60.0
LEAD_IN_S = 1.0
CALLS, COST_ROUNDS = 2000, 21
SERVE = "import sys; from loadtest.asgi import serve; serve(*map(int, sys.argv[1:]))"
TABLE = Table("flow control <14 | modest p50 ms >15.1f | greedy p50 ms >15.1f | responses/s >13.1f")
SCOPE = {
    "type": "http",
    "method": "GET",
    "path": "/orders/7",
    "query_string": b"",
    "client": ("192.0.2.1", 50000),
    "headers": [
        (b"host", b"shop.example"),
        (b"user-agent", b"python-httpx/0.28"),
        (b"accept", b"*/*"),
        (b"accept-encoding", b"gzip, deflate"),
        (b"x-remote-user", b"alice"),
    ],
}


def user(scope: Mapping[str, Any]) -> str:
    name: bytes = dict(scope["headers"])[b"x-remote-user"]
    return name.decode()


def serve(port: int, limit: int) -> None:
    """Run the program; without flow control if the limit is 0."""
    program, slots = FastAPI(), asyncio.Semaphore(SLOTS)

    async def work(path: str) -> str:
        async with slots:
            await asyncio.sleep(DELAY_S)
        return path

    program.get("/{path:path}")(work)
    if limit:
        program.add_middleware(FlowControl, limit=limit, user=user)
    uvicorn.run(program, port=port, log_level="warning", access_log=False)


def rates(directory: Path, limit: int, seconds: int) -> tuple[float, float, float]:
    """The medians of the modest and the greedy client, and responses a second of both."""
    (port,) = free_ports(1)
    argv = [sys.executable, "-c", SERVE, str(port), str(limit)]
    flows = Flow("modest", MODEST), Flow("greedy", GREEDY)
    with Process(f"program-{limit}", argv, port=port, directory=directory):
        uvloop.run(drive(flows, port=port, lead_in_s=LEAD_IN_S, seconds=seconds))
    modest, greedy = (percentile(flow.latencies_ms, 50) for flow in flows)
    return modest, greedy, sum(flow.per_s(seconds) for flow in flows)


async def added_us() -> float:
    async def program(_: Any, __: Any, send: Any) -> None:  # noqa: ANN401
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    async def receive() -> dict[str, Any]:
        raise AssertionError

    async def send(_: Any) -> None: ...  # noqa: ANN401

    async def took_us(app: Any) -> float:  # noqa: ANN401
        begun_s = perf_counter()
        for _ in range(CALLS):
            await app(SCOPE, receive, send)
        return (perf_counter() - begun_s) / CALLS * 1e6

    control = FlowControl(program, SLOTS, user=user)
    await took_us(control)
    return statistics.median(
        [-await took_us(program) + await took_us(control) for _ in range(COST_ROUNDS)]
    )


def measure(options: argparse.Namespace, directory: Path) -> tuple[dict[str, Any], list[str]]:
    found: dict[int, list[tuple[float, ...]]] = {0: [], SLOTS: []}
    for _ in range(options.rounds):
        for limit, rounds in found.items():
            rounds.append(rates(directory, limit, options.seconds))
    without, given = (
        [statistics.median(column) for column in zip(*rounds, strict=True)]
        for rounds in found.values()
    )
    TABLE.head()
    TABLE.row("without", *without)
    TABLE.row(f"limit={SLOTS}", *given)
    cost_us = asyncio.run(added_us())
    part = given[2] / without[2]
    print(f"{build.kind()}: {cost_us:.1f} us a request, {part:.1%} of the responses")
    wrong = []
    if given[0] > MOST_MS:
        wrong.append(f"the modest client's median is above {MOST_MS:g} ms")
    if part < LEAST_PART:
        wrong.append(f"fewer than {LEAST_PART:.0%} of the responses")
    if cost_us > MOST_US:
        wrong.append(f"more than {MOST_US:g} us a request")
    return {"without": without, "with": given, "cost_us": cost_us, "build": build.kind()}, wrong


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("--rounds", type=count_up_to(100), default=3, help="of each")
    parser.add_argument("--seconds", type=count_up_to(3600), default=5, help="measured")
    return measured(parser.parse_args(), measure, descriptors=1000)


if __name__ == "__main__":
    sys.exit(main())
