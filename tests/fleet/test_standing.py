"""Tests of apfproxy.fleet.standing."""

from __future__ import annotations

import pytest

from apfproxy.base.transitions import TransitionError
from apfproxy.fleet.standing import (
    ALL_OVER,
    FAILED,
    LEASE_OVER,
    READ,
    TRANSITIONS,
    WRITTEN,
    Standing,
)


def test_whoever_writes_holds() -> None:
    """From every state."""
    assert {Standing.HOLDING} == {WRITTEN[state] for state in Standing}


def test_the_way_down() -> None:
    """A lease ends, and then everybody's."""
    state = FAILED[Standing.HOLDING]
    assert Standing.HOLDING is state
    state = LEASE_OVER[state]
    assert Standing.LAPSED is FAILED[state]
    assert Standing.ALONE is ALL_OVER[state]


def test_a_newcomer_without_a_store_is_alone() -> None:
    """It has no claim that it could keep to."""
    assert Standing.ALONE is FAILED[Standing.JOINING]


def test_whoever_reads_again_is_not_alone() -> None:
    """Others may hold what they have in the record."""
    assert Standing.LAPSED is READ[Standing.ALONE]
    assert Standing.JOINING is READ[Standing.JOINING]


def test_only_leases_that_run_end() -> None:
    """It has none before it wrote, and none twice."""
    for state in set(Standing) - {Standing.HOLDING}:
        with pytest.raises(TransitionError):
            LEASE_OVER[state]


def test_every_state_is_in_the_table() -> None:
    """With what it does on every outcome of a refresh."""
    assert set(Standing) == TRANSITIONS.keys()
    assert all({"read", "written", "failed"} <= row.keys() for row in TRANSITIONS.values())
