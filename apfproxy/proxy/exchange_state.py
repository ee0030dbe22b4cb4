"""The states of an exchange, and what each event does there.

    NEW -> AUTHENTICATING -> GATHERING -> QUEUED -> CONNECTING -> AWAITING -> RESPONDING -> DONE
                                                                           -> TUNNELLING -> DONE

A state before AWAITING is left out where there is nothing to wait for: the usual request goes from
NEW to AWAITING to DONE.
"""

from __future__ import annotations

import enum
from typing import Final

from apfproxy.base.transitions import Event


class ExchangeState(enum.StrEnum):
    """The state of an exchange."""

    NEW = "new"
    AUTHENTICATING = "authenticating"
    GATHERING = "gathering"
    """A small body, or the start of a large one, comes in."""
    QUEUED = "queued"
    CONNECTING = "connecting"
    AWAITING = "awaiting"
    """It has a connection, on which the request goes out; the response is awaited."""
    RESPONDING = "responding"
    TUNNELLING = "tunnelling"
    DONE = "done"


NEW: Final = ExchangeState.NEW
AUTHENTICATING: Final = ExchangeState.AUTHENTICATING
GATHERING: Final = ExchangeState.GATHERING
QUEUED: Final = ExchangeState.QUEUED
CONNECTING: Final = ExchangeState.CONNECTING
AWAITING: Final = ExchangeState.AWAITING
RESPONDING: Final = ExchangeState.RESPONDING
TUNNELLING: Final = ExchangeState.TUNNELLING
DONE: Final = ExchangeState.DONE

_ENDS: Final = {"reply": DONE, "break": DONE}
_SENDS: Final = {"queue": QUEUED, "connect": CONNECTING, "send": AWAITING, **_ENDS}

TRANSITIONS = {
    NEW: {"authenticate": AUTHENTICATING, "gather": GATHERING, **_SENDS},
    AUTHENTICATING: {"gather": GATHERING, **_SENDS},
    GATHERING: _SENDS,
    QUEUED: {"connect": CONNECTING, "send": AWAITING, **_ENDS},
    CONNECTING: {"send": AWAITING, **_ENDS},
    AWAITING: {
        "retry": CONNECTING,
        "respond": RESPONDING,
        "switch": TUNNELLING,
        "end": DONE,
        **_ENDS,
    },
    RESPONDING: {"end": DONE, "break": DONE},
    TUNNELLING: {"end": DONE, "break": DONE},
    DONE: {},
}

AUTHENTICATE: Final = Event("authenticate", TRANSITIONS)
GATHER: Final = Event("gather", TRANSITIONS)
QUEUE: Final = Event("queue", TRANSITIONS)
CONNECT: Final = Event("connect", TRANSITIONS)
SEND: Final = Event("send", TRANSITIONS)
RETRY: Final = Event("retry", TRANSITIONS)
"""The upstream closed a connection before it saw the request."""
RESPOND: Final = Event("respond", TRANSITIONS)
SWITCH: Final = Event("switch", TRANSITIONS)
REPLY: Final = Event("reply", TRANSITIONS)
END: Final = Event("end", TRANSITIONS)
BREAK: Final = Event("break", TRANSITIONS)
"""The client is gone, or the rest of the response will not come."""

ExchangeEvent = Event[ExchangeState]
