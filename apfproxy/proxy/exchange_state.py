"""Where an exchange stands, and what each event does there.

    NEW -> IDENTIFYING -> GATHERING -> QUEUED -> LINED_UP -> AWAITING -> ANSWERING -> DONE
                                                                      -> TUNNELLING -> DONE

Any of the states before AWAITING is left out where there is nothing to wait for: the usual request
goes from NEW to AWAITING to DONE.  Whatever leads to DONE gives back all that the exchange holds,
and writes its line of the access log.
"""

from __future__ import annotations

import enum

from apfproxy.transitions import Event


class ExchangeState(enum.StrEnum):
    """Where an exchange stands."""

    NEW = "new"
    IDENTIFYING = "identifying"
    """Other servers are asked who the client is."""
    GATHERING = "gathering"
    """A small body, or the start of a large one, comes in."""
    QUEUED = "queued"
    """It waits for seats."""
    LINED_UP = "lined-up"
    """It waits for a connection to the origin."""
    AWAITING = "awaiting"
    """It has a connection, on which the request goes out; the answer is awaited."""
    ANSWERING = "answering"
    """The head of the answer is on its way to the client, the body follows."""
    TUNNELLING = "tunnelling"
    """Bytes go both ways, untouched."""
    DONE = "done"


NEW, IDENTIFYING = ExchangeState.NEW, ExchangeState.IDENTIFYING
GATHERING, QUEUED = ExchangeState.GATHERING, ExchangeState.QUEUED
LINED_UP, AWAITING = ExchangeState.LINED_UP, ExchangeState.AWAITING
ANSWERING, TUNNELLING = ExchangeState.ANSWERING, ExchangeState.TUNNELLING
DONE = ExchangeState.DONE

_ENDS = {"reply": DONE, "break": DONE}
_SENDS = {"queue": QUEUED, "line-up": LINED_UP, "send": AWAITING, **_ENDS}

TRANSITIONS = {
    NEW: {"identify": IDENTIFYING, "gather": GATHERING, **_SENDS},
    IDENTIFYING: {"gather": GATHERING, **_SENDS},
    GATHERING: _SENDS,
    QUEUED: {"line-up": LINED_UP, "send": AWAITING, **_ENDS},
    LINED_UP: {"send": AWAITING, **_ENDS},
    AWAITING: {
        "retry": LINED_UP,
        "answer": ANSWERING,
        "switch": TUNNELLING,
        "end": DONE,
        **_ENDS,
    },
    ANSWERING: {"end": DONE, "break": DONE},
    TUNNELLING: {"end": DONE, "break": DONE},
    DONE: {},
}
"""State to event to the next state."""

IDENTIFY = Event("identify", TRANSITIONS)
GATHER = Event("gather", TRANSITIONS)
QUEUE = Event("queue", TRANSITIONS)
LINE_UP = Event("line-up", TRANSITIONS)
SEND = Event("send", TRANSITIONS)
RETRY = Event("retry", TRANSITIONS)
"""The origin closed a connection before it saw the request."""
ANSWER = Event("answer", TRANSITIONS)
SWITCH = Event("switch", TRANSITIONS)
REPLY = Event("reply", TRANSITIONS)
"""The proxy answers by itself."""
END = Event("end", TRANSITIONS)
"""The answer is through."""
BREAK = Event("break", TRANSITIONS)
"""The client is gone, or the rest of the answer will not come."""

ExchangeEvent = Event[ExchangeState]
