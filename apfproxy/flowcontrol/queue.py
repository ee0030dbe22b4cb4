"""One queue of a queue set: the requests that wait in it, and sums over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.flowcontrol.seats import SeatTicks
    from apfproxy.flowcontrol.ticket import Ticket


class Queue:
    """Tickets in order of arrival, chained through themselves so that any can leave at once.

    Attributes:
        index: Its place in the queue set; changes when a queue before it goes away.
        is_removed: Whether it went away; requests of it may linger.
        oldest, newest: The ends of the chain; None when nothing waits.
        requests_waiting, initial_seats_waiting, seats_waiting, work_waiting: Sums over what waits:
            number, initial seats, max seats, total work.
        requests_executing: Executing now, lingering ones not counted.
        seats_in_use: Max seats of what executes or lingers.
        next_dispatch_r: The reading of the progress meter at which, in the virtual world, the
            queue's oldest request begins to execute.
    """

    __slots__ = (
        "index",
        "initial_seats_waiting",
        "is_removed",
        "newest",
        "next_dispatch_r",
        "oldest",
        "requests_executing",
        "requests_waiting",
        "seats_in_use",
        "seats_waiting",
        "work_waiting",
    )

    def __init__(self, index: int) -> None:
        self.index = index
        self.is_removed = False
        self.oldest: Ticket | None = None
        self.newest: Ticket | None = None
        self.requests_waiting = 0
        self.initial_seats_waiting = 0
        self.seats_waiting = 0
        self.work_waiting: SeatTicks = 0
        self.requests_executing = 0
        self.seats_in_use = 0
        self.next_dispatch_r: SeatTicks = 0

    @property
    def is_active(self) -> bool:
        """Whether it shares in the seats: something waits or executes, not merely lingers."""
        return self.requests_waiting > 0 or self.requests_executing > 0

    def append(self, ticket: Ticket) -> None:
        """Put the ticket at the end."""
        ticket.previous = newest = self.newest
        ticket.next = None
        if newest is None:
            self.oldest = ticket
        else:
            newest.next = ticket
        self.newest = ticket
        estimate = ticket.estimate
        self.requests_waiting += 1
        self.initial_seats_waiting += estimate.initial_seats
        self.seats_waiting += estimate.max_seats
        self.work_waiting += estimate.work

    def remove(self, ticket: Ticket) -> None:
        """Take the ticket out, wherever in the queue it is."""
        previous, following = ticket.previous, ticket.next
        if previous is None:
            self.oldest = following
        else:
            previous.next = following
        if following is None:
            self.newest = previous
        else:
            following.previous = previous
        ticket.previous = ticket.next = None
        estimate = ticket.estimate
        self.requests_waiting -= 1
        self.initial_seats_waiting -= estimate.initial_seats
        self.seats_waiting -= estimate.max_seats
        self.work_waiting -= estimate.work

    def tickets(self) -> Iterator[Ticket]:
        """What waits, the oldest first."""
        ticket = self.oldest
        while ticket is not None:
            yield ticket
            ticket = ticket.next

    def __repr__(self) -> str:
        return (
            f"<Queue {self.index}: {self.requests_waiting} waiting,"
            f" {self.requests_executing} executing, next_dispatch_r {self.next_dispatch_r}>"
        )
