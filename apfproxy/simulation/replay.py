"""Requests on their way through queue sets, on a virtual clock.

What the data plane does around a queue set is done here with events: a request that waits gives
up after its wait limit; one that executes ends when it is served, or cut off when its time is over;
a WATCH gives its seats back once its initial events are through, and counts as open until its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from apfproxy.flowcontrol.ticket import EXECUTING, WAITING, RejectReason, Ticket
from apfproxy.simulation.tally import Tally

if TYPE_CHECKING:
    from apfproxy.flowcontrol.queue_set import QueueSet
    from apfproxy.flowcontrol.ticket import Flow, WorkEstimate
    from apfproxy.simulation.virtual_clock import VirtualClock


class Client(Protocol):
    """Whoever wants to know when a request has ended."""

    def on_end(self, retry_after_s: int) -> None:
        """The request has ended, now.

        Args:
            retry_after_s: How long to stay away, if it was rejected; 0 if it was served.
        """


class Lane:
    """Where requests of one kind go in one configuration; made once for many requests.

    Attributes:
        queue_set, flow: Theirs.
        wait_limit_ns: How long one may wait.
        timeout_ns: How long one may take, from its arrival on; 0 for no limit.
        tally: What became of them.
        watch_seats_ns: A WATCH holds its seats so long at most; -1 for what is no WATCH.
    """

    __slots__ = ("flow", "queue_set", "tally", "timeout_ns", "wait_limit_ns", "watch_seats_ns")

    def __init__(
        self,
        queue_set: QueueSet,
        flow: Flow,
        *,
        wait_limit_ns: int,
        timeout_ns: int = 0,
        watch_seats_ns: int = -1,
        tally: Tally | None = None,
    ) -> None:
        self.queue_set = queue_set
        self.flow = flow
        self.wait_limit_ns = wait_limit_ns
        self.timeout_ns = timeout_ns
        self.watch_seats_ns = watch_seats_ns
        self.tally = tally or Tally()

    def on_watch(self, service_ns: int) -> None:
        """A WATCH is on, for so long."""

    def on_reject(self, now_ns: int) -> int:
        """A request was rejected; says for how many seconds its client is to stay away."""
        del now_ns
        return 1

    def __repr__(self) -> str:
        return f"<Lane of {self.flow!r} to {self.queue_set.name}>"


class Replay:
    """The requests of one run.

    A ticket's details are its lane, its service time and its client.

    Attributes:
        clock: The run's.
        in_flight: Requests that wait or execute.
        sources: Where requests may still come from; when they have ended, and with them all
            requests, the run is over.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.in_flight = 0
        self.sources = 0
        self._arm = clock.arm
        self._on_dispatch = self.execute
        self._on_finish = self.finish
        self._on_wait_limit = self.give_up

    def arrive(
        self, lane: Lane, estimate: WorkEstimate, service_ns: int, client: Client | None = None
    ) -> None:
        """Admit, queue or reject a request that takes so long to serve."""
        result = lane.queue_set.admit(
            lane.flow, estimate, self._on_dispatch, (lane, service_ns, client)
        )
        if type(result) is not Ticket:
            assert isinstance(result, RejectReason)
            self._reject(lane, result, client)
            return
        self.in_flight += 1
        if result.state == EXECUTING:
            self.execute(result)
        else:
            lane.tally.queued += 1
            self._arm(result.arrived_ns + lane.wait_limit_ns, self._on_wait_limit, result)

    def execute(self, ticket: Ticket) -> None:
        """A request has its seats: it ends when it is served, or when its time is over."""
        lane, service_ns, _ = ticket.details
        tally = lane.tally
        dispatched_ns = ticket.dispatched_ns
        waited_ns = dispatched_ns - ticket.arrived_ns
        if waited_ns:
            tally.waits.add(waited_ns)
        if lane.watch_seats_ns >= 0:
            lane.on_watch(service_ns)
            service_ns = min(service_ns, lane.watch_seats_ns)
        elif 0 < lane.timeout_ns < waited_ns + service_ns:
            tally.cut_off += 1
            service_ns = max(0, lane.timeout_ns - waited_ns)
        estimate = ticket.estimate
        tally.executed += 1
        tally.service_ns += service_ns
        tally.seat_ns += estimate.max_seats * (service_ns + estimate.additional_latency_ns)
        self._arm(dispatched_ns + service_ns, self._on_finish, ticket)

    def finish(self, ticket: Ticket) -> None:
        """A request ends, and its seats go back."""
        lane, _, client = ticket.details
        self.in_flight -= 1
        lane.queue_set.finish(ticket)
        if client is not None:
            client.on_end(0)
        if not self.in_flight and not self.sources:
            self.clock.stop()

    def give_up(self, ticket: Ticket) -> None:
        """A request has waited as long as it may; harmless if its wait is over."""
        if ticket.state != WAITING:
            return
        lane, _, client = ticket.details
        self.in_flight -= 1
        lane.queue_set.withdraw(ticket, RejectReason.TIME_OUT)
        self._reject(lane, RejectReason.TIME_OUT, client)
        if not self.in_flight and not self.sources:
            self.clock.stop()

    def source_ended(self) -> None:
        """From one of the sources nothing more will come."""
        self.sources -= 1
        if not self.in_flight and not self.sources:
            self.clock.stop()

    def _reject(self, lane: Lane, reason: RejectReason, client: Client | None) -> None:
        lane.tally.reject(reason)
        retry_after_s = lane.on_reject(self.clock.time_ns)
        if client is not None:
            client.on_end(retry_after_s)

    def __repr__(self) -> str:
        return f"<Replay: {self.in_flight} requests in flight at {self.clock.time_ns} ns>"
