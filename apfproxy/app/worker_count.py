"""How many workers there are to be."""

from __future__ import annotations

import os
from pathlib import Path

from apfproxy.settings import AUTO_WORKERS, MAX_WORKERS

QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Of a container: CPU microseconds in a period, or `max`, and the period."""


def worker_count(wanted: int, quota: Path = QUOTA) -> int:
    """The number that settings mean; `AUTO_WORKERS` is one for each processor that we may use.

    A container that may use two and a half processors gets three.
    """
    if wanted != AUTO_WORKERS:
        return wanted
    processors = len(os.sched_getaffinity(0))
    try:
        allowed_us, period_us = quota.read_text(encoding="ascii").split()
        processors = min(processors, -(-int(allowed_us) // int(period_us)))
    except (OSError, ValueError, ZeroDivisionError):
        pass  # no cgroup of version 2, or no quota
    return max(1, min(processors, MAX_WORKERS))
