"""Where an exchange stands, and what each event does there."""

from __future__ import annotations

import pytest

from apfproxy.base.transitions import Event, TransitionError
from apfproxy.proxy import exchange_state
from apfproxy.proxy.exchange_state import DONE, NEW, TRANSITIONS, ExchangeState


def test_every_pair_is_in_the_table_or_refused() -> None:
    """An event that cannot happen in a state is an error of the program."""
    events = [each for each in vars(exchange_state).values() if isinstance(each, Event)]
    assert {name for row in TRANSITIONS.values() for name in row} == {e.name for e in events}
    for state in ExchangeState:
        for event in events:
            if event.name in TRANSITIONS[state]:
                assert TRANSITIONS[state][event.name] is event[state]
            else:
                with pytest.raises(TransitionError, match=f"{event.name} in state {state}"):
                    event[state]


def test_every_state_leads_to_the_end() -> None:
    """Each is reached from the first, none is come back to but for a retry, and all end."""
    reached = {NEW}
    while more := {after for state in reached for after in TRANSITIONS[state].values()} - reached:
        reached |= more
    order = list(ExchangeState)

    assert set(ExchangeState) == reached
    for state, row in TRANSITIONS.items():
        assert (DONE in row.values()) == (state is not DONE)
        backwards = [
            name for name, after in row.items() if order.index(after) <= order.index(state)
        ]
        assert backwards in ([], ["retry"])
