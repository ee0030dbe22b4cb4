"""Which requests have a line in the access log, and which are left out.

1. Of requests without an error a part is drawn, as the settings say.
2. Of requests that were never sent on (rejected, malformed, unauthenticated, ...) some a second
   are logged of each flow and reason: a client can repeat such a request at once.
3. All lines of a process have so many bytes a second.  Lines that exceed them are paid for by those
   that follow.
4. What is left out by 2 and 3 is counted, by flow and reason, for a line once a second.

`log_lines` makes the lines, in the thread that writes them.
"""

from __future__ import annotations

import enum
import random
from functools import partial
from typing import TYPE_CHECKING, Final

from apfproxy.proxy.log_lines import LogLines
from apfproxy.settings import ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.base.clock import Clock, Timer
    from apfproxy.proxy.log_lines import Key
    from apfproxy.proxy.request_record import RequestRecord
    from apfproxy.settings import AccessLogSettings

    Write = Callable[[Callable[[], bytes], int, int], None]

FLUSH_PERIOD_NS: Final = 100_000_000
MAX_RECORDS: Final = 64
"""Requests whose lines are made at once, which takes a third of the time of one by one."""
SECOND_NS: Final = 1_000_000_000
MAX_KEYS: Final = 256
"""Flows and reasons that are told apart in a second; further ones count together by reason."""
EXPECTED_BYTES: Final = 512
"""Length of a line that is not made yet."""


class Omission(enum.StrEnum):
    """Why a request has no line, by rule 2 or 3; the label `cause` of the metric."""

    REFUSED = "refused"
    BYTES = "bytes"


class LogBudget:
    def __init__(self, settings: AccessLogSettings) -> None:
        self._per_second = settings.max_bytes_per_second
        self._left_bytes = self._per_second or 0
        self._looked_ns = 0
        self._corrections = 0
        """Sum of what `correct` was told, by the thread; the loop has seen so much of it:"""
        self._corrected = 0
        self.left_out: dict[str, int] = dict.fromkeys(Omission, 0)

    def configure(self, settings: AccessLogSettings) -> None:
        if settings.max_bytes_per_second != self._per_second:
            self._per_second = settings.max_bytes_per_second
            self._left_bytes = self._per_second or 0

    def refill(self, now_ns: int) -> bool:
        """Add what the time since the last call brought; whether anything is left."""
        per_second = self._per_second
        if per_second is None:
            return True
        corrections = self._corrections
        self._left_bytes -= corrections - self._corrected
        self._corrected = corrections
        elapsed_ns = now_ns - self._looked_ns
        # What is less than a byte is not lost.
        brought, rest = divmod(per_second * elapsed_ns, SECOND_NS)
        self._looked_ns = now_ns - rest // per_second
        self._left_bytes = min(self._left_bytes + brought, per_second)
        return self._left_bytes > 0

    def spend(self, size: int) -> None:
        self._left_bytes -= size

    def correct(self, size: int) -> None:
        """Take what lines have beyond that, which may be negative; called by the thread."""
        self._corrections += size


