"""The page about APIs that are not Kubernetes, done as it says; and nginx as such an API."""

from __future__ import annotations

import asyncio
import re
import sys
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from loadtest.nginx_origin import start_nginx_origin
from loadtest.processes import ROOT, Process, free_ports, python_module
from loadtest.site import Site
from tests.support.credentials import digest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e

PAGE = (ROOT / "docs" / "any-http-api.md").read_text()
DISPATCHED = re.compile(
    r'apiserver_flowcontrol_dispatched_requests_total\{flow_schema="([\w-]+)",'
    r'priority_level="([\w-]+)"\} ([\d.]+)'
)
COMMAND = re.compile(r"^\$ apfproxy serve (.*) &$", re.MULTILINE)
FILE = re.compile(r"`([\w./]+)`:\n\n```(?:python|yaml)\n(.*?)```", re.DOTALL)


@contextmanager
def proxy(directory: Path, arguments: list[str]) -> Iterator[tuple[int, int]]:
    port, admin = free_ports(2)
    listens = ["--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}"]
    argv = [*python_module("apfproxy"), "serve", *listens, *arguments]
    with Process("apfproxy", argv, port=port, directory=directory) as process:
        process.wait_for_port(admin)
        yield port, admin


async def run(*argv: str) -> str:
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    assert 0 == process.returncode
    return printed.decode()


def answers(printed: str) -> int:
    found = re.search(r": (\d+) responses a second", printed)
    assert found is not None
    return int(found[1])


async def dispatched(admin: int) -> set[tuple[str, str]]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{admin}/metrics") as answer,
    ):
        found = DISPATCHED.findall(await answer.text())
    return {(schema, level) for schema, level, count in found if float(count)}


async def test_the_page(tmp_path: Path) -> None:
    """Its files do what it says; how fast clients are beside each other is the load test's."""
    (port,) = free_ports(1)
    names: set[str] = set()
    for name, text in FILE.findall(PAGE):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("8000", str(port)).replace("timeout=5", "timeout=3"))
        names.add(name)
    objects = {"objects/levels.yaml", "objects/lasting.yaml"}
    assert {"app.py", "client.py"} | objects == names
    command = COMMAND.search(PAGE)
    assert command is not None
    client = str(tmp_path / "client.py")
    app = Process("app", [sys.executable, str(tmp_path / "app.py")], port=port, directory=tmp_path)
    flags = [*command[1].replace("8000", str(port)).split(), "--objects", str(tmp_path / "objects")]
    with app, proxy(tmp_path, flags) as (at, admin):
        asked = (
            ("greedy", "60", f"http://127.0.0.1:{at}/reports"),
            ("modest", "2", f"http://127.0.0.1:{at}/orders"),
            ("nightly", "2", f"http://127.0.0.1:{at}/orders", "X-Priority=batch"),
            ("finder", "2", f"http://127.0.0.1:{at}/search/a"),
        )
        direct = await run(sys.executable, client, "any", "9", f"http://127.0.0.1:{port}/")
        found = await asyncio.gather(*(run(sys.executable, client, *each) for each in asked))
        explained = await run(
            *python_module("apfproxy"),
            *("explain", "--admin", f"127.0.0.1:{admin}", "--as", digest("modest")),
            *("--verb", "POST", "--path", "/orders", "--header", "X-Shop: 7"),
        )

        assert all(answers(each) for each in [direct, *found])
        assert {
            ("default", "default"),
            ("batch-by-header", "batch"),
            ("searches", "batch"),
        } == await dispatched(admin)
        flow = f"flow {digest('modest')} of FlowSchema new-orders"
        assert f"in level interactive, as {flow}" in explained


SETTINGS = """
preset: http
request: {longRunning: {pathPrefixes: [/named]}}
flowControl: {serverConcurrencyLimit: 20}
"""


class Holding:
    """A server that answers orders at once, and all else once it is let go."""

    def __init__(self) -> None:
        self._go = asyncio.Event()
        self.port, self.held = 0, 0

    def let_go(self) -> None:
        self._go.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        server = TestServer(app)
        await server.start_server()
        self.port = server.port or 0
        yield
        self.let_go()
        await server.close()

    async def _answer(self, request: web.Request) -> web.Response:
        if "/orders" != request.path:
            self.held += 1
            await self._go.wait()
            self.held -= 1
        return web.Response(text="ok")


async def ask(session: aiohttp.ClientSession, method: str, path: str) -> int:
    async with session.request(method, path) as answer:
        await answer.read()
        return answer.status


async def live(admin: int, level: str) -> dict[str, int]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{admin}/debug/live") as answer,
    ):
        found = await answer.json()
    return next(each for each in found["levels"] if level == each["name"])


@pytest.mark.parametrize(
    ("method", "path", "level"),
    [
        pytest.param("GET", "/poll", "lasting", id="long-polls"),
        pytest.param("GET", "/named/a", None, id="long-running"),
    ],
)
async def test_what_lasts_leaves_others_alone(
    method: str, path: str, level: str | None, tmp_path: Path
) -> None:
    """Requests that last take the seats of their level, or none, and others are answered."""
    (objects,) = (text for name, text in FILE.findall(PAGE) if "objects/lasting.yaml" == name)
    (tmp_path / "lasting.yaml").write_text(objects)
    settings = tmp_path / "settings.yaml"
    settings.write_text(SETTINGS)
    holding, asked = Holding(), 40

    async def is_full() -> bool:
        waiting = 0 if level is None else (await live(admin, level))["waiting"]
        return asked == holding.held + waiting

    async with holding.running():
        arguments = ["--settings", str(settings), "--objects", str(tmp_path / "lasting.yaml")]
        arguments += ["--upstream", f"http://127.0.0.1:{holding.port}"]
        connections = aiohttp.TCPConnector(limit=0)
        with proxy(tmp_path, arguments) as (port, admin):
            url = f"http://127.0.0.1:{port}"
            async with (
                aiohttp.ClientSession(url, connector=connections) as session,
                asyncio.TaskGroup() as tasks,
            ):
                for _ in range(asked):
                    tasks.create_task(ask(session, method, path))
                while not await is_full():  # noqa: ASYNC110 - no event of another process
                    await asyncio.sleep(0.02)

                others = await asyncio.gather(*(ask(session, "GET", "/orders") for _ in range(10)))

                assert [200] * 10 == others
                assert holding.held == (
                    asked if level is None else (await live(admin, level))["nominal"]
                )
                holding.let_go()


async def test_before_nginx(tmp_path: Path) -> None:
    """Paths of any kind are forwarded; levels and users are those of the preset."""
    upstream = start_nginx_origin(Site(tmp_path, None, None))
    arguments = ["--preset", "http", "--upstream", f"http://127.0.0.1:{upstream.port}"]
    with upstream, proxy(tmp_path, arguments) as (port, admin):
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            for path in ("/api/v1/namespaces/x/pods?watch=1&timeout=soon", "/healthz", "/a/b"):
                async with session.get(path) as answer:
                    assert 200 == answer.status
            async with session.get("/", headers={"X-Priority": "batch"}) as answer:
                assert 200 == answer.status
        found = await dispatched(admin)
    assert {
        ("default", "default"),
        ("health-checks", "health"),
        ("batch-by-header", "batch"),
    } == found
