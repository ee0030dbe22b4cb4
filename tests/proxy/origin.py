r"""An origin that does exactly what a test says, when it says so.

Without a handler a test takes each request as it comes, and plays the origin's part itself:

    async with Origin() as origin:
        ...
        request = await origin.next_request()
        await request.connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        request.finish()

With one, such as `answering(...)`, the handler plays it for every request.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Self

from tests.proxy.wire import WITHIN_S, Body, ClosedEarlyError, Head, Wire, set_buffers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BACKLOG = 128


class OriginConnection(Wire):
    """A connection that the proxy made.

    Attributes:
        is_between_requests: Whether the origin itself reads, for the head of the next request.
        ended: Set when the origin itself has read to the end.
    """

    def __init__(self, connected: socket.socket) -> None:
        super().__init__(connected)
        self.is_between_requests = True
        self.ended = asyncio.Event()

    async def wait_until_closed(self) -> bytes:
        """Wait until the proxy closes or resets it; returns what came before that, unread."""
        if not self.is_between_requests:
            return await self.read_to_end()
        async with asyncio.timeout(WITHIN_S):
            await self.ended.wait()
        return self.unread


class OriginRequest:
    """A request whose head has come.

    Attributes:
        connection: Where it came, and where to answer by raw bytes, close or reset.
        head: As it came.
        number: Which one of its connection, from 0.
    """

    def __init__(self, connection: OriginConnection, head: Head, number: int) -> None:
        self.connection = connection
        self.head = head
        self.number = number
        self._body: Body | None = None
        self._finished = asyncio.Event()

    @property
    def method(self) -> bytes:
        """The method."""
        return self.head.start_line.split(b" ", 1)[0]

    @property
    def target(self) -> bytes:
        """The target, byte for byte."""
        return self.head.start_line.split(b" ", 1)[1].rsplit(b" ", 1)[0]

    async def body(self) -> Body:
        """Read the body to its end, and then give the same.

        Raises:
            ClosedEarlyError: The proxy closed before.
        """
        if self._body is None:
            self._body = await self.connection.read_body(self.head)
        return self._body

    async def answer(self, response: bytes = OK) -> None:
        """Read the body, send a whole response, and go on to the connection's next request."""
        await self.body()
        await self.connection.send(response)
        self.finish()

    def finish(self) -> None:
        """Let the origin read the connection's next request: this one's body has been read."""
        self._finished.set()

    async def wait_finished(self) -> None:
        """Wait until a test is through with it."""
        await self._finished.wait()

    def __repr__(self) -> str:
        return f"<OriginRequest {self.number}: {self.head.start_line!r}>"


def answering(response: bytes = OK) -> Callable[[OriginRequest], Awaitable[None]]:
    """Make a handler that reads each body and answers with the same raw bytes."""

    async def handle(request: OriginRequest) -> None:
        await request.answer(response)

    return handle


class Origin:
    """A listener of 127.0.0.1; use as a context manager.

    Args:
        handler: Plays the origin's part for each request; None leaves it to `next_request`.  What
            it raises fails the test at the end of the context.
        send_buffer_bytes: Size of the kernel's buffer of outgoing bytes, if not its own choice.
        receive_buffer_bytes: The same for incoming bytes.

    Attributes:
        connections: All that were accepted, in order; closed ones too.
        requests: All whose heads came, in order.
    """

    def __init__(
        self,
        handler: Callable[[OriginRequest], Awaitable[None]] | None = None,
        *,
        send_buffer_bytes: int | None = None,
        receive_buffer_bytes: int | None = None,
    ) -> None:
        self._handler = handler or self._hand_over
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        set_buffers(
            self._listener, send_bytes=send_buffer_bytes, receive_bytes=receive_buffer_bytes
        )
        self._arrived: asyncio.Queue[OriginRequest] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._errors: list[BaseException] = []
        self.connections: list[OriginConnection] = []
        self.requests: list[OriginRequest] = []

    async def __aenter__(self) -> Self:
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(BACKLOG)
        self._listener.setblocking(False)
        self._start(self._accept(), "accept")
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._listener.close()
        for connection in self.connections:
            connection.close()
        if self._errors and kind is None:
            raise self._errors[0]

    def __repr__(self) -> str:
        return f"<Origin: {len(self.connections)} connections, {len(self.requests)} requests>"

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._listener.getsockname()[1])

    async def next_request(self) -> OriginRequest:
        """Wait for the next request that no test has taken yet; its body may be still to come."""
        async with asyncio.timeout(WITHIN_S):
            return await self._arrived.get()

    @property
    def has_untaken_request(self) -> bool:
        """Whether a request has come that no test has taken."""
        return not self._arrived.empty()

    def stop_listening(self) -> None:
        """Refuse new connections from now on; open ones stay."""
        self._tasks[0].cancel()
        self._listener.close()

    async def _hand_over(self, request: OriginRequest) -> None:
        self._arrived.put_nowait(request)
        await request.wait_finished()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            accepted, _ = await loop.sock_accept(self._listener)
            connection = OriginConnection(accepted)
            self.connections.append(connection)
            self._start(self._serve(connection), f"connection {len(self.connections)}")

    async def _serve(self, connection: OriginConnection) -> None:
        number = 0
        # The proxy may close an idle connection whenever it likes.
        with contextlib.suppress(ClosedEarlyError, OSError):
            while True:
                request = OriginRequest(connection, await self._read_head(connection), number)
                self.requests.append(request)
                number += 1
                connection.is_between_requests = False
                await self._handle(request)
                connection.is_between_requests = True
        connection.ended.set()

    async def _read_head(self, connection: OriginConnection) -> Head:
        while True:
            # An idle connection is no failure, however long it stays.
            with contextlib.suppress(TimeoutError):
                return await connection.read_head()

    async def _handle(self, request: OriginRequest) -> None:
        try:
            await self._handler(request)
        except (ClosedEarlyError, ConnectionError):
            raise
        except Exception as error:
            self._errors.append(error)
            request.connection.close()
            raise

    def _start(self, work: Awaitable[None], name: str) -> None:
        async def run() -> None:
            await work

        self._tasks.append(asyncio.create_task(run(), name=f"origin: {name}"))