class RequestLog:
    """Takes the records of one cluster's requests, or of what is no cluster's."""

    def __init__(
        self,
        settings: AccessLogSettings,
        clock: Clock,
        write: Write,
        budget: LogBudget,
        on_error: Callable[[Exception], None],
        cluster: str = "",
    ) -> None:
        """Make a log, which shares its budget with others.

        `write` gets a function that makes some lines, called in the thread that writes them; their
        number; and the bytes that are kept until then.  `on_error` gets an error that cost a line.
        """
        self._clock = clock
        self._lines = LogLines(clock, on_error, cluster)
        self._write = write
        self._budget = budget
        self._records: list[RequestRecord] = []
        self._kept_bytes = 0
        self._timer: Timer | None = None
        self._saying: Timer | None = None
        self._logged: dict[Key, int] = {}
        """Refused requests that have a line, in the second that ends then:"""
        self._until_ns = 0
        # What was left out since it was said last.
        self._refused: dict[Key, int] = {}
        """The reason alone is the key of those that found no room among the keys."""
        self._over_bytes: dict[str, int] = {}
        """By reason; "" for those that had none."""
        self._sampled = sampled_part(settings)
        self._refused_per_second = settings.refused_per_second

    def take(self, record: RequestRecord) -> None:
        reason, head = record.reason, record.head
        if reason:
            if not record.sent_ns and not self._admit_refused(record):
                self._say_soon()
                return
        elif self._sampled < 1 and record.status < 400 and random.random() >= self._sampled:  # noqa: S311 - a sample, not a secret
            return
        if head is not None:
            self._kept_bytes += head.size
        records = self._records
        records.append(record)
        if len(records) >= MAX_RECORDS:
            self.flush()
        elif self._timer is None:
            self._timer = self._clock.call_at(
                self._clock.now_ns() + FLUSH_PERIOD_NS, self._on_timer
            )

    def _admit_refused(self, record: RequestRecord) -> bool:
        per_second = self._refused_per_second
        if per_second is None:
            return True
        if record.ended_ns >= self._until_ns:
            self._until_ns = record.ended_ns + SECOND_NS
            self._logged.clear()
        key = alone = (record.reason, "", "", "")
        if (found := record.classification) is not None:
            flow = found.flow
            key = (record.reason, flow.counters.flow_schema, found.level.name, flow.distinguisher)
        if _is_full(self._logged, key):
            key = alone
        number = self._logged.get(key, 0)
        if number < per_second:
            self._logged[key] = number + 1
            return True
        if _is_full(self._refused, key):
            key = alone
        self._refused[key] = self._refused.get(key, 0) + 1
        self._budget.left_out[Omission.REFUSED] += 1
        return False

    def flush(self) -> None:
        """Hand on all records that there are, if there are bytes for their lines."""
        records, self._records = self._records, []
        kept_bytes, self._kept_bytes = self._kept_bytes, 0
        if not records:
            return
        if self._budget.refill(self._clock.now_ns()):
            self._hand_on(partial(self._lines.of_records, records), len(records), kept_bytes)
            return
        for record in records:
            self._over_bytes[record.reason] = self._over_bytes.get(record.reason, 0) + 1
        self._budget.left_out[Omission.BYTES] += len(records)
        self._say_soon()

    def _hand_on(self, make: Callable[[], bytes], lines: int, kept_bytes: int = 0) -> None:
        self._budget.spend(EXPECTED_BYTES * lines)
        self._write(partial(self._made, make, lines), lines, kept_bytes)

    def _made(self, make: Callable[[], bytes], lines: int) -> bytes:
        data = make()
        self._budget.correct(len(data) - EXPECTED_BYTES * lines)
        return data

    def close(self) -> None:
        self.flush()
        self._say_left_out()
        for timer in (self._timer, self._saying):
            if timer is not None:
                timer.cancel()
        self._timer = self._saying = None

    def _on_timer(self) -> None:
        self._timer = None
        self.flush()

    def _say_soon(self) -> None:
        if self._saying is None:
            self._saying = self._clock.call_at(self._clock.now_ns() + SECOND_NS, self._on_saying)

    def _on_saying(self) -> None:
        self._saying = None
        self.flush()
        self._say_left_out()

    def _say_left_out(self) -> None:
        refused, self._refused = self._refused, {}
        over_bytes, self._over_bytes = self._over_bytes, {}
        if refused or over_bytes:
            now_ns = self._clock.now_ns()
            self._hand_on(partial(self._lines.of_omissions, now_ns, refused, over_bytes), 1)


def sampled_part(settings: AccessLogSettings) -> float:
    """The part of the requests without an error that are logged; 1 for all."""
    return 0.0 if settings.requests == ERRORS else settings.sampled_percent / 100


def _is_full(counts: dict[Key, int], key: Key) -> bool:
    return key not in counts and len(counts) >= MAX_KEYS
