"""Keeps signals from ending the process before their handlers are there.

While its modules are imported a process has no handlers yet, and signals that it is to handle or
ignore would end it.  So the kernel holds them back until the handlers are set, and delivers them
then.  SIGINT is held back, too, but only while modules are imported.
"""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

INTERRUPTED = 128 + signal.SIGINT
"""The exit code of what SIGINT has ended, as a shell has it."""

UNUSED = ["SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGPWR", "SIGSTKFLT"]
"""Signals that end a process that gets them by mistake, but for those that are meant to."""


def unused_signals() -> list[int]:
    return [each for each in _numbers() if signal.getsignal(each) is signal.SIG_DFL]


def _numbers() -> list[int]:
    numbers = [int(getattr(signal, name)) for name in UNUSED if hasattr(signal, name)]
    if hasattr(signal, "SIGRTMIN"):
        numbers += range(signal.SIGRTMIN, signal.SIGRTMAX + 1)
    return numbers


@contextlib.contextmanager
def held(numbers: Iterable[int] = ()) -> Iterator[None]:
    """Hold signals back within: these, or all that might end the process before it handles them."""
    held_back = numbers or {signal.SIGHUP, signal.SIGINT, *unused_signals()}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held_back)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def held_in_child() -> contextlib.AbstractContextManager[None]:
    """Hold back what a parent passes on in a process that is started within, until its `release`.

    So it is neither ended by what it is sent before it holds signals back itself, nor misses it.
    """
    return held((signal.SIGHUP, signal.SIGUSR1))


def release() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP, signal.SIGINT, *_numbers()})


def release_interrupt() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
