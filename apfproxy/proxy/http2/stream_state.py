"""Where a stream stands, and what each event does there.

OPEN -> FINISHING -> CLOSED
"""

from __future__ import annotations

import enum
from typing import Final

from apfproxy.transitions import Event


class StreamState(enum.StrEnum):
    """Where a stream stands."""

    OPEN = "open"
    """Its exchange is under way."""
    FINISHING = "finishing"
    """The exchange is over; what is left of the answer, or a reset, is on its way."""
    CLOSED = "closed"


OPEN: Final = StreamState.OPEN
FINISHING: Final = StreamState.FINISHING
CLOSED: Final = StreamState.CLOSED

TRANSITIONS = {
    OPEN: {"finish": FINISHING, "close": CLOSED},
    FINISHING: {"finish": FINISHING, "close": CLOSED},
    CLOSED: {},
}
"""State to event to the next state."""

FINISH: Final = Event("finish", TRANSITIONS)
"""The exchange is over, or the stream is given up."""
CLOSE: Final = Event("close", TRANSITIONS)
"""Both sides are through, or one has reset it."""
