"""The kernel probes clients that say nothing, by the settings."""

from __future__ import annotations

import contextlib
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from tests.end_to_end.served import WITHIN_S, command
from tests.end_to_end.test_drain import FIRST, HAS_WORKERS, feed

if TYPE_CHECKING:
    from collections.abc import Iterator

PROC = Path("/proc/net/tcp")
ESTABLISHED, KEEPALIVE_TIMER = "01", "02"
TICKS_PER_S = 100


def settings_file(directory: Path, idle: str) -> Path:
    path = directory / "settings.yaml"
    path.write_text(
        "preset: http\nadmin: null\n"
        f"downstream: {{listen: '127.0.0.1:0', keepAlive: {{idle: {idle}, timeout: 120s}}}}\n"
    )
    return path


@contextlib.contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S) as client:
        yield client


def seconds_to_probe(port: int, client: socket.socket) -> float:
    client.sendall(b"GET /endless HTTP/1.1\r\nHost: h\r\n\r\n")
    with client.makefile("rb") as reader:
        while reader.readline() != FIRST:
            pass
    ends = f"0100007F:{port:04X} 0100007F:{client.getsockname()[1]:04X} {ESTABLISHED} "
    [row] = [each for each in PROC.read_text().splitlines() if ends in each]
    timer, _, ticks = row.split()[5].partition(":")
    assert KEEPALIVE_TIMER == timer, row
    return int(ticks, 16) / TICKS_PER_S


def test_accepted_connections(tmp_path: Path) -> None:
    """The kernel probes them after the settings' time; other settings count for new ones."""
    flags = ("--settings", str(settings_file(tmp_path, "60s")), "--workers", "2")
    with feed() as url, command("serve", *flags, "--upstream", url) as served:
        port = int(served.line(HAS_WORKERS)[1])
        with connected(port) as before:
            assert 0 < seconds_to_probe(port, before) <= 60
            settings_file(tmp_path, "1000s")
            served.send(signal.SIGHUP)
            for _ in range(3):  # the parent, and each worker
                served.line("read again; changed: downstream.keepAlive.idle")
            with connected(port) as after:
                assert 60 < seconds_to_probe(port, after) <= 1000
