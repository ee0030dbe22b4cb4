"""What the access log leaves out: refused requests beyond some, and all beyond a number of bytes.

1. Of requests that were never sent on (rejected, malformed, unidentified, ...) some a second are
   logged of each flow and reason: who is refused can go on at once, as often as the network allows.
2. All lines of a process have so many bytes a second.  Once they are spent, no line is made until
   there are some again.  The last lines that are made together may exceed them, and are paid for by
   those that follow.
3. What is left out is counted, by flow and reason, for a line that says so once a second.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from apfproxy.flowcontrol.controller import Classification
    from apfproxy.settings import AccessLogSettings

SECOND_NS: Final = 1_000_000_000
MAX_KEYS: Final = 256
"""Flows and reasons that are told apart in a second; further ones count together by reason."""
MAX_FLOWS: Final = 8
"""Flows that are named of those of which something was left out."""


class Omission(enum.StrEnum):
    """Why a request has no line; the label `cause` of the metric."""

    REFUSED = "refused"
    """It was refused, and enough others of its flow were in that second for the same reason."""
    BYTES = "bytes"
    """`accessLog.maxBytesPerSecond` was spent."""


Key = tuple[str, str, str, str]
"""Reason, FlowSchema, priority level and flow; the last three are empty if they are not known."""


class LogBudget:
    """The bytes that all lines of a process have, and how many requests got none.

    Attributes:
        left_out: Requests without a line so far, by `Omission`.
    """

    def __init__(self, settings: AccessLogSettings) -> None:
        self._per_second = settings.max_bytes_per_second
        self._left_bytes = self._per_second or 0
        self._looked_ns = 0
        self.left_out: dict[str, int] = dict.fromkeys(Omission, 0)

    def configure(self, settings: AccessLogSettings) -> None:
        """Have another number of bytes from now on."""
        if settings.max_bytes_per_second != self._per_second:
            self._per_second = settings.max_bytes_per_second
            self._left_bytes = self._per_second or 0

    def refill(self, now_ns: int) -> bool:
        """Add what the time since the last call brought; whether anything is left."""
        per_second = self._per_second
        if per_second is None:
            return True
        elapsed_ns = now_ns - self._looked_ns
        self._looked_ns = now_ns
        # What is less than a byte is not lost.
        self._looked_ns -= (per_second * elapsed_ns % SECOND_NS) // per_second
        brought = per_second * elapsed_ns // SECOND_NS
        self._left_bytes = min(self._left_bytes + brought, per_second)
        return self._left_bytes > 0

    def spend(self, size: int) -> None:
        """Take what lines have."""
        self._left_bytes -= size


class Omissions:
    """What one log leaves out, since it was said last.

    Attributes:
        refused: Requests, by `Key`; the reason alone for those that found no room among the keys.
        over_bytes: Requests for which there were no bytes, by reason; "" for those that had none.
    """

    def __init__(self, settings: AccessLogSettings, budget: LogBudget) -> None:
        self._per_second = settings.refused_per_second
        self._budget = budget
        self._logged: dict[Key, int] = {}
        self._until_ns = 0
        """The end of the second that `_logged` is of."""
        self.refused: dict[Key, int] = {}
        self.over_bytes: dict[str, int] = {}

    def configure(self, settings: AccessLogSettings) -> None:
        """Log another number of refused requests from now on."""
        self._per_second = settings.refused_per_second

    @property
    def is_empty(self) -> bool:
        """Whether nothing was left out."""
        return not self.refused and not self.over_bytes

    def count_refused(self, found: Classification | None, reason: str, now_ns: int) -> bool:
        """Count a refused request; whether it is to have a line."""
        per_second = self._per_second
        if per_second is None:
            return True
        if now_ns >= self._until_ns:
            self._until_ns = now_ns + SECOND_NS
            self._logged.clear()
        key = (reason, "", "", "")
        if found is not None:
            flow = found.flow
            key = (reason, flow.counters.flow_schema, found.level.name, flow.distinguisher)
        logged = self._logged
        if key not in logged and len(logged) >= MAX_KEYS:
            key = (reason, "", "", "")
        number = logged.get(key, 0)
        if number < per_second:
            logged[key] = number + 1
            return True
        refused = self.refused
        if key not in refused and len(refused) >= MAX_KEYS:
            key = (reason, "", "", "")
        refused[key] = refused.get(key, 0) + 1
        self._budget.left_out[Omission.REFUSED] += 1
        return False

    def count_over_bytes(self, reason: str) -> None:
        """Count a request for which there were no bytes."""
        self.over_bytes[reason] = self.over_bytes.get(reason, 0) + 1
        self._budget.left_out[Omission.BYTES] += 1

    def take(self) -> tuple[dict[Key, int], dict[str, int]]:
        """What was left out since this was called last: `refused` and `over_bytes`."""
        taken = self.refused, self.over_bytes
        self.refused, self.over_bytes = {}, {}
        return taken
