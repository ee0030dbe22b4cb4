"""How fast long-running answers are ended, where many have to.

A client that loses its watch comes back and lists: all at once would be a storm.
"""

from __future__ import annotations

import math

WATCH_END_PERIOD_S = 0.05
MIN_WATCHES_ENDED_PER_S = 200
"""kube-apiserver's own floor."""


def ended_at_once(watches: int, rounds: float) -> int:
    """How many to end now, where all have to be ended within so many rounds; >= 1."""
    return max(
        math.ceil(watches / max(rounds, 1)), round(MIN_WATCHES_ENDED_PER_S * WATCH_END_PERIOD_S)
    )
