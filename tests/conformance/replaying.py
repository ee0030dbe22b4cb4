"""Sends requests to the embedded API server and compares its answers with a real one's."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from apfproxy.apiserver.controllers.control import CONTROLLERS
from apfproxy.app.apiserver_process import ApiServerProcess, ApiServerSettings
from apfproxy.settings import Address
from tests.conformance.comparing import difference
from tests.conformance.known import KNOWN
from tests.conformance.steps import Server
from tests.support.clocks import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.conformance.steps import Answer, Step

LISTENING = re.compile(r"on (?:http://)?127\.0\.0\.1:(\d+)[,;]")


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[int]:
    """Run the program until the end of the context: the port that it listens on."""
    command = [sys.executable, "-m", "apfproxy", *arguments]
    with subprocess.Popen(  # noqa: S603 - our own program
        command, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None, "it is a pipe"
        try:
            found = None
            while found is None:
                line = process.stderr.readline()
                assert line, f"{' '.join(arguments)} ended before it listened"
                found = LISTENING.search(line)
            yield int(found[1])
        finally:
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
            process.wait()


class LocalServer(Server):
    """A server in this process, whose loop runs while a request is under way."""

    def __init__(self, loop: asyncio.AbstractEventLoop, port: int, user_agent: str) -> None:
        super().__init__(f"http://127.0.0.1:{port}", user_agent=user_agent)
        self._loop = loop

    def _send(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, str, list[str], bytes]:
        return self._loop.run_until_complete(self._exchange(method, path, body, headers))

    async def _exchange(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, str, list[str], bytes]:
        url = URL(self._url + path, encoded=True)
        defaults = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
        async with aiohttp.request(
            method, url, data=body, headers=headers, skip_auto_headers=defaults
        ) as response:
            content_type = response.headers.get("Content-Type", "")
            warnings = response.headers.getall("Warning", [])
            return response.status, content_type, warnings, await response.read()


@contextlib.contextmanager
def embedded(*without: str, user_agent: str = "") -> Iterator[Server]:
    """Run the API server in this process until the end of the context, on virtual time."""
    controllers = frozenset(CONTROLLERS) - frozenset(without)
    settings = ApiServerSettings(listen=Address(host="127.0.0.1", port=0), controllers=controllers)
    with asyncio.Runner(loop_factory=partial(VirtualLoop, grace_s=0.002)) as runner:
        process = runner.run(started(settings))
        try:
            yield LocalServer(runner.get_loop(), process.port, user_agent)
        finally:
            runner.run(process.stop())


async def started(settings: ApiServerSettings) -> ApiServerProcess:
    process = ApiServerProcess(settings)
    await process.start()
    return process


def compared(
    ours: Server, answers: Iterable[tuple[Step, Answer, bool]]
) -> tuple[list[str], set[str]]:
    """Ask a server of ours what a real one was asked."""
    unknown: list[str] = []
    met: set[str] = set()
    for step, real, with_owners in answers:
        what, how = difference(real, ours.answer(step), with_owners=with_owners)
        line = f"{what} {step.id} {step.method} {step.path[:120]} {step.accept}: {how}"
        why = next((why for why, pattern in KNOWN.items() if re.search(pattern, line)), None)
        if what and why is None:
            unknown.append(line)
        elif what and why is not None:
            met.add(why)
    ours.close()
    return unknown, met
