"""Servers with few places of their own, before which a limit has something to find.

    python -m loadtest.limited_servers cpu --port 8001 --cpu-ms 4
    python -m loadtest.limited_servers postgres --port 8001 --socket /run/postgresql/.s.PGSQL.5432

`cpu` is a program on one core: each request takes so much CPU time there.  `postgres` is a small
API before a PostgreSQL server, with one connection to it for each request under way.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
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


def cpu_handler(cpu_ms: float) -> Handler:
    rounds = rounds_of(cpu_ms)

    async def respond(_: web.Request) -> web.Response:
        burn(rounds)
        return web.Response(text="{}")

    return respond


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("cpu", "postgres"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cpu-ms", type=float, default=4.0)
    parser.add_argument("--socket", default="")
    parser.add_argument("--rows", type=int, default=10_000)
    options = parser.parse_args()
    handler = cpu_handler(options.cpu_ms)
    if options.kind == "postgres":
        handler = postgres_handler(options.socket, options.rows)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    uvloop.install()
    web.run_app(app, host="127.0.0.1", port=options.port, access_log=None, print=None)


if __name__ == "__main__":
    main()
