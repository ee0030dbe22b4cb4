"""Requests that are begun and never ended: whatever they bring, the process stays small."""

from __future__ import annotations

import contextlib
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.end_to_end.http2.frames import (
    Code,
    FrameClient,
    Kind,
    block,
    continuation,
    data,
    headers,
    ping,
)
from tests.end_to_end.served import Served, ask, command, started_upstream

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20
HELD_MIB, GROWN_MIB = 16, 60
"""Says what may be held, and by how much the process may grow: the attack sends 100 MiB."""
CONNECTIONS, STREAMS = 12, 100
BODY_BYTES, SENT_BYTES = 40_000, 30_000
FIELDS = [(b"x-%d" % each, b"y" * 4000) for each in range(14)]
PATH = b"/api/v1/namespaces/default/configmaps"
LISTENS = r"listens on 127\.0\.0\.1:(\d+).*admin on 127\.0\.0\.1:(\d+)"


class Proxy:
    """A process with bounds."""

    def __init__(self, served: Served) -> None:
        self.served = served
        found = served.line(LISTENS)
        self.port, self.admin = int(found[1]), int(found[2])

    @property
    def resident_mib(self) -> float:
        pages = Path(f"/proc/{self.served.process.pid}/statm").read_text("ascii").split()[1]
        return int(pages) * 4096 / MIB

    def metric(self, name: str) -> float:
        status, page = ask(self.admin, "/metrics")
        assert 200 == status
        values = re.findall(rf"^apfproxy_{name}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE)
        return sum(map(float, values))


@contextlib.contextmanager
def proxy(folder: Path, **settings: Any) -> Iterator[Proxy]:  # noqa: ANN401  lines of YAML
    with started_upstream() as url:
        path = folder / "settings.yaml"
        lines = "".join(f"\n    {name}: {value}" for name, value in settings.items())
        path.write_text(
            f"""
downstream:
  listen: "127.0.0.1:0"
  http2: {{cleartext: true}}
  limits:
    minBodyRateBytes: 0{lines}
upstream: {{url: "{url}"}}
admin: "127.0.0.1:0"
""",
            "utf-8",
        )
        with command("serve", "--settings", str(path), "--log-level", "info") as served:
            yield Proxy(served)


def unended(stream_id: int) -> bytes:
    fields = block(
        *((b":method", b"POST"), (b":scheme", b"http"), (b":path", PATH)),
        *((b":authority", b"a.test"), (b"content-length", b"%d" % BODY_BYTES), *FIELDS),
    )
    parts = [fields[at : at + 16384] for at in range(0, len(fields), 16384)]
    return b"".join(
        (
            headers(stream_id, parts[0], ends=False, is_whole=False),
            *(continuation(stream_id, part, is_whole=False) for part in parts[1:-1]),
            continuation(stream_id, parts[-1]),
            data(stream_id, b"z" * (SENT_BYTES // 2), ends=False),
            data(stream_id, b"z" * (SENT_BYTES // 2), ends=False),
        )
    )


UNENDED = b"".join(
    (
        b"POST %b HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n" % (PATH, BODY_BYTES),
        *(b"%b: %b\r\n" % field for field in FIELDS),
        b"\r\n",
        b"z" * SENT_BYTES,
    )
)
"""The same over HTTP/1.1."""


def test_streams_that_do_not_end(tmp_path: Path) -> None:
    with proxy(tmp_path, maxHeldBytes=f"{HELD_MIB}MiB") as served, contextlib.ExitStack() as stack:
        before = served.resident_mib
        for _ in range(CONNECTIONS):
            client = stack.enter_context(FrameClient.connect(served.port))
            client.begin()
            for number in range(STREAMS):
                client.send(unended(2 * number + 1))
            client.send(ping())
            while (found := client.next_frame()) is not None and found.kind != Kind.PING:
                # A connection where nothing else is under way ends, which means the same.
                assert found.kind not in (Kind.HEADERS, Kind.DATA)
                if found.kind == Kind.RST_STREAM:
                    assert Code.REFUSED_STREAM == found.code
                elif found.kind == Kind.GOAWAY:
                    assert Code.ENHANCE_YOUR_CALM == found.code

        held = served.metric("downstream_held_bytes")
        # Half of it, which one address may have, but for the last request.
        assert 0.4 * HELD_MIB * MIB < held <= HELD_MIB * MIB / 2
        assert served.resident_mib - before < GROWN_MIB
        assert (200, "ok") == ask(served.port, "/healthz")
        stack.close()
        while served.metric("downstream_held_bytes"):
            pass  # until the last of them is gone
        assert (200, "ok") == ask(served.port, "/healthz")


def test_one_connection_of_such_streams(tmp_path: Path) -> None:
    with proxy(tmp_path) as served, FrameClient.connect(served.port) as client:
        client.begin()
        for number in range(STREAMS):
            client.send(unended(2 * number + 1))
        client.send(ping())
        client.until(Kind.PING)

        assert 3 * MIB < served.metric("downstream_held_bytes") <= 4 * MIB
        assert 0 < served.metric('downstream_held_refusals_total{bound="connection"}')


def test_requests_that_do_not_end(tmp_path: Path) -> None:
    """The same holds over HTTP/1.1, where a connection has one of them."""
    count = 300
    with proxy(tmp_path, maxHeldBytes=f"{HELD_MIB}MiB") as served, contextlib.ExitStack() as stack:
        before = served.resident_mib
        for _ in range(count):
            client = socket.create_connection(("127.0.0.1", served.port), timeout=60)
            stack.enter_context(client)
            client.sendall(UNENDED)
        while served.metric("downstream_received_bytes_total") < count * len(UNENDED):
            pass  # until it has them all

        held = served.metric("downstream_held_bytes")
        assert 0.4 * HELD_MIB * MIB < held <= HELD_MIB * MIB / 2
        refused = served.metric("downstream_held_refusals_total")
        assert held >= (count - refused) * (56_000 + SENT_BYTES)
        assert refused > count / 2
        assert served.resident_mib - before < GROWN_MIB
        assert (200, "ok") == ask(served.port, "/healthz")


def test_requests_while_memory_is_short(tmp_path: Path) -> None:
    """A connection that is open already gets its answer, or may send its request again."""
    with (
        proxy(tmp_path) as served,
        FrameClient.connect(served.port) as client,
        socket.create_connection(("127.0.0.1", served.port), timeout=60) as plain,
    ):
        client.begin()
        client.send(headers(1, GET_HEALTH))
        client.until(Kind.DATA, 1)
        before = served.metric("downstream_received_bytes_total")
        plain.sendall(b"GET /healthz ")
        while served.metric("downstream_received_bytes_total") == before:
            pass  # until the connection is not idle
        path = tmp_path / "settings.yaml"
        short = path.read_text("utf-8").replace(
            "limits:", "overload: {memoryBytes: 1MiB}\n  limits:"
        )
        path.write_text(short, "utf-8")
        served.served.line("of memory are in use, of at most 1")

        client.send(headers(3, GET_HEALTH))
        assert Code.REFUSED_STREAM == client.until(Kind.RST_STREAM, 3).code
        plain.sendall(b"HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"HTTP/1.1 503" == plain.recv(65536)[:12]


GET_HEALTH = block(
    *((b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/healthz")),
    (b":authority", b"a.test"),
)
