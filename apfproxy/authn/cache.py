"""Answers that took time, kept for a while, each asked for once however many wait for it.

What an answer is about is often a secret, so nothing here keeps it: the key is an HMAC-SHA256 under
a key that is drawn at start.  That also gives all keys one small size, and nobody outside can tell
which secrets share a place.

An answer is asked for in a task of its own, so it comes even if nobody waits for it any more;
whoever asks has to set a limit to that time.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from apfproxy.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

V = TypeVar("V")

KEY_BYTES = 32
"""Of the key of the HMAC: as long as what SHA-256 makes, as RFC 2104 advises."""


@dataclass(frozen=True, slots=True)
class Kept(Generic[V]):
    """An answer and how long it counts.

    Attributes:
        value: The answer.
        until_s: When it ends, on the clock of the cache.
    """

    value: V
    until_s: float


class AskFailedError(Exception):
    """The question was given up from outside, as at the end of the process."""


class AnswerCache(Generic[V]):
    """The answers.

    Args:
        now_s: A clock that never goes backwards.
        max_kept: Answers kept; the one that was kept first gives way.
    """

    def __init__(self, now_s: Callable[[], float], max_kept: int) -> None:
        self._now_s = now_s
        self._max_kept = max_kept
        self._hmac_key = secrets.token_bytes(KEY_BYTES)
        # In the order in which they were kept.
        self._kept: dict[bytes, Kept[V]] = {}
        self._in_flight: dict[bytes, asyncio.Future[Kept[V]]] = {}

    def __repr__(self) -> str:
        return f"<AnswerCache: {len(self._kept)} kept, {len(self._in_flight)} in flight>"

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, secret: bytes) -> Kept[V] | None:
        """The answer about a secret, if one is kept and still counts."""
        key = self._key(secret)
        kept = self._kept.get(key)
        if kept is None:
            return None
        if kept.until_s <= self._now_s():
            del self._kept[key]
            return None
        return kept

    async def get_or_ask(
        self, secret: bytes, ask: Callable[[], Awaitable[tuple[V, float]]]
    ) -> Kept[V]:
        """The answer that is kept, or that somebody is waiting for already, or a new one.

        Args:
            secret: What it is about.
            ask: Gives the answer and for how many seconds it counts, 0 for those who wait now.

        Raises:
            Exception: Whatever `ask` raises, to all who wait; nothing is kept then.
        """
        kept = self.get(secret)
        if kept is not None:
            return kept
        key = self._key(secret)
        future = self._in_flight.get(key)
        if future is None:
            future = self._in_flight[key] = asyncio.get_running_loop().create_future()
            # If nobody waits any more, nobody is to be told of a failure either.
            future.add_done_callback(_retrieved)
            spawn(self._answer(key, future, ask), name="ask for an answer")
        return await asyncio.shield(future)

    def clear(self) -> None:
        """Forget all answers; those under way reach who waits for them, and are not kept."""
        self._kept.clear()
        self._in_flight.clear()

    async def _answer(
        self,
        key: bytes,
        future: asyncio.Future[Kept[V]],
        ask: Callable[[], Awaitable[tuple[V, float]]],
    ) -> None:
        is_current = False
        try:
            value, lifetime_s = await ask()
        except Exception as error:  # noqa: BLE001 - theirs who wait
            future.set_exception(error)
        else:
            kept = Kept(value, self._now_s() + lifetime_s)
            is_current = self._in_flight.get(key) is future
            if is_current and lifetime_s > 0:
                self._keep(key, kept)
            future.set_result(kept)
        finally:
            if self._in_flight.get(key) is future:
                del self._in_flight[key]
            if not future.done():
                future.set_exception(AskFailedError("the question was given up"))

    def _keep(self, key: bytes, kept: Kept[V]) -> None:
        self._kept.pop(key, None)
        if len(self._kept) >= self._max_kept:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = kept

    def _key(self, secret: bytes) -> bytes:
        return hmac.digest(self._hmac_key, secret, "sha256")


def _retrieved(future: asyncio.Future[Kept[V]]) -> None:
    if not future.cancelled():
        future.exception()
