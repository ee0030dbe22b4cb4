"""Many durations in little memory, for their quantiles.

A duration falls into a bucket at most 1/64 as wide as itself is long, and a quantile is the middle
of its bucket: within 0.8 % of the exact one, whatever the scale (the layout of HdrHistogram).
"""

from __future__ import annotations

import math

BITS = 7
"""Durations below 2**7 ns have buckets of their own; longer ones keep so many leading bits."""


class Durations:
    """A distribution of durations in nanoseconds: counts by bucket, and their exact sum."""

    __slots__ = ("counts", "total_ns")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.total_ns = 0

    def add(self, duration_ns: int) -> None:
        """Count one duration; >= 0."""
        self.total_ns += duration_ns
        shift = duration_ns.bit_length() - BITS
        # Leading bits with the shift above them; a shift below 1 is no shift.
        bucket = duration_ns if shift <= 0 else (shift << BITS) + (duration_ns >> shift)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1

    def merge(self, other: Durations) -> None:
        """Count all of another distribution here, too."""
        self.total_ns += other.total_ns
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count

    def quantiles(self, parts: tuple[float, ...], zeros: int = 0) -> tuple[float, ...]:
        """The durations that parts of all are not longer than, in nanoseconds.

        Args:
            parts: Each of them above 0, at most 1; ascending.
            zeros: Durations of 0 that were not added, but count.
        """
        buckets = sorted(self.counts.items())
        total = zeros + sum(self.counts.values())
        found = []
        position, below, value = 0, zeros, 0.0
        for part in parts:
            rank = math.ceil(part * total)
            while below < rank:
                bucket, count = buckets[position]
                position += 1
                below += count
                value = _middle(bucket)
            found.append(value)
        return tuple(found)


def _middle(bucket: int) -> float:
    """The middle of a bucket, in nanoseconds."""
    shift = bucket >> BITS
    leading = bucket & ((1 << BITS) - 1)
    return leading + 0.0 if shift == 0 else ((leading << shift) + (1 << shift) / 2)
