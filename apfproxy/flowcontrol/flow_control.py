"""What every passage goes through: the configuration, the estimates, the meters, the policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from apfproxy.flowcontrol.flow_limits import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.base.clock import Clock
    from apfproxy.flowcontrol.controller import Classification, Controller
    from apfproxy.flowcontrol.kind_meter import KindMeter
    from apfproxy.flowcontrol.learned_costs import LearnedCosts
    from apfproxy.flowcontrol.priority_level import PriorityLevel
    from apfproxy.flowcontrol.request_digest import RequestDigest
    from apfproxy.flowcontrol.ticket import Flow, RejectReason, Ticket, WorkEstimate
    from apfproxy.flowcontrol.work_estimate import WorkEstimator


class FlowObserver(Protocol):
    """Gathers what flows take."""

    def on_seats_back(self, ticket: Ticket, now_ns: int) -> None:
        """A dispatched request has given its seats back."""

    def on_no_seats(self, flow: Flow, waited_ns: int, *, is_rejected: bool) -> None:
        """A request ended without having got any, rejected or given up by its client."""


class FlowControl:
    """What all passages share.

    Args:
        controller: The configuration in force.
        estimator: Estimates the work of requests.
        costs: What is learned from answers.
        kinds: Counts requests by kind.
        clock: Of the process.
        unix_s: The wall clock, in whole seconds since 1970.
        on_error: Told of errors of the program in passages that are only observed; None where
            flow control is enforced.

    Attributes:
        is_observing: Whether requests go on whatever becomes of their passages.
        top_flows: Gathers what flows take; None for nobody.
    """

    __slots__ = (
        "_unix_s",
        "clock",
        "controller",
        "costs",
        "estimator",
        "is_observing",
        "kinds",
        "on_error",
        "top_flows",
    )

    def __init__(
        self,
        controller: Controller,
        estimator: WorkEstimator,
        costs: LearnedCosts,
        kinds: KindMeter,
        clock: Clock,
        *,
        unix_s: Callable[[], int],
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        self.controller = controller
        self.estimator = estimator
        self.costs = costs
        self.kinds = kinds
        self.clock = clock
        self._unix_s = unix_s
        self.on_error = on_error
        self.is_observing = on_error is not None
        self.top_flows: FlowObserver | None = None

    def replace(self, on_error: Callable[[Exception], None] | None) -> FlowControl:
        """The same, but enforced, or observed if `on_error` is given."""
        other = FlowControl(
            self.controller,
            self.estimator,
            self.costs,
            self.kinds,
            self.clock,
            unix_s=self._unix_s,
            on_error=on_error,
        )
        other.top_flows = self.top_flows
        return other

    def classify(self, digest: RequestDigest) -> Classification:
        """Where a request belongs by the configuration in force."""
        found = digest.classification
        if found is None or found.generation != self.controller.generation:
            found = digest.classification = self.controller.classify(
                digest.user, digest.attributes, digest.header
            )
        return found

    def estimate(self, digest: RequestDigest, found: Classification) -> WorkEstimate:
        """The work of a request whose estimate depends on what is known of its objects now."""
        return self.estimator.estimate(
            digest.attributes, found.level.max_seats, found.flow.counters
        )

    def foreseen_estimate(self, digest: RequestDigest, found: Classification) -> WorkEstimate:
        """The work of a request that does not come to be estimated; not counted."""
        return digest.fixed_estimate or self.estimator.estimate(
            digest.attributes, found.level.max_seats
        )

    def refusal(self, level: PriorityLevel, reason: RejectReason) -> Refusal:
        """Why there are no seats, and when to ask again; counts a request as dropped."""
        level.retry_after.record_drop(self._unix_s())
        return Refusal(reason, "", level.retry_after.get())

    def __repr__(self) -> str:
        return f"<FlowControl {'observed' if self.is_observing else 'enforced'}>"
