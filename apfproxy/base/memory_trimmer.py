"""Gives memory back to the system after a crowd has gone.

What many slow clients made the process hold is free when they leave, but glibc keeps it: it lies
below blocks that are still in use.  `malloc_trim` returns whole free pages wherever they lie.  Of
4 000 slow readers that left 300 MiB; the call takes some tens of milliseconds for so much, so it is
made once per crowd, and not for less than a few hundred connections.
"""

from __future__ import annotations

import ctypes
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

MIN_CROWD = 256
"""Connections; fewer cannot leave much."""


def return_memory() -> None:
    """Return free memory to the system; nothing happens where the C library has no such call."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class MemoryTrimmer:
    """Notices that most of a crowd has gone."""

    def __init__(self, give_back: Callable[[], None] = return_memory) -> None:
        self._give_back = give_back
        self._most = 0

    def on_sweep(self, connections: int) -> None:
        """Look how many connections there are, and return memory if there were far more."""
        if connections > self._most:
            self._most = connections
        elif self._most >= MIN_CROWD and connections <= self._most // 4:
            log.debug("%d of %d connections are left: free memory goes", connections, self._most)
            self._most = connections
            self._give_back()
