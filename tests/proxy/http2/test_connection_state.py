"""The life of a connection of HTTP/2."""

from __future__ import annotations

import pytest

from apfproxy.base.transitions import TransitionError
from apfproxy.proxy.http2.connection_state import (
    ANNOUNCE,
    ANNOUNCED,
    CLOSE,
    CLOSED,
    LEAVE,
    LEAVING,
    LINGER,
    LINGERING,
    OPEN,
    TRANSITIONS,
    ConnectionState,
)


def test_every_state_has_a_row() -> None:
    """Nothing is left out."""
    assert set(ConnectionState) == set(TRANSITIONS)


def test_life() -> None:
    """The end is announced, then said, then there; and from everywhere it may be there at once."""
    assert ANNOUNCED is ANNOUNCE[OPEN]
    assert LEAVING is LEAVE[ANNOUNCED]
    assert {LINGERING} == {LINGER[state] for state in (OPEN, ANNOUNCED, LEAVING)}
    assert {CLOSED} == {CLOSE[state] for state in (OPEN, ANNOUNCED, LEAVING, LINGERING)}
    with pytest.raises(TransitionError):
        ANNOUNCE[LEAVING]
    with pytest.raises(TransitionError):
        CLOSE[CLOSED]
