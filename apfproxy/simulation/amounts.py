"""Durations and parts, as the report of a simulation has them."""

from __future__ import annotations

MICROSECOND, MILLISECOND, SECOND = 1e-6, 1e-3, 1.0
FEW = 0.1


def duration_text(seconds: float) -> str:
    """A duration, with three digits at most."""
    if abs(seconds) < MICROSECOND:
        return "0"
    if abs(seconds) < MILLISECOND:
        return f"{seconds * 1e6:.0f} µs"
    if abs(seconds) < SECOND:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if abs(seconds) < 100 * SECOND else f"{seconds:,.0f} s"


def part_text(part: float) -> str:
    """A part of a whole, in percent."""
    return f"{part:.0%}" if part >= FEW else f"{part:.1%}"
