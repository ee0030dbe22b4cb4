"""How a program that serves runs: from its start to a signal, and to its end."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import sys
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import uvloop

from apfproxy.app.signals import Hangup, Signals
from apfproxy.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

GC_THRESHOLDS = (50_000, 20, 100)
"""Requests leave no reference cycles: looking for them this seldom takes 3 to 6 % less CPU."""

SWITCH_S = 0.001
"""How long a thread may make the event loop wait: each of its turns, where large objects are read
or a page is compressed meanwhile.  Python's 5 ms would slow requests down by as much, several times
each."""

log = logging.getLogger(__name__)


class Served(Protocol):
    """A program that serves."""

    ENDING: str
    """What it does at the first signal, for the log."""

    async def start(self) -> None:
        """Serve, all or nothing; OperatorError if it cannot start."""

    def hurry(self, cancel: Callable[[], object]) -> None:
        """Let the start come to its end, or cancel it: the process is to end."""

    def attend(self, signals: Signals) -> None:
        """Log the start, and handle the signals that do not end the process."""

    async def drain(self) -> None:
        """End in order; cancelled, end at once."""


Program = TypeVar("Program", bound=Served)


def run_in_loop(main: Coroutine[Any, Any, int]) -> int:
    """Run in an event loop of its own, with as many open files as the system allows."""
    raise_descriptor_limit()
    sys.setswitchinterval(SWITCH_S)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


async def serve_until_signal(
    make: Callable[[Signals], Program],
    on_started: Callable[[Program], None] | None = None,
    *,
    hangup: Hangup = Hangup.NOTHING,
) -> bool:
    """Serve until the first signal, then end until the second; whether it ended in order.

    `make` makes the program, which others than the system may give its signals.

    OperatorError if it cannot start.
    """
    with Signals(hangup) as signals:
        process = make(signals)
        if not await _started(process, signals):
            log.info("stopped before it had started")
            return True
        process.attend(signals)
        spare_collector()
        if on_started is not None:
            on_started(process)
        await signals.first.wait()
        log.info("%s; another signal stops at once", process.ENDING)
        if await signals.before_second(process.drain(), name=process.ENDING):
            log.info("stopped")
            return True
        log.warning("stopped before all requests ended")
        return False


async def _started(process: Served, signals: Signals) -> bool:
    """Start; False if a signal made the program cancel that."""
    task = asyncio.current_task()
    assert task is not None, "this is a coroutine"

    async def hurry() -> None:
        await signals.first.wait()
        process.hurry(task.cancel)

    hurrying = spawn(hurry(), name="waiting for a signal while starting")
    try:
        await process.start()
    except asyncio.CancelledError:
        if not signals.first.is_set():
            raise
        task.uncancel()
        return False
    finally:
        hurrying.cancel()
    return True


def raise_descriptor_limit() -> None:
    """Allow as many open files as the system lets us: each request has up to two connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def descriptor_limit() -> int:
    """How many open files the process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def spare_collector() -> None:
    """Keep the garbage collector from looking at what exists now, and let it look seldom.

    It all stays.  With thousands of watches a look at it takes 0.1 s, in which requests wait.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
