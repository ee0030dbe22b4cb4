"""Responses of a flow get no more bytes a second than its FlowSchema says, by real sockets.

What is paced here would take minutes: so the order tells that it is, and no time is measured.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import ssl
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.scene import GET, NARROW, objects_of, on_uvloop, over_both_protocols, running
from tests.end_to_end.served import Answer, command, started_upstream
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path

LISTENS = r"listens on 127\.0\.0\.1:(\d+)"
SIZE, RATE = 20_000_000, 100_000
OBJECTS = """
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: paced, annotations: {apfproxy.io/bytes-per-second: 100k}}
spec:
  matchingPrecedence: 500
  priorityLevelConfiguration: {name: default}
  rules:
  - subjects: [{kind: Group, group: {name: "*"}}]
    nonResourceRules: [{verbs: ["*"], nonResourceURLs: ["/paced/*"]}]
"""


class Large(Answer):
    def do_GET(self) -> None:  # noqa: N802  its name there
        size = SIZE if self.path.endswith("large") else 2
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(b"~" * size)


class Download:
    """A request of a connection of its own, whose response is read as it comes."""

    def __init__(self, port: int, path: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._socket.sendall(f"GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n".encode())
        self.size = 0

    def close(self) -> None:
        self._socket.close()

    def read(self, size: int) -> int:
        """Read so much of the body, or to the end; how much of it came by now."""
        while self.size < size and (data := self._socket.recv(1 << 16)):
            self.size += data.count(b"~")
        return self.size


@pytest.mark.e2e
@pytest.mark.parametrize("flags", [[], ["--workers", "1"]], ids=["process", "worker"])
def test_downloads_beside_each_other(tmp_path: Path, flags: list[str]) -> None:
    objects, config = tmp_path / "objects.yaml", tmp_path / "config.yaml"
    objects.write_text(OBJECTS)
    config.write_text("drain: {timeout: 300ms, shutdownDelay: 0s}\n")
    of_files = ("--settings", str(config), "--objects", str(objects))
    with (
        started_upstream(Large) as upstream,
        command(
            *("serve", "--preset", "http", "--upstream", upstream, "--listen", "127.0.0.1:0"),
            *("--admin", "none", *of_files, *flags),
        ) as served,
        contextlib.ExitStack() as opened,
    ):
        port = int(served.line(LISTENS)[1])

        def download(path: str) -> Download:
            return opened.enter_context(contextlib.closing(Download(port, path)))

        paced, too = download("/paced/large"), download("/paced/large")
        # Both have their first bytes, and others are not held up by them.
        assert min(paced.read(1), too.read(1)) > 0
        for _ in range(3):
            assert SIZE == download("/free/large").read(SIZE)
        # In its turn, with neither of them through.
        assert 2 == download("/paced/small").read(2)
        assert paced.read(RATE) + too.read(RATE // 2) < SIZE
        objects.write_text(OBJECTS.replace("bytes-per-second: 100k", "bytes-per-second: 100G"))
        assert SIZE == paced.read(SIZE) == too.read(SIZE)

        objects.write_text(OBJECTS)
        served.line("generation 4")
        cut = download("/paced/large")
        assert cut.read(RATE) < SIZE
        served.send(signal.SIGTERM)
        assert 0 == served.rest()[0]
        with contextlib.suppress(ConnectionResetError):
            cut.read(SIZE)
        assert cut.size < SIZE


@pytest.mark.e2e
def test_a_server_with_tls_that_ends_at_once(tmp_path: Path) -> None:
    """All of its response comes, which TLS has before it may be passed on."""
    authority, body = Authority("CA"), b"~" * 4 * RATE
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue(usage="server").write(tmp_path, "server"))
    objects = tmp_path / "objects.yaml"
    objects.write_text(OBJECTS.replace("100k", "2M"))
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        command(
            *("serve", "--preset", "http", "--listen", "127.0.0.1:0", "--admin", "none"),
            *("--upstream", f"https://127.0.0.1:{server.getsockname()[1]}"),
            *("--upstream-ca-file", authority.write(tmp_path), "--objects", str(objects)),
        ) as served,
    ):
        port = int(served.line(LISTENS)[1])
        with contextlib.closing(Download(port, "/paced/all")) as download:
            while True:  # one is a look whether it is there
                with context.wrap_socket(server.accept()[0], server_side=True) as peer:
                    if not peer.recv(1 << 16):
                        continue
                    peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + body)
                    peer.setblocking(False)
                    with contextlib.suppress(ssl.SSLWantReadError):
                        peer.unwrap()
                    socket.socket.shutdown(peer, socket.SHUT_WR)
                    assert len(body) == download.read(len(body))
                    break


@over_both_protocols
@on_uvloop
async def test_each_protocol() -> None:
    body = bytes(range(256)) * 400
    note = "annotations: {apfproxy.io/bytes-per-second: 1k}"
    slow = NARROW.replace("uid: 00000000-0000-0000-0000-00000000bbbb", note)
    async with running() as scene:
        scene.configure(objects_of(slow))
        client = await scene.ask(GET)
        arrival = await scene.upstream.next_request()
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
        await arrival.peer.send(head + body[:-1])
        got = await client.read_head() + await client.read_exactly(300)
        assert got.endswith(body[:300])
        [waits] = scene.process.cluster.served.pacing.responses.values()
        assert waits.held
        scene.configure(objects_of(NARROW))
        assert body[300:-1] == await client.read_exactly(len(body) - 301)
        await arrival.peer.send(body[-1:])
        assert body[-1:] == await client.read_exactly(1)
        assert not scene.process.cluster.served.pacing.responses
        client.close()
