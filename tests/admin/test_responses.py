"""Answers of pages."""

from __future__ import annotations

import asyncio
import gzip
from itertools import pairwise
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request

from apfproxy.admin.responses import (
    MIN_COMPRESSED_BYTES,
    header,
    page_response,
    plain_errors,
    sliced_response,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCEPTING = {"Accept-Encoding": "gzip"}
PLAIN = {"Accept-Encoding": "identity"}


@pytest.mark.parametrize(
    ("size", "headers", "encoding"),
    [
        (MIN_COMPRESSED_BYTES, ACCEPTING, "gzip"),
        (MIN_COMPRESSED_BYTES - 1, ACCEPTING, None),
        (MIN_COMPRESSED_BYTES, {}, None),
    ],
)
async def test_compression(size: int, headers: dict[str, str], encoding: str | None) -> None:
    """Long answers are compressed for those that take it so."""
    request = make_mocked_request("GET", "/", headers=headers)
    response = await page_response(request, b"x" * size, "text/plain")

    assert encoding == response.headers.get("Content-Encoding")
    assert isinstance(response.body, bytes)
    assert b"x" * size == (gzip.decompress(response.body) if encoding else response.body)


async def test_unknown_page() -> None:
    """An unknown page points to the index; no page is kept or guessed at."""

    async def nothing(_request: web.Request) -> web.StreamResponse:
        raise web.HTTPNotFound

    response = await plain_errors(make_mocked_request("GET", "/x"), nothing)

    assert 404 == response.status
    assert "nosniff" == response.headers["X-Content-Type-Options"]
    assert "no-cache, private" == response.headers["Cache-Control"]


def test_header() -> None:
    """A header that is not there is an empty list."""
    assert "" == header(make_mocked_request("GET", "/"), "Accept")


class Sliced:
    """A server of one sliced page.

    Args:
        count: Of its slices.
        breaks: Whether making the last one fails.
    """

    def __init__(self, count: int, *, breaks: bool = False) -> None:
        self._count = count
        self._breaks = breaks
        self.turns = [0]  # of the event loop, so far, at each slice
        self._turn = 0

    def client(self) -> TestClient[web.Request, web.Application]:
        """Of the server."""
        app = web.Application()
        app.router.add_get("/", self._page)
        return TestClient(TestServer(app), auto_decompress=False)

    async def _page(self, request: web.Request) -> web.StreamResponse:
        asyncio.get_running_loop().call_soon(self._count_turn)
        return await sliced_response(request, self._slices(), "text/plain")

    def _count_turn(self) -> None:
        self._turn += 1
        if len(self.turns) <= self._count:
            asyncio.get_running_loop().call_soon(self._count_turn)

    def _slices(self) -> Iterator[bytes]:
        for number in range(self._count):
            self.turns.append(self._turn)
            yield b"%09d\n" % number
        if self._breaks:
            raise ArithmeticError


@pytest.mark.parametrize("headers", [PLAIN, ACCEPTING], ids=["plain", "gzip"])
async def test_sliced(headers: dict[str, str]) -> None:
    """The slices come one after the other, and the loop goes round before each next one."""
    sliced = Sliced(100)
    async with sliced.client() as client:
        response = await client.get("/", headers=headers)
        body = await response.read()
    if headers is ACCEPTING:
        assert "gzip" == response.headers["Content-Encoding"]
        body = gzip.decompress(body)

    assert [b"%09d" % number for number in range(100)] == body.splitlines()
    assert "nosniff" == response.headers["X-Content-Type-Options"]
    assert "no-cache, private" == response.headers["Cache-Control"]
    assert all(after > before for before, after in pairwise(sliced.turns[1:]))


async def test_sliced_head() -> None:
    """The head of a sliced page makes no slice."""
    sliced = Sliced(1)
    async with sliced.client() as client:
        response = await client.head("/")

    assert 200 == response.status
    assert [0] == sliced.turns


async def test_sliced_that_fails() -> None:
    """A page that cannot be made to its end does not seem to be whole."""
    async with Sliced(3, breaks=True).client() as client:
        with pytest.raises(aiohttp.ClientPayloadError):
            await (await client.get("/")).read()


async def test_many_sliced_at_once() -> None:
    """However many pages are asked for, the loop goes round before each next slice of any."""
    loop = asyncio.get_running_loop()
    turn = 0
    seen: list[int] = []

    def count_turn() -> None:
        nonlocal turn
        turn += 1
        if len(seen) < 200:
            loop.call_soon(count_turn)

    def slices() -> Iterator[bytes]:
        for number in range(20):
            seen.append(turn)
            yield b"%d" % number

    async def page(request: web.Request) -> web.StreamResponse:
        return await sliced_response(request, slices(), "text/plain")

    app = web.Application()
    app.router.add_get("/", page)
    async with TestClient(TestServer(app)) as client:
        count_turn()
        answers = await asyncio.gather(*(client.get("/") for _ in range(10)))
        bodies = {await answer.read() for answer in answers}

    assert {b"".join(b"%d" % number for number in range(20))} == bodies
    assert 200 == len(seen)
    assert all(after > before for before, after in pairwise(seen))


async def test_sliced_for_a_client_that_leaves(caplog: pytest.LogCaptureFixture) -> None:
    """Its leaving is no error of the program, of which the log has a traceback."""
    made: list[int] = []
    left = asyncio.Event()

    def slices() -> Iterator[bytes]:
        for number in range(1000):
            made.append(number)
            yield b"x"

    async def leave(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        try:
            return await sliced_response(request, slices(), "text/plain")
        finally:
            left.set()

    app = web.Application()
    app.router.add_get("/", leave)
    async with TestClient(TestServer(app)) as client:
        with pytest.raises(aiohttp.ClientError):
            await client.get("/")
        await left.wait()

    assert [] == caplog.records
    assert 1 >= len(made)
