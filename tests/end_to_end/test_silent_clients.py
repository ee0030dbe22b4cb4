"""Clients that say nothing: those that are there are kept, those that vanished are found out."""

from __future__ import annotations

import contextlib
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, PingReceived

from tests.end_to_end.served import WITHIN_S, Served, command
from tests.end_to_end.test_drain import FIRST, HAS_WORKERS, LISTENS, feed
from tests.end_to_end.test_workers import activated

if TYPE_CHECKING:
    from collections.abc import Iterator

PROC = Path("/proc/net/tcp")
ESTABLISHED, KEEPALIVE_TIMER = "01", "02"
TICKS_PER_S = 100
SETTINGS = """
preset: http
downstream:
  listen: "127.0.0.1:0"
  http2: {{cleartext: true}}
  keepAlive: {{idle: {idle}, timeout: {timeout}}}
admin: null
"""
PING = 6


def settings_file(directory: Path, idle: str = "60s", timeout: str = "120s") -> Path:
    """Settings with these times."""
    path = directory / "settings.yaml"
    path.write_text(SETTINGS.format(idle=idle, timeout=timeout))
    return path


def seconds_to_probe(port: int, client: socket.socket) -> float:
    """When the kernel will probe the client, by the server's end of its connection.

    Raises:
        AssertionError: It is not going to.
    """
    ends = f"0100007F:{port:04X} 0100007F:{client.getsockname()[1]:04X} {ESTABLISHED} "
    [row] = [each for each in PROC.read_text().splitlines() if ends in each]
    timer, _, ticks = row.split()[5].partition(":")
    assert KEEPALIVE_TIMER == timer, row
    return int(ticks, 16) / TICKS_PER_S


def answered(client: socket.socket) -> None:
    """Ask for the feed, and read its first event, so that the connection is accepted."""
    client.sendall(b"GET /endless HTTP/1.1\r\nHost: h\r\n\r\n")
    reader = client.makefile("rb")
    while reader.readline() != FIRST:
        pass
    reader.close()


@contextlib.contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    """A client."""
    with socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S) as client:
        yield client


@pytest.mark.parametrize("flags", [(), ("--workers", "2")], ids=["one", "workers"])
def test_accepted_connections(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """The kernel probes them after the settings' time; other settings count for new ones."""
    path = settings_file(tmp_path)
    with (
        feed() as url,
        command("serve", "--settings", str(path), "--upstream", url, *flags) as served,
    ):
        port = int(served.line(HAS_WORKERS if flags else LISTENS)[1])
        with connected(port) as before:
            answered(before)
            assert 0 < seconds_to_probe(port, before) <= 60
            settings_file(tmp_path, idle="1000s")
            served.send(signal.SIGHUP)
            for _ in range(3 if flags else 1):  # the parent, and each worker
                served.line("read again; changed: downstream.keepAlive.idle")
            with connected(port) as after:
                answered(after)
                assert 60 < seconds_to_probe(port, after) <= 1000


def test_connections_that_came_before_the_process(tmp_path: Path) -> None:
    """Those that a service manager's socket has taken are probed as all others are."""
    path = settings_file(tmp_path)
    with (
        feed() as url,
        socket.create_server(("127.0.0.1", 0)) as listener,
        connected(listener.getsockname()[1]) as early,
    ):
        port = listener.getsockname()[1]
        flags = ("--settings", str(path), "--upstream", url, "--listen", f"127.0.0.1:{port}")
        with activated(listener, "serve", *flags) as served:
            answered(early)
            assert 0 < seconds_to_probe(port, early) <= 60
            with connected(port) as late:
                answered(late)
                assert 0 < seconds_to_probe(port, late) <= 60
            end(served)


def end(served: Served) -> None:
    """End it, whatever is under way."""
    served.send(signal.SIGKILL)
    served.rest()


class Reader:
    """A client of HTTP/2 that reads the feed, and answers PING if it is to."""

    def __init__(self, client: socket.socket) -> None:
        self._socket = client
        self._h2 = H2Connection(H2Configuration(header_encoding="utf-8"))
        self._h2.initiate_connection()
        head = {":method": "GET", ":scheme": "http", ":authority": "h", ":path": "/endless"}
        self._h2.send_headers(1, list(head.items()), end_stream=True)
        client.sendall(self._h2.data_to_send())
        self.read_to(DataReceived)

    def read_to(self, kind: type[object]) -> None:
        """Read until such an event has come, and answer what asks for it."""
        found = False
        while not found:
            data = self._socket.recv(65536)
            assert data, "the connection has ended"
            found = any(isinstance(each, kind) for each in self._h2.receive_data(data))
            self._socket.sendall(self._h2.data_to_send())

    def read_to_end(self) -> bytes:
        """Read on without a word, to the end of the connection."""
        data = b""
        while piece := self._socket.recv(65536):
            data += piece
        return data


def test_quiet_streams(tmp_path: Path) -> None:
    """PING keeps a client that answers; one that does not is closed, its request with it."""
    path = settings_file(tmp_path, idle="50ms", timeout="3s")
    with (
        feed() as url,
        command("serve", "--settings", str(path), "--upstream", url) as served,
    ):
        port = int(served.line(LISTENS)[1])
        with connected(port) as client, connected(port) as frozen:
            reader, silent = Reader(client), Reader(frozen)
            for _ in range(3):
                reader.read_to(PingReceived)
            last = silent.read_to_end()
        end(served)

    assert PING == last[3]
