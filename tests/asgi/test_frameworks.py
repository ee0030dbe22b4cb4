"""Flow control in programs of FastAPI, Django and Litestar, served by uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import uvicorn
import websockets

from apfproxy.asgi import FlowControl
from tests.docs.pages import page
from tests.support.clocks import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of others
    import django
    import litestar
    from django.conf import settings
    from django.core.asgi import get_asgi_application
    from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
    from django.urls import path
    from fastapi import BackgroundTasks, FastAPI, Request, WebSocket
    from fastapi.responses import StreamingResponse
    from litestar.connection import Request as LitestarRequest  # noqa: TC002  read at run time
    from litestar.response import Stream

pytestmark = pytest.mark.build  # both have to serve them

HEADER = {"x-api-key": "greedy"}


class Work:
    """Does what requests ask for: each waits until it may end, and is noted with its body."""

    def __init__(self) -> None:
        self.may_end = asyncio.Semaphore(0)
        self.begun: list[str] = []

    async def do(self, key: str, body: bytes = b"") -> str:
        self.begun.append(key + body.decode())
        await self.may_end.acquire()
        return key

    async def pieces(self) -> AsyncIterator[bytes]:
        yield b"one"
        await self.may_end.acquire()
        yield b"two"


def fastapi_program(work: Work, **others: Any) -> tuple[Any, list[FlowControl]]:  # noqa: ANN401
    program = FastAPI()
    made: list[FlowControl] = []

    def make(app: Any) -> FlowControl:  # noqa: ANN401
        made.append(FlowControl(app, **others))
        return made[-1]

    program.add_middleware(make)

    @program.post("/work")
    async def do(request: Request) -> str:
        return await work.do(request.headers["x-api-key"], await request.body())

    @program.get("/stream")
    async def stream() -> StreamingResponse:
        return StreamingResponse(work.pieces())

    @program.get("/background")
    async def background(tasks: BackgroundTasks) -> str:
        tasks.add_task(work.do, "background")
        return "done"

    @program.websocket("/socket")
    async def socket(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text(await work.do(socket.headers["x-api-key"]))

    # FastAPI resolves annotations by the module's names.
    assert {do, stream, background, socket}
    return program, made


def litestar_program(work: Work, **others: Any) -> tuple[Any, list[FlowControl]]:  # noqa: ANN401
    """Wrap it as a whole: a middleware in its list it makes for each of its routes."""

    @litestar.post("/work")
    async def do(request: LitestarRequest[Any, Any, Any]) -> str:
        return await work.do(request.headers["x-api-key"], await request.body())

    @litestar.get("/stream")
    async def stream() -> Stream:
        return Stream(work.pieces())

    control = FlowControl(litestar.Litestar([do, stream], logging_config=None), **others)
    return control, [control]


def django_program(work: Work, **others: Any) -> tuple[Any, list[FlowControl]]:  # noqa: ANN401
    async def do(request: HttpRequest) -> HttpResponse:
        return HttpResponse(await work.do(request.headers["x-api-key"], request.body))

    async def stream(_: HttpRequest) -> StreamingHttpResponse:
        return StreamingHttpResponse(work.pieces())

    if not settings.configured:
        settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=(), LOGGING_CONFIG=None)
        django.setup()
    settings.ROOT_URLCONF = (path("work", do), path("stream", stream))
    control = FlowControl(get_asgi_application(), **others)
    return control, [control]


PROGRAMS = {"fastapi": fastapi_program, "litestar": litestar_program, "django": django_program}


class Served:
    """A program with a seat, at a port; `client` has the key of a greedy one."""

    def __init__(self, program: Any, made: list[FlowControl], work: Work) -> None:  # noqa: ANN401
        self._made = made
        self.work = work
        self.server = uvicorn.Server(
            uvicorn.Config(program, port=0, log_config=None, ws="websockets-sansio")
        )

    @property
    def url(self) -> str:
        host, port = self.server.servers[0].sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    @property
    def made(self) -> FlowControl:
        return self._made[0]

    @property
    def level(self) -> Any:  # noqa: ANN401
        return self.made.controller.levels["default"].queue_set


@contextlib.asynccontextmanager
async def served(name: str, **others: Any) -> AsyncIterator[tuple[Served, httpx.AsyncClient]]:  # noqa: ANN401
    work = Work()
    it = Served(*PROGRAMS[name](work, limit=1, **others), work)
    serving = asyncio.create_task(it.server.serve())
    await until(lambda: it.server.started)
    try:
        async with httpx.AsyncClient(base_url=f"http://{it.url}", headers=HEADER) as client:
            yield it, client
    finally:
        for _ in range(99):
            work.may_end.release()
        it.server.should_exit = True
        await serving


def groups(scope: Any) -> tuple[str, list[str]]:  # noqa: ANN401
    key = dict(scope["headers"])[b"x-api-key"].decode()
    return key, [] if key == "greedy" else ["interactive"]


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_user_goes_before_others(name: str) -> None:
    """However many of theirs wait; and its body arrives whole."""
    async with served(name, user=groups) as (it, client):
        greedy = [asyncio.create_task(client.post("/work", content=b"!")) for _ in range(9)]
        await until(lambda: it.level.requests_waiting == 8)
        body, headers = b"?" * 50_000, {"x-api-key": "modest"}
        modest = asyncio.create_task(client.post("/work", content=body, headers=headers))
        interactive = it.made.controller.levels["interactive"].queue_set
        await until(lambda: interactive.requests_waiting)
        it.work.may_end.release()
        await until(lambda: len(it.work.begun) == 2)
        assert "modest" + "?" * 50_000 == it.work.begun[1]
        for _ in range(9):
            it.work.may_end.release()
        assert all([(await each).is_success for each in (modest, *greedy)])
        await until(lambda: it.level.is_idle and interactive.is_idle)


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_stream_has_its_seat_until_its_end(name: str, *, leaves: bool) -> None:
    async with served(name) as (it, client):
        async with client.stream("GET", "/stream") as response:
            assert b"one" == await anext(response.aiter_raw())
            assert 1 == it.level.seats_in_use
            if not leaves:
                it.work.may_end.release()
                await until(lambda: it.level.is_idle)
        if leaves:
            it.work.may_end.release()
        await until(lambda: it.level.is_idle)


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_client_that_leaves_gives_up_its_place(name: str) -> None:
    async with served(name) as (it, client):
        first = asyncio.create_task(client.post("/work", content=b"!"))
        await until(lambda: it.work.begun)
        second = asyncio.create_task(client.post("/work", content=b"?"))
        await until(lambda: it.level.requests_waiting)
        second.cancel()
        await until(lambda: not it.level.requests_waiting)
        it.work.may_end.release()
        await first
        await until(lambda: it.level.is_idle)

        assert ["greedy!"] == it.work.begun
        assert 1 == it.level.cancelled_total


async def test_the_program_of_the_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = (text for _, text in page("docs/in-python.md").blocks if "FastAPI()" in text)
    monkeypatch.setenv("LIMIT", "8")
    names: dict[str, Any] = {}
    exec(source, names)  # noqa: S102  as the page says
    transport = httpx.ASGITransport(names["app"])
    async with httpx.AsyncClient(transport=transport, base_url="http://a") as client:
        assert {"path": "b"} == (await client.get("/b")).json()
    assert "FlowControl" in repr(names["app"].user_middleware)


async def test_background_tasks_have_no_seat() -> None:
    async with served("fastapi") as (it, client):
        response = await client.get("/background")
        await until(lambda: it.work.begun)

        assert 200 == response.status_code
        assert it.level.is_idle


async def test_web_sockets() -> None:
    objects = """
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: sockets, annotations: {apfproxy.io/request-rate: "0.001"}}
spec:
  matchingPrecedence: 10
  priorityLevelConfiguration: {name: default}
  rules:
  - subjects: [{kind: Group, group: {name: "*"}}]
    nonResourceRules: [{verbs: [get], nonResourceURLs: [/socket]}]
"""
    async with served("fastapi", objects=objects) as (it, _):
        url = f"ws://{it.url}/socket"
        async with websockets.connect(url, additional_headers=HEADER) as socket:
            await until(lambda: it.work.begun)
            assert 1 == it.level.dispatched_total
            assert it.level.is_idle
            it.work.may_end.release()
            assert "greedy" == await socket.recv()
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(url, additional_headers=HEADER)

        assert 429 == refused.value.response.status_code
        assert "1000" == refused.value.response.headers["retry-after"]
