"""Responses of pages: encodings, slices, files, and the names by which they may be read."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request

from apfproxy.admin import responses
from apfproxy.admin.responses import (
    MIN_COMPRESSED_BYTES,
    accepts_gzip,
    is_own_name,
    own_names_only,
    page_response,
    qualities,
    sliced_response,
    wants_json,
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
    request = make_mocked_request("GET", "/", headers=headers)
    response = await page_response(request, b"x" * size, "text/plain")

    assert encoding == response.headers.get("Content-Encoding")
    assert isinstance(response.body, bytes)
    assert b"x" * size == (gzip.decompress(response.body) if encoding else response.body)


def test_choices() -> None:
    """JSON is what one gets who asks for it by name; a wildcard stands for gzip alone."""
    json = "application/json"
    cases = ("", "*/*", f"{json};q=0", f"{json};q=0.5, text/plain", f"{json};q=", "application/*")
    of_gzip = ("", "identity", "gzip;q=0, *", "*;q=0")

    assert {"text/plain": 0.5, "a/b": 0.1} == qualities("Text/Plain;v=0;q=0.5, a/b ; Q=0.1,,")
    assert not any(map(wants_json, cases))
    assert all(map(wants_json, ("Application/JSON; a=b", f"{json}, */*", f"{json}, a/b;q=0.5")))
    assert not any(map(accepts_gzip, of_gzip))
    assert all(map(accepts_gzip, ("gzip, deflate, br", "*")))


OWN = "127.0.0.1:8081 10.1.2.3 [::1]:8081 localhost:8081 LOCALHOST. apfproxy.localhost apfproxy"
OTHERS = (
    "evil.example:8081 127.0.0.1.evil.example evil.example.:1 localhost.evil.example notlocalhost.x"
    " evil.example,127.0.0.1"
)


def test_is_own_name() -> None:
    own = ["", "Node.Example:8081", *OWN.split()]
    assert own == [each for each in (*own, *OTHERS.split()) if is_own_name(each, "node.example")]


@pytest.mark.parametrize(
    ("method", "is_local", "status"),
    [("GET", True, 403), ("HEAD", True, 403), ("GET", False, 200), ("POST", True, 405)],
)
async def test_page_of_another_site(
    monkeypatch: pytest.MonkeyPatch, method: str, is_local: bool, status: int
) -> None:

    async def page(_request: web.Request) -> web.Response:
        return web.Response(text="users")

    monkeypatch.setattr(responses, "is_loopback", lambda _: is_local)
    app = web.Application(middlewares=[own_names_only])
    app.router.add_get("/", page)
    async with TestClient(TestServer(app)) as client:
        response = await client.request(method, "/", headers={"Host": "rebound.example:8081"})
        text = await response.text()

    assert status == response.status
    assert (method == "GET" and is_local) == ("not 'rebound.example:8081'" in text)
    assert "text/plain" == response.content_type


def sliced(count: int, *, breaks: bool = False) -> TestClient[web.Request, web.Application]:
    def slices() -> Iterator[bytes]:
        for number in range(count):
            yield b"%09d\n" % number
        if breaks:
            raise ArithmeticError

    async def page(request: web.Request) -> web.StreamResponse:
        return await sliced_response(request, slices(), "text/plain")

    app = web.Application()
    app.router.add_get("/", page)
    return TestClient(TestServer(app), auto_decompress=False)


@pytest.mark.parametrize("headers", [PLAIN, ACCEPTING], ids=["plain", "gzip"])
async def test_sliced(headers: dict[str, str]) -> None:
    async with sliced(100) as client:
        response = await client.get("/", headers=headers)
        body = await response.read()
    async with sliced(0, breaks=True) as client:
        head = await client.head("/")
    if headers is ACCEPTING:
        assert "gzip" == response.headers["Content-Encoding"]
        body = gzip.decompress(body)

    assert [b"%09d" % number for number in range(100)] == body.splitlines()
    assert 200 == head.status


async def test_sliced_that_fails() -> None:
    async with sliced(3, breaks=True) as client:
        with pytest.raises(aiohttp.ClientPayloadError):
            await (await client.get("/")).read()


async def test_sliced_for_a_client_that_leaves(caplog: pytest.LogCaptureFixture) -> None:
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
