"""Bearer tokens before a real proxy: floods of unknown ones, and reviewers that are away."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from aiohttp import web

from tests.end_to_end.peer import WAIT_S, Message, Peer
from tests.end_to_end.programs import free_port
from tests.support.credentials import private_key, signed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
GOOD = "good-"
"""How tokens begin that are somebody's."""
NAMELESS = "good-nameless"
"""The token of a user in a group without a name."""
FLOOD = 1500
"""Connections with unknown tokens."""
VALID = 21
ATTACKER, CLIENT = "127.0.0.2", "127.0.0.1"
START_WITHIN_S = 100
ISSUER = "https://issuer.example"


class Server:
    """The server behind, which also reviews tokens.

    Attributes:
        reviewed: Unknown tokens that it is reviewing, or has reviewed.
        has_time: Set while it answers about unknown tokens, too.
        knows_nobody: Whether every token is nobody's.
    """

    def __init__(self) -> None:
        self.reviewed = 0
        self.has_time = asyncio.Event()
        self.knows_nobody = False
        self._runner: web.AppRunner | None = None
        self.port = free_port()

    async def start(self) -> None:
        """Begin to listen."""
        app = web.Application()
        app.router.add_post(REVIEWS, self._review)
        app.router.add_post(ACCESS_REVIEWS, self._away)
        app.router.add_get("/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    async def stop(self) -> None:
        """Close everything."""
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
            groups = ["dev", ""] if token == NAMELESS else ["dev"]
            status = {"authenticated": True, "user": {"username": token, "groups": groups}}
        return web.json_response({**review, "status": status}, status=201)

    async def _away(self, _request: web.Request) -> web.Response:
        return web.Response(status=503)

    async def _serve(self, request: web.Request) -> web.Response:
        return web.json_response(request.headers.getall("X-Remote-Group", []))


@contextlib.asynccontextmanager
async def proxy(directory: Path, server: Server, **authentication: object) -> AsyncIterator[int]:
    """A process of the proxy before a server: its port."""
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
    if "impersonation" in authentication:
        (directory / "token").write_text("own-token")
        settings["upstream"] |= {"identity": "impersonate", "tokenFile": "token"}  # type: ignore[operator]
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
    """Whether a port takes connections."""
    try:
        peer = await Peer.connect(port)
    except ConnectionRefusedError:
        return False
    peer.close()
    return True


async def ask(peer: Peer, token: str, *lines: str) -> Message:
    """Send a request with a token: its answer."""
    fields = "".join(
        f"{line}\r\n" for line in ("Host: a.test", f"Authorization: Bearer {token}", *lines)
    )
    await peer.send(f"GET /api/v1/pods HTTP/1.1\r\n{fields}\r\n".encode())
    async with asyncio.timeout(3 * WAIT_S):
        return await peer.read_answer()


async def ask_once(port: int, token: str, *lines: str, source: str = CLIENT) -> Message:
    """The same over a connection of its own."""
    peer = await Peer.connect(port, source=source)
    try:
        return await ask(peer, token, *lines)
    finally:
        peer.close()


@contextlib.contextmanager
def descriptors(number: int) -> Any:  # noqa: ANN401 - an iterator of nothing
    """Let this process and its children have so many files open, or skip the test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < number:
        pytest.skip(f"needs {number} file descriptors, and may have {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, number), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("kind", ["new", "known"])
async def test_flood_of_unknown_tokens(tmp_path: Path, kind: str) -> None:
    """1 500 connections with random tokens get none of another address's good ones refused."""
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

    with descriptors(2 * FLOOD + 1000):
        await server.start()
        reviews = {"enabled": True, "cache": "0s" if kind == "known" else "10s"}
        async with proxy(tmp_path, server, tokenReview=reviews) as port:
            if kind == "known":
                before = [(await ask_once(port, token)).status for token in tokens]
                assert [200] * VALID == before
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
    # What nobody could be asked about is not said to be bad.
    assert {503} == set(answered)


async def test_flood_from_the_same_address(tmp_path: Path) -> None:
    """Behind a load balancer some good tokens may have to come again, but none is called bad."""
    server = Server()
    await server.start()
    async with proxy(tmp_path, server, tokenReview={"enabled": True, "maxConcurrent": 1}) as port:
        peers = [await Peer.connect(port) for _ in range(100)]
        attacks = [
            asyncio.create_task(ask(peer, f"random-{number}")) for number, peer in enumerate(peers)
        ]
        done, _ = await asyncio.wait(attacks, return_when=asyncio.FIRST_COMPLETED)
        refused = await ask_once(port, f"{GOOD}1")
        server.has_time.set()
        answers = await asyncio.gather(*attacks)
        served = await ask_once(port, f"{GOOD}1")
        for peer in peers:
            peer.close()
    await server.stop()

    assert (503, [b"1"], 200) == (refused.status, refused.values(b"retry-after"), served.status)
    assert {503} == {each.result().status for each in done}
    # Those that were reviewed are nobody's.
    assert {401, 503} == {answer.status for answer in answers}


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
                # Nobody serves it while the reviewer is the only server; then it counts for a
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
    assert "refused with 401: the upstream says that the token is nobody's" in log
    assert GOOD not in log


async def test_keys_that_cannot_be_fetched(tmp_path: Path) -> None:
    """A token of an issuer whose keys are not to be had may be good: 503."""
    server = Server()
    await server.start()
    jwt = {
        "issuer": ISSUER,
        "audiences": ["kubernetes"],
        "jwksUrl": f"http://127.0.0.1:{free_port()}/keys",
    }
    claims = {"iss": ISSUER, "aud": "kubernetes", "sub": "jane", "exp": time.time() + 600}
    async with proxy(tmp_path, server, jwt=[jwt]) as port:
        answer = await ask_once(port, signed(claims, private_key(), kid="k"))
        expired = await ask_once(port, signed({**claims, "exp": 1}, private_key(), kid="k"))
    await server.stop()

    assert (503, [b"1"]) == (answer.status, answer.values(b"retry-after"))
    assert 401 == expired.status  # whatever the keys are


async def test_access_reviews_that_fail(tmp_path: Path) -> None:
    """Where the proxy's rights would decide, who may not be asked about gets 503, not 403."""
    server = Server()
    await server.start()
    async with proxy(
        tmp_path,
        server,
        tokenReview={"enabled": True},
        impersonation={"accessReview": {"enabled": True}},
    ) as port:
        answer = await ask_once(port, f"{GOOD}1", "Impersonate-User: bob")
    await server.stop()

    assert (503, [b"1"]) == (answer.status, answer.values(b"retry-after"))


async def test_empty_group(tmp_path: Path) -> None:
    """A token file's user in a group without a name is served, as is a reviewed one."""
    server = Server()
    await server.start()
    (tmp_path / "tokens.csv").write_text("t,user,uid,\n")
    async with proxy(
        tmp_path, server, tokenFile="tokens.csv", tokenReview={"enabled": True}
    ) as port:
        answers = [await ask_once(port, token) for token in ("t", NAMELESS)]
    await server.stop()

    assert [200, 200] == [answer.status for answer in answers]
    assert [["", "system:authenticated"], ["dev", "", "system:authenticated"]] == [
        json.loads(answer.body) for answer in answers
    ]
