"""Bearer tokens before a real proxy: floods of unknown ones, and reviewers that are away."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import yaml
from aiohttp import web

from tests.end_to_end.peer import WAIT_S, Message, Peer
from tests.end_to_end.programs import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
GOOD = "good-"
"""How tokens begin that are somebody's."""
FLOOD = 600
"""Connections with unknown tokens."""
VALID = 21
ATTACKER, CLIENT = "127.0.0.2", "127.0.0.1"
START_WITHIN_S = 100


class Server:
    """The server behind, which also reviews tokens."""

    def __init__(self) -> None:
        self.reviewed = 0
        self.has_time = asyncio.Event()
        self.knows_nobody = False
        self._runner: web.AppRunner | None = None
        self.port = free_port()

    async def start(self) -> None:
        app = web.Application()
        app.router.add_post(REVIEWS, self._review)
        app.router.add_get("/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _review(self, request: web.Request) -> web.Response:
        review: dict[str, Any] = await request.json()
        token = review["spec"]["token"]
        status: dict[str, Any] = {}
        if not token.startswith(GOOD):
            self.reviewed += 1
            await self.has_time.wait()
        elif not self.knows_nobody:
            status = {"authenticated": True, "user": {"username": token, "groups": ["dev"]}}
        return web.json_response({**review, "status": status}, status=201)

    async def _serve(self, request: web.Request) -> web.Response:
        return web.json_response(request.headers.getall("X-Remote-Group", []))


@contextlib.asynccontextmanager
async def proxy(directory: Path, server: Server, **authentication: object) -> AsyncIterator[int]:
    port = free_port()
    settings = {
        "downstream": {
            "listen": f"127.0.0.1:{port}",
            "overload": {"loopDelay": None},
        },
        "upstream": {"url": f"http://127.0.0.1:{server.port}", "identity": "frontProxy"},
        "authentication": authentication,
        "admin": None,
    }
    path = directory / "settings.yaml"
    path.write_text(yaml.safe_dump(settings))
    with (directory / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "apfproxy", "serve", "--settings", str(path)), stderr=log
        )
    try:
        async with asyncio.timeout(START_WITHIN_S):
            while not await is_listening(port):
                assert process.returncode is None, (directory / "log").read_text()
                await asyncio.sleep(0.05)  # there is no event for it
        yield port
    finally:
        process.terminate()
        async with asyncio.timeout(WAIT_S):
            await process.wait()


async def is_listening(port: int) -> bool:
    try:
        peer = await Peer.connect(port)
    except ConnectionRefusedError:
        return False
    peer.close()
    return True


async def ask(peer: Peer, token: str) -> Message:
    fields = f"Host: a.test\r\nAuthorization: Bearer {token}\r\n"
    await peer.send(f"GET /api/v1/pods HTTP/1.1\r\n{fields}\r\n".encode())
    async with asyncio.timeout(3 * WAIT_S):
        return await peer.read_answer()


async def ask_once(port: int, token: str, source: str = CLIENT) -> Message:
    peer = await Peer.connect(port, source=source)
    try:
        return await ask(peer, token)
    finally:
        peer.close()


async def test_flood_of_unknown_tokens(tmp_path: Path) -> None:
    """Hundreds of connections with random tokens get no good one of another address refused."""
    server = Server()
    tokens = [f"{GOOD}{number}" for number in range(VALID)]
    answered: Counter[int] = Counter()
    is_full = asyncio.Event()
    crowd: list[Peer] = []

    async def attack(number: int) -> None:
        peer = await Peer.connect(port, source=ATTACKER)
        crowd.append(peer)
        for attempt in range(3):
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                answered[(await ask(peer, f"random-{number}-{attempt}")).status] += 1
                if answered.total() >= FLOOD // 5 and server.reviewed:
                    is_full.set()

    await server.start()
    async with proxy(tmp_path, server, tokenReview={"enabled": True}) as port:
        attacks = [asyncio.create_task(attack(number)) for number in range(FLOOD)]
        async with asyncio.timeout(6 * WAIT_S):
            await is_full.wait()
        got = await asyncio.gather(*(ask_once(port, token) for token in tokens))
        for each in attacks:
            each.cancel()
        await asyncio.gather(*attacks, return_exceptions=True)
        for peer in crowd:
            peer.close()
        server.has_time.set()
    await server.stop()

    assert [200] * VALID == [answer.status for answer in got]
    # A token that could not be reviewed is not said to be bad.
    assert {503} == set(answered)


async def test_server_that_is_away(tmp_path: Path) -> None:
    """Valid tokens get 200 if they were known, else 503; and 401 once the server says no."""
    server = Server()
    await server.start()
    async with proxy(tmp_path, server, tokenReview={"enabled": True, "cache": "0s"}) as port:
        known = [await ask_once(port, f"{GOOD}1")]
        await server.stop()
        known += [await ask_once(port, f"{GOOD}{number}") for number in (1, 2)]
        server.knows_nobody = True
        await server.start()
        async with asyncio.timeout(WAIT_S):
            while (last := await ask_once(port, f"{GOOD}1")).status != 401:
                # No one serves it while the reviewer is the only server; then it counts for a
                # moment.
                assert last.status in {200, 502}
        log = (tmp_path / "log").read_text()
    await server.stop()

    # The server is the reviewer, too: without it nothing is served, but who asks is known.
    assert [200, 502, 503] == [answer.status for answer in known]
    assert [b"1"] == known[2].values(b"retry-after")
    assert "ServiceUnavailable" == json.loads(known[2].body)["reason"]
    assert "INFO" in log
    assert "refused with 503: no answer to a TokenReview" in log
    assert "refused with 401: the upstream says that the token has no user" in log
    assert GOOD not in log
