"""Workers that find the limit of a server together."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import aiohttp

from loadtest.clients import Connection
from tests.end_to_end.served import command

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CAPACITY = 10
CLIENTS = 80
INITIAL = 100
WITHIN_S = 15.0
JSON = {"Accept": "application/json"}
AT = r"127\.0\.0\.1:(\d+)"
STARTED = r"listens on 127\.0\.0\.1:(\d+), .*admin on 127\.0\.0\.1:(\d+)"
REQUEST = b"GET /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: localhost\r\n\r\n"
FLAGS = ("--preset", "http", "--workers", "2", "--server-concurrency-limit", "auto")


@contextlib.asynccontextmanager
async def load(port: int) -> AsyncIterator[None]:
    """As many clients as there are, each with one request after the other."""

    async def ask(connection: Connection) -> None:
        while await connection.ask(REQUEST):
            pass

    connections = [await Connection.open(port) for _ in range(CLIENTS)]
    asking = [asyncio.create_task(ask(each)) for each in connections]
    try:
        yield
    finally:
        for task, connection in zip(asking, connections, strict=True):
            task.cancel()
            connection.close()
        await asyncio.gather(*asking, return_exceptions=True)


def used(fleet: dict[str, Any]) -> int:
    return sum(each["used"] for each in fleet["members"])


async def test_workers_find_the_limit() -> None:
    """From a limit that is far too high; both have their parts of it, and no more together."""
    with command(
        *("apiserver", "--listen", "127.0.0.1:0", "--latency", "30ms"),
        *("--capacity", str(CAPACITY)),
    ) as server:
        upstream = f"http://127.0.0.1:{server.line(AT)[1]}"
        listen = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
        with command("serve", "--upstream", upstream, *listen, *FLAGS) as served:
            port, admin = (int(each) for each in served.line(STARTED).groups())
            async with load(port), aiohttp.ClientSession(headers=JSON) as session:

                async def fleet() -> dict[str, Any]:
                    async with session.get(f"http://127.0.0.1:{admin}/debug/fleet") as response:
                        return dict(await response.json())

                assert INITIAL == (await fleet())["limit"]
                found: dict[str, Any] = {"limit": INITIAL, "members": []}
                async with asyncio.timeout(WITHIN_S):
                    # Seats that are in use come back after the limit is another one.
                    while max(found["limit"], used(found)) > 3 * CAPACITY:
                        await asyncio.sleep(0.2)
                        found = await fleet()

    leading, following = sorted(found["members"], key=lambda each: int(each["limit"]))
    assert found["limit"] <= leading["limit"] < INITIAL < following["limit"]
    assert min(leading["claim"], following["claim"]) > 0
    assert min(leading["used"], following["used"]) > 0
