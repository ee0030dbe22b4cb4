"""How fast bodies move, and exchanges that hold seats while only their clients are waited for.

Some responses of each priority level go on without seats; see `Relay.see_response_taken`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.flowcontrol.priority_level import PriorityLevel
    from apfproxy.proxy.counters import ProxyCounters
    from apfproxy.upstream.pool import PoolWaiter

LOOKS: Final = 4
"""At a body in a request's time, so that it is cut after no more than a quarter above it."""
_NS_PER_S: Final = 1_000_000_000


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


class BodyRate:
    """The rate of a request's body, and how long only its client has been waited for."""

    __slots__ = ("_first_bytes", "waited_ns")

    def __init__(self, received_bytes: int) -> None:
        self._first_bytes = received_bytes
        self.waited_ns = 0

    def is_below(self, least: int, received_bytes: int) -> bool:
        """Whether it comes slower than `least` bytes a second."""
        return (received_bytes - self._first_bytes) * _NS_PER_S < least * self.waited_ns


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
        if moved and moved * _NS_PER_S >= least * (now_ns - self._moved_ns):
            self._moved_ns = now_ns
            self._moved_bytes = moved_bytes
        return now_ns - self._moved_ns < self._timeout_ns

    def next_look_ns(self, now_ns: int) -> int:
        return min(self._moved_ns + self._timeout_ns, now_ns + self._timeout_ns // LOOKS)
