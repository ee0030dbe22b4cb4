"""Where a connection of HTTP/2 stands, and what each event does there.

    OPEN -> ANNOUNCED -> LEAVING -> LINGERING -> CLOSED

A client may have sent requests before it learns that the connection ends.  So its end is announced
first, with a GOAWAY that allows every stream; the one that says which streams were the last follows
when a round trip has passed, and the connection closes once they are through (RFC 9113, section
6.8).  Our side closes first, where it can alone: a connection that is closed with bytes unread is
reset, and a reset overtakes the last answer.
"""

from __future__ import annotations

import enum
from typing import Final

from apfproxy.base.transitions import Event


class ConnectionState(enum.StrEnum):
    """Where a connection stands."""

    OPEN = "open"
    ANNOUNCED = "announced"
    """New requests are still taken, of clients that do not know yet."""
    LEAVING = "leaving"
    """No further request is taken."""
    LINGERING = "lingering"
    """Our side has ended; what still comes is thrown away."""
    CLOSED = "closed"
    """It is closed, or will be once what was written is through."""


OPEN: Final = ConnectionState.OPEN
ANNOUNCED: Final = ConnectionState.ANNOUNCED
LEAVING: Final = ConnectionState.LEAVING
LINGERING: Final = ConnectionState.LINGERING
CLOSED: Final = ConnectionState.CLOSED

TRANSITIONS = {
    OPEN: {"announce": ANNOUNCED, "leave": LEAVING, "linger": LINGERING, "close": CLOSED},
    ANNOUNCED: {"leave": LEAVING, "linger": LINGERING, "close": CLOSED},
    LEAVING: {"linger": LINGERING, "close": CLOSED},
    LINGERING: {"close": CLOSED},
    CLOSED: {},
}
"""State to event to the next state."""

ANNOUNCE: Final = Event("announce", TRANSITIONS)
LEAVE: Final = Event("leave", TRANSITIONS)
LINGER: Final = Event("linger", TRANSITIONS)
CLOSE: Final = Event("close", TRANSITIONS)
