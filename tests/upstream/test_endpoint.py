"""One server behind: what requests tell of it, and what it is asked."""

from __future__ import annotations

import asyncio

import pytest

from apfproxy.settings import Address, EndpointAddress, UpstreamSettings
from apfproxy.upstream import endpoint
from apfproxy.upstream.counters import PoolCounters, UpstreamFailure
from apfproxy.upstream.pool import Pool


class Endpoint(endpoint.Endpoint):
    """Counts how often it is said to fail."""

    def __init__(self, max_failures_in_row: int) -> None:
        super().__init__(
            EndpointAddress(address=Address(host="a", port=1)),
            UpstreamSettings(url=Address(host="a", port=1)),
            PoolCounters(),
            None,
            lambda: 0,
            on_closed=lambda _: None,
            on_failing=self._count,
        )
        self.max_failures_in_row = max_failures_in_row
        self.said = 0

    def _count(self, _: endpoint.Endpoint) -> None:
        self.said += 1


def fail(endpoint: Endpoint, *, is_telling: bool = True) -> None:
    """Have a request fail."""
    endpoint.fail(UpstreamFailure.CONNECT, "connection refused", is_telling=is_telling)


def test_failures_in_a_row() -> None:
    """Failed requests and a gateway's errors count together; any other answer ends the row."""
    endpoint = Endpoint(3)
    for status in (502, 503, 500, 504):
        endpoint.answered(status, 1000)
    assert 1 == endpoint.failures_in_row
    fail(endpoint)
    assert (2, 0) == (endpoint.failures_in_row, endpoint.said)
    endpoint.answered(503, 1000)

    assert (3, 1) == (endpoint.failures_in_row, endpoint.said)
    assert {500: 1, 502: 1, 503: 2, 504: 1} == endpoint.counters.answers
    assert 1 == endpoint.counters.failures[UpstreamFailure.CONNECT]


@pytest.mark.parametrize("status", [200, 404, 429, 500, 501, 505])
def test_answers_of_the_server_itself(status: int) -> None:
    """Whatever they say, it works."""
    endpoint = Endpoint(2)
    fail(endpoint)
    endpoint.answered(status, 1000)
    fail(endpoint)

    assert (1, 0) == (endpoint.failures_in_row, endpoint.said)


def test_failures_that_tell_nothing() -> None:
    """Those that a client has brought about are no sign of a server that fails."""
    endpoint = Endpoint(1)
    fail(endpoint, is_telling=False)

    assert (0, 0) == (endpoint.failures_in_row, endpoint.said)


@pytest.mark.parametrize("failure", UpstreamFailure)
def test_one_of_several_that_may_be_gone(failure: UpstreamFailure) -> None:
    """The first failure says so, unless it is but slow."""
    endpoint = Endpoint(5)
    endpoint.is_one_of_several = True
    endpoint.fail(failure, "it is")

    assert (failure is not UpstreamFailure.ANSWER_TIMEOUT, False) == (
        bool(endpoint.said),
        endpoint.has_failed_enough,
    )


def test_never() -> None:
    """Where there is no number of failures with which it fails."""
    endpoint = Endpoint(0)
    fail(endpoint)

    assert (1, 0) == (endpoint.failures_in_row, endpoint.said)


async def test_probe() -> None:
    """It connects as a request would, keeps nothing, and tells what went wrong."""
    is_closed = asyncio.Event()

    async def see_it_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""
        writer.close()
        is_closed.set()

    async with await asyncio.start_server(see_it_close, "127.0.0.1", 0) as listener:
        address = Address(host="127.0.0.1", port=listener.sockets[0].getsockname()[1])
        pool = Pool(UpstreamSettings(url=address), PoolCounters())
        [endpoint] = pool.endpoints
        await endpoint.probe()
        assert (0, 0) == (pool.open_count, pool.idle_count)
        await is_closed.wait()

    with pytest.raises(ConnectionRefusedError):
        await endpoint.probe()
