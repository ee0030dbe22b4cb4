"""Looks at the live state of a proxy."""

from __future__ import annotations

import asyncio
import socket

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from apfproxy.app.process import ProxyProcess
from apfproxy.cli import live_client
from apfproxy.cli.errors import CommandError
from apfproxy.cli.live_client import LiveClient, LiveState, state_of
from apfproxy.settings import Address
from tests.app.test_process import settings_for
from tests.cli.live_states import flow, level, state

URL = "http://127.0.0.1:8081"


def address(port: int | None, *, is_tls: bool = False) -> Address:
    """One of this machine."""
    return Address(host="127.0.0.1", port=port or 0, is_tls=is_tls)


async def test_look_at_a_proxy() -> None:
    """A proxy's state is read with all its levels."""
    process = ProxyProcess(settings_for(9))
    await process.start()
    async with LiveClient(address(process.admin_port)) as client:
        seen = await client.look()
    names = sorted(process.cluster.controller.levels)
    await process.stop()

    assert isinstance(seen, LiveState)
    assert [each.name for each in seen.levels] == names
    assert [each.name for each in seen.levels if each.is_exempt] == ["exempt"]
    assert (seen.server_concurrency_limit, seen.enforcement) == (600, "enforce")
    assert seen.configuration.generation == process.cluster.controller.generation


async def problem(answer: web.Response) -> str:
    """What is said of a server that gives the answer."""

    async def give(_: web.Request) -> web.Response:
        return answer

    application = web.Application()
    application.router.add_get("/debug/live", give)
    async with TestServer(application) as server, LiveClient(address(server.port)) as client:
        with pytest.raises(CommandError) as caught:
            await client.look()
        return caught.value.message.replace(client.url, "URL")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(
            {"text": "hello"},
            "URL does not answer with JSON; is that an admin listener?",
            id="no-json",
        ),
        pytest.param(
            {"text": "[" * 99_999},
            "URL does not answer with JSON; is that an admin listener?",
            id="too-deep",
        ),
        pytest.param(
            {"text": '{"levels": []}'},
            (
                "URL answers /debug/live in another way than this version: Object missing required"
                " field `time`; is that the admin listener of a proxy?"
            ),
            id="other-json",
        ),
        pytest.param(
            {"status": 404},
            (
                "URL answers 404: it has no such page; is that the admin listener of a proxy of"
                " this version?"
            ),
            id="no-page",
        ),
        pytest.param(
            {"status": 503, "text": "no\x1b[2J"}, "URL answers 503: no?[2J", id="control-characters"
        ),
        pytest.param(
            {"status": 302, "headers": {"Location": "/"}}, "URL answers 302: ", id="redirect"
        ),
    ],
)
async def test_other_servers(answer: dict[str, object], text: str) -> None:
    """A server that is no proxy is named, with what is wrong about it."""
    assert text == await problem(web.Response(**answer))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param([], id="list"),
        pytest.param(state(time=float("nan")), id="no-number"),
        pytest.param(state(time=1e30), id="no-date"),
        pytest.param(state(topFlows=[flow("a", seatSeconds=float("inf"))]), id="infinite"),
        pytest.param(state(level(nominal=-1)), id="negative"),
        pytest.param(state(level(queues=[10**400])), id="too-large"),
    ],
)
def test_what_cannot_be_shown(answer: object) -> None:
    """Numbers that no proxy has are not taken."""
    with pytest.raises(CommandError, match=r"in another way than this version: Expected"):
        state_of(URL, answer)


async def test_endless_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is too long is not read to its end."""
    monkeypatch.setattr(live_client, "LARGEST_ANSWER_BYTES", 4)

    assert (
        await problem(web.Response(text="12345"))
        == "URL does not end its answer; is that an admin listener?"
    )


async def test_nobody_there() -> None:
    """An address where nothing listens is named, with the flag that it is from."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    async with LiveClient(address(port)) as client:
        with pytest.raises(CommandError) as caught:
            await client.look()

    assert caught.value.message == (
        f"cannot ask http://127.0.0.1:{port}: Connection refused; give the address of the"
        " admin listener of a running proxy, its own --admin"
    )


async def test_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that says nothing is given up."""
    monkeypatch.setattr(live_client, "TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        async with LiveClient(address(port)) as client:
            with pytest.raises(CommandError, match=r"does not answer within 0\.05 s; give the"):
                await client.look()


async def test_no_tls() -> None:
    """A server without TLS is told from one that is away."""
    async with (
        TestServer(web.Application()) as server,
        LiveClient(address(server.port, is_tls=True)) as client,
    ):
        with pytest.raises(CommandError, match=r"cannot ask https://.*SSL.*, give --admin http://"):
            await client.look()


async def test_tls_where_none_is_spoken() -> None:
    """A listener that hangs up on plain text may be one that speaks TLS."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server, LiveClient(address(server.sockets[0].getsockname()[1])) as client:
        with pytest.raises(CommandError, match=r"speaks TLS, give --admin https://127"):
            await client.look()


def test_rejected() -> None:
    """A level's rejected requests are the sum over the reasons."""
    found = state_of(URL, state(level(rejectedPerSecond={"queue-full": 1.5, "rate": 2.0})))

    assert 3.5 == found.levels[0].rejected_per_second
