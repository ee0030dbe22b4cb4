"""Where a stream stands, and what each event does there.

    OPEN -> FINISHING -> LINGERING -> CLOSED

An answer may go out before all of its request has come.  Clients that hear at once that the rest is
not wanted lose the answer now and then: the reset overtakes it on its way through the program.  So
the rest is taken for a while and thrown away, as with HTTP/1.1.
"""

from __future__ import annotations

import enum
from typing import Final

from apfproxy.base.transitions import Event


class StreamState(enum.StrEnum):
    """Where a stream stands."""

    OPEN = "open"
    """Its exchange is under way."""
    FINISHING = "finishing"
    """The exchange is over; what is left of the answer, or a reset, is on its way."""
    LINGERING = "lingering"
    """The answer has gone out; what still comes of the request is thrown away."""
    CLOSED = "closed"


OPEN: Final = StreamState.OPEN
FINISHING: Final = StreamState.FINISHING
LINGERING: Final = StreamState.LINGERING
CLOSED: Final = StreamState.CLOSED

TRANSITIONS = {
    OPEN: {"finish": FINISHING, "close": CLOSED},
    FINISHING: {"finish": FINISHING, "linger": LINGERING, "close": CLOSED},
    LINGERING: {"close": CLOSED},
    CLOSED: {},
}
"""State to event to the next state."""

FINISH: Final = Event("finish", TRANSITIONS)
"""The exchange is over, or the stream is given up."""
LINGER: Final = Event("linger", TRANSITIONS)
"""The answer has gone out, before all of its request came."""
CLOSE: Final = Event("close", TRANSITIONS)
"""Both sides are through, or one has reset it."""
