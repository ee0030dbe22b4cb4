"""Memory of an open connection of a proxy: idle after one request, or carrying a watch.

Connections are opened one after the other, each by blocking calls, so nothing else grows
meanwhile: no burst, no queue, one busy upstream connection while idle ones are opened.  Options are
those of `peers`, which weighs them without `--memory-only` as well.

    python -m loadtest.memory --idle 8000 --watches 8000
    python -m loadtest.memory --tls --protocol h1,h2 --streams 100 --watches 2000
"""

from __future__ import annotations

import socket
import ssl
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset

from loadtest.contenders import start_contender, start_nginx_origin
from loadtest.processes import LoadTestError, start_origin
from loadtest.program import Table
from loadtest.wrk import FIELDS, TARGET

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from loadtest.contenders import Site
    from loadtest.processes import Process

WATCH_TARGET = "/api/v1/pods?watch=true"
WARM_UP = 300
"""Connections opened and closed again first, so that pools and caches are grown already."""

SETTLE_S = 2.0
"""Quiet time before memory is read; watches have given back their seats by then."""

ANSWER_WITHIN_S = 60.0

TARGETS = {"idle_bytes": 6 * 1024, "watch_bytes": 20 * 1024}

HTTP2_TARGETS = {"watch_bytes": 8 * 1024}
"""The same over HTTP/2, with TLS or without, where watches share connections."""


class Held(NamedTuple):
    """Requests that clients hold open.

    Attributes:
        until: Bytes of the body that are waited for; nothing waits for the response's end.
        streams: How many share a connection over HTTP/2; 0 speaks HTTP/1.1, each on its own.
    """

    target: str
    until: bytes
    number: int
    streams: int


class Http2Connection:
    def __init__(self, sock: socket.socket, name: str) -> None:
        self._sock = sock
        self._name = name
        self._scheme = b"http"
        if isinstance(sock, ssl.SSLSocket):
            self._scheme = b"https"
            if sock.selected_alpn_protocol() != "h2":
                raise LoadTestError(f"{name} does not speak HTTP/2")
        self._state = H2Connection(H2Configuration(header_encoding=None))
        self._state.initiate_connection()
        sock.sendall(self._state.data_to_send())

    def ask(self, target: str, fields: Mapping[str, str], until: bytes) -> None:
        """Send a GET and wait until its response has some bytes, or its end if there are none."""
        stream = self._state.get_next_available_stream_id()
        lines = {name.lower().encode(): text.encode() for name, text in fields.items()}
        pseudo = [
            (b":method", b"GET"),
            (b":scheme", self._scheme),
            (b":authority", lines.pop(b"host")),
            (b":path", target.encode()),
        ]
        self._state.send_headers(stream, [*pseudo, *lines.items()], end_stream=True)
        body, is_over = b"", False
        while not ((until and until in body) or is_over):
            self._sock.sendall(self._state.data_to_send())
            data = self._sock.recv(65536)
            if not data:
                raise LoadTestError(f"{self._name} closed a connection")
            for event in self._state.receive_data(data):
                if isinstance(event, ResponseReceived) and event.stream_id == stream:
                    status = dict(event.headers)[b":status"].decode()
                    if status != "200":
                        raise LoadTestError(f"{self._name} responded {status} instead of 200")
                elif isinstance(event, DataReceived):
                    size, of = event.flow_controlled_length, event.stream_id
                    self._state.acknowledge_received_data(size, of)
                    body += event.data if of == stream else b""
                is_over |= (
                    isinstance(event, StreamEnded | StreamReset) and event.stream_id == stream
                )
        self._sock.sendall(self._state.data_to_send())
        if until not in body:
            raise LoadTestError(f"{self._name} responded {body[:100]!r} instead of {until!r}")


def bytes_each(proxy: Process, held: Held, tls: ssl.SSLContext | None = None) -> float:
    """Measure memory per idle connection after one request, or per watch after its first event."""
    with ExitStack() as warm:
        _open(proxy, held._replace(number=min(held.number, WARM_UP)), tls, warm)
    time.sleep(SETTLE_S)
    before = proxy.rss_bytes()
    with ExitStack() as stack:
        _open(proxy, held, tls, stack)
        time.sleep(SETTLE_S)
        return (proxy.rss_bytes() - before) / held.number


