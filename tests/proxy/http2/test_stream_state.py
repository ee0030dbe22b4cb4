"""The life of a stream."""

from __future__ import annotations

import pytest

from apfproxy.base.transitions import TransitionError
from apfproxy.proxy.http2.stream_state import (
    CLOSE,
    CLOSED,
    FINISH,
    FINISHING,
    OPEN,
    TRANSITIONS,
    StreamState,
)


def test_every_state_has_a_row() -> None:
    """Nothing is left out."""
    assert set(StreamState) == set(TRANSITIONS)


def test_life() -> None:
    """It ends once, whether its answer got through or not."""
    assert FINISHING is FINISH[OPEN]
    assert CLOSED is CLOSE[FINISHING] is CLOSE[OPEN]
    for event in (FINISH, CLOSE):
        with pytest.raises(TransitionError):
            event[CLOSED]
