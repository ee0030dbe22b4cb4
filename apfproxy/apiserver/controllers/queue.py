"""The keys that a controller has to look at, and when.

Each key is in the queue at most once, with the earliest time that it was added with.  A key that
failed comes again after a pause that doubles with each failure in a row.

Source: client-go's `util/workqueue`.
"""

from __future__ import annotations

import heapq

Key = tuple[str, ...]
"""What a controller looks at in one go, such as namespace and name of an object."""

FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 60.0
"""client-go's pauses are from 5 ms to 1000 s, which is too long for an unattended server."""


class Queue:
    """Keys by time, in seconds since 1970."""

    def __init__(self) -> None:
        self._times: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []
        self._failures: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._times)

    def add(self, key: Key, at_s: float) -> None:
        """Have a key looked at, at that time or before."""
        known = self._times.get(key)
        if known is None or at_s < known:
            self._times[key] = at_s
            heapq.heappush(self._heap, (at_s, key))

    def take(self, now_s: float) -> Key | None:
        """The key that has been due longest; None if none is due."""
        next_s = self.next_s
        if next_s is None or next_s > now_s:
            return None
        _, key = heapq.heappop(self._heap)
        del self._times[key]
        return key

    @property
    def next_s(self) -> float | None:
        """When the next key is due; None if there is none."""
        while self._heap:
            at_s, key = self._heap[0]
            if self._times.get(key) == at_s:
                return at_s
            heapq.heappop(self._heap)  # it was added again for an earlier time
        return None

    def retry(self, key: Key, now_s: float) -> float:
        """Have a key that failed looked at again, after a pause in seconds, which is returned."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        pause_s = min(FIRST_PAUSE_S * (1 << min(failures, 30)), LONGEST_PAUSE_S)
        self.add(key, now_s + pause_s)
        return pause_s

    def forget_failures(self, key: Key) -> None:
        """Start with short pauses again, after a success."""
        self._failures.pop(key, None)
