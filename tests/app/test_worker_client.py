"""Asks workers for their admin pages, over their Unix sockets."""

from __future__ import annotations

import asyncio
import contextlib
import math
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from apfproxy.admin.worker_answers import WorkerAdmin
from apfproxy.app import worker_client
from apfproxy.app.worker_client import WorkerClient, event_of, url_of
from tests.admin.several_workers import served

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

EVENTS = b"retry: 1000\n\nevent: history\ndata: {}\n\nevent: state\ndata: [1]\n\n"


@pytest.fixture
def directory() -> Iterator[str]:
    """A short path, as those of sockets have to be."""
    with tempfile.TemporaryDirectory(prefix="apf") as path:
        yield path


async def echo(request: web.Request) -> web.Response:
    """Say what was asked for."""
    return web.Response(text=f"{request.raw_path} {request.headers['Accept']}")


async def hang(_request: web.Request) -> web.Response:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError("it never comes to that")


async def events(request: web.Request) -> web.StreamResponse:
    """Send some events."""
    response = web.StreamResponse()
    await response.prepare(request)
    for place in range(0, len(EVENTS), 7):
        await response.write(EVENTS[place : place + 7])
    return response


@contextlib.asynccontextmanager
async def asking(directory: str) -> AsyncIterator[tuple[WorkerClient, list[WorkerAdmin]]]:
    """A client of one worker that is there, and one that is not."""
    app = web.Application()
    app.add_routes(
        [web.get("/hang", hang), web.get("/events", events), web.get("/{path:.*}", echo)]
    )
    workers = [WorkerAdmin(index, f"{directory}/{index}", "serving", index) for index in (1, 2)]
    async with served(app, workers[0].path):
        client = WorkerClient(lambda: workers)
        try:
            yield client, workers
        finally:
            await client.close()


async def test_ask_all(directory: str) -> None:
    """Each answers for itself; paths and queries stay as they are written."""
    async with asking(directory) as (client, _):
        first, second = await client.ask_all("/a%2Fb?c=d%20e", "text/plain")
        other, _ = await client.ask_all(lambda worker: f"/{worker.index}")

    assert first.answer is not None
    assert first.answer.text == "/a%2Fb?c=d%20e text/plain"
    assert (second.answer, second.worker.index) == (None, 2)
    assert "Cannot connect" in second.problem
    assert other.answer is not None
    assert other.answer.text == "/1 application/json"


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ("starting", "it is starting"),
        ("silent", "it shows no life"),
        ("ended", "it has no process"),
    ],
)
async def test_not_asked(directory: str, state: str, problem: str) -> None:
    """A worker that cannot answer is not waited for."""
    async with asking(directory) as (client, workers):
        workers[:] = [replace(workers[0], state=state)]
        asked = await client.ask_all("/hang", within_s=math.inf)

    assert [each.problem for each in asked] == [problem]


async def test_hang(directory: str) -> None:
    """A worker has only so long."""
    async with asking(directory) as (client, _):
        first, _ = await client.ask_all("/hang", within_s=0.001)

    assert first.problem == "no answer within 0.001 s"


async def test_endless(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer is taken only up to a size."""
    monkeypatch.setattr(worker_client, "LARGEST_ANSWER_BYTES", 3)
    async with asking(directory) as (client, _):
        first, _ = await client.ask_all("/")

    assert first.problem == "its answer exceeds 3 bytes"


async def test_workers_that_are_gone(directory: str) -> None:
    """Connections to them are closed."""
    async with asking(directory) as (client, workers):
        await client.ask_all("/")
        before = repr(client)
        workers.pop()
        await client.ask_all("/")

        assert before == "<WorkerClient of 2 workers>"
        assert repr(client) == "<WorkerClient of 1 workers>"


async def test_events(directory: str) -> None:
    """Events come whole, however their bytes do."""
    async with asking(directory) as (client, workers):
        found = [each async for each in client.events(workers[0], "/events")]
        with pytest.raises(OSError, match="Cannot connect"):
            await anext(client.events(workers[1], "/events"))

    assert found == [("history", b"{}"), ("state", b"[1]")]


async def test_event_that_does_not_end(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event is taken only up to a size."""
    monkeypatch.setattr(worker_client, "LARGEST_EVENT_BYTES", -1)
    async with asking(directory) as (client, workers):
        with pytest.raises(OSError, match="does not end"):
            [each async for each in client.events(workers[0], "/events")]


def test_event_of() -> None:
    """An event has a name and data; comments have neither."""
    assert event_of(b"event: a\ndata: b: c") == ("a", b"b: c")
    assert event_of(b": hello") == ("", b"")


def test_url_of() -> None:
    """What is escaped is not escaped once more."""
    assert str(url_of("/a%20b?c=%2F")) == "http://localhost/a%20b?c=%2F"
