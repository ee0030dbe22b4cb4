"""Whether the proxy itself has too much to do: then it sheds new connections.

1. The event loop is late, as the sweep measures by itself, twice running: a single gap, as when the
   machine has stood still, is over by the time it is seen.  Each sweep's counts half at the next.
2. Memory is short: more is resident than the settings allow, also once what is free has gone back
   to the system.  Then idle connections are closed, too, and new requests refused.

Each state is left at a lower mark than it is entered at, so that it does not flap.
"""

from __future__ import annotations

import logging
import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING

from apfproxy.base.memory import return_memory
from apfproxy.proxy.counters import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.proxy.client_limits import ClientLimits
    from apfproxy.proxy.counters import ListenerCounters
    from apfproxy.settings import OverloadSettings

log = logging.getLogger(__name__)

SWEEPS_PER_TRIM = 5
"""Sweeps between trims of memory, which take tens of milliseconds; a look takes 10 us."""
STATM = Path("/proc/self/statm")
MEBIBYTE = 1 << 20


def resident_bytes() -> int:
    """The memory that the process has resident; at its highest, where the system does not tell."""
    try:
        return int(STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Overload:
    def __init__(
        self,
        settings: OverloadSettings,
        limits: ClientLimits,
        counters: ListenerCounters,
        memory: Callable[[], int] = resident_bytes,
        give_back: Callable[[], None] = return_memory,
    ) -> None:
        self._limits = limits
        self._counters = counters
        self._memory = memory
        self._give_back = give_back
        self._delay_ns = self._late_ns = self._sweeps_to_trim = 0
        self._settings = settings

    def configure(self, settings: OverloadSettings) -> None:
        """Put other marks in force; an overload that no one looks for any more is over."""
        self._settings = settings
        if settings.loop_delay_s is None:
            self._set(Refusal.LOOP_DELAY, is_so=False)
        if settings.memory_bytes is None:
            self._set(Refusal.MEMORY, is_so=False)

    @property
    def is_memory_short(self) -> bool:
        return self._counters.overloads[Refusal.MEMORY]

    def on_sweep(self, late_ns: int) -> None:
        self._delay_ns = max(late_ns, self._delay_ns // 2)
        self._counters.loop_delay_ns = self._delay_ns
        overloads = self._counters.overloads
        lasting_ns = min(late_ns, self._late_ns)
        self._late_ns = late_ns
        if self._settings.loop_delay_s is not None:
            most_ns = round(self._settings.loop_delay_s * 1e9)
            if lasting_ns >= most_ns and not overloads[Refusal.LOOP_DELAY]:
                text = "the event loop is %.1f s late: new connections are shed"
                log.warning(text, lasting_ns / 1e9)
                self._set(Refusal.LOOP_DELAY, is_so=True)
            elif self._delay_ns < most_ns // 2 and overloads[Refusal.LOOP_DELAY]:
                log.info("the event loop is in time again: connections are taken")
                self._set(Refusal.LOOP_DELAY, is_so=False)
        if self._settings.memory_bytes is not None:
            self._look_at_memory(self._settings.memory_bytes)

    def _look_at_memory(self, most: int) -> None:
        used = self._memory()
        is_short = self.is_memory_short
        self._sweeps_to_trim = max(0, self._sweeps_to_trim - 1)
        if (is_short or used >= most) and not self._sweeps_to_trim:
            self._sweeps_to_trim = SWEEPS_PER_TRIM
            self._give_back()
            used = self._memory()
        if used >= most and not is_short:
            text = (
                "%d MiB of memory are in use, of at most %d: new connections and requests are"
                " refused, idle connections closed"
            )
            log.warning(text, used // MEBIBYTE, most // MEBIBYTE)
            self._set(Refusal.MEMORY, is_so=True)
        elif used < most - most // 16 and is_short:
            text = "%d MiB of memory are in use: connections and requests are taken again"
            log.info(text, used // MEBIBYTE)
            self._set(Refusal.MEMORY, is_so=False)

    def _set(self, reason: Refusal, *, is_so: bool) -> None:
        overloads = self._counters.overloads
        overloads[reason] = is_so
        self._limits.shed = next((each for each, holds in overloads.items() if holds), None)
