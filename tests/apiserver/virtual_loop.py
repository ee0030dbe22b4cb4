"""An event loop whose time passes only while nothing else happens, and then at once."""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

GRACE_S = 0.002
"""How long the kernel may take to hand over what was sent, in real time."""


class SkippingSelector(selectors.DefaultSelector):
    """Waits for files, but not for time.

    Args:
        skip: Told how many seconds of waiting are left out; says whether it does.
    """

    def __init__(self, skip: Callable[[float], bool]) -> None:
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
        return found if found or self._skip(timeout) else super().select(timeout)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop on sockets of this process, in which hours pass in no time."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._in_threads = 0
        super().__init__(SkippingSelector(self._skip))

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._now_s

    def run_in_executor(  # type: ignore[override]  # asyncio's own types are as loose
        self,
        executor: Executor | None,
        func: Callable[..., Any],
        *args: Any,  # noqa: ANN401  whatever the function takes
    ) -> asyncio.Future[Any]:
        """Call a function in a thread, during which time passes as usual."""
        future: asyncio.Future[Any] = super().run_in_executor(executor, func, *args)
        self._in_threads += 1
        future.add_done_callback(self._on_done)
        return future

    def _on_done(self, _future: asyncio.Future[Any]) -> None:
        self._in_threads -= 1

    def _skip(self, seconds: float) -> bool:
        """Let time pass at once, unless a thread is at work."""
        if self._in_threads:
            return False
        self._now_s += seconds
        return True