def _open(proxy: Process, held: Held, tls: ssl.SSLContext | None, stack: ExitStack) -> None:
    fields = {"Host": f"127.0.0.1:{proxy.port}", **FIELDS}
    try:
        for first in range(0, held.number, held.streams or 1):
            sock = stack.enter_context(
                socket.create_connection(("127.0.0.1", proxy.port), timeout=ANSWER_WITHIN_S)
            )
            if tls is not None:
                sock = stack.enter_context(tls.wrap_socket(sock, server_hostname="127.0.0.1"))
            if not held.streams:
                _ask(proxy, sock, held, fields)
                continue
            connection = Http2Connection(sock, proxy.name)
            for _ in range(first, min(first + held.streams, held.number)):
                connection.ask(held.target, fields, held.until)
    except TimeoutError as error:
        raise LoadTestError(f"{proxy.name} did not answer within {ANSWER_WITHIN_S:g} s") from error


def _ask(proxy: Process, sock: socket.socket, held: Held, fields: dict[str, str]) -> None:
    lines = [f"GET {held.target} HTTP/1.1", *(f"{name}: {text}" for name, text in fields.items())]
    sock.sendall("\r\n".join([*lines, "", ""]).encode())
    until, received = held.until or b"\r\n\r\n", b""
    while until not in received:
        data = sock.recv(65536)
        received += data
        # The bytes that are awaited may never come in a refusal; its head says enough.
        is_refusal = b"\r\n\r\n" in received and not received.startswith(b"HTTP/1.1 200 ")
        if not data or is_refusal:
            break
    if not (received.startswith(b"HTTP/1.1 200 ") and until in received):
        status = received.split(b"\r\n", 1)[0].decode(errors="replace")
        raise LoadTestError(f"{proxy.name} responded {status!r} instead of a whole 200")


def weigh(
    proxies: Sequence[str], site: Site, connections: int, watches: int, streams: int = 0
) -> dict[str, dict[str, float]]:
    weights: dict[str, dict[str, float]] = {}
    how = f"HTTP/2, {streams} watches a connection" if streams else "HTTP/1.1"
    table = Table("proxy <10 | KiB/idle connection >21.2f | KiB/open watch >16.2f")
    print(f"\n{how}")
    table.head()
    for name in proxies:
        weights[name] = {}
        if connections:
            with start_nginx_origin(site) as origin:
                idle = Held(TARGET, b"", connections, min(streams, 1))
                weights[name]["idle_bytes"] = _weigh_one(name, site, origin, idle)
        if watches:
            with start_origin(directory=site.directory, core=site.load_core) as origin:
                held = Held(WATCH_TARGET, b'"ADDED"', watches, streams)
                weights[name]["watch_bytes"] = _weigh_one(name, site, origin, held)
        found = (weights[name].get(key) for key in ("idle_bytes", "watch_bytes"))
        table.row(name, *("-" if each is None else each / 1024 for each in found))
    for key, measured in weights.get("apfproxy", {}).items():
        target = (HTTP2_TARGETS if streams else TARGETS).get(key)
        if target is None or (site.tls is not None and not streams):
            # With TLS most is what OpenSSL holds, in every proxy; compare with the others.
            continue
        verdict = "within" if measured <= target else "ABOVE"
        what = "idle connection" if key == "idle_bytes" else "open watch"
        print(
            f"apfproxy: {measured / 1024:.2f} KiB per {what}, "
            f"{verdict} the target of {target / 1024:g}"
        )
    return weights


def _weigh_one(name: str, site: Site, origin: Process, held: Held) -> float:
    # A new process for each figure: memory that an earlier load left free would hide the growth.
    context = None
    if site.tls is not None:
        context = site.tls.client_context()
        context.set_alpn_protocols(["h2" if held.streams else "http/1.1"])
    with start_contender(name, site, origin.port) as proxy:
        return bytes_each(proxy, held, context)


def main() -> int:
    from loadtest import peers  # noqa: PLC0415 - it weighs by this module

    if {"-h", "--help"} & set(sys.argv):
        print(__doc__)
    return peers.main(["--memory-only", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
