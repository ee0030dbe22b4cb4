"""Errors of the program itself, which were not foreseen: contained, counted, and logged.

Whatever contains such an error tells the event loop of it, and the loop's exception handler is the
one place where they arrive: also those that the loop contains by itself, in callbacks, in protocols
and in tasks.  So no part has to be given a log or a counter of its own.

1. Each is counted, by the part of the program in which it came up.
2. One from the same place in the code is logged once a minute, with its traceback and with how
   many there were in between: a bug that each request meets must not fill the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import functools
import logging
import time
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from apfproxy.base.rare_log import RareLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

log = logging.getLogger(__name__)

PART = "part"


class Part(enum.StrEnum):
    """Where an error came up; also the `part` label of internal_errors_total."""

    ACCESS_LOG = "access-log"
    ADMIN = "admin"
    CONNECTION = "connection"
    """An event of one connection, or its deadline: it was closed."""
    CONTROLLER = "controller"
    IDENTITY_FILES = "identity-files"
    FLEET = "fleet"
    """The share of a limit that several members have."""
    LIMITS = "limits"
    LISTENER = "listener"
    LIVE_PAGE = "live-page"
    LOOP = "loop"
    """None of the others: a callback of the event loop."""
    OBJECT_COUNTS = "object-counts"
    OBJECTS = "objects"
    POOL = "pool"
    STORE = "store"
    SWEEP = "sweep"
    TASK = "task"
    """A task that nothing awaits."""
    TOP_FLOWS = "top-flows"
    UPSTREAM = "upstream"


class Faults:
    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.totals = dict.fromkeys(Part, 0)
        self._log = RareLog(log, now_ns)

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.set_exception_handler(self.on_error)

    def on_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, BaseException):
            loop.default_exception_handler(context)  # no error, such as a client left open
            return
        part = Part(context.get(PART, Part.LOOP))
        self.totals[part] += 1
        message = context.get("message") or "an error of the proxy itself"
        key = f"{part} {_place_of(error)}"
        self._log.log(logging.ERROR, key, "%s: %s", part, message, exc_info=error)


def report(
    part: Part,
    error: BaseException,
    message: str = "an error of the proxy itself",
    *,
    loop: asyncio.AbstractEventLoop | None = None,
) -> None:
    (loop or asyncio.get_running_loop()).call_exception_handler(
        {"message": message, "exception": error, PART: part}
    )


@contextlib.contextmanager
def contained(part: Part, loop: asyncio.AbstractEventLoop | None = None) -> Iterator[None]:
    """Let an error within end there, as of `report`."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  whatever it is, what follows does not depend on it
        report(part, error, loop=loop)


def _place_of(error: BaseException) -> str:
    """File and line that raised an error; its type where that is not known."""
    place = type(error).__name__
    trace = error.__traceback__
    while trace is not None:
        place, trace = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}", trace.tb_next
    return place


class Failing(Protocol):
    def fail(self, error: Exception) -> None:
        """Give back everything, close, and report the error; never raises."""


F = TypeVar("F", bound=Failing)
P = ParamSpec("P")
R = TypeVar("R")


def guarded(event: Callable[Concatenate[F, P], R]) -> Callable[Concatenate[F, P], R | None]:
    """Let an error in a method that the loop or the sweep calls end what the method is of.

    The loop contains such errors, too, but some of its ways leave a connection half open, with its
    seats.  `buffer_updated`, which each request passes through, does the same in place, since a
    `try` costs nothing there.
    """

    def run(self: F, /, *args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return event(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001  whatever it is, others must not suffer
            self.fail(error)
            return None

    functools.update_wrapper(run, event)
    return run
