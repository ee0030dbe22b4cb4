"""The page about APIs that are not Kubernetes, done as it says."""

from __future__ import annotations

import asyncio
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import aiohttp
import pytest

from loadtest.processes import ROOT, Process, free_ports, python_module
from tests.support.credentials import digest

if TYPE_CHECKING:
    from collections.abc import Iterator
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
    with Process("apfproxy", argv, port=port, directory=directory, more_ports=[admin]):
        yield port, admin


async def run(*argv: str) -> str:
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    assert 0 == process.returncode
    return printed.decode()


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
        path.write_text(text.replace("8000", str(port)).replace("timeout=5", "timeout=2"))
        names.add(name)
    assert {"app.py", "client.py", "objects/orders.yaml"} == names
    command = COMMAND.search(PAGE)
    assert command is not None
    client = str(tmp_path / "client.py")
    app = Process("app", [sys.executable, str(tmp_path / "app.py")], port=port, directory=tmp_path)
    flags = [*command[1].replace("8000", str(port)).split(), "--objects", str(tmp_path / "objects")]
    with app, proxy(tmp_path, flags) as (at, admin):
        asked = (
            ("any", "9", f"http://127.0.0.1:{port}/"),
            ("greedy", "60", f"http://127.0.0.1:{at}/reports"),
            ("modest", "2", f"http://127.0.0.1:{at}/orders"),
            ("nightly", "2", f"http://127.0.0.1:{at}/orders", "X-Priority=batch"),
        )
        found = await asyncio.gather(*(run(sys.executable, client, *each) for each in asked))
        explained = await run(
            *python_module("apfproxy"),
            *("explain", "--admin", f"127.0.0.1:{admin}", "--as", digest("modest")),
            *("--verb", "POST", "--path", "/orders", "--header", "X-Shop: 7"),
        )

        assert all("responses a second" in each for each in found)
        assert {
            ("default", "default"),
            ("batch-by-header", "batch"),
        } == await dispatched(admin)
        flow = f"flow {digest('modest')} of FlowSchema new-orders"
        assert f"in level interactive, as {flow}" in explained
