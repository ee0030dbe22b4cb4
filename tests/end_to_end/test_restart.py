"""Restarts under load, by each way in which no connection is to be refused."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
from typing import TYPE_CHECKING

import pytest

from loadtest.certificates import Authority
from loadtest.restart import ACTIVATION, SUCCESSION, measure
from tests.end_to_end.served import ask, command, started_upstream
from tests.end_to_end.test_unix_sockets import get

if TYPE_CHECKING:
    from pathlib import Path

LISTENS = r"listens on 127\.0\.0\.1:(\d+), .* admin on"
SUCCEEDED = r"process (\d+) accepts connections from now on"


@pytest.mark.parametrize("by", [SUCCESSION, ACTIVATION])
def test_under_load(by: str, tmp_path: Path) -> None:
    """No request on a new connection fails, and none on one that is kept."""
    tally, _ = asyncio.run(measure(by, restarts=2, requests=300, clients=2, directory=tmp_path))

    assert 0 == tally.failed, tally
    assert tally.answered >= 300


def test_a_successor_has_the_sockets_and_their_files(tmp_path: Path) -> None:
    """Those of a Unix socket stay until the last one ends; metrics are the successor's."""
    listen, admin = tmp_path / "listen", tmp_path / "admin"
    with (
        started_upstream() as upstream,
        command(
            *("serve", "--upstream", upstream, "--listen", f"unix:{listen}"),
            *("--admin", f"unix:{admin}"),
        ) as served,
    ):
        served.line("listens on unix:")
        inode = listen.stat().st_ino
        served.send(signal.SIGUSR2)
        pid = int(served.line(SUCCEEDED)[1])
        served.process.wait()
        statuses = [get(listen, "/")[0], get(admin, "/readyz")[0]]
        same = inode == listen.stat().st_ino
        os.kill(pid, signal.SIGTERM)
        code, _ = served.rest()  # the end of the log, which both write

    assert [200, 200] == statuses
    assert same
    assert 0 == code
    assert [] == list(tmp_path.iterdir())


def test_a_successor_that_cannot_start(tmp_path: Path) -> None:
    """The process goes on as if nobody had asked, and says why."""
    settings = tmp_path / "settings.yaml"
    with started_upstream() as upstream:
        text = f"upstream: {{url: '{upstream}'}}\ndownstream: {{listen: '127.0.0.1:0'}}\n"
        settings.write_text(text + "admin: null\n")
        with command("serve", "--settings", str(settings)) as served:
            port = int(served.line(LISTENS)[1])
            settings.write_text("upstream: [")
            served.send(signal.SIGUSR2)
            served.line("not YAML")
            served.line("no successor, and this process goes on: it ended with exit code 2")
            status, _ = ask(port, "/")
            code, _ = served.end()

    assert (200, 0) == (status, code)


def test_a_successor_that_ends_late(tmp_path: Path) -> None:
    """One that had the sockets already leaves their files alone."""
    settings, listen = tmp_path / "settings.yaml", tmp_path / "listen"
    with started_upstream() as upstream, socket.create_server(("127.0.0.1", 0)) as taken:
        text = f"upstream: {{url: '{upstream}'}}\ndownstream: {{listen: 'unix:{listen}'}}\n"
        settings.write_text(text + "admin: null\n")
        with command("serve", "--settings", str(settings)) as served:
            served.line("listens on unix:")
            settings.write_text(text + f"admin: '127.0.0.1:{taken.getsockname()[1]}'\n")
            served.send(signal.SIGUSR2)
            served.line("cannot listen on 127.0.0.1")
            served.line("no successor, and this process goes on: it ended with exit code 1")
            status, _ = get(listen, "/")
            code, _ = served.end()

    assert (200, 0) == (status, code)
    assert not listen.exists()


def test_another_address(tmp_path: Path) -> None:
    """A successor whose settings name another address listens there, and not at the old one."""
    settings = tmp_path / "settings.yaml"
    with started_upstream() as upstream:
        text = f"upstream: {{url: '{upstream}'}}\nadmin: null\ndownstream: {{listen: '%s'}}\n"
        settings.write_text(text % "127.0.0.1:0")
        with command("serve", "--settings", str(settings)) as served:
            port = int(served.line(LISTENS)[1])
            settings.write_text(text % f"unix:{tmp_path}/listen")
            served.send(signal.SIGUSR2)
            pid = int(served.line(SUCCEEDED)[1])
            served.process.wait()
            status, _ = get(tmp_path / "listen", "/")
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port))
            os.kill(pid, signal.SIGTERM)
            served.rest()

    assert 200 == status


def test_a_store_is_one_process_s(tmp_path: Path) -> None:
    """Two cannot have it, so there is no successor."""
    flags = ("--upstream", "unix:/nowhere", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    with command("serve", *flags, "--store", str(tmp_path / "store")) as served:
        served.line(LISTENS)
        served.send(signal.SIGUSR2)
        served.line("goes on: only one process can have the store")
        code, _ = served.end()

    assert 0 == code


def test_over_tls(tmp_path: Path) -> None:
    """A successor takes over where clients speak TLS; a kept connection is told to end."""
    authority = Authority("site")
    certificate, key = authority.issue("proxy", usage="server").write(tmp_path, "proxy")
    context = ssl.create_default_context(cafile=authority.write(tmp_path))
    settings = tmp_path / "settings.yaml"
    settings.write_text("drain: {idleGrace: 60s}\n")
    tls = ("--tls-cert-file", certificate, "--tls-private-key-file", key)
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def connected(port: int) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", port), timeout=60)
        return context.wrap_socket(plain, server_hostname="localhost")

    def answer(client: ssl.SSLSocket) -> bytes:
        received = b""
        while not received.endswith(b"\r\n\r\nok"):
            data = client.recv(65536)
            assert data, received
            received += data
        return received

    with (
        started_upstream() as upstream,
        command(
            *("serve", "--settings", str(settings), "--upstream", upstream),
            *("--listen", "127.0.0.1:0", "--admin", "none", *tls),
        ) as served,
    ):
        port = int(served.line(r"listens on 127\.0\.0\.1:(\d+) with TLS")[1])
        with connected(port) as kept:
            kept.sendall(request)
            before = answer(kept)
            served.send(signal.SIGUSR2)
            pid = int(served.line(SUCCEEDED)[1])
            served.line("draining")
            with connected(port) as new:
                new.sendall(request)
                after = answer(new)
            kept.sendall(request)
            last = answer(kept)
        served.process.wait()
        os.kill(pid, signal.SIGTERM)
        served.rest()

    assert [True] * 3 == [each.startswith(b"HTTP/1.1 200 ") for each in (before, after, last)]
    assert [False, True] == [b"connection: close" in each.lower() for each in (before, last)]
