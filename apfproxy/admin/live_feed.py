"""Server-sent events of a live page: its listeners, and what each of them gets.

1. The state is encoded once for all listeners; one that has not changed is not sent.
2. A listener that is still being written to gets the newest state afterwards, never a queue of old
   ones, and all seconds of the history that are kept.
3. All end when the feed closes; one that is being written to is cut off.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from aiohttp import web

from apfproxy.admin.history import History

MAX_LISTENERS: Final = 32
"""Pages and terminals of a team; each costs at most the encoded state in its buffer."""
RECONNECT_MS: Final = 1000
STALLED_S: Final = 60.0
"""A listener that reads nothing for so long is gone, or its machine sleeps."""
FULL: Final = "as many listen as may; close a page, or read /debug/live from time to time\n"

_encode = msgspec.json.Encoder().encode


def event(name: str, data: object) -> bytes:
    """One server-sent event; JSON has no line breaks."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), _encode(data))


class LiveFeed:
    def __init__(self) -> None:
        self.history = History()
        self._listeners: dict[asyncio.BaseTransport, bool] = {}  # and whether it is written to
        self._last: dict[str, Any] | None = None  # None: listeners need one
        self._event = b""
        self._states = 0
        self._seconds = 0
        self._changed = asyncio.Event()
        self.is_closed = False

    def __repr__(self) -> str:
        return f"<LiveFeed: {len(self._listeners)} listeners>"

    @property
    def is_empty(self) -> bool:
        return not self._listeners

    def close(self) -> None:
        self.is_closed = True
        for transport, is_writing in self._listeners.items():
            if is_writing:
                transport.abort()  # type: ignore[attr-defined]  # those of streams have it
        self._wake()

    def offer(self, state: dict[str, Any], unix_s: float) -> None:
        """Offer the state, as it is at a time, and new history to every listener."""
        is_new = state != self._last
        self._last = state
        if is_new:
            self._event = event("state", {"time": unix_s, **state})
            self._states += 1
        if is_new or self.history.taken > self._seconds:
            self._seconds = self.history.taken
            self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def send(self, request: web.Request, first: dict[str, Any]) -> web.StreamResponse:
        if self.is_closed or len(self._listeners) >= MAX_LISTENERS:
            return web.Response(text=FULL, status=503, headers={"Retry-After": "10"})
        transport = request.transport
        assert transport is not None, "a response has a connection"
        self._listeners[transport] = False
        self._last = None
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
            }
        )
        try:
            await response.prepare(request)
            states, seconds = self._states, self.history.taken
            begin = b"retry: %d\n\n" % RECONNECT_MS + event("history", self.history.columns())
            await self._write(response, transport, begin + event("state", first))
            while not self.is_closed:
                if (states, seconds) == (self._states, self.history.taken):
                    await self._changed.wait()
                    continue
                data = self._event if self._states > states else b""
                if self.history.taken > seconds:
                    data += event("seconds", self.history.columns(seconds))
                states, seconds = self._states, self.history.taken
                await self._write(response, transport, data)
        except ConnectionResetError:
            pass  # the client is gone, or was cut
        except TimeoutError:
            transport.abort()
        finally:
            del self._listeners[transport]
        return response

    async def _write(
        self, response: web.StreamResponse, transport: asyncio.BaseTransport, data: bytes
    ) -> None:
        """Write something; TimeoutError if the client takes nothing for long."""
        self._listeners[transport] = True
        try:
            async with asyncio.timeout(STALLED_S):
                await response.write(data)
        finally:
            self._listeners[transport] = False
