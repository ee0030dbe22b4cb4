"""Compare apfproxy with HAProxy and nginx on large bodies: CPU per MiB.

Each proxy runs as one thread on one core; the origin, and 32 clients that read as fast as they can,
have the other core.  In each round every proxy is driven in turn, in an order drawn anew; compare
ratios within a round.  CPU time is what the kernel says the proxy process used, the kernel's work
for it included.  All run with their own sizes of buffers.

    python -m loadtest.large_answers --rounds 5 --seconds 2 --kib 64,1024,10240
    python -m loadtest.large_answers --way length,chunked,upload --proxies haproxy,apfproxy
"""

from __future__ import annotations

import json
import random
import selectors
import socket
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from loadtest.arguments import Parser, count_up_to, names_from, output_file
from loadtest.contenders import CONTENDERS, start_contender
from loadtest.processes import LoadTestError, Process, exit_status, free_ports, pin, python_module
from loadtest.site import Site

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

WAYS = ("length", "chunked", "upload")
"""An answer with a Content-Length, one in chunks, and a request's body with a Content-Length."""
BASELINE = "haproxy"
READ_BYTES = 262144
PROXY_CORE, LOAD_CORE = 0, 1
MIB = 1 << 20
MAX_KIB = 1 << 18
FIELDS = "Accept: */*\r\nX-Remote-User: jane@example.com\r\nX-Remote-Group: developers\r\n"
ANSWER_WITHIN_S = 30.0
WARM_UP_S = 0.3


class Result(NamedTuple):
    """One measurement; `ratio` is CPU per MiB relative to HAProxy's in the same round."""

    round: int
    kib: int
    way: str
    proxy: str
    mib_per_s: float
    cpu_us_per_mib: float
    ratio: float | None


