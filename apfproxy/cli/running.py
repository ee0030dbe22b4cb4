"""What all commands that serve do: heed signals, raise the limit of files, spare the collector."""

from __future__ import annotations

import asyncio
import gc
import resource
import signal
import sys
from typing import TYPE_CHECKING, Any

from apfproxy.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

GC_THRESHOLDS = (50_000, 20, 100)
"""Requests leave no reference cycles: looking for them this seldom takes 3 to 6 % less CPU."""


def raise_descriptor_limit() -> None:
    """Allow as many open files as the system lets us: each request has up to two connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def descriptor_limit() -> int:
    """How many open files the process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def spare_collector() -> None:
    """Let the collector of garbage look at what exists now no more, and seldom at the rest.

    It all stays.  With thousands of watches a look at it takes 0.1 s, in which requests wait.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


class Signals:
    """SIGTERM and SIGINT as events: the first and the second of them.

    Args:
        loop: That handles them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        self._loop = loop
        self._handled = [signal.SIGTERM, signal.SIGINT]
        for number in self._handled:
            loop.add_signal_handler(number, self.on_signal)

    def __repr__(self) -> str:
        return f"<Signals: {self.first.is_set() + self.second.is_set()} so far>"

    def on_signal(self) -> None:
        """Take a signal."""
        if self.first.is_set():
            self.second.set()
        self.first.set()

    def on_rotation(self, reopen: Callable[[], None]) -> None:
        """Call `reopen` at each SIGUSR1 from now on, which would end the process otherwise."""
        self._loop.add_signal_handler(signal.SIGUSR1, reopen)
        self._handled.append(signal.SIGUSR1)

    async def before_second(self, ending: Coroutine[Any, Any, None], *, name: str) -> bool:
        """End something in order, but let the second signal cut that short.

        Args:
            ending: Does it; is cancelled at the second signal.
            name: Of its task.

        Returns:
            Whether it came to its end; what it raises is raised.
        """
        task = spawn(ending, name=name)
        second = spawn(self._wait_for_second(), name="waiting for a second signal")
        await asyncio.wait([task, second], return_when=asyncio.FIRST_COMPLETED)
        second.cancel()
        if task.done():
            task.result()
            return True
        task.cancel()
        await asyncio.wait([task])
        return False

    async def _wait_for_second(self) -> None:
        await self.second.wait()

    def forget(self) -> None:
        """Handle signals as before."""
        for number in self._handled:
            self._loop.remove_signal_handler(number)
