"""Sends the events of a live page to one client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from apfproxy.admin.live_feed import Listener, event

if TYPE_CHECKING:
    from apfproxy.admin.live_feed import History, LiveFeed

RECONNECT_MS = 1000
FULL_RETRY_S = "10"
STALLED_S = 60.0
"""A listener that reads nothing for so long is cut off, to free its place: its machine sleeps or is
gone.  TCP alone would wait a quarter of an hour, or for ever."""


async def send_events(request: web.Request, feed: LiveFeed, history: History) -> web.StreamResponse:
    """Send events until the client goes or the feed ends; the history comes first."""
    if feed.is_closed or feed.is_full:
        text = "as many listen as may; close a page, or read /debug/live from time to time\n"
        return web.Response(text=text, status=503, headers={"Retry-After": FULL_RETRY_S})
    transport = request.transport
    assert transport is not None, "an answer has a connection"
    listener = Listener(transport.abort)
    feed.join(listener)
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
        listener.seconds = history.taken
        first = event("history", history.columns())
        await write(response, listener, b"retry: %d\n\n" % RECONNECT_MS + first)
        while not feed.is_closed:
            state = await listener.take()
            await write(response, listener, state + feed.seconds_for(listener))
    except ConnectionResetError:
        pass  # the client is gone, or was cut
    except TimeoutError:
        transport.abort()
    finally:
        feed.leave(listener)
    return response


async def write(response: web.StreamResponse, listener: Listener, data: bytes) -> None:
    """Write something; TimeoutError if the client takes nothing for long."""
    listener.is_writing = True
    try:
        async with asyncio.timeout(STALLED_S):
            await response.write(data)
    finally:
        listener.is_writing = False
