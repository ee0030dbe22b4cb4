"""A priority level at work: its limits, its queue set and what it wants of the next period."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.flowcontrol.retry_after import RetryAfter

if TYPE_CHECKING:
    from apfproxy.api.flowcontrol.types import PriorityLevelConfiguration
    from apfproxy.flowcontrol.demand import SeatDemand
    from apfproxy.flowcontrol.queue_set import QueueSet


class PriorityLevel:
    """One priority level; the controller owns every field, everyone may read.

    It outlives reconfigurations: a level that keeps its name keeps its queue set, its running
    requests and its history of demand.

    Attributes:
        name: Its PriorityLevelConfiguration's name.
        is_exempt: Whether its requests are never limited.
        queue_set: Where its requests wait and execute.
        demand: The seat demand that the queue set reports.
        retry_after: How long a rejected client is asked to stay away.
        uid: Its object's uid, or one made from its name.
        configuration: The object in force; the last one while it is quiescing.
        is_quiescing: Whether its object is gone and it only drains.
        shares: The nominalConcurrencyShares of its configuration.
        nominal_limit: Seats that its shares buy it.
        lower_limit: Seats that it never lends; <= `nominal_limit`.
        upper_limit: Seats that it can have at most, borrowed ones included.
        current_limit: Seats that it has until the next adjustment.
        max_seats: Seats that a work estimate may ask for; 0 where it sets no bound of its own.
        target: Seats that it was to have at the last adjustment, before others were considered.
    """

    __slots__ = (
        "configuration",
        "current_limit",
        "demand",
        "is_exempt",
        "is_quiescing",
        "lower_limit",
        "max_seats",
        "name",
        "nominal_limit",
        "queue_set",
        "retry_after",
        "shares",
        "target",
        "uid",
        "upper_limit",
    )

    def __init__(
        self,
        name: str,
        uid: str,
        configuration: PriorityLevelConfiguration,
        queue_set: QueueSet,
        demand: SeatDemand,
        *,
        is_exempt: bool,
    ) -> None:
        self.name = name
        self.is_exempt = is_exempt
        self.queue_set = queue_set
        self.demand = demand
        self.retry_after = RetryAfter()

        self.uid = uid
        self.configuration = configuration
        self.is_quiescing = False
        self.shares = 0
        self.nominal_limit = 0
        self.lower_limit = 0
        self.upper_limit = 0
        self.current_limit = 0
        self.max_seats = 0
        self.target = 0.0

    def __repr__(self) -> str:
        state = " quiescing" if self.is_quiescing else ""
        return (
            f"<PriorityLevel {self.name}{state}: {self.current_limit} seats of nominal"
            f" {self.nominal_limit} in {self.lower_limit}..{self.upper_limit}>"
        )
