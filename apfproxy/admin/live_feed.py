"""Server-sent events of the live page: its listeners, and what each of them gets.

1. Without listeners nothing is done.  The first listener starts the work, the last one ends it.
2. The state is made and encoded once for all listeners, at most ten times a second, and within a
   twentieth of the event loop's time.  An unchanged state is not sent.
3. A listener that is still being written to is skipped: it gets the newest state afterwards, never
   a queue of old ones.  It gets all seconds of the history that are kept.
4. There are at most `MAX_LISTENERS`.  All end when the feed closes; one that is being written to is
   cut off.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from apfproxy.base.faults import Part, contained
from apfproxy.base.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MAX_LISTENERS = 32
"""Pages and terminals of a team; each costs at most the encoded state in its buffer."""

INTERVAL_S = 0.1
MAX_LOOP_SHARE = 0.05
NS_PER_S = 1_000_000_000

_encode = msgspec.json.Encoder().encode


def event(name: str, data: object) -> bytes:
    """One server-sent event; JSON has no line breaks."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), _encode(data))


class History(Protocol):
    """The last minutes, second by second."""

    taken: int
    """Samples so far, those no longer kept too."""

    def columns(self, since: int = 0) -> dict[str, Any]:
        """The samples as columns, without those taken first."""


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
    """The listeners and the task that serves them.

    `state` makes the state without its time; None if there is none any more, which ends them all.
    """

    def __init__(
        self,
        state: Callable[[], dict[str, Any] | None],
        history: History,
        now_ns: Callable[[], int],
        unix_s: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._state = state
        self._history = history
        self._now_ns = now_ns
        self._unix_s = unix_s
        self._sleep = sleep

        self._listeners: set[Listener] = set()
        self._task: asyncio.Task[None] | None = None
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

    def state_json(self) -> bytes:
        """The state now."""
        return _encode({"time": self._unix_s(), **(self._state() or {})})

    def join(self, listener: Listener) -> None:
        """Add a listener; the feed must be neither closed nor full."""
        self._listeners.add(listener)
        self._last = None
        if self._task is None:
            self._task = spawn(self._run(), name="serving the live page")

    def leave(self, listener: Listener) -> None:
        """Remove a listener."""
        self._listeners.discard(listener)
        if not self._listeners:
            self._end()

    def close(self) -> None:
        """End all listeners at once."""
        self.is_closed = True
        for listener in list(self._listeners):
            if listener.is_writing:
                listener.abort()
            listener.offer(b"")
        self._end()

    def seconds_for(self, listener: Listener) -> bytes:
        """The event with those seconds of the history that the listener has not had."""
        since, listener.seconds = listener.seconds, self._history.taken
        return event("seconds", self._history.columns(since)) if listener.seconds > since else b""

    def serve(self) -> None:
        """Offer new state and history to every listener."""
        state = self._state()
        if state is None:
            self.close()
            return
        is_new = state != self._last
        if is_new:
            self._last = state
            data = event("state", {"time": self._unix_s(), **state})
        else:
            data = b""
        if is_new or self._history.taken > self._seconds:
            self._seconds = self._history.taken
            for listener in self._listeners:
                listener.offer(data)

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        while True:
            begun_ns = self._now_ns()
            with contained(Part.LIVE_PAGE):
                self.serve()
            cost_s = (self._now_ns() - begun_ns) / NS_PER_S
            await self._sleep(max(INTERVAL_S, cost_s / MAX_LOOP_SHARE))
