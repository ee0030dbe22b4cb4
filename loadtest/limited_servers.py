"""Servers with few places of their own, before which a limit has something to find.

    python -m loadtest.limited_servers cpu --port 8001 --cpu-ms 4
    python -m loadtest.limited_servers postgres --port 8001 --socket /run/postgresql/.s.PGSQL.5432
    python -m loadtest.limited_servers places --port 8001 --places 16 --time-ms 40 --then 60:8

`cpu` is a program on one core: each request takes so much CPU time there.  `postgres` is a small
API before a PostgreSQL server, with one connection to it for each request under way.  `places`
serves so many requests at once, and has others wait; with more under way it may become slower
(`--overload`, an exponent), and have other places some seconds after its first request (`--then`).
A request with `heavy` in its path takes 20 times as long.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import heapq
import math
import random
import struct
import time
from typing import TYPE_CHECKING

import uvloop
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

QUERY = "select count(*) from generate_series(1, {rows}) n where sqrt(n)::int % 7 = 3"


def burn(rounds: int) -> None:
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", rounds)


def rounds_of(cpu_ms: float) -> int:
    """The rounds of `burn` that take so long on this machine."""
    begun_s = time.perf_counter()
    burn(100_000)
    return max(1, round(100_000 * cpu_ms / 1000 / (time.perf_counter() - begun_s)))


class PostgresConnection:
    """One connection as the user who runs this, trusted; speaks protocol 3.0 as far as needed."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, path: str) -> PostgresConnection:
        found = cls(*await asyncio.open_unix_connection(path))
        parameters = b"user\0postgres\0database\0postgres\0\0"
        found._writer.write(struct.pack("!ii", 8 + len(parameters), 196608) + parameters)
        await found._until_ready()
        return found

    async def query(self, text: str) -> None:
        data = text.encode() + b"\0"
        self._writer.write(b"Q" + struct.pack("!i", 4 + len(data)) + data)
        await self._until_ready()

    async def _until_ready(self) -> None:
        kind = b""
        while kind != b"Z":
            kind, length = struct.unpack("!ci", await self._reader.readexactly(5))
            body = await self._reader.readexactly(length - 4)
            if kind == b"E":
                raise OSError(body.decode(errors="replace"))


def postgres_handler(path: str, rows: int) -> Handler:
    idle: list[PostgresConnection] = []
    query = QUERY.format(rows=rows)

    async def respond(_: web.Request) -> web.Response:
        connection = idle.pop() if idle else await PostgresConnection.open(path)
        await connection.query(query)
        idle.append(connection)
        return web.Response(text="{}")

    return respond


def places_handler(options: argparse.Namespace) -> Handler:
    """A server whose places come free in the order of arrival; service times are exponential."""
    places, under_way = options.places, 0
    free_at_s: list[float] = [0.0] * places
    draw = random.Random(1)  # noqa: S311  the same load each time
    begun_s = 0.0
    change_s, later = options.then

    async def respond(request: web.Request) -> web.Response:
        nonlocal places, under_way, begun_s
        now_s = time.monotonic()
        begun_s = begun_s or now_s
        if now_s - begun_s >= change_s and places != later:
            places = later
            free_at_s[:] = sorted(free_at_s)[:places] + [now_s] * (places - len(free_at_s))
        under_way += 1
        mean_s = options.time_ms / 1000 * (20 if "heavy" in request.path else 1)
        slower = max(1.0, under_way / places) ** (options.overload - 1)
        heapq.heapify(free_at_s)
        until_s = max(now_s, free_at_s[0]) + draw.expovariate(1 / mean_s) * slower
        heapq.heapreplace(free_at_s, until_s)
        try:
            await asyncio.sleep(until_s - now_s)
        finally:
            under_way -= 1
        return web.Response(text="{}")

    return respond


def change(text: str) -> tuple[float, int]:
    after_s, _, places = text.partition(":")
    return float(after_s), int(places)


def cpu_handler(cpu_ms: float) -> Handler:
    rounds = rounds_of(cpu_ms)

    async def respond(_: web.Request) -> web.Response:
        burn(rounds)
        return web.Response(text="{}")

    return respond


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("cpu", "postgres", "places"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cpu-ms", type=float, default=4.0)
    parser.add_argument("--socket", default="")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--places", type=int, default=16)
    parser.add_argument("--time-ms", type=float, default=40.0)
    parser.add_argument("--overload", type=float, default=1.0)
    parser.add_argument("--then", type=change, default=(math.inf, 0), metavar="SECONDS:PLACES")
    options = parser.parse_args()
    handler = cpu_handler(options.cpu_ms)
    if options.kind == "postgres":
        handler = postgres_handler(options.socket, options.rows)
    elif options.kind == "places":
        handler = places_handler(options)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    uvloop.install()
    web.run_app(app, host="127.0.0.1", port=options.port, access_log=None, print=None)


if __name__ == "__main__":
    main()
