"""Event streams at the end of a process or a cluster: each is whole, or its client sees a cut."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import threading
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha1
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.end_to_end.programs import installed
from tests.end_to_end.served import WITHIN_S, Answer, Upstream, command

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.end_to_end.served import Served

FIRST, SECOND = b"data: first\n", b"data: second\n"
FRAME, GOING_AWAY = b"\x82\x05hello", b"\x88\x02\x03\xe9"
PROTOCOLS = ("--http1.0", "--http1.1", "--http2-prior-knowledge")
CUT = {18, 52, 56, 92}
"""curl's codes: a part of the answer came, the connection broke, a stream was reset."""
LISTENS = r"listens on 127\.0\.0\.1:(\d+), "
HAS_WORKERS = LISTENS + r"with \d+ workers"

SETTINGS = """
preset: http
downstream: {{listen: "127.0.0.1:0", http2: {{cleartext: true}}}}
drain: {{timeout: {timeout}s, idleGrace: 0s}}
admin: null
"""
CLUSTER = """
- name: {name}
  hosts: ["{name}.test"]
  upstream: {{url: "{url}"}}
"""


class Feed(Answer):
    """Sends an event at once and another one when all is to end, `/endless` never."""

    may_end = threading.Event()
    is_over = threading.Event()

    def do_GET(self) -> None:  # noqa: N802  http.server's
        if "Sec-WebSocket-Key" in self.headers:
            self._open(self.headers["Sec-WebSocket-Key"])
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._send(FIRST)
        (self.is_over if self.path == "/endless" else self.may_end).wait(WITHIN_S)
        self._send(SECOND)
        self._send(b"")

    def _send(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _open(self, key: str) -> None:
        digest = sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode())  # noqa: S324  the protocol's
        self.send_response(101)
        self.send_header("Connection", "Upgrade")
        self.send_header("Upgrade", "websocket")
        self.send_header("Sec-WebSocket-Accept", b64encode(digest.digest()).decode())
        self.end_headers()
        self.wfile.write(FRAME)
        self.rfile.read()
        self.close_connection = True


@contextlib.contextmanager
def feed() -> Iterator[str]:
    Feed.may_end, Feed.is_over = threading.Event(), threading.Event()
    server = Upstream(("127.0.0.1", 0), Feed)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="feed")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        Feed.may_end.set()
        Feed.is_over.set()
        server.shutdown()
        server.server_close()
        thread.join()


class Reader(NamedTuple):
    """A transfer by curl, of which the first event has come."""

    process: subprocess.Popen[bytes]
    first: bytes

    def outcome(self) -> tuple[bool, bytes]:
        """Whether curl takes what it has for the whole, and what that is; waits for its end."""
        assert self.process.stdout is not None
        rest = self.process.stdout.read()
        code = self.process.wait(WITHIN_S)
        assert code == 0 or code in CUT, code
        return code == 0, self.first + rest


Read = Callable[..., list[Reader]]


@pytest.fixture
def read() -> Iterator[Read]:
    """Begins transfers from a port, one by each protocol; they end with the test."""
    with contextlib.ExitStack() as stack:

        def begin(
            port: int, target: str, protocols: Sequence[str] = PROTOCOLS, host: str = "h"
        ) -> list[Reader]:
            readers = []
            url = f"http://127.0.0.1:{port}{target}"
            for each in protocols:
                process = stack.enter_context(
                    subprocess.Popen(  # noqa: S603  installed by its package
                        [installed("curl"), "-sN", each, "-H", f"Host: {host}", url],
                        stdout=subprocess.PIPE,
                    )
                )
                stack.callback(process.kill)
                assert process.stdout is not None
                readers.append(Reader(process, process.stdout.readline()))
            return readers

        yield begin


@contextlib.contextmanager
def proxy(directory: Path, timeout_s: int, *flags: str) -> Iterator[tuple[Served, int]]:
    settings = directory / "settings.yaml"
    settings.write_text(SETTINGS.format(timeout=timeout_s))
    with (
        feed() as url,
        command("serve", "--settings", str(settings), "--upstream", url, *flags) as served,
    ):
        yield served, int(served.line(HAS_WORKERS if "--workers" in flags else LISTENS)[1])


@pytest.mark.parametrize("flags", [(), ("--workers", "2")], ids=["one", "two-workers"])
def test_streams_go_on_and_then_break(read: Read, tmp_path: Path, flags: tuple[str, ...]) -> None:
    with proxy(tmp_path, 100, *flags) as (served, port):
        ending = read(port, "/ends")
        endless = read(port, "/endless")
        served.send(signal.SIGTERM)
        served.line("draining")
        Feed.may_end.set()
        assert [(True, FIRST + SECOND)] * 3 == [each.outcome() for each in ending]
        served.send(signal.SIGTERM)
        assert [(False, FIRST)] * 3 == [each.outcome() for each in endless]
        served.rest()


@pytest.mark.parametrize(
    ("number", "flags"),
    [
        pytest.param(signal.SIGTERM, (), id="one"),
        pytest.param(signal.SIGUSR2, ("--workers", "2"), id="two-workers-replaced"),
    ],
)
def test_streams_break_when_time_is_over(
    read: Read, tmp_path: Path, number: signal.Signals, flags: tuple[str, ...]
) -> None:
    with proxy(tmp_path, 1, *flags) as (served, port):
        streams = read(port, "/endless")
        served.send(number)
        assert [(False, FIRST)] * 3 == [each.outcome() for each in streams]
        served.send(signal.SIGTERM)
        served.rest()


def test_streams_of_a_cluster_that_goes(read: Read, tmp_path: Path) -> None:
    """They break after the drain's time, and the other cluster's go on."""
    settings = tmp_path / "settings.yaml"
    with feed() as url:
        clusters = [CLUSTER.format(name=each, url=url) for each in ("stays", "goes")]
        text = SETTINGS.format(timeout=1) + "clusters:\n"
        settings.write_text(text + "".join(clusters))
        with command("serve", "--settings", str(settings)) as served:
            port = int(served.line(LISTENS)[1])
            going = read(port, "/endless", PROTOCOLS[1:], "goes.test")
            staying = read(port, "/ends", PROTOCOLS[1:], "stays.test")
            settings.write_text(text + clusters[0])
            served.send(signal.SIGHUP)
            assert [(False, FIRST)] * 2 == [each.outcome() for each in going]
            Feed.may_end.set()
            assert [(True, FIRST + SECOND)] * 2 == [each.outcome() for each in staying]
            served.end()


def test_clients_of_websockets_are_told(tmp_path: Path) -> None:
    """By a close frame, once the drain's time is over; then the connection ends."""
    request = (
        b"GET /chat HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    with (
        proxy(tmp_path, 1) as (served, port),
        socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S) as client,
    ):
        client.sendall(request)
        reader = client.makefile("rb")
        while reader.readline() != b"\r\n":
            pass
        assert FRAME == reader.read(len(FRAME))
        served.send(signal.SIGTERM)
        assert GOING_AWAY == reader.read(len(GOING_AWAY))
        client.sendall(b"\x88\x82mask" + bytes([0x03 ^ ord("m"), 0xE9 ^ ord("a")]))
        client.shutdown(socket.SHUT_WR)
        assert b"" == reader.read()
        assert 0 == served.rest()[0]
