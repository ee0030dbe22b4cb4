"""A check of a server's health: one request on a connection of its own."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Final

from apfproxy.http.read_buffer import READS
from apfproxy.upstream.counters import UpstreamFailure

_VERSIONS: Final = (b"HTTP/1.1 ", b"HTTP/1.0 ")
_CODE_END: Final = 12  # the version, a space and three digits; no more of a response is read
# The check is wrong, not the server, unless others have a good response.
REFUSALS: Final = frozenset({401, 403, 404})


class NoAnswerError(OSError):
    def __init__(self, kind: UpstreamFailure, problem: str) -> None:
        super().__init__(problem)
        self.kind = kind


class StatusLine(asyncio.BufferedProtocol):
    """Waits for the start of a response; `came` is its status code, or why there is none."""

    def __init__(self) -> None:
        self.came: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._start = b""

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002  the protocol's signature
        return READS.data

    def buffer_updated(self, nbytes: int) -> None:
        if self.came.done():
            return
        self._start += READS.view[: min(nbytes, _CODE_END - len(self._start))].tobytes()
        if len(self._start) < _CODE_END:
            return
        code = self._start[-3:]
        if self._start.startswith(_VERSIONS) and code.isdigit():
            self.came.set_result(int(code))
        else:
            self._fail("its answer is not HTTP/1.1")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  as above
        if not self.came.done():
            self._fail("it closes the connection without an answer")

    def _fail(self, problem: str) -> None:
        self.came.set_exception(NoAnswerError(UpstreamFailure.BROKEN_ANSWER, problem))


async def status_of(transport: asyncio.Transport, asked: bytes, limit_s: float) -> int:
    """Ask on a new connection, closed then: the response's status code, or NoAnswerError."""
    line = StatusLine()
    transport.set_protocol(line)
    try:
        transport.write(asked)
        async with asyncio.timeout(limit_s):
            return await line.came
    except TimeoutError as error:
        problem = f"no answer to a check within {limit_s:g} s"
        raise NoAnswerError(UpstreamFailure.ANSWER_TIMEOUT, problem) from error
    finally:
        transport.abort()


def question(method: str, path: str, host: str, lines: bytes = b"") -> bytes:
    """The bytes of a GET or HEAD request; further header `lines` end in CRLF each."""
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: apfproxy\r\n".encode()
    return head + lines + b"Connection: close\r\n\r\n"


def status_text(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
