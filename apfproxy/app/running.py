"""How a program that serves runs: from its start to a signal, and to its end."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

import uvloop

from apfproxy.base.signals import Hangup, Signals
from apfproxy.base.tasks import spawn
from apfproxy.objects.field_errors import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

SWITCH_S = 0.001
"""For a turn of a thread, in which the event loop waits.  Python's 5 ms would slow requests down by
as much, several times each, where large objects are read or a page is compressed meanwhile.
"""

MOST_THREADS = 8
"""For what blocks: files, and large pages that are compressed."""

LAST_S = 1.0
"""For work of threads at the end, which no one waits for any more."""

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class Served(Protocol):
    ENDING: str
    """The word of the log for its end, in order."""

    async def start(self) -> None:
        """Serve, all or nothing; OperatorError if it cannot start."""

    def hurry(self, cancel: Callable[[], object]) -> None:
        """Let the start come to its end, or cancel it: the process is to end."""

    def attend(self, signals: Signals) -> None:
        """Log the start, and handle the signals that do not end the process."""

    def is_busy(self) -> bool:
        """Whether an end at once may break something."""

    async def drain(self) -> None:
        """End in order; cancelled, end at once."""


Program = TypeVar("Program", bound=Served)


def run_in_loop(main: Coroutine[Any, Any, int]) -> int:
    raise_descriptor_limit()
    sys.setswitchinterval(SWITCH_S)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.get_loop().set_default_executor(DaemonThreads())
        return runner.run(main)


class DaemonThreads(ThreadPoolExecutor):
    """Threads of an event loop, such that one which hangs does not keep the process from its end.

    Those of the base class are joined without a limit, by the interpreter as well.  A read of a
    network file system whose server is gone does not end.
    """

    def __init__(self) -> None:
        super().__init__()  # starts no thread by itself
        self._works: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._started: list[threading.Thread] = []

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        self._works.put(partial(_settle, future, partial(fn, *args, **kwargs)))
        if not self._idle.acquire(blocking=False) and len(self._started) < MOST_THREADS:
            self._started.append(threading.Thread(target=self._run, daemon=True))
            self._started[-1].start()
        return future

    def _run(self) -> None:
        while (work := self._works.get()) is not None:
            work()
            del work
            self._idle.release()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT002 - as of the base class
        """Have the threads end; waits a moment for those that work."""
        for _ in self._started:
            self._works.put(None)
        until_s = time.monotonic() + LAST_S
        for thread in self._started:
            thread.join(max(0.0, until_s - time.monotonic()))
        if hanging := sum(thread.is_alive() for thread in self._started):
            log.warning("%s still in the file system or a similar call", counted(hanging, "thread"))


def _settle(future: Future[T], work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - for who waits for the result
        future.set_exception(error)
        # The error's trace has this frame: together they would keep the arguments, such as a body.
        del future


async def serve_until_signal(
    make: Callable[[Signals], Program],
    on_started: Callable[[Program], None] | None = None,
    *,
    hangup: Hangup = Hangup.NOTHING,
) -> bool:
    """Serve until the first signal, then end until the second; whether it ended in order.

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
        is_busy = process.is_busy()
        has_ended = await signals.before_second(process.drain(), name=process.ENDING)
        if has_ended or not is_busy:
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
        await signals.second.wait()
        if not task.cancelling():
            task.cancel()

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
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def descriptor_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def spare_collector() -> None:
    """Keep the garbage collector from looking at what is of use now: all of that stays.

    With thousands of watches a look at it takes 0.1 s, in which requests wait.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
