"""Growing, jittered pauses between attempts, so that a restarted server is not overrun.

Source: client-go's reflector waits from 0.8 s up to 30 s, twice as long each time, with jitter.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_S = 0.8
LONGEST_S = 30.0
FACTOR = 2.0


class Backoff:
    """Pauses between attempts, each drawn from the upper half of its bound."""

    def __init__(
        self,
        first_s: float = FIRST_S,
        longest_s: float = LONGEST_S,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._chance = chance
        self._bound_s = first_s

    def reset(self) -> None:
        """Begin with the first bound again."""
        self._bound_s = self._first_s

    def next_s(self, least_s: float = 0.0) -> float:
        """The next pause; at least the `least_s` that a server asks for, within the longest."""
        bound_s = self._bound_s
        self._bound_s = min(bound_s * FACTOR, self._longest_s)
        return max(bound_s * (1 + self._chance()) / 2, min(least_s, self._longest_s))
