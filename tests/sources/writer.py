"""Somebody who writes files while they are to come to rest."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Writer:
    """Takes the place of the wait between two readings: does one of `writes` instead, if any."""

    def __init__(self, *writes: Callable[[], object]) -> None:
        self._writes = deque(writes)

    async def __call__(self, _delay_s: float) -> None:
        if self._writes:
            self._writes.popleft()()
