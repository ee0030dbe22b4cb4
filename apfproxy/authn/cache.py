"""A cache of other servers' responses, which asks for each once however many wait for it.

Questions often hold secrets, which are not stored: the cache's key is an HMAC-SHA256 of the
question under a key drawn at start.  A task of its own asks, so that the response comes even if
every waiter is gone; `ask` bounds its time.

An expired good response, such as the user of a token, stands in for a new one that fails to come or
takes longer than `STAND_IN_AFTER_S`: for its grace, and never once another response has come.  Good
responses have places of their own, so that no number of others evicts them.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from apfproxy.base.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

V = TypeVar("V")

KEY_BYTES = 32  # the length of the HMAC's output, as RFC 2104 advises
STAND_IN_AFTER_S = 1.0  # for which a new answer is waited for before the last good one stands in
STAND_IN_S = 2.0  # for which a last good answer counts again before a new one is asked for


@dataclass(frozen=True, slots=True)
class CachedAnswer(Generic[V]):
    """A response, and until when it counts, on the cache's clock.

    Attributes:
        last_s: When it no longer stands in for a new one; at or before `until_s` if it never does.
        stands_in: Whether it stands in for a new one now.
    """

    value: V
    until_s: float
    last_s: float = 0.0
    stands_in: bool = False


class AskFailedError(Exception):
    """The question was cancelled, as at the end of the process."""


class AnswerCache(Generic[V]):
    """The responses, `max_kept` good ones and as many others; `now_s` is monotonic.

    A response that `is_good` may stand in for a new one for `grace_s` after its expiry.
    """

    def __init__(
        self,
        now_s: Callable[[], float],
        max_kept: int,
        is_good: Callable[[V], bool],
        grace_s: float,
    ) -> None:
        self._now_s = now_s
        self._max_kept = max_kept
        self._is_good = is_good
        self._grace_s = grace_s
        self._hmac_key = secrets.token_bytes(KEY_BYTES)
        # Both in the order in which they were kept; no key is in both.
        self._good: dict[bytes, CachedAnswer[V]] = {}
        self._others: dict[bytes, CachedAnswer[V]] = {}
        self._in_flight: dict[bytes, asyncio.Future[CachedAnswer[V]]] = {}

    def __len__(self) -> int:
        return len(self._good) + len(self._others)

    def get(self, secret: bytes) -> CachedAnswer[V] | None:
        return self._counting(self._key(secret))

    async def get_or_ask(
        self, secret: bytes, ask: Callable[[bool], Awaitable[tuple[V, float]]]
    ) -> CachedAnswer[V]:
        """The cached response, or the one under way, or a new one; or else the last good one.

        `ask` gives the response and for how many seconds it counts, 0 for those who wait now; it is
        told whether there is a last good response.  All who wait get what it raises.
        """
        key = self._key(secret)
        if (kept := self._counting(key)) is not None:
            return kept
        last = self._good.get(key)
        future = self._in_flight.get(key)
        if future is None:
            future = self._in_flight[key] = asyncio.get_running_loop().create_future()
            # Once every waiter is gone, a failure is not to be reported as never retrieved.
            future.add_done_callback(lambda each: each.cancelled() or each.exception())
            answered = self._answer(key, future, ask, has_last=last is not None)
            spawn(answered, name="ask for an answer")
        if last is not None:
            if not last.stands_in:
                await asyncio.wait((future,), timeout=STAND_IN_AFTER_S)
            is_missing = not future.done() or future.exception() is not None
            if is_missing and (kept := self._counting(key)) is not None:
                return kept
            if is_missing and (last := self._good.get(key)) is not None:
                until_s = min(self._now_s() + STAND_IN_S, last.last_s)
                last = CachedAnswer(last.value, until_s, last.last_s, stands_in=True)
                self._good[key] = last
                return last
        try:
            return await asyncio.shield(future)
        finally:
            del future  # its error has this frame

    def clear(self) -> None:
        """Forget all responses; those under way reach who waits for them, and are not cached."""
        self._good.clear()
        self._others.clear()
        self._in_flight.clear()

    def _counting(self, key: bytes) -> CachedAnswer[V] | None:
        """The response that counts now; an expired one without grace is dropped."""
        kept = self._good.get(key) or self._others.get(key)
        if kept is None:
            return None
        now_s = self._now_s()
        if kept.until_s > now_s:
            return kept
        if kept.last_s <= now_s:
            self._drop(key)
        return None

    async def _answer(
        self,
        key: bytes,
        future: asyncio.Future[CachedAnswer[V]],
        ask: Callable[[bool], Awaitable[tuple[V, float]]],
        *,
        has_last: bool,
    ) -> None:
        try:
            value, lifetime_s = await ask(has_last)
        except Exception as error:  # noqa: BLE001 - theirs who wait
            future.set_exception(error)
        else:
            until_s = self._now_s() + lifetime_s
            is_good = self._is_good(value)
            kept = CachedAnswer(value, until_s, until_s + self._grace_s if is_good else 0.0)
            if self._in_flight.get(key) is future:
                self._drop(key)
                if max(kept.until_s, kept.last_s) > self._now_s():
                    table = self._good if is_good else self._others
                    if len(table) >= self._max_kept:
                        del table[next(iter(table))]
                    table[key] = kept
            future.set_result(kept)
        finally:
            if self._in_flight.get(key) is future:
                del self._in_flight[key]
            if not future.done():
                future.set_exception(AskFailedError("the question was given up"))
            del future  # its error has this frame

    def _drop(self, key: bytes) -> None:
        self._good.pop(key, None)
        self._others.pop(key, None)

    def _key(self, secret: bytes) -> bytes:
        return hmac.digest(self._hmac_key, secret, "sha256")
