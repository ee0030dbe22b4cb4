"""Requests on their way through queue sets, on a virtual clock.

What the data plane does around a queue set is done here with events: a request that waits gives
up after its wait limit; one that executes ends when it is served, or cut off when its time is over;
a WATCH gives its seats back once its initial events are through, and counts as open until its end.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from apfproxy.flowcontrol.ticket import EXECUTING, WAITING, RejectReason, Ticket
from apfproxy.simulation.tally import Tally

if TYPE_CHECKING:
    from apfproxy.flowcontrol.queue_set import QueueSet
    from apfproxy.flowcontrol.ticket import Flow, WorkEstimate
    from apfproxy.simulation.virtual_clock import VirtualClock


WaitLimit = tuple[int, int, Ticket]
"""When a ticket gives up, with the rank of that event."""


class Client(Protocol):
    """Whoever wants to know when a request has ended."""

    def on_end(self, retry_after_s: int) -> None:
        """The request has ended, now.

        Args:
            retry_after_s: How long to stay away, if it was rejected; 0 if it was served.
        """

    def on_open(self, end_ns: int) -> None:
        """The request is under way and will end then; `on_end` is not called.

        So it is with what goes on without seats, and does not keep a run from ending.
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
        self._on_wait_limit = self._end_wait
        self._arm_ranked = clock.arm_ranked
        self._next_rank = clock.next_rank
        # By wait limit, so that each is in the order of time, and only the first of each is among
        # the clock's events: few wait so long, and events cost 1 us each.
        self._wait_limits: dict[int, deque[WaitLimit]] = {}

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
            wait_limit_ns = lane.wait_limit_ns
            limits = self._wait_limits.get(wait_limit_ns)
            if limits is None:
                limits = self._wait_limits[wait_limit_ns] = deque()
            limit = (result.arrived_ns + wait_limit_ns, self._next_rank(), result)
            if not limits:
                self._arm_ranked(limit[0], limit[1], self._on_wait_limit, limits)
            limits.append(limit)

    def execute(self, ticket: Ticket) -> None:
        """A request has its seats: it ends when it is served, or when its time is over."""
        lane, service_ns, client = ticket.details
        tally = lane.tally
        dispatched_ns = ticket.dispatched_ns
        waited_ns = dispatched_ns - ticket.arrived_ns
        if waited_ns:
            tally.waits.add(waited_ns)
        if lane.watch_seats_ns >= 0:
            lane.on_watch(service_ns)
            if service_ns > lane.watch_seats_ns:
                if client is not None:
                    ticket.details = (lane, service_ns, None)
                    client.on_open(dispatched_ns + service_ns)
                service_ns = lane.watch_seats_ns
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

    def _end_wait(self, limits: deque[WaitLimit]) -> None:
        """The first of those with one wait limit has waited as long as it may, if it still does."""
        ticket = limits[0][2]
        if ticket.state == WAITING:
            self.give_up(ticket)
        limits.popleft()  # only now: who is told of it may begin to wait, and sees it there
        while limits:
            deadline_ns, rank, ticket = limits[0]
            if ticket.state == WAITING:
                self._arm_ranked(deadline_ns, rank, self._on_wait_limit, limits)
                return
            limits.popleft()

    def give_up(self, ticket: Ticket) -> None:
        """A request has waited as long as it may."""
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
