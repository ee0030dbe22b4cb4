"""How a member stands to its fleet: what it may use, by when it wrote last.

1. `joining`: it has neither written nor failed to.  It has no seats yet.
2. `holding`: its lease runs.  It may use its claim.
3. `lapsed`: its lease is over, since the store is away, or it comes back.  It uses no more than its
   claim, nor than the safe share: others may still hold theirs.
4. `alone`: the store has been away for so long that nobody's lease runs, and still is.  It uses the
   safe share.
"""

from __future__ import annotations

import enum
from typing import Final

from apfproxy.base.transitions import Event


class Standing(enum.StrEnum):
    """One of the states above."""

    JOINING = "joining"
    HOLDING = "holding"
    LAPSED = "lapsed"
    ALONE = "alone"


TRANSITIONS: Final = {
    Standing.JOINING: {
        "read": Standing.JOINING,
        "written": Standing.HOLDING,
        "failed": Standing.ALONE,
    },
    Standing.HOLDING: {
        "read": Standing.HOLDING,
        "written": Standing.HOLDING,
        "failed": Standing.HOLDING,
        "lease-over": Standing.LAPSED,
    },
    Standing.LAPSED: {
        "read": Standing.LAPSED,
        "written": Standing.HOLDING,
        "failed": Standing.LAPSED,
        "all-over": Standing.ALONE,
    },
    Standing.ALONE: {
        "read": Standing.LAPSED,
        "written": Standing.HOLDING,
        "failed": Standing.ALONE,
    },
}
"""State, event, next state."""

READ: Final = Event("read", TRANSITIONS)
"""It has read the record, and is about to write."""
WRITTEN: Final = Event("written", TRANSITIONS)
"""It has written its entry."""
FAILED: Final = Event("failed", TRANSITIONS)
"""It could not read or write, or use what it read."""
LEASE_OVER: Final = Event("lease-over", TRANSITIONS)
"""Its last write is too long ago."""
ALL_OVER: Final = Event("all-over", TRANSITIONS)
"""Whoever wrote last before the store went away, did so too long ago, too."""
