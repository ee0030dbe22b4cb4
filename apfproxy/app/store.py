"""The store of a process in a SQLite file, and its errors at the start."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.store.entries import StoreError
from apfproxy.apiserver.store.measured import MeasuredBackend
from apfproxy.apiserver.store.sqlite import SqliteBackend
from apfproxy.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apfproxy.apiserver.counters import ApiServerCounters
    from apfproxy.apiserver.store.store import Backend


def sqlite_backend(
    path: str, counters: ApiServerCounters, on_problem: Callable[[str | None], None]
) -> Backend:
    """Open a SQLite file for a store.

    Args:
        path: Of the file; made if it is not there.
        counters: Count what it does.
        on_problem: Called in the event loop with the reason when the disk refuses to write, and
            with None when it writes again.

    Raises:
        StoreError: The file cannot be used.
    """
    loop = asyncio.get_running_loop()

    def report(problem: str | None) -> None:
        loop.call_soon_threadsafe(on_problem, problem)

    return MeasuredBackend(SqliteBackend(path), counters, time.monotonic_ns, report)


@contextlib.contextmanager
def starting(refused: str) -> Iterator[None]:
    """Turn errors of a store at the start into `OperatorError`.

    Args:
        refused: What it means that the store refuses objects, such as "they cannot be made".
    """
    try:
        yield
    except StoreError as error:
        raise OperatorError(str(error)) from error
    except StatusError as error:
        raise OperatorError(f"{refused}: {error.message}") from error
