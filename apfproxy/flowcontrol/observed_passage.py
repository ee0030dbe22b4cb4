"""The passage of a request whose flow control is only observed: it goes on, whatever becomes of it.

Its passage tells what enforcing would do: it waits in its queue, is rejected, or has its seats,
from its own dispatch, for as long as the request needed them.  Who waits for a response sends the
next request that much later.  So, of one caller:

1. The response may be through before the passage of its request ends.  That passage is unfinished,
   and goes on.
2. The caller's next requests would not be there yet.  They are held back.
3. When the unfinished passage ends, the first of those enters, as long afterwards as it came after
   the response before it, and needs its seats for as long as it did.  The last few are kept for
   that; the others never count.
4. A passage that is rejected ends when the response is through, or as much later as it entered: the
   caller is taken to ask again as soon as it did.

So a caller has one passage at a time, as if it waited.  A connection of HTTP/1.1 is a caller; one
of HTTP/2 is as many callers as it had requests at once.  A request on a connection of its own has
a caller of its own, so it counts however many are unfinished.

The counts are those of enforcing as far as the server takes the same time for a request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from apfproxy.flowcontrol.passage import ABANDONED, DONE, EXECUTING, NEW, WAITING, Passage

if TYPE_CHECKING:
    from apfproxy.flowcontrol.flow_limits import Refusal
    from apfproxy.flowcontrol.passage import FlowControl, RequestDigest, Waiter

UNKNOWN: Final = -1
HOLDING: Final = (EXECUTING, ABANDONED)
Caller = list["ObservedPassage"]
"""Passages of one caller: first its unfinished one, then those that are held back."""
MOST_HELD_BACK: Final = 4
"""Requests kept of one caller; the one under way, mostly a long one, only if there is no other."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ObservedPassage(Passage):
    """The passage of one request, and the waiter of that; `state` is what enforcing would do.

    `callers` are those of the connection that have no request under way, for all its passages.
    """

    def __init__(self, control: FlowControl, digest: RequestDigest, callers: list[Caller]) -> None:
        super().__init__(control, digest)
        self._callers = callers
        self._caller: Caller | None = None
        self._came_ns = 0
        self._needed_ns = UNKNOWN  # for how long the request needed seats, once it does no more
        self._gap_ns = 0  # how long after the end of the one before it enters, if it was held back
        self.through_ns = UNKNOWN  # when the response was through
        self.ended_ns = 0  # when it ended, if none was held back by it

    @property
    def seats(self) -> int:
        found = self.classification
        if self.ticket is not None or self.refusal is not None:
            return super().seats
        if found is None or not self.digest.takes_seats:
            return 0
        return self._control.foreseen_estimate(self.digest, found).max_seats

    @property
    def has_seats(self) -> bool:
        return self.state is EXECUTING and self._needed_ns == UNKNOWN

    @property
    def _is_late(self) -> bool:
        """Whether its seats come later than its request went on."""
        return self.ticket is not None and self.ticket.dispatched_ns != self._came_ns

    @property
    def is_through(self) -> bool:
        return self.through_ns != UNKNOWN

    def acquire(self, waiter: Waiter) -> bool:  # noqa: ARG002  it goes on at once
        """Let the request go on, which is held back if its client would not have sent it yet."""
        control = self._control
        self._came_ns = control.clock.now_ns()
        if self._callers:
            self.classification = control.classify(self.digest, self.completion)
            caller = self._caller = self._callers.pop(0)
            last = caller[-1]
            caller.append(self)
            self._gap_ns = self._came_ns - last.through_ns
            if last.state is DONE:
                caller.remove(last)
                self.enter_after(last.ended_ns)
        else:
            super().acquire(self)
            if self.ticket is not None:
                self._came_ns = self.ticket.arrived_ns  # a clock goes on between two looks
        return True

    # What would become of it.

    def on_seats(self) -> None:
        if self._needed_ns != UNKNOWN:
            assert self.ticket is not None
            self._timer = self._control.clock.call_at(
                self.ticket.dispatched_ns + self._needed_ns, self._on_enough
            )

    def on_time_out(self) -> None:
        if self.is_through:
            self._pause()

    def _pause(self) -> None:
        clock = self._control.clock  # after a rejection the caller asks again, as after a response
        self._timer = clock.call_at(clock.now_ns() + self._needed_ns, self._on_enough)

    def _on_enough(self) -> None:
        try:
            self._timer = None
            now_ns = self._control.clock.now_ns()
            if not self.is_through:
                super().release_seats(now_ns)
                return
            try:
                super().release(now_ns)
            finally:
                self._let_next_enter()
        except Exception as error:  # noqa: BLE001  no one but the clock is there to hear of it
            self.fail(error)

    def _let_next_enter(self) -> None:
        caller, self._caller = self._caller, None
        if caller is None:  # the client is gone
            return
        ticket, now_ns = self.ticket, self._control.clock.now_ns()
        if len(caller) > 1:
            caller.remove(self)
            caller[0].enter_after(now_ns)
        elif ticket is not None and ticket.dispatched_ns != ticket.arrived_ns:
            self.ended_ns = now_ns
        else:  # nothing waits any more: the caller need not stay behind
            self._callers.remove(caller)

    def enter_after(self, ended_ns: int) -> None:
        """Enter when the caller would send the request, as the one before ended then."""
        self._timer = self._control.clock.call_at(ended_ns + self._gap_ns, self._on_gap_end)

    def _on_gap_end(self) -> None:
        try:
            self._timer = None
            super().acquire(self)
            if self.state is EXECUTING:
                self.on_seats()
            elif self.state is not WAITING and self.is_through:
                self._pause()
        except Exception as error:  # noqa: BLE001  as above
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Leave after an error of the program, of which the request knows nothing; never raises."""
        on_error = self._control.on_error
        assert on_error is not None
        on_error(error)
        try:
            self.cancel(self._control.clock.now_ns())
        except Exception as again:  # noqa: BLE001  as above
            on_error(again)

    # What the request does.

    def release_seats(self, now_ns: int) -> None:
        if self.state is EXECUTING and not self._is_late:
            super().release_seats(now_ns)
        else:
            self._need_no_more(now_ns)

    def begin_stream(self, now_ns: int) -> Refusal | None:
        """Give the seats back; a stream is never rejected, and so not counted."""
        self.release_seats(now_ns)
        return None

    def release(self, now_ns: int) -> None:
        self.through_ns = now_ns
        if not self._is_unfinished:
            self._caller = None
            if self.state is not DONE:  # as it is after an error
                super().release(now_ns)
            return
        caller = self._caller
        if self.state is ABANDONED:
            self._caller = None
        else:
            if caller is None:
                caller = self._caller = [self]
            elif len(caller) > 1 + MOST_HELD_BACK:
                caller.pop(1).cancel(now_ns)
            self._callers.append(caller)
        self._need_no_more(now_ns)

    @property
    def _is_unfinished(self) -> bool:
        """Whether the client would not have its response yet."""
        state = self.state
        if state is NEW:
            return self._caller is not None
        return state is WAITING or (self._is_late and state in HOLDING)

    def cancel(self, now_ns: int) -> None:
        """The client is gone: it would not have waited."""
        caller = self._caller
        is_first = caller is not None and caller[0] is self
        if caller is not None and not is_first:
            self._caller = None
            if self in caller:
                caller.remove(self)
            if not self.is_through:
                self._callers.append(caller)
        try:
            super().cancel(now_ns)
        finally:
            if is_first and self.is_through:
                self._let_next_enter()

    def _need_no_more(self, now_ns: int) -> None:
        if self._needed_ns == UNKNOWN:
            self._needed_ns = now_ns - self._came_ns
            if self.state in HOLDING:
                self.on_seats()