class Clients:
    """Connections of which each has one exchange after the other, in one thread.

    Attributes:
        body_bytes: Of the bodies that were through.
    """

    def __init__(self, port: int, way: str, kib: int, count: int) -> None:
        self._kib = kib
        self._way = way
        self.body_bytes = 0
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._selector = selectors.EpollSelector()
        method, path = ("PUT", "/up") if way == "upload" else ("GET", f"/{way}")
        path = path.replace("length", "large")
        length = f"Content-Length: {kib * 1024}\r\n" if way == "upload" else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{FIELDS}{length}\r\n".encode()
        body = bytes(kib * 1024) if way == "upload" else b""
        self._request = memoryview(head + body)
        self._unsent: dict[socket.socket, int] = {}
        self._expected: dict[socket.socket, int] = {}
        """Bytes of the answer that are to come; 0 before its head."""
        self._tails: dict[socket.socket, bytes] = {}
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_WITHIN_S)
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ)
            self._begin(connection)

    def run(self, seconds: float) -> None:
        """Exchange for as long as that."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            events = self._selector.select(ANSWER_WITHIN_S)
            if not events:
                raise LoadTestError(f"nothing came for {ANSWER_WITHIN_S:g} s")
            for key, mask in events:
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                if mask & selectors.EVENT_WRITE:
                    self._send(connection)
                if mask & selectors.EVENT_READ:
                    self._receive(connection)

    def close(self) -> None:
        """Leave."""
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()

    def _begin(self, connection: socket.socket) -> None:
        self._unsent[connection] = 0
        self._expected[connection] = 0
        self._tails[connection] = b""
        self._send(connection)

    def _send(self, connection: socket.socket) -> None:
        at = self._unsent[connection]
        with suppress(BlockingIOError):
            at += connection.send(self._request[at:])
        self._unsent[connection] = at
        events = selectors.EVENT_READ
        if at < len(self._request):
            events |= selectors.EVENT_WRITE
        self._selector.modify(connection, events)

    def _receive(self, connection: socket.socket) -> None:
        size = connection.recv_into(self._buffer)
        if not size:
            raise LoadTestError("a connection was closed")
        if self._way == "chunked":
            tail = (self._tails[connection] + bytes(self._buffer[max(0, size - 5) : size]))[-5:]
            self._tails[connection] = tail
            is_over = tail == b"0\r\n\r\n"
        else:
            expected = self._expected[connection]
            if not expected:
                head = bytes(self._buffer[:size])
                end = head.index(b"\r\n\r\n") + 4
                if not head.startswith(b"HTTP/1.1 200 "):
                    raise LoadTestError(f"answered {head.splitlines()[0]!r} instead of a 200")
                lines = head[:end].lower().split(b"\r\n")
                length = next(each for each in lines if each.startswith(b"content-length:"))
                expected = end + int(length.partition(b":")[2])
            self._expected[connection] = expected = expected - size
            is_over = expected == 0
        if is_over:
            self.body_bytes += self._kib * 1024
            self._begin(connection)


def measure(proxy: Process, way: str, kib: int, options: argparse.Namespace) -> tuple[float, float]:
    """Drive one proxy: MiB a second, and CPU microseconds per MiB."""
    clients = Clients(proxy.port, way, kib, options.connections)
    try:
        clients.run(WARM_UP_S)
        before_bytes, before_ns, begun = clients.body_bytes, proxy.cpu_ns(), time.monotonic()
        clients.run(options.seconds)
        mib = (clients.body_bytes - before_bytes) / MIB
        cpu_us = (proxy.cpu_ns() - before_ns) / 1000
        lasted_s = time.monotonic() - begun
    except OSError as error:
        raise LoadTestError(f"{proxy.name}, {way}, {kib} KiB: {error}") from error
    finally:
        clients.close()
    return mib / lasted_s, cpu_us / mib


def compare(options: argparse.Namespace, directory: Path) -> list[Result]:
    """Drive every proxy in every round."""
    shuffle = random.Random(options.seed).shuffle  # noqa: S311 - an order, not a secret
    site = Site(directory, PROXY_CORE, LOAD_CORE, adds_headers=False)
    pin(0, LOAD_CORE)
    results: list[Result] = []
    print(f"{'KiB':>7} {'way':<9}{'proxy':<10}{'MiB/s':>9}{'CPU us/MiB':>12}{'x HAProxy':>11}")
    for kib in options.kib:
        with ExitStack() as running:
            origin = running.enter_context(start_large_origin(directory, kib))
            proxies = {
                name: running.enter_context(start_contender(name, site, origin.port))
                for name in options.proxies
            }
            for way in options.way:
                rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in proxies}
                for _ in range(options.rounds):
                    order = list(proxies)
                    shuffle(order)
                    for name in order:
                        rounds[name].append(measure(proxies[name], way, kib, options))
                results += print_medians(kib, way, rounds)
    return results


def print_medians(kib: int, way: str, rounds: dict[str, list[tuple[float, float]]]) -> list[Result]:
    """Print the medians of one size and way; the single rounds, and the medians as round 0."""
    results = []
    for name, mine in rounds.items():
        ratios = []
        for number, (speed, cpu) in enumerate(mine, 1):
            ratio = cpu / rounds[BASELINE][number - 1][1] if BASELINE in rounds else None
            if ratio is not None:
                ratios.append(ratio)
            results.append(Result(number, kib, way, name, speed, cpu, ratio))
        speed, cpu = (statistics.median(column) for column in zip(*mine, strict=True))
        ratio = statistics.median(ratios) if ratios else None
        results.append(Result(0, kib, way, name, speed, cpu, ratio))
        text = f"{ratio:>11.2f}" if ratio is not None else ""
        print(f"{kib:>7} {way:<9}{name:<10}{speed:>9.0f}{cpu:>12.0f}{text}", flush=True)
    return results


def start_large_origin(directory: Path, kib: int) -> Process:
    """Start the origin of large bodies."""
    (port,) = free_ports(1)
    argv = [*python_module("loadtest.large_origin"), "--port", str(port), "--kib", str(kib)]
    return Process("large-origin", argv, port=port, core=LOAD_CORE, directory=directory)


def sizes(text: str) -> list[int]:
    """Read a comma-separated list of KiB."""
    parse = count_up_to(MAX_KIB)
    return [parse(each) for each in text.split(",")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; the result is the exit status."""
    parser = Parser(__doc__)
    add = parser.add_argument
    add("--rounds", type=count_up_to(1000), default=5, help="rounds of each size and way (5)")
    add("--seconds", type=count_up_to(3600), default=2, help="seconds per proxy and round (2)")
    add("--connections", type=count_up_to(5000), default=32, help="of clients (32)")
    add("--kib", type=sizes, default=[64, 1024, 10240], help="sizes of bodies (64,1024,10240)")
    add("--way", type=names_from(WAYS, "way"), default=list(WAYS), help=",".join(WAYS))
    add(
        "--proxies",
        type=names_from(CONTENDERS, "proxy"),
        default=list(CONTENDERS),
        help=",".join(CONTENDERS),
    )
    add("--seed", type=int, default=None, help="for the order of proxies in each round")
    add("--json", type=output_file, metavar="FILE", help="write all results there as well")
    options = parser.parse_args(arguments)

    def run() -> None:
        with tempfile.TemporaryDirectory(prefix="apfproxy-large-") as directory:
            results = compare(options, Path(directory))
        if options.json is not None:
            options.json.write_text(
                json.dumps([each._asdict() for each in results], indent=2) + "\n"
            )

    return exit_status("large_answers", run)


if __name__ == "__main__":
    sys.exit(main())
