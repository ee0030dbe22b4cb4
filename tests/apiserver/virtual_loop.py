"""An event loop whose time passes only while nothing else happens, and then at once."""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

GRACE_S = 0.002
"""How long the kernel, and threads, may take to hand over what was sent, in real time."""


class SkippingSelector(selectors.DefaultSelector):
    """Waits for files, but never for time.

    Args:
        skip: Told how many seconds of waiting are left out.
    """

    def __init__(self, skip: Callable[[float], None]) -> None:
        super().__init__()
        self._skip = skip

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """The files that are ready; waits for ever only if no timer is set."""
        if timeout is None:
            return super().select(None)
        found = super().select(0)
        if found or timeout <= 0:
            return found
        found = super().select(GRACE_S)
        if not found:
            self._skip(timeout)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop on sockets of this process, in which hours pass in no time."""

    def __init__(self) -> None:
        self._now_s = 0.0
        super().__init__(SkippingSelector(self.advance))

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now_s += seconds
