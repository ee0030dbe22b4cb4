"""Tests that a command imports only what it needs: processor time and memory of each start."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIGHT = {"aiohttp", "asyncio", "cryptography", "prometheus_client", "rich", "uvloop", "yaml"}
"""Modules that only some commands need."""

UNUSED = {
    "cryptography", "jwt", "opentelemetry", "rich", "sqlite3", "watchfiles",
}  # fmt: skip
"""Modules that a proxy with default settings does not need."""

PROGRAM = """
import sys
from apfproxy.cli.main import main
sys.stdout = sys.stderr
main({arguments!r})
print("\\n".join(sys.modules), file=sys.__stdout__)
"""
STARTED = """
import asyncio, sys
from apfproxy.app.process import ProxyProcess
from apfproxy.settings import Address, DownstreamSettings, Settings
import apfproxy.cli.serve

ANY_PORT = Address(host="127.0.0.1", port=0)

async def ask(port, path):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = (f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close", "", "")
    writer.write("\\r\\n".join(lines).encode())
    assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
    writer.close()

async def main():
    process = ProxyProcess(Settings(downstream=DownstreamSettings(listen=ANY_PORT), admin=ANY_PORT))
    await process.start()
    for path in {paths!r}:
        await ask(process.admin_port, path)
    print("\\n".join(sys.modules))
    await process.stop()

asyncio.run(main())
"""


def modules_after(program: str) -> set[str]:
    result = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


@pytest.mark.parametrize("arguments", [["--version"], ["--help"]])
def test_group(arguments: list[str]) -> None:
    modules = modules_after(PROGRAM.format(arguments=arguments))

    assert "click" in modules
    assert set() == modules & LIGHT
    assert "apfproxy.base.held_signals" in modules
    assert set() == {name for name in modules if name.startswith("apfproxy.app")}


@pytest.mark.parametrize(
    ("arguments", "unused"),
    [
        (["odds"], {"aiohttp", "cryptography", "uvloop", "rich"}),
        (["limits"], {"cryptography", "uvloop", "rich"}),
        (["check", "--help"], {"aiohttp", "cryptography", "uvloop", "rich"}),
        (["serve", "--help"], {"aiohttp", "cryptography", "rich"}),
        (["top", "--help"], {"cryptography", "uvloop"}),
        (["apiserver", "--help"], {"cryptography", "rich"}),
    ],
)
def test_commands(arguments: list[str], unused: set[str]) -> None:
    assert set() == modules_after(PROGRAM.format(arguments=arguments)) & unused


@pytest.mark.parametrize(
    ("paths", "unused"),
    [
        pytest.param((), {"aiohttp", "prometheus_client"}, id="without-admin-listener"),
        pytest.param(("/readyz", "/livez?verbose"), {"prometheus_client"}, id="probed"),
        pytest.param(("/readyz", "/metrics"), set(), id="scraped"),
    ],
)
def test_proxy_without_a_store(paths: tuple[str, ...], unused: set[str]) -> None:
    program = STARTED.replace("{paths!r}", repr(paths))
    modules = modules_after(program if paths else program.replace("admin=ANY_PORT", "admin=None"))

    assert "apfproxy.proxy.server" in modules
    assert set() == modules & {*UNUSED, *unused}
    assert set() == {name for name in modules if name.startswith("apfproxy.apiserver")}
