"""Signals of a process that serves, as events."""

from __future__ import annotations

import asyncio
import enum
import logging
import signal
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from apfproxy.base.held_signals import release, unused_signals
from apfproxy.base.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

log = logging.getLogger(__name__)


class Hangup(enum.Enum):
    NOTHING = enum.auto()
    RELOAD = enum.auto()
    END = enum.auto()


class Signals:
    """SIGTERM and SIGINT as events, the first and the second of them, and SIGHUP as one.

    SIGHUP is one of the two where it means the end; where it means a reload it sets `hangup`, which
    the reload clears, until the end begins.  Other signals do nothing but write a line.  Signals
    are as before at the end of the context.
    """

    def __init__(self, hangup: Hangup = Hangup.NOTHING) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        self.hangup = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._before: dict[int, Any] = {}
        self._is_signalled = False
        self._handle(signal.SIGTERM, self._end)
        self._handle(signal.SIGINT, self._end)
        if hangup is Hangup.NOTHING:
            self._ignore(signal.SIGHUP)
        else:
            self._handle(signal.SIGHUP, self._end if hangup is Hangup.END else self._reload)
        for number in unused_signals():
            self._ignore(number)
        release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def on_rotation(self, reopen: Callable[[], None]) -> None:
        self._handle(signal.SIGUSR1, reopen)

    def on_replacement(self, replace: Callable[[], None]) -> None:
        self._handle(signal.SIGUSR2, replace)

    def end(self) -> None:
        self._is_signalled = True
        self.first.set()

    def end_as_parent_says(self) -> None:
        """Begin the end; a signal that comes as well, for the same reason, is not the second."""
        self.first.set()

    def end_at_once(self) -> None:
        self.first.set()
        self.second.set()

    async def before_second(self, ending: Coroutine[Any, Any, None], *, name: str) -> bool:
        """End something in order, cancelled at the second signal; returns whether it ended."""
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

    def _handle(self, number: int, callback: Callable[[], None]) -> None:
        """Call back in the loop, once: uvloop's `add_signal_handler` may call back twice."""
        self._callbacks[number] = callback
        if number not in self._before:
            self._before[number] = signal.signal(number, self._deliver)
            signal.siginterrupt(number, False)

    def _deliver(self, number: int, _frame: object) -> None:
        self._loop.call_soon_threadsafe(self._call, number)

    def _call(self, number: int) -> None:
        self._callbacks[number]()  # what the signal means by now

    def _ignore(self, number: int) -> None:
        text = "%s means nothing here, and is ignored"
        self._handle(number, partial(log.warning, text, signal_name(number)))

    def _end(self) -> None:
        if self._is_signalled:
            self.second.set()
        self.end()

    def _reload(self) -> None:
        if self.first.is_set():
            log.info("SIGHUP: nothing is read again, since the process is about to end")
        else:
            self.hangup.set()


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"
