"""How fast watches and WebSockets are ended at a drain, where many have to.

A client that loses its watch comes back and lists: all at once would be a storm.  A WebSocket goes
on as long as any other response may, and is told in the end that the proxy goes away.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apfproxy.proxy.client import OpenConnection
    from apfproxy.proxy.context import Context

WATCH_END_PERIOD_S = 0.05
MIN_WATCHES_ENDED_PER_S = 200
"""kube-apiserver's own floor."""
GOODBYE_S = 3.0
"""For clients of WebSockets to answer the close frame; they have `ListenerContext.linger_ns`."""


def ended_at_once(watches: int, rounds: float) -> int:
    """How many to end now, where all have to be ended within so many rounds; >= 1."""
    least = round(MIN_WATCHES_ENDED_PER_S * WATCH_END_PERIOD_S)
    return max(math.ceil(watches / max(rounds, 1)), least)


async def drain(context: Context) -> int:
    """Let requests of a cluster under way end, and end watches bit by bit; then stop it.

    No request must come any more.  Requests that are left after the settings' limit are broken;
    says how many.
    """
    cut = 0
    settings, listener = context.settings.drain, context.listener
    rounds = max(settings.timeout_s / 2 / WATCH_END_PERIOD_S, 1)
    try:
        async with asyncio.timeout(settings.timeout_s):
            while busy := context.busy():
                watches = [each for each in busy if each.can_end_watch]
                for connection in watches[: ended_at_once(len(watches), rounds)]:
                    connection.end_watch()
                await asyncio.sleep(WATCH_END_PERIOD_S)
    except TimeoutError:
        cut = len(context.busy())
        await close_websockets(context.busy)
    finally:
        for connection in context.busy():
            if connection in listener.connections:
                connection.leave()
        context.stop()
    return cut


async def close_websockets(connections: Callable[[], Iterable[OpenConnection]]) -> None:
    """Tell clients of WebSockets, among those still there, to go, and give them a while for it."""
    told = [each for each in connections() if each.has_websocket]
    for connection in told:
        connection.close_websocket()
    for _ in range(round(GOODBYE_S / WATCH_END_PERIOD_S)):
        if set(connections()).isdisjoint(told):
            return
        await asyncio.sleep(WATCH_END_PERIOD_S)
