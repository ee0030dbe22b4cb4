"""`apfproxy serve` and `apfproxy apiserver` as processes of their own, for tests that block."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import os
import re
import resource
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator

WITHIN_S = 100.0


class Served:
    """A process of a command, and what it logs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []

    def line(self, pattern: str) -> re.Match[str]:
        """Read the log to the first line that matches, which was not read before."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(pattern, line)
            if found is not None:
                return found
        raise AssertionError(f"no line matches {pattern!r} in {self.lines}")

    def send(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> tuple[int, str]:
        self.process.terminate()
        return self.rest()

    def rest(self) -> tuple[int, str]:
        assert self.process.stderr is not None
        # Not by `communicate`, which passes over what `line` has read ahead.
        rest = self.process.stderr.read()
        self.process.wait(WITHIN_S)
        self.lines += rest.splitlines(keepends=True)
        return self.process.returncode, rest


@contextlib.contextmanager
def command(*arguments: str, descriptors: int | None = None) -> Iterator[Served]:
    """Run a command of the program, and kill it at the end if it is still there."""

    def limit() -> None:
        if descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    process = subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-m", "apfproxy", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit,  # noqa: PLW1509 - no thread of the test is in the way of a system call
    )
    try:
        yield Served(process)
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def children(served: Served) -> list[int]:
    pid = served.process.pid
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:  # noqa: PTH123
        return [int(each) for each in file.read().split()]


class Answer(http.server.BaseHTTPRequestHandler):
    """Answers every GET in the same way."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or the body waits for the acknowledgement of the head

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""


class Upstream(http.server.ThreadingHTTPServer):
    """A server that says nothing of clients that are gone: tests read what the program prints."""

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # as it came


@contextlib.contextmanager
def started_upstream(handler: type[Answer] = Answer) -> Iterator[str]:
    server = Upstream(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="upstream")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def ask(port: int, target: str, *, head: str = "") -> tuple[int, str]:
    """GET something on a connection of its own: the status, 0 for none, and the body."""
    request = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{head}\r\n"
    with (
        contextlib.suppress(ConnectionError, http.client.HTTPException),
        socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S) as connection,
    ):
        connection.sendall(request.encode())
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response.status, response.read().decode()
    return 0, ""


def answered(connection: socket.socket) -> int:
    """Read a whole answer, to a GET that was sent: its status, 0 if the connection ends before."""
    response = http.client.HTTPResponse(connection)
    try:
        response.begin()
        response.read()
    except (ConnectionError, http.client.IncompleteRead):
        return 0
    return response.status


@contextlib.contextmanager
def connections(port: int, number: int, first: bytes = b"") -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(number):
            connection = socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S)
            found.append(stack.enter_context(connection))
            with contextlib.suppress(ConnectionError):
                connection.sendall(first)
        yield found
