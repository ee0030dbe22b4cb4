"""Applications of aiohttp on connections that have places."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from apfproxy.app import web_runner
from apfproxy.app.admin_access import AdminAccess
from apfproxy.app.places import Places
from apfproxy.app.web_runner import LINE_BYTES, MAX_SLASHES, WebRunner, lasts
from apfproxy.settings import Settings
from tests.app.test_listening import listening_with

if TYPE_CHECKING:
    from pathlib import Path


async def seen(request: web.Request) -> web.Response:
    """Say how long a target and how large a body are."""
    return web.Response(text=f"{len(request.raw_path)} {len(await request.read())}")


async def answer_of(data: bytes) -> bytes:
    """What a listener answers to some bytes until it closes the connection."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", seen)
    async with listening_with(app) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(data)
        found = await reader.read()
        writer.close()
    return found


async def test_bodies_stay_encoded() -> None:
    """A compressed body is what was sent: nothing unfolds."""
    body = gzip.compress(bytes(1_000_000))
    head = (
        "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Encoding: gzip\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    answer = await answer_of(head.encode() + body)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(f"\r\n\r\n1 {len(body)}".encode())


@pytest.mark.parametrize(("size", "status"), [(LINE_BYTES - 100, 200), (LINE_BYTES + 100, 400)])
async def test_long_targets(size: int, status: int) -> None:
    """Targets may be as long as selectors make them, up to a bound."""
    head = f"GET /{'x' * size} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

    assert f"HTTP/1.{1 if status == 200 else 0} {status} ".encode() in await answer_of(
        head.encode()
    )


async def test_no_access_without_a_place(tmp_path: Path) -> None:
    """A request whose connection had to make way is not answered by what it may not read."""
    tokens = tmp_path / "tokens"
    tokens.write_text("token-of-32-characters-and-so-on")
    access = AdminAccess(Settings(admin_read_token_file=str(tokens)))
    runner = WebRunner(web.Application(), Places("test", 8, int), access, shutdown_s=1)
    response = await runner.handle(make_mocked_request("GET", "/"), seen)

    assert 401 == response.status


@pytest.mark.parametrize(("slashes", "status"), [(MAX_SLASHES, 200), (MAX_SLASHES + 1, 404)])
async def test_slashes(slashes: int, status: int) -> None:
    """No page is looked for with a path of many, which takes time by the square of them."""
    head = f"GET {'/a' * slashes}?{'/' * 99} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

    assert (await answer_of(head.encode())).startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", id="request"),
        pytest.param(b"hello\r\n\r\n", id="no-request"),
    ],
)
async def test_no_versions(data: bytes) -> None:
    """Nobody learns which ones of Python and aiohttp run."""
    lines = (await answer_of(data)).partition(b"\r\n\r\n")[0].split(b"\r\n")

    assert [b"Server: apfproxy"] == [line for line in lines if line.startswith(b"Server:")]


async def test_heads_that_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection whose request head does not end is closed."""
    monkeypatch.setattr(web_runner, "IDLE_S", 0.01)

    assert b"" == await answer_of(b"GET / HTTP/1.1\r\nHost: x\r\n")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/events", True),
        ("/clusters/a/events", True),
        ("/api/v1/namespaces/a/events", False),
        ("/apis/apps/v1/deployments?watch=true", True),
        ("/api/v1/watch/pods", True),
        ("/apis/apps/v1/deployments", False),
        ("/livez", False),
        ("/%zz?watch=1", False),
    ],
)
def test_lasts(target: str, expected: bool) -> None:
    """Watches and the live page's events do."""
    assert expected == lasts(make_mocked_request("GET", target))
