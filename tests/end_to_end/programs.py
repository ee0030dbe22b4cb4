"""Programs for tests; nginx and HAProxy ready when started, on files of the test, ended by pid."""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from loadtest.processes import SEARCH_PATH

if TYPE_CHECKING:
    from collections.abc import Iterator

START_WITHIN_S = 60
PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST_PORT = 10_000

NGINX = """
pid {directory}/nginx.pid;
error_log {directory}/nginx.log;
user {user};
worker_processes 1;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    server {{
        listen 127.0.0.1:{port};
        {server}
    }}
    {beside}
}}
"""

HAPROXY = """
global
    maxconn 100
defaults
    mode tcp
    timeout client 20s
    timeout server 20s
    timeout connect 5s
frontend clients
    bind 127.0.0.1:%d
    default_backend proxy
backend proxy
    server proxy 127.0.0.1:%d %s
"""


def installed(name: str) -> str:
    """The path of a program; without it the test is skipped, or fails where `CI` is set."""
    program = shutil.which(name, path=SEARCH_PATH)
    if program is None:
        missing = f"{name} is not installed; tests/install installs it"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return program


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on, below those that the system hands out.

    The system gives one of its own to any client that connects, also before the caller listens.
    """
    lowest_of_the_system = int(PORT_RANGE.read_text().split()[0])
    while True:
        port = LOWEST_PORT + secrets.randbelow(lowest_of_the_system - LOWEST_PORT)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def nginx(directory: Path, server: str, beside: str = "") -> Iterator[int]:
    port = free_port()
    configuration = directory / "nginx.conf"
    names = {"server": server, "beside": beside, "user": getpass.getuser()}
    configuration.write_text(NGINX.format(directory=directory, port=port, **names))
    arguments = ["-c", str(configuration), "-e", f"{directory}/nginx.log"]
    with _daemon("nginx", arguments, directory / "nginx.pid"):
        yield port


@contextlib.contextmanager
def haproxy_of_tcp(directory: Path, upstream_port: int, options: str) -> Iterator[int]:
    """Run HAProxy before a port, whose bytes it passes on; the port that it listens on."""
    port = free_port()
    with haproxy_with(directory, HAPROXY % (port, upstream_port, options)):
        yield port


@contextlib.contextmanager
def haproxy_with(directory: Path, text: str) -> Iterator[None]:
    configuration = directory / "haproxy.cfg"
    configuration.write_text(text)
    pid_file = directory / "haproxy.pid"
    with _daemon("haproxy", ["-f", str(configuration), "-D", "-p", str(pid_file)], pid_file):
        yield


@contextlib.contextmanager
def _daemon(name: str, arguments: list[str], pid_file: Path) -> Iterator[None]:
    subprocess.run(  # noqa: S603  a program of the system, on files of the test
        [installed(name), *arguments], check=True, timeout=START_WITHIN_S, capture_output=True
    )
    pid = int(pid_file.read_text().split()[0])
    try:
        yield
    finally:
        os.kill(pid, signal.SIGTERM)
