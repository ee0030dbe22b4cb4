"""Prints the files of the package that a GET runs through, and a change of a time-out.

A proxy, a server behind it and a client run in this process.  The new GET comes on a connection of
its own, with fields that no request had before; the repeated one is the third of its connection.
The change is of `downstream.headTimeout` in the settings file: from reading it again to the end,
with all that the proxy does meanwhile.
`sys.setprofile` reports each function of Python's that is called meanwhile.  Compiled functions are
not seen, so run it from the sources.

    python -m loadtest.request_path
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Self

import uvloop

import apfproxy
from apfproxy.app.process import ProxyProcess
from apfproxy.app.reloading import SettingsFile, reload
from apfproxy.cli.serve import read_settings
from loadtest.arguments import Parser
from loadtest.clients import Connection
from loadtest.origin import Origin

if TYPE_CHECKING:
    from types import FrameType

PACKAGE = Path(apfproxy.__file__).parent


class Files:
    """The files whose functions are called while it is entered, with the number of calls."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}

    def __enter__(self) -> Self:
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call":
            return
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE):
            name = path.relative_to(PACKAGE).as_posix()
            self.calls[name] = self.calls.get(name, 0) + 1


async def connect_and_ask(port: int, agent: str, count: int, last: Files | None = None) -> None:
    """Send equal requests, one after the other, over a connection of their own."""
    head = (
        "GET /api/v1/namespaces/default/pods/a HTTP/1.1\r\nHost: apf.example\r\n"
        f"User-Agent: {agent}\r\nAccept: application/json\r\n\r\n"
    ).encode()
    connection = await Connection.open(port)
    for number in range(1, count + 1):
        with last if last is not None and number == count else contextlib.nullcontext():
            assert await connection.ask(head) == 200
    connection.close()


def write_settings(path: Path, port: int, head_timeout_s: int) -> None:
    path.write_text(
        "admin: '127.0.0.1:0'\n"
        f"downstream: {{listen: '127.0.0.1:0', headTimeout: {head_timeout_s}s}}\n"
        f"upstream: {{url: 'http://127.0.0.1:{port}'}}\n"
    )


async def measured(path: Path) -> dict[str, Files]:
    origin = Origin()
    await origin.start()
    write_settings(path, origin.port, 9)
    file = SettingsFile(path, lambda: read_settings(path, {}))
    process = ProxyProcess(file.read())
    await process.start()
    found = {"a new GET": Files(), "a repeated GET": Files(), "a changed time-out": Files()}
    new, repeated, changed = found.values()
    try:
        await connect_and_ask(process.port, "warm", 1)
        with new:
            await connect_and_ask(process.port, "new", 1)
        await connect_and_ask(process.port, "repeated", 3, repeated)
        write_settings(path, origin.port, 8)
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())  # of new threads
        with changed:
            await reload(process, file)
        assert process.settings.downstream.head_timeout_s == 8
    finally:
        await process.stop()
        origin.stop()
    return found


def main() -> None:
    Parser(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = uvloop.run(measured(Path(folder) / "settings.yaml"))
    for title, files in found.items():
        lines = sum(len((PACKAGE / name).read_text().splitlines()) for name in files.calls)
        calls = sum(files.calls.values())
        print(f"{title}: {len(files.calls)} files of {lines} lines, {calls} calls")
        for name, count in sorted(files.calls.items(), key=lambda item: -item[1]):
            print(f"  {count:4} {name}")


if __name__ == "__main__":
    main()
