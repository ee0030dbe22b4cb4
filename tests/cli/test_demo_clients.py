"""The clients of the demo."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from apfproxy.cli.demo_clients import ClientConnection, ClientKind, Load, Tally

if TYPE_CHECKING:
    from collections.abc import Callable

KIND = ClientKind("some", ("a", "b"), in_flight=2, path="/a")
ANSWER = b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n"


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes | bytearray | memoryview] = []
        self.is_aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep the data."""
        self.written.append(data)

    def abort(self) -> None:
        """Note it."""
        self.is_aborted = True


@pytest.mark.parametrize(
    ("latencies_ms", "percent", "expected_ms"),
    [([], 50, None), ([10] * 9 + [100], 50, 10), ([10] * 9 + [100], 99, 100), ([0], 50, 0.001)],
)
def test_percentiles(latencies_ms: list[float], percent: float, expected_ms: float | None) -> None:
    """Percentiles are right to the width of a bucket."""
    tally = Tally()
    for latency_ms in latencies_ms:
        tally.add(200, latency_ms / 1000)
    found_s = tally.percentile_s(percent)

    assert found_s == (None if expected_ms is None else pytest.approx(expected_ms / 1000, rel=0.01))


def test_statuses() -> None:
    """Rejections and failures count apart from answers."""
    tally = Tally()
    for status in (200, 429, 502, 200):
        tally.add(status, 0.01)

    assert (2, 1, 1) == (tally.answered, tally.rejected, tally.failed)


async def test_connection_keeps_one_request_in_flight() -> None:
    """Each answer makes the connection send its next request, as its user."""
    tally, measured = Tally(), Tally()
    connection = ClientConnection(asyncio.get_running_loop(), 1, "me", "/a", tally)
    transport = Transport()
    connection.connection_made(transport)
    connection.data_received(ANSWER % 200)
    connection.tally = measured
    for byte in ANSWER % 200:
        connection.data_received(bytes([byte]))

    assert [b"X-Remote-User: me\r\n" in bytes(request) for request in transport.written] == [
        True,
        True,
        True,
    ]
    assert (tally.answered, measured.answered) == (1, 1)


async def test_connection_pauses_after_a_rejection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rejected client comes back a little later."""
    loop = asyncio.get_running_loop()
    connection = ClientConnection(loop, 1, "me", "/a", Tally())
    transport = Transport()
    pauses: list[float] = []

    def call_later(delay_s: float, callback: Callable[[], None]) -> None:
        pauses.append(delay_s)
        callback()

    monkeypatch.setattr(loop, "call_later", call_later)
    connection.connection_made(transport)
    connection.data_received(ANSWER % 429)

    assert pauses == [0.1]
    assert len(transport.written) == 2


@pytest.mark.parametrize(("closes", "failed"), [(False, 1), (True, 0)])
async def test_connection_that_ends(closes: bool, failed: int) -> None:
    """A request without an answer has failed, unless we closed the connection."""
    tally = Tally()
    connection = ClientConnection(asyncio.get_running_loop(), 1, "me", "/a", tally)
    connection.connection_made(Transport())
    if closes:
        connection.close()
    connection.connection_lost(None)
    connection.close()

    assert tally.failed == failed


async def test_no_http() -> None:
    """A connection that gets something else than HTTP is given up."""
    connection = ClientConnection(asyncio.get_running_loop(), 1, "me", "/a", Tally())
    transport = Transport()
    connection.connection_made(transport)
    connection.data_received(b"\0\0\0\0")

    assert transport.is_aborted


async def test_load() -> None:
    """A load has the connections of all clients, and counts from the start of measuring on."""
    enough = asyncio.Event()
    connections = 0
    answers = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections, answers
        connections += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                answers += 1
                if answers >= 100:
                    enough.set()
                writer.write(ANSWER % 200)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    load = Load([KIND], server.sockets[0].getsockname()[1])
    await load.start()
    old = load.tallies["some"]
    load.measure()
    counted_at_first = old.answered
    await enough.wait()
    load.stop()
    server.close()
    await server.wait_closed()

    assert connections == 4
    assert old.answered == counted_at_first
    assert load.tallies["some"].answered > 0
    assert load.duration_s > 0
