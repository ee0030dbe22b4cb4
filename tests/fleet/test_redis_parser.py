"""Answers of servers that are no Redis, and never end."""

from __future__ import annotations

import asyncio

import pytest

from apfproxy.fleet.record import MAX_RECORD_BYTES
from apfproxy.fleet.redis_parser import MAX_ANSWER_BYTES, MAX_PARTS
from apfproxy.fleet.store import StoreError
from tests.fleet.redis_servers import HOST
from tests.fleet.test_redis_store import stores_at

PIECE = 1 << 16


BYTES, PARTS = f"more than {MAX_ANSWER_BYTES} bytes", f"more than {MAX_PARTS} parts"


@pytest.mark.parametrize(
    ("start", "rest", "problem"),
    [
        pytest.param(b"$1000000000\r\n", b"x", BYTES, id="long-text"),
        pytest.param(b"*1000000000\r\n", b"+" + b"x" * 9000 + b"\r\n", BYTES, id="long-lines"),
        pytest.param(b"*1000000000\r\n", b":1\r\n", PARTS, id="many-numbers"),
        pytest.param(b"*1000000000\r\n", b"$1\r\nx\r\n", PARTS, id="many-texts"),
        pytest.param(b"*1000000000\r\n", b"*0\r\n", PARTS, id="many-lists"),
        pytest.param(b"*9\r\n$-999999999\r\n", b"+x\r\n", "a length below 0", id="negative"),
        pytest.param(b"*9\r\n$-26\r\n$-7\r\n", b"$-7\r\n", "a length below 0", id="backwards"),
    ],
)
async def test_endless_answers(start: bytes, rest: bytes, problem: str) -> None:
    """No more of an answer is read than the longest may have, and the connection ends."""
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        piece = rest * (PIECE // len(rest))
        try:
            while data := await reader.readuntil(b"\r\n"):
                if data == b"EVALSHA\r\n":
                    break
                writer.write(b"+OK\r\n" * data.count(b"CLIENT\r\n"))
            writer.write(start)
            while True:
                writer.write(piece)
                await writer.drain()
                sent += len(piece)
        except OSError:
            pass  # the client has ended the connection
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, HOST, 0)
    port = listening.sockets[0].getsockname()[1]
    async with listening, stores_at(f"redis://{HOST}:{port}", 1) as (store,):
        with pytest.raises(StoreError, match=f"its answer has {problem}"):
            await store.read()

    assert MAX_RECORD_BYTES < MAX_ANSWER_BYTES
    # Beside what was read, sockets and streams have some megabytes under way.
    assert sent < 100 * MAX_ANSWER_BYTES
