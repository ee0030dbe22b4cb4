"""A log that one cause cannot fill: of each key one line a period, with a count of the others.

What many clients can bring about at will, or what can go wrong with each of many connections, is
logged this way.  A key names a kind of event: never a secret, an address or anything else that
clients choose.  The table of keys is bounded all the same; keys beyond its bound share one line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

PERIOD_S = 60.0
MAX_KEYS = 256
"""More than any place that logs this way has kinds of events; 100 bytes each."""

_OTHER_KEYS = "\x00other keys"
"""Shared by all keys for which the table has no room."""


@dataclass(slots=True)
class _Line:
    next_ns: int
    left_out: int = 0


class RareLog:
    __slots__ = ("_lines", "_logger", "_now_ns", "_period_ns", "_tidy_ns")

    def __init__(
        self, logger: logging.Logger, now_ns: Callable[[], int], period_s: float = PERIOD_S
    ) -> None:
        self._logger = logger
        self._now_ns = now_ns
        self._period_ns = round(period_s * 1e9)
        self._lines: dict[str, _Line] = {}
        self._tidy_ns = 0
        """When a full table may be looked through again for keys to forget."""

    def log(
        self,
        level: int,
        key: str,
        message: str,
        *args: object,
        exc_info: BaseException | None = None,
    ) -> None:
        """Write the line, or count it if one of this key was written less than a period ago.

        The next line that is written says how many were left out, as in "... (7 more since)".  A
        level that is off costs nothing else.
        """
        if not self._logger.isEnabledFor(level):
            return
        now_ns = self._now_ns()
        line = self._line(key, now_ns)
        if now_ns < line.next_ns:
            line.left_out += 1
            return
        left_out, line.left_out = line.left_out, 0
        line.next_ns = now_ns + self._period_ns
        if left_out:
            message += " (%d more since)"
            args = (*args, left_out)
        self._logger.log(level, message, *args, exc_info=exc_info)

    def _line(self, key: str, now_ns: int) -> _Line:
        if key not in self._lines and len(self._lines) >= MAX_KEYS:
            self._forget_old(now_ns)
            if len(self._lines) >= MAX_KEYS:
                key = _OTHER_KEYS
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(now_ns)
        return line

    def _forget_old(self, now_ns: int) -> None:
        if now_ns < self._tidy_ns:
            return
        self._tidy_ns = now_ns + self._period_ns
        self._lines = {
            key: line for key, line in self._lines.items() if line.next_ns > now_ns or line.left_out
        }
