"""The records of a machine's workers, in the memory of their parent process.

A client that breaks the rules ends its own connection only.
"""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from apfproxy.base.sockets import SocketFiles, listening_sockets, serve_on
from apfproxy.fleet.parent_messages import (
    LISTEN,
    PROTOCOL,
    READ,
    SWAP,
    Answer,
    Greeting,
    LineProtocol,
    Question,
)
from apfproxy.fleet.record import MAX_RECORD_BYTES, RecordError, decode, encode, without
from apfproxy.settings import Address

if TYPE_CHECKING:
    import asyncio

MAX_RECORDS = 2048
"""One of each cluster, of which there are at most 1000, and some of former ones."""
MAX_CONNECTIONS = 65536
MAX_UNSENT_BYTES = 1 << 22
"""Of one client; one that reads so slowly is ended."""
MAX_PROBLEM = 200
"""Characters of what is said of a wrong line."""
BACKLOG = 4096
PRIVATE = 0o600

logger = logging.getLogger(__name__)


class Held(NamedTuple):
    """A record, and which writing it is of."""

    data: bytes
    version: str


class LedgerServer:
    """The records, and the Unix socket over which workers read and swap them."""

    def __init__(self) -> None:
        # Not the same after a restart, so that no version of before is taken for one of now.
        self._life = secrets.token_hex(4)
        self._writes = 0
        self._records: dict[str, Held] = {}
        self._connections: set[_Connection] = set()
        self._servers: list[asyncio.Server] = []
        self._files = SocketFiles(())

    async def start(self, path: str) -> None:
        """Listen at a path, for this user only; OSError if that cannot be."""
        listeners = await listening_sockets(Address.unix(path), BACKLOG, mode=PRIVATE)
        self._files = SocketFiles(listeners)
        self._servers = await serve_on(listeners, lambda: _Connection(self), backlog=BACKLOG)

    async def close(self) -> None:
        """End all connections, and listen no more; harmless once done."""
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        for connection in tuple(self._connections):
            connection.end()
        for server in servers:
            await server.wait_closed()
        self._files.remove()

    def drop(self, name: str) -> None:
        """Take the members of a name out of all records, and tell all who listen."""
        for key, held in tuple(self._records.items()):
            try:
                record = decode(held.data)
            except RecordError as error:
                logger.warning("cannot take %s out of the record %s: %s", name, key, error)
                continue
            left = without(record, name)
            if left is not record:
                self._write(key, encode(left))
                self._tell(key, None)

    def add(self, connection: _Connection) -> bool:
        """Whether there is room for a connection, which is known from now on."""
        if len(self._connections) >= MAX_CONNECTIONS:
            return False
        self._connections.add(connection)
        return True

    def remove(self, connection: _Connection) -> None:
        """Forget a connection."""
        self._connections.discard(connection)

    def answer(self, question: Question, connection: _Connection) -> Answer:
        """What to say to a question."""
        number, key = question.number, question.key
        held = self._records.get(key)
        if question.verb == LISTEN:
            connection.listens.add(key)
            return Answer(number=number)
        if question.verb == READ:
            return _there(number, held)
        if question.verb != SWAP or question.data is None:
            return Answer(number=number, error=f"knows no {question.verb[:MAX_PROBLEM]!r}")
        if len(question.data) > MAX_RECORD_BYTES:
            return Answer(number=number, error="the record is too long")
        if question.version != ("" if held is None else held.version):
            return _there(number, held)
        if held is None and len(self._records) >= MAX_RECORDS:
            return Answer(number=number, error=f"has {MAX_RECORDS} records already")
        written = self._write(key, question.data)
        if question.is_urgent:
            self._tell(key, connection)
        return Answer(number=number, is_done=True, version=written.version)

    def _write(self, key: str, data: bytes) -> Held:
        self._writes += 1
        held = self._records[key] = Held(data, f"{self._life}.{self._writes}")
        return held

    def _tell(self, key: str, writer: _Connection | None) -> None:
        for each in tuple(self._connections):
            if each is not writer and key in each.listens:
                each.send(Answer(urgent=key))

    def __repr__(self) -> str:
        return f"<LedgerServer: {len(self._records)} records, {len(self._connections)} connections>"


def _there(number: int, held: Held | None) -> Answer:
    if held is None:
        return Answer(number=number)
    return Answer(number=number, version=held.version, data=held.data)


class _Connection(LineProtocol):
    """A worker's connection.

    Attributes:
        listens: To which records.
    """

    def __init__(self, server: LedgerServer) -> None:
        super().__init__()
        self._server = server
        self._is_greeted = False
        self.listens: set[str] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take it, if there is room."""
        super().connection_made(transport)
        if not self._server.add(self):
            self.on_wrong("has too many connections")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Forget it."""
        self._server.remove(self)

    def on_line(self, line: bytes) -> None:
        """Answer a line."""
        try:
            if not self._is_greeted:
                greeting = msgspec.json.decode(line, type=Greeting)
                self._is_greeted = True
                self.send(Greeting(protocol=min(greeting.protocol, PROTOCOL)))
                return
            question = msgspec.json.decode(line, type=Question)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self.on_wrong(f"cannot read a line: {' '.join(str(error).split())[:MAX_PROBLEM]}")
            return
        answer = self._server.answer(question, self)
        if len(self.listens) > MAX_RECORDS:
            self.on_wrong("listens to too much")
            return
        self.send(answer)

    def send(self, message: Answer | Greeting) -> None:  # type: ignore[override]  # says only these
        """Send a message; to one that does not read, none any more."""
        super().send(message)
        transport = self.transport
        if transport is not None and transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            logger.warning("a worker does not read what it is told; its connection is ended")
            self.end()

    def on_wrong(self, problem: str) -> None:
        """Say so, and end it."""
        logger.warning("a client of the workers' record is ended: it %s", problem)
        super().send(Answer(error=problem))
        transport = self.transport
        if transport is not None and transport.get_write_buffer_size():
            transport.abort()  # it does not read, so it would stay for ever
        elif transport is not None:
            transport.close()
