"""Restarts under load, by each way in which no connection is to be refused."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
from typing import TYPE_CHECKING

from loadtest.processes import start_origin
from loadtest.workers import replace
from tests.end_to_end.served import command, started_upstream
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path

SUCCEEDED = "all workers are replaced"


def test_activation_under_load(tmp_path: Path) -> None:
    """A process behind a socket of systemd's is restarted, and no request fails."""
    wanted = {"rate": 200, "requests": 200, "times": 2}

    with start_origin(directory=tmp_path) as origin:
        found = asyncio.run(replace("activated", 0, origin.port, tmp_path, wanted))

    assert 0 == found["failed"], found
    assert found["answered"] >= 200


def test_a_single_process(tmp_path: Path) -> None:
    """It has no parent that could replace it, so SIGUSR2 does nothing but write a line."""
    flags = ("--upstream", "unix:/nowhere", "--listen", f"unix:{tmp_path}/a", "--admin", "none")
    with command("serve", *flags) as served:
        served.line("listens on unix:")
        served.send(signal.SIGUSR2)
        served.line("SIGUSR2 means nothing here, and is ignored: .* --workers 1 starts one")
        code, _ = served.end()

    assert 0 == code


def test_over_tls(tmp_path: Path) -> None:
    """Another process takes over where clients speak TLS; a kept connection is told to end."""
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
            *("--listen", "127.0.0.1:0", "--admin", "none", "--workers", "1", *tls),
        ) as served,
    ):
        port = int(served.line(r"listens on 127\.0\.0\.1:(\d+) with TLS")[1])
        with connected(port) as kept:
            kept.sendall(request)
            before = answer(kept)
            served.send(signal.SIGUSR2)
            served.line(SUCCEEDED)
            with connected(port) as new:
                new.sendall(request)
                after = answer(new)
            kept.sendall(request)
            last = answer(kept)
        served.end()

    assert [True] * 3 == [each.startswith(b"HTTP/1.1 200 ") for each in (before, after, last)]
    assert [False, True] == [b"connection: close" in each.lower() for each in (before, last)]
