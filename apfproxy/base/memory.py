"""The memory that the process may use, that clients may hold, and that goes back after a crowd."""

from __future__ import annotations

import ctypes
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

MAX_DEFAULT_BYTES: Final = 128 << 20
"""Held by all clients, unless the settings say more: 20 000 queued requests of 6 KiB."""
MIN_DEFAULT_BYTES: Final = 8 << 20
CGROUP_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def container_bytes() -> int | None:
    """The memory that the process's container may use; None where nothing bounds it."""
    bounds = []
    for limit in CGROUP_LIMITS:
        try:
            bounds.append(int(limit.read_bytes()))
        except (OSError, ValueError):
            continue  # there is no such file, or it says "max"
    machine = machine_bytes()
    return min((each for each in bounds if each < machine), default=None)


def machine_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def overload_bytes(memory_bytes: int | None) -> int | None:
    """The memory at which the process is overloaded; None for never.

    Where the settings do not say it, most of what the container may use is the mark: beyond, the
    kernel would kill the process, and all requests with it.
    """
    if memory_bytes is not None:
        return memory_bytes
    whole = container_bytes()
    return None if whole is None else whole * 13 // 16


def default_bytes(memory_bytes: int | None = None) -> int:
    """The bytes that all clients may hold by default, of a process with `memory_bytes` for all."""
    most = min(MAX_DEFAULT_BYTES, (container_bytes() or machine_bytes()) // 4)
    if memory_bytes is not None:
        most = min(most, memory_bytes // 3)
    return max(most, MIN_DEFAULT_BYTES)


MIN_CROWD = 256
"""Connections; fewer cannot leave much memory."""


def return_memory() -> None:
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class MemoryTrimmer:
    """Returns memory to the system once most of a crowd has gone.

    glibc keeps what they made the process hold, below blocks that are still in use; `malloc_trim`
    returns whole free pages wherever they lie.  It takes tens of milliseconds for the 300 MiB of
    4 000 slow readers, so it is called once per crowd, and not for a few connections.
    """

    def __init__(self, give_back: Callable[[], None] = return_memory) -> None:
        self._give_back = give_back
        self._most = 0

    def on_sweep(self, connections: int) -> None:
        if connections > self._most:
            self._most = connections
        elif self._most >= MIN_CROWD and connections <= self._most // 4:
            log.debug("%d of %d connections are left: free memory goes", connections, self._most)
            self._most = connections
            self._give_back()
