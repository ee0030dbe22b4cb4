"""What a server answers to a check."""

from __future__ import annotations

import asyncio

import pytest

from apfproxy.settings import Address, UpstreamSettings
from apfproxy.upstream.counters import PoolCounters, UpstreamFailure
from apfproxy.upstream.health_check import NoAnswerError, is_well, question, status_text
from apfproxy.upstream.pool import Pool
from tests.end_to_end.scene import on_uvloop

HANGS = b""
CLOSES = b"\0"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", 403),
        (b"HTTP/1.1 200\r\n\r\n" + b"x" * 100_000, 200),
        (b"HTTP/1.0 500 Internal Server Error\r\n\r\n", 500),
        (HANGS, "no answer to a check within 0.05 s"),
        (CLOSES, "it closes the connection without an answer"),
        (b"HTTP/1.1 20", "it closes the connection without an answer"),
        (b"HTTP/1.1 2x0 OK\r\n\r\n", "its answer is not HTTP/1.1"),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", "its answer is not HTTP/1.1"),
    ],
)
@pytest.mark.parametrize("is_bit_by_bit", [False, True])
def test_answer(answer: bytes, *, expected: int | str, is_bit_by_bit: bool) -> None:
    """The status code is all that is read of it."""
    asked: list[bytes] = []

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        if answer == HANGS:
            await reader.read()
        elif answer != CLOSES:
            pieces = [answer[at : at + 1] for at in range(20)] if is_bit_by_bit else [answer]
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0)
        writer.close()

    @on_uvloop
    async def run() -> None:
        async with await asyncio.start_server(behave, "127.0.0.1", 0) as listener:
            address = Address(host="127.0.0.1", port=listener.sockets[0].getsockname()[1])
            pool = Pool(UpstreamSettings(url=address), PoolCounters())
            [endpoint] = pool.endpoints
            limit_s = 0.05 if answer == HANGS else 60.0
            found: int | str
            try:
                found = await endpoint.ask(question("GET", "/readyz", "a.example"), limit_s)
            except NoAnswerError as error:
                found = str(error)
                is_timeout = error.kind is UpstreamFailure.ANSWER_TIMEOUT
                assert is_timeout is (answer == HANGS)
            assert expected == found
            assert (0, 0) == (pool.open_count, pool.idle_count)

    run()

    assert [question("GET", "/readyz", "a.example")] == asked


def test_lines() -> None:
    """The proxy may say who it is."""
    assert (
        b"HEAD / HTTP/1.1\r\nHost: h\r\nUser-Agent: apfproxy\r\nAuthorization: Bearer secret\r\n"
        b"Connection: close\r\n\r\n"
    ) == question("HEAD", "/", "h", b"Authorization: Bearer secret\r\n")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        *((200, True), (302, True), (401, False), (403, False), (404, False)),
        *((400, False), (429, False), (500, False), (503, False), (999, False)),
    ],
)
def test_is_well(status: int, *, expected: bool) -> None:
    """A check that may not ask says nothing against the server."""
    assert expected is is_well(status)


def test_status_text() -> None:
    """A code with its meaning."""
    assert ("503 Service Unavailable", "999") == (status_text(503), status_text(999))
