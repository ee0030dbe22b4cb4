"""How long to wait before the next attempt, so that a server that comes back is not run over.

Waiting times grow by a factor up to a longest one.  Each is drawn from between half of that and all
of it, so that not all clients of a server that restarts come back together.

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
    """Waiting times of one who tries again and again.

    Args:
        first_s: The longest that the first one can be.
        longest_s: The longest that any can be.
        chance: Draws from [0, 1).
    """

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

    def __repr__(self) -> str:
        return f"<Backoff, next up to {self._bound_s:g} s>"

    def reset(self) -> None:
        """All is well again."""
        self._bound_s = self._first_s

    def next_s(self, least_s: float = 0.0) -> float:
        """The time to wait before the next attempt.

        Args:
            least_s: What the server asks for; it counts up to the longest time.
        """
        bound_s = self._bound_s
        self._bound_s = min(bound_s * FACTOR, self._longest_s)
        return max(bound_s * (1 + self._chance()) / 2, min(least_s, self._longest_s))
