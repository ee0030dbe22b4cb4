"""The store of a worker: records in the memory of its parent process, over a Unix socket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

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
from apfproxy.fleet.record import MAX_RECORD_BYTES
from apfproxy.fleet.store import Stored, StoreError, Swapped

if TYPE_CHECKING:
    from collections.abc import Callable

OLDEST_PROTOCOL = 1
"""That this code speaks."""


class ParentStore:
    """One record in the parent process.

    It connects when it is used, again after a failure, and listens from then on.

    Args:
        path: Of the Unix socket of the parent's `LedgerServer`.
        key: Of the record.
    """

    def __init__(self, path: str, key: str) -> None:
        self._path = path
        self._key = key
        self._on_urgent: Callable[[], None] | None = None
        self._connecting = asyncio.Lock()
        self._connection: _Connection | None = None

    async def read(self) -> Stored:
        """What is there; StoreError."""
        answer = await self._ask(READ)
        return Stored(answer.data, answer.version)

    async def swap(self, data: bytes, seen: Stored, *, is_urgent: bool = False) -> Swapped:
        """Write if nobody has since `seen`; StoreError, after which it may be written or not."""
        if len(data) > MAX_RECORD_BYTES:
            raise StoreError(f"the record has {len(data)} bytes, more than {MAX_RECORD_BYTES}")
        answer = await self._ask(SWAP, version=seen.version, data=data, is_urgent=is_urgent)
        stored = Stored(data if answer.is_done else answer.data, answer.version)
        return Swapped(is_done=answer.is_done, stored=stored)

    def listen(self, on_urgent: Callable[[], None]) -> None:
        """Call `on_urgent` when another worker wrote something urgent, while it is connected."""
        self._on_urgent = on_urgent

    async def close(self) -> None:
        """End the connection; harmless once done."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.end()

    async def _ask(
        self, verb: str, *, version: str = "", data: bytes | None = None, is_urgent: bool = False
    ) -> Answer:
        connection = await self._connected()
        return await connection.ask(verb, version=version, data=data, is_urgent=is_urgent)

    async def _connected(self) -> _Connection:
        async with self._connecting:
            if self._connection is not None and not self._connection.is_ending:
                return self._connection
            loop = asyncio.get_running_loop()
            connection = _Connection(self._key, self._told)
            try:
                await loop.create_unix_connection(lambda: connection, self._path)
                await connection.greeted
            except OSError as error:
                raise StoreError(
                    f"the parent process does not answer: {error.strerror or error}"
                ) from error
            except asyncio.CancelledError:
                connection.end()
                raise
            self._connection = connection
            return connection

    def _told(self) -> None:
        if self._on_urgent is not None:
            self._on_urgent()

    def __repr__(self) -> str:
        return f"<ParentStore {self._key}: {self._connection or 'not connected'}>"


class _Connection(LineProtocol):
    """A connection to the parent.

    Attributes:
        greeted: Done when the parent has answered the greeting.
    """

    def __init__(self, key: str, on_urgent: Callable[[], None]) -> None:
        super().__init__()
        self._key = key
        self._on_urgent = on_urgent
        self._number = 0
        self._asked: dict[int, asyncio.Future[Answer]] = {}
        self.greeted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet."""
        super().connection_made(transport)
        self.send(Greeting(protocol=PROTOCOL))

    async def ask(
        self, verb: str, *, version: str = "", data: bytes | None = None, is_urgent: bool = False
    ) -> Answer:
        """The answer to a question; StoreError."""
        self._number += 1
        number = self._number
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            self.send(
                Question(
                    number=number,
                    verb=verb,
                    key=self._key,
                    version=version,
                    data=data,
                    is_urgent=is_urgent,
                )
            )
            return await answer
        finally:
            self._asked.pop(number, None)

    def on_line(self, line: bytes) -> None:
        """Take the greeting, or an answer."""
        try:
            if not self.greeted.done():
                self._greet(msgspec.json.decode(line, type=Greeting))
            else:
                self._take(msgspec.json.decode(line, type=Answer))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.on_wrong("says what this worker does not understand")

    def _greet(self, greeting: Greeting) -> None:
        if greeting.protocol < OLDEST_PROTOCOL:
            self.on_wrong(f"speaks protocol {greeting.protocol} only; restart it")
            return
        self.send(Question(number=0, verb=LISTEN, key=self._key))
        self.greeted.set_result(None)

    def _take(self, answer: Answer) -> None:
        asked = self._asked.get(answer.number)
        if answer.urgent:
            self._on_urgent()
        elif answer.error and asked is None and answer.number == 0:
            self.on_wrong(answer.error)
        elif asked is not None and not asked.done():
            if answer.error:
                asked.set_exception(StoreError(f"the parent process: {answer.error}"))
            else:
                asked.set_result(answer)

    def on_wrong(self, problem: str) -> None:
        """Fail what was asked, and end the connection."""
        self._fail(f"the parent process: {problem}")
        self.end()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Fail what was asked."""
        self._fail("the parent process has closed the connection")

    def _fail(self, problem: str) -> None:
        waiting: list[asyncio.Future[Any]] = [self.greeted, *self._asked.values()]
        for each in waiting:
            if not each.done():
                each.set_exception(StoreError(problem))
                each.exception()  # whoever waited may have given up

    def __repr__(self) -> str:
        return f"<connection to the parent: {len(self._asked)} asked>"
