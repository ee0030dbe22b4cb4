"""Exchanges that hold seats of one cluster while only their clients are waited for.

Some responses of each priority level go on without seats; see `Relay.see_response_taken`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apfproxy.flowcontrol.priority_level import PriorityLevel
    from apfproxy.proxy.counters import ProxyCounters
    from apfproxy.proxy.exchange import Exchange


class SlowReaders:
    """Counts them, and keeps them within their limit.

    Attributes:
        by_level: Priority level's name to responses that go on without seats; without zeros.
        per_level: Of each level at most; None for as many as it has seats.
        watched: Exchanges that hold seats and wait for their client: the sweep looks at them.
    """

    def __init__(self, counters: ProxyCounters, per_level: int | None) -> None:
        self._counters = counters
        self.per_level = per_level
        self.by_level: dict[str, int] = {}
        self.watched: dict[Exchange, None] = {}

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
        for exchange in list(self.watched):
            try:
                exchange.on_sweep(period_ns)
            except Exception as error:  # noqa: BLE001  it is of this one alone
                exchange.fail(error)

    def __repr__(self) -> str:
        return f"<SlowReaders: {len(self.watched)} watched>"
