"""Server-sent events of a live page: its listeners, and what each of them gets.

1. The state is encoded once for all listeners; one that has not changed is not sent.
2. A listener that is still being written to is skipped: it gets the newest state afterwards, never
   a queue of old ones.  It gets all seconds of the history that are kept.
3. There are at most `MAX_LISTENERS`.  All end when the feed closes; one that is being written to is
   cut off.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.admin.history import History

MAX_LISTENERS: Final = 32
"""Pages and terminals of a team; each costs at most the encoded state in its buffer."""
RECONNECT_MS: Final = 1000
FULL_RETRY_S: Final = "10"
STALLED_S: Final = 60.0
"""A listener that reads nothing for so long is cut off, to free its place: its machine sleeps or is
gone.  TCP alone would wait a quarter of an hour, or for ever."""

_encode = msgspec.json.Encoder().encode


def event(name: str, data: object) -> bytes:
    """One server-sent event; JSON has no line breaks."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), _encode(data))


class Listener:
    """One connection that listens; `abort` cuts it.

    Attributes:
        seconds: Samples of the history that it has had.
        is_writing: Whether it is still being written to.
    """

    def __init__(self, abort: Callable[[], None]) -> None:
        self.abort = abort
        self.seconds = 0
        self.is_writing = False
        self._state = b""
        self._changed = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Listener{' being written to' if self.is_writing else ''}>"

    def offer(self, state: bytes) -> None:
        """Give it the newest state, which replaces one that it has not taken."""
        self._state = state or self._state
        self._changed.set()

    async def take(self) -> bytes:
        """Wait for a new state; empty if there is only new history, or the feed ended."""
        await self._changed.wait()
        self._changed.clear()
        state, self._state = self._state, b""
        return state


class LiveFeed:
    """The listeners of the page of one cluster, with its history.

    Attributes:
        is_closed: Whether no more listeners may join, and those that there were end.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._listeners: set[Listener] = set()
        self._last: dict[str, Any] | None = None  # None: listeners need one
        self._seconds = 0
        self.is_closed = False

    def __repr__(self) -> str:
        return f"<LiveFeed: {len(self._listeners)} listeners>"

    @property
    def is_empty(self) -> bool:
        """Whether nobody listens."""
        return not self._listeners

    @property
    def is_full(self) -> bool:
        """Whether no further listener may join."""
        return len(self._listeners) >= MAX_LISTENERS

    def join(self, listener: Listener) -> None:
        """Add a listener; the feed must be neither closed nor full."""
        self._listeners.add(listener)
        self._last = None

    def leave(self, listener: Listener) -> None:
        """Remove a listener."""
        self._listeners.discard(listener)

    def close(self) -> None:
        """End all listeners at once."""
        self.is_closed = True
        for listener in list(self._listeners):
            if listener.is_writing:
                listener.abort()
            listener.offer(b"")

    def offer(self, state: dict[str, Any], unix_s: float) -> None:
        """Offer the state, as it is at a time, and new history to every listener."""
        is_new = state != self._last
        data = event("state", {"time": unix_s, **state}) if is_new else b""
        self._last = state
        if is_new or self._history.taken > self._seconds:
            self._seconds = self._history.taken
            for listener in self._listeners:
                listener.offer(data)

    async def send(self, request: web.Request, first: dict[str, Any]) -> web.StreamResponse:
        """Send events until the client goes or the feed ends: the history and what follows."""
        if self.is_closed or self.is_full:
            text = "as many listen as may; close a page, or read /debug/live from time to time\n"
            return web.Response(text=text, status=503, headers={"Retry-After": FULL_RETRY_S})
        transport = request.transport
        assert transport is not None, "a response has a connection"
        listener = Listener(transport.abort)
        self.join(listener)
        try:
            response = web.StreamResponse(
                headers={
                    "Content-Type": "text/event-stream; charset=utf-8",
                    "Cache-Control": "no-store",
                    "X-Accel-Buffering": "no",
                    "X-Content-Type-Options": "nosniff",
                }
            )
            await response.prepare(request)
            listener.seconds = self._history.taken
            begin = event("history", self._history.columns()) + event("state", first)
            await write(response, listener, b"retry: %d\n\n" % RECONNECT_MS + begin)
            while not self.is_closed:
                state = await listener.take()
                await write(response, listener, state + self.seconds_for(listener))
        except ConnectionResetError:
            pass  # the client is gone, or was cut
        except TimeoutError:
            transport.abort()
        finally:
            self.leave(listener)
        return response

    def seconds_for(self, listener: Listener) -> bytes:
        """The event with those seconds of the history that the listener has not had."""
        since, listener.seconds = listener.seconds, self._history.taken
        return event("seconds", self._history.columns(since)) if listener.seconds > since else b""


async def write(response: web.StreamResponse, listener: Listener, data: bytes) -> None:
    """Write something; TimeoutError if the client takes nothing for long."""
    listener.is_writing = True
    try:
        async with asyncio.timeout(STALLED_S):
            await response.write(data)
    finally:
        listener.is_writing = False
