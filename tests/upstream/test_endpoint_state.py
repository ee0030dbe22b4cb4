"""How an endpoint is, and what each event does there."""

from __future__ import annotations

import pytest

from apfproxy.base.transitions import Event, TransitionError
from apfproxy.upstream import endpoint as endpoint_state
from apfproxy.upstream.endpoint import DRAINING, TRANSITIONS, UP, EndpointState


def test_every_pair_is_in_the_table_or_refused() -> None:
    """An event that cannot happen in a state is an error of the program."""
    events = [each for each in vars(endpoint_state).values() if isinstance(each, Event)]
    assert {name for row in TRANSITIONS.values() for name in row} == {e.name for e in events}
    for state in EndpointState:
        for event in events:
            if event.name in TRANSITIONS[state]:
                assert TRANSITIONS[state][event.name] is event[state]
            else:
                with pytest.raises(TransitionError, match=f"{event.name} in state {state}"):
                    event[state]


def test_every_state_leads_back_or_to_the_end() -> None:
    """An endpoint that gets no requests may get some again, unless it is named no more."""
    for state in set(EndpointState) - {UP, DRAINING}:
        assert UP in TRANSITIONS[state].values()
        assert DRAINING in TRANSITIONS[state].values()
    assert {} == TRANSITIONS[DRAINING]
