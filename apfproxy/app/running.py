"""What all commands that serve do: heed signals, raise the limit of files, spare the collector."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import sys
from typing import TYPE_CHECKING, Any

from apfproxy.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

log = logging.getLogger(__name__)

GC_THRESHOLDS = (50_000, 20, 100)
"""Requests leave no reference cycles: looking for them this seldom takes 3 to 6 % less CPU."""

SWITCH_S = 0.001
"""How long a thread may make the event loop wait: each of its turns, where large objects are read
or a page is compressed meanwhile.  Python's 5 ms would slow requests down by as much, several times
each."""


def share_processor() -> None:
    """Let the event loop have its turn soon while threads work."""
    sys.setswitchinterval(SWITCH_S)


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


def meaningless_signals() -> list[int]:
    """The signals that would end the process by default, though nobody means that by them.

    Those are for programs that use them, and are sent to others by mistake: to the wrong process,
    or as another program knows them.  Left out are those whose default is meant (SIGQUIT for a
    dump, faults of the program, limits of the system), and those that have a handler already.
    """
    names = (
        "SIGUSR1",
        "SIGUSR2",
        "SIGALRM",
        "SIGVTALRM",
        "SIGPROF",
        "SIGIO",
        "SIGPWR",
        "SIGSTKFLT",
    )
    numbers = [int(getattr(signal, name)) for name in names if hasattr(signal, name)]
    if hasattr(signal, "SIGRTMIN"):
        numbers += range(signal.SIGRTMIN, signal.SIGRTMAX + 1)
    return [each for each in numbers if signal.getsignal(each) is signal.SIG_DFL]


class Signals:
    """SIGTERM and SIGINT as events, the first and the second of them; SIGHUP as one, too.

    A signal that means nothing does nothing but write a line.

    Args:
        loop: That handles them.
        reloads: Whether SIGHUP means to read settings and files again; else it means nothing.

    Attributes:
        first, second: Set by SIGTERM and SIGINT.
        hangup: Set by SIGHUP, but not once the process is about to end; cleared by who heeds it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, reloads: bool = False) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        self.hangup = asyncio.Event()
        self._loop = loop
        self._handled: list[int] = []
        for number in (signal.SIGTERM, signal.SIGINT):
            self._handle(number, self.on_signal)
        self._handle(signal.SIGHUP, self._on_hangup if reloads else self._on_other(signal.SIGHUP))
        for each in meaningless_signals():
            self._handle(each, self._on_other(each))

    def __repr__(self) -> str:
        return f"<Signals: {self.first.is_set() + self.second.is_set()} so far>"

    def _handle(self, number: int, callback: Callable[[], None]) -> None:
        self._loop.add_signal_handler(number, callback)
        self._handled.append(number)

    def on_signal(self) -> None:
        """Take a signal that ends the process."""
        if self.first.is_set():
            self.second.set()
        self.first.set()

    def _on_hangup(self) -> None:
        if self.first.is_set():
            log.info("SIGHUP: nothing is read again, since the process is about to end")
        else:
            self.hangup.set()

    @staticmethod
    def _on_other(number: int) -> Callable[[], None]:
        def ignore() -> None:
            log.warning("%s means nothing here, and is ignored", signal_name(number))

        return ignore

    def on_rotation(self, reopen: Callable[[], None]) -> None:
        """Call `reopen` at each SIGUSR1 from now on."""
        self._handle(signal.SIGUSR1, reopen)

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
        for number in set(self._handled):
            self._loop.remove_signal_handler(number)


def signal_name(number: int) -> str:
    """What a signal is called, such as SIGUSR2 or SIGRTMIN+3."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"
