"""A priority level at work: its limits, its queue set, its demand and its Retry-After.

How long a rejected client is told to wait follows TCP's window, the other way round: it doubles
while requests are dropped at a rate, and falls by a second at a time when hardly any are.

Source of Retry-After: kubernetes/apiserver pkg/util/flowcontrol/dropped_requests_tracker.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.flowcontrol.costs import LevelCosts
from apfproxy.flowcontrol.limits import LevelDemand, LevelLimits
from apfproxy.flowcontrol.queue_set import QueueSet, QueueSetConfig, QueueSetKind
from apfproxy.objects.additions import MOST_WAIT_NS
from apfproxy.objects.types import (
    ExemptPriorityLevelConfiguration,
    PriorityLevelConfiguration,
    stable_uid,
)

if TYPE_CHECKING:
    from apfproxy.flowcontrol.meters import SeatDemand

MAX_RETRY_AFTER_S = 32
DROPS_PER_S_TO_DOUBLE = 3
"""Dropping is the last resort after queuing, so even a few drops a second mean overload."""


class RetryAfter:
    """The Retry-After of one priority level, 1 to `MAX_RETRY_AFTER_S`.

    It is reconsidered at the first drop in a new second, by the drops of as many seconds before as
    it is long.
    """

    def __init__(self) -> None:
        self._retry_after_s = 1
        self._doubled_s = 0  # unix time of the last doubling
        self._current_s = 0  # unix time of the last drop
        self._current_drops = 0  # in that second
        self._history: list[tuple[int, int]] = []  # earlier seconds with their drops

    def get(self) -> int:
        return self._retry_after_s

    def record_drop(self, unix_s: int) -> None:
        if unix_s == self._current_s:
            self._current_drops += 1
            return
        retry_after_s = self._retry_after_s
        oldest_s = self._current_s - min(2 * retry_after_s, MAX_RETRY_AFTER_S)
        self._history.append((self._current_s, self._current_drops))
        while self._history[0][0] < oldest_s:
            self._history.pop(0)
        self._current_s = unix_s
        self._current_drops = 1
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


WAIT_DIVISOR: Final = 4
"""A request waits in a queue for a quarter of its time at most."""


def queue_set_config(
    configuration: PriorityLevelConfiguration, *, is_prompt: bool = False, has_weights: bool = False
) -> QueueSetConfig:
    """How a level queues.

    If `is_prompt`, one request at a time goes on even while the level has lent all that it has.  A
    level without shares is given nothing: to hold requests is what it is for.
    """
    limited = configuration.spec.limited
    if limited is None:
        return QueueSetConfig(QueueSetKind.EXEMPT)
    queuing = limited.limit_response.queuing
    if queuing is None:
        return QueueSetConfig(QueueSetKind.REJECT)
    return QueueSetConfig(
        QueueSetKind.QUEUE,
        queuing.queues,
        queuing.hand_size,
        queuing.queue_length_limit,
        least_seats=1 if is_prompt and limited.nominal_concurrency_shares else 0,
        has_weights=has_weights and queuing.queues > 1,
    )


def level_shares(configuration: PriorityLevelConfiguration) -> tuple[int, int, int | None]:
    """Shares, lendable percentage and borrowing limit percentage (None: unlimited) of a level.

    The configuration has its defaults, but an exempt level may do without its part of the union,
    and then has neither shares nor anything to lend.
    """
    limited = configuration.spec.limited
    part = limited or configuration.spec.exempt or ExemptPriorityLevelConfiguration()
    return (
        part.nominal_concurrency_shares or 0,
        part.lendable_percent or 0,
        None if limited is None else limited.borrowing_limit_percent,
    )


class PriorityLevel:
    """One priority level; the controller owns every field, everyone may read.

    It outlives reconfigurations: a level that keeps its name keeps its queue set, its running
    requests and its history of demand.

    Attributes:
        configuration: The object in force; the last one while it is quiescing.
        is_quiescing: Whether its object is gone and it only drains.
        nominal_limit: Seats that its shares buy it.
        lower_limit, upper_limit: Seats that it never lends, and that it has at most.
        costs: What its requests cost, if not time; learned over reconfigurations.
        max_seats: Seats that a work estimate may ask for; 0 where it sets no bound of its own.
        target: Seats that it was to have at the last adjustment, before others were considered.
        failed_total: Requests that had seats but that the server failed; counted by anyone who
            forwards them.
    """

    def __init__(
        self, configuration: PriorityLevelConfiguration, queue_set: QueueSet, demand: SeatDemand
    ) -> None:
        self.name = configuration.metadata.name
        self.is_exempt = queue_set.config.kind is QueueSetKind.EXEMPT
        self.queue_set = queue_set
        self.demand = demand
        self.retry_after = RetryAfter()
        self.configuration = configuration
        self.uid = stable_uid(configuration)
        self.additions = configuration.additions
        self.costs = LevelCosts()
        self.costs.configure(self.additions.cost)
        self.is_quiescing = False
        self.nominal_limit = 0
        self.lower_limit = 0
        self.upper_limit = 0
        self._current_limit = 0
        self.max_seats = 0
        self.target = 0.0
        self.failed_total = 0

    @property
    def current_limit(self) -> int:
        """Seats that it has until the next adjustment; of a pool, those that it has now."""
        queue_set = self.queue_set
        return self._current_limit if queue_set.share_out is None else queue_set.seat_limit

    @current_limit.setter
    def current_limit(self, seats: int) -> None:
        self._current_limit = seats

    def configure(self, configuration: PriorityLevelConfiguration) -> None:
        """Put a configuration in force, but for limits and queues, which the controller sets."""
        self.configuration = configuration
        self.uid = stable_uid(configuration)
        self.additions = configuration.additions
        self.costs.configure(self.additions.cost)
        self.is_quiescing = False

    def level_demand(self, high_watermark: int, smoothed: float) -> LevelDemand:
        return LevelDemand(
            LevelLimits(self.nominal_limit, self.lower_limit, self.upper_limit),
            self.is_exempt,
            high_watermark,
            smoothed,
            self.current_limit,
            self.additions.priority,
            level_shares(self.configuration)[0],
        )

    def longest_wait_ns(self, timeout_ns: int, *, is_in_all: bool = True) -> int:
        """The longest wait in a queue of a request that may take so long, wait and all or after."""
        limit_ns = self.additions.wait_limit_ns
        if limit_ns is not None and not is_in_all:
            return limit_ns
        return min(timeout_ns // WAIT_DIVISOR, limit_ns or MOST_WAIT_NS)
