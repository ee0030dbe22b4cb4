"""What other members say is urgent, by a channel of a server that speaks Redis' protocol."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Any

from apfproxy.base.tasks import Backoff, spawn
from apfproxy.fleet.redis_access import ANSWER_S, CONNECTION_ERRORS
from apfproxy.fleet.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.fleet.redis_places import RedisPlaces

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0
BETWEEN_MESSAGES_S = 0.005
"""Each says the same, so many at once need no haste; a flood of them leaves time for requests."""
SILENCE_S = 15.0
"""After so long the server is asked whether it is still there; after twice as long it is not."""

logger = logging.getLogger(__name__)


class RedisListener:
    """Listens to a channel, for ever; connects again after each failure.

    Args:
        own: What this member says there, which is of no interest to it.
        on_urgent: Called when another member says something, and when that may have been missed.
    """

    def __init__(
        self, places: RedisPlaces, channel: str, own: str, on_urgent: Callable[[], None]
    ) -> None:
        self._places = places
        self._channel = channel
        self._own = own.encode()
        self._on_urgent = on_urgent
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        self._has_failed = False
        self._listens_since_s = math.inf  # of the loop's clock
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Listen from now on."""
        self._task = spawn(self._run(), name=f"listener to {self._channel}")

    async def close(self) -> None:
        """Listen no more; harmless once done."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        while True:
            try:
                await self._follow()
            except StoreError as error:
                if not self._has_failed:
                    logger.warning(
                        "%s; urgent changes of other members are seen only at the next look", error
                    )
                self._has_failed = True
            # One that subscribed and failed at once is not well again.
            if asyncio.get_running_loop().time() - self._listens_since_s >= LONGEST_PAUSE_S:
                self._backoff.reset()
            await asyncio.sleep(self._backoff.next_s())

    async def _follow(self) -> None:
        """Listen until the connection fails: StoreError."""
        self._listens_since_s = math.inf
        link = await self._places.connect()
        pubsub = link.pubsub()
        is_asked = False
        try:
            async with asyncio.timeout(ANSWER_S):
                await pubsub.subscribe(self._channel)
            while True:
                message = await pubsub.get_message(timeout=SILENCE_S)
                if message is not None:
                    is_asked = False
                    self._take(message)
                    await asyncio.sleep(BETWEEN_MESSAGES_S)
                elif is_asked:
                    raise StoreError("Redis does not answer")
                else:
                    is_asked = True
                    await pubsub.ping()
        except CONNECTION_ERRORS as error:
            raise StoreError(link.explained(error)) from None
        finally:
            try:
                await pubsub.aclose()  # type: ignore[no-untyped-call]  # redis-py's
            finally:
                await link.close()

    def _take(self, message: dict[str, Any]) -> None:
        if message["type"] == "subscribe":
            self._listens_since_s = asyncio.get_running_loop().time()
            if self._has_failed:
                logger.info("urgent changes of other members are seen at once again")
                self._has_failed = False
                self._on_urgent()
        elif message["type"] == "message" and message["data"] != self._own:
            self._on_urgent()

    def __repr__(self) -> str:
        return f"<RedisListener {self._channel}>"
