"""Seats that go back before a response is through: of watches, and where only a client is slow.

A WATCH gives its seats back once its initial events are through.  From outside there are three
signs of that: the bookmark that ends the initial events, if the client asked for them; else a
silence after the head; else a limit.

Some responses of each priority level whose client is slow go on without seats; see
`Relay.see_response_taken`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.request.attributes import RequestAttributes, parse_bool

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from apfproxy.flowcontrol.priority_level import PriorityLevel
    from apfproxy.proxy.counters import ProxyCounters
    from apfproxy.settings import WatchSettings
    from apfproxy.upstream.pool import PoolWaiter

INITIAL_EVENTS_END = b"k8s.io/initial-events-end"
"""The annotation of that bookmark; it stands as these bytes in JSON and in protobuf alike."""


class WatchSeats:
    """Follows one watch from its head on, and calls `give_back` at most once."""

    __slots__ = ("_give_back", "_has_data", "_loop", "_silence_s", "_tail", "_timer", "_until_s")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: WatchSettings,
        attributes: RequestAttributes,
        give_back: Callable[[], object],
    ) -> None:
        self._loop = loop
        self._give_back: Callable[[], object] | None = give_back
        self._silence_s = settings.silence_s
        self._has_data = False
        awaits_bookmark = asks_for_initial_events(attributes)
        self._tail = b"" if awaits_bookmark else None
        limit_s = settings.bookmark_limit_s if awaits_bookmark else settings.limit_s
        self._until_s = loop.time() + limit_s
        first_s = limit_s if awaits_bookmark else min(settings.silence_s, limit_s)
        self._timer = loop.call_later(first_s, self._on_timer)

    def on_data(self, data: bytes) -> None:
        self._has_data = True
        if self._tail is not None:
            window = self._tail + data
            if INITIAL_EVENTS_END in window:
                self._end()
            else:
                self._tail = window[-len(INITIAL_EVENTS_END) + 1 :]

    def cancel(self) -> None:
        self._give_back = None
        self._tail = None
        self._timer.cancel()

    def _on_timer(self) -> None:
        left_s = self._until_s - self._loop.time()
        # One timer that looks back costs less than one that every event arms again.
        if self._tail is None and self._has_data and left_s > 0:
            self._has_data = False
            self._timer = self._loop.call_later(min(self._silence_s, left_s), self._on_timer)
        else:
            self._end()

    def _end(self) -> None:
        give_back = self._give_back
        self.cancel()
        if give_back is not None:
            give_back()


def asks_for_initial_events(attributes: RequestAttributes) -> bool:
    values = attributes.query.get("sendInitialEvents")
    return values is not None and parse_bool(values[0])


LOOKS: Final = 4
"""At a body in a request's time, so that it is cut after no more than a quarter above it."""
NS_PER_S: Final = 1_000_000_000


class SlowReaders:
    """Counts responses that go on without seats, and keeps them within their limit.

    Attributes:
        by_level: Priority level's name to responses that go on without seats; without zeros.
        per_level: Of each level at most; None for as many as it has seats.
        watched: Exchanges that hold seats and wait for their client; the sweep calls the values.
    """

    def __init__(self, counters: ProxyCounters, per_level: int | None) -> None:
        self._counters = counters
        self.per_level = per_level
        self.by_level: dict[str, int] = {}
        self.watched: dict[PoolWaiter, Callable[[int], None]] = {}

    def admit(self, level: PriorityLevel) -> bool:
        """Let a response of a level go on without seats; not if there are enough of them."""
        count = self.by_level.get(level.name, 0)
        if count >= (level.nominal_limit if self.per_level is None else self.per_level):
            return False
        self.by_level[level.name] = count + 1
        self._counters.slow_reader_releases += 1
        self._counters.slow_readers_open += 1
        return True

    def release(self, level: str) -> None:
        self._counters.slow_readers_open -= 1
        left = self.by_level[level] - 1
        if left:
            self.by_level[level] = left
        else:
            del self.by_level[level]

    def on_sweep(self, period_ns: int) -> None:
        """Look at each that is watched; an error in one ends that one."""
        for exchange, look in list(self.watched.items()):
            try:
                look(period_ns)
            except Exception as error:  # noqa: BLE001  it is of this one alone
                exchange.fail(error)


class BodyFlow:
    """Bodies under way, which may take any time as long as they move.

    `timeout_ns` says for how long they may stand still; `moved_bytes` are those of both.
    """

    __slots__ = ("_moved_bytes", "_moved_ns", "_timeout_ns")

    def __init__(self, timeout_ns: int, now_ns: int, moved_bytes: int) -> None:
        self._timeout_ns = timeout_ns
        self._moved_ns = now_ns
        self._moved_bytes = moved_bytes

    def look(self, now_ns: int, moved_bytes: int, least: int) -> bool:
        """Whether they were seen to move, by `least` bytes a second, not too long ago."""
        moved = moved_bytes - self._moved_bytes
        if moved and moved * NS_PER_S >= least * (now_ns - self._moved_ns):
            self._moved_ns = now_ns
            self._moved_bytes = moved_bytes
        return now_ns - self._moved_ns < self._timeout_ns

    def next_look_ns(self, now_ns: int) -> int:
        return min(self._moved_ns + self._timeout_ns, now_ns + self._timeout_ns // LOOKS)
