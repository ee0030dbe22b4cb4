"""How an endpoint is: whether it gets requests, and what changes that."""

from __future__ import annotations

import enum
from typing import Final

from apfproxy.base.transitions import Event


class EndpointState(enum.StrEnum):
    """Whether an endpoint gets requests."""

    UP = "up"
    EJECTED = "ejected"
    """Requests failed: it gets none for a while."""
    FAILING = "failing"
    """Checks of its health failed: it gets none until they succeed."""
    DRAINING = "draining"
    """It is an endpoint no more: the requests that it has end."""


UP: Final = EndpointState.UP
EJECTED: Final = EndpointState.EJECTED
FAILING: Final = EndpointState.FAILING
DRAINING: Final = EndpointState.DRAINING

TRANSITIONS = {
    UP: {"eject": EJECTED, "fail": FAILING, "drain": DRAINING},
    EJECTED: {"try-again": UP, "fail": FAILING, "drain": DRAINING},
    FAILING: {"recover": UP, "drain": DRAINING},
    DRAINING: {},
}
"""State to event to the next state."""

EJECT: Final = Event("eject", TRANSITIONS)
"""Requests failed, one after the other."""
TRY_AGAIN: Final = Event("try-again", TRANSITIONS)
"""Its pause is over."""
FAIL: Final = Event("fail", TRANSITIONS)
"""As many checks failed as may."""
RECOVER: Final = Event("recover", TRANSITIONS)
"""As many checks succeeded as must."""
DRAIN: Final = Event("drain", TRANSITIONS)
"""It is named no more."""
