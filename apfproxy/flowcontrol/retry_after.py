"""How long a rejected client is told to wait before it tries again.

As TCP's window, the other way round: it doubles while requests are dropped at a rate, and falls by
a second at a time when hardly any are.

Source: kubernetes/apiserver pkg/util/flowcontrol/dropped_requests_tracker.go.
"""

from __future__ import annotations

MAX_RETRY_AFTER_S = 32
"""Kubernetes' bound."""

DROPS_PER_S_TO_DOUBLE = 3
"""Dropping is the last resort after queuing, so even a few drops a second mean overload."""


class RetryAfter:
    """The Retry-After of one priority level.

    It is reconsidered when the first request is dropped in a new second, by the drops of as many
    whole seconds before as it is long.
    """

    def __init__(self) -> None:
        self._retry_after_s = 1
        self._doubled_s = 0  # unix time of the last doubling
        self._current_s = 0  # unix time of the last drop
        self._current_drops = 0  # in that second
        self._history: list[tuple[int, int]] = []  # earlier seconds with their drops

    def get(self) -> int:
        """Seconds to wait; 1 to `MAX_RETRY_AFTER_S`."""
        return self._retry_after_s

    def record_drop(self, unix_s: int) -> None:
        """Count a rejected request."""
        if unix_s == self._current_s:
            self._current_drops += 1
            return
        self._remember_current_second()
        self._current_s = unix_s
        self._current_drops = 1
        self._reconsider(unix_s)

    def _remember_current_second(self) -> None:
        """Move the current second into the history, and drop from it what nobody will need."""
        now_s = self._current_s
        oldest_s = now_s - min(2 * self._retry_after_s, MAX_RETRY_AFTER_S)
        self._history.append((now_s, self._current_drops))
        while self._history[0][0] < oldest_s:
            self._history.pop(0)

    def _reconsider(self, unix_s: int) -> None:
        retry_after_s = self._retry_after_s
        drops = 0
        for second, count in reversed(self._history):
            if unix_s - second > retry_after_s:
                break
            if second < unix_s:
                drops += count
        if (
            unix_s - self._doubled_s >= retry_after_s
            and drops >= DROPS_PER_S_TO_DOUBLE * retry_after_s
        ):
            self._retry_after_s = min(2 * retry_after_s, MAX_RETRY_AFTER_S)
            self._doubled_s = unix_s
        elif drops < retry_after_s and retry_after_s > 1:
            self._retry_after_s = retry_after_s - 1
