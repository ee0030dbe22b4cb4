"""Work as integers: seats times time, in units of 1e-8 seat-seconds.

Kubernetes counts work in these units so that sums do not depend on their order.  It rounds each
product of seats and time once, half away from zero, after computing it in binary floating point;
so does this module, because the last digit can decide which of two queues is next.

Source: kubernetes/apiserver pkg/util/flowcontrol/request/seat_seconds.go.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias

SeatTicks: TypeAlias = int
"""Work in units of 1e-8 seat-seconds, that is of ten seat-nanoseconds.

An alias, not a NewType: calling a NewType costs 40 ns, and there are a dozen on the hot path.
"""

NS_PER_TICK: Final = 10
"""Nanoseconds for which one seat makes one tick of work."""

SERVICE_GUESS_NS: Final = 3_000_000
"""How long a request is assumed to execute until it is known.  Kubernetes' value: 3 ms."""

SERVICE_GUESS_TICKS: Final = SERVICE_GUESS_NS // NS_PER_TICK
"""The assumed work of the execution of a request of one seat."""


def seat_ticks(seats: float, duration_ns: int) -> SeatTicks:
    """The work of holding seats for a time.

    Args:
        seats: A number of seats; a fraction where one queue's share of the seats is meant.
        duration_ns: May be negative; the result has its sign.
    """
    exact = seats * duration_ns / NS_PER_TICK
    magnitude = abs(exact)
    # floor(x + 0.5) would be wrong where x + 0.5 is not a float: just below 0.5 and above 2**52.
    ticks = math.floor(magnitude)
    if magnitude - ticks >= 0.5:  # noqa: PLR2004  a half
        ticks += 1
    return ticks if exact >= 0 else -ticks


def ns_per_seat(work: SeatTicks, seats: int) -> int:
    """For how many nanoseconds that many seats have to be held to do the work; rounded down."""
    return int(work / seats * NS_PER_TICK)


def format_seat_seconds(work: SeatTicks) -> str:
    """The work as Kubernetes writes it in its dumps, such as `0.00300000ss`."""
    sign = "-" if work < 0 else ""
    whole, part = divmod(abs(work), 100_000_000)
    return f"{sign}{whole}.{part:08d}ss"
