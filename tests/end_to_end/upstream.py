"""An upstream that a test scripts: it hears every request, and says what it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, NamedTuple

from tests.end_to_end.peer import WAIT_S, EndOfStreamError, Message, Peer, begin

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine


class Arrival(NamedTuple):
    """A request that arrived whole, and where."""

    peer: Peer
    request: Message


class Upstream:
    """A listening socket, its connections, and what arrives on them."""

    def __init__(self, *, reads: bool = True, buffer_bytes: int | None = None) -> None:
        self._listener = socket.socket()
        self._listener.setblocking(False)
        if buffer_bytes is not None:  # accepted sockets inherit them
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(1024)
        self.port: int = self._listener.getsockname()[1]
        self._reads = reads
        self._arrivals: asyncio.Queue[Arrival] = asyncio.Queue()
        self._accepted: asyncio.Queue[Peer] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: list[BaseException] = []
        self._answer: Callable[[Arrival], Awaitable[None]] | None = None
        self.peers: list[Peer] = []
        self.ended: list[Peer] = []

    def start(self) -> None:
        # Not by a task: one that is cancelled as it gets a connection leaves it open.
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def answer_with(self, answer: Callable[[Arrival], Awaitable[None]]) -> None:
        """Have requests answered by a function from now on, instead of by the test."""
        self._answer = answer

    async def next_request(self) -> Arrival:
        async with asyncio.timeout(WAIT_S):
            return await self._arrivals.get()

    async def next_connection(self) -> Peer:
        async with asyncio.timeout(WAIT_S):
            return await self._accepted.get()

    @property
    def is_quiet(self) -> bool:
        return self._arrivals.empty()

    def stop_listening(self) -> None:
        if self._listener.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.stop_listening()
        for peer in self.peers:
            peer.close()
        if self._failures:
            raise self._failures[0]

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # the client is gone already
        connection.setblocking(False)
        peer = Peer(connection)
        self.peers.append(peer)
        if self._reads:
            self._spawn(self._read(peer))
        else:
            self._accepted.put_nowait(peer)

    async def _read(self, peer: Peer) -> None:
        # A connection that ends, even in the middle of a request, is the test's to judge.
        with contextlib.suppress(EndOfStreamError, OSError, TimeoutError):
            while True:
                arrival = Arrival(peer, await peer.read_request())
                if self._answer is not None:
                    await self._answer(arrival)
                else:
                    self._arrivals.put_nowait(arrival)
        self.ended.append(peer)

    def _spawn(self, coroutine: Coroutine[None, None, None]) -> None:
        task = begin(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._failures.append(failure)

    def __repr__(self) -> str:
        return f"<Upstream, {len(self.peers)} connections so far>"
