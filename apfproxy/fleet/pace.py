"""How often a member looks at the record, and how long it waits: the same in a simulation."""

from __future__ import annotations

from typing import Final

MOST_CONFLICTS: Final = 16
"""Swaps that others were faster at, in a row, before the next period is waited for."""
STORE_TIME: Final = 0.2
"""The part of a lease that one refresh may take: two may fail before the lease ends."""
MOST_STORE_TIME_S: Final = 2.0
GENEROUS_PERIODS: Final = 0.1
"""While another member is short: how often one sees whether it can give it something, without a
word to the store."""
LEAST_PAUSE_S: Final = 0.005
"""Between two refreshes for what waits; doubled while they bring nothing, up to the period."""
SPREAD_S: Final = 0.002
"""For each member: as the others are told at once, they look one after the other."""
