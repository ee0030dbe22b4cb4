"""Times and durations as Go prints them, for pages that must look like kube-apiserver's."""

from __future__ import annotations

import datetime as dt

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
S_PER_MINUTE = 60
MINUTES_PER_HOUR = 60
ZERO_TIME = "0001-01-01T00:00:00Z"
"""How Go prints a time that was never set."""

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def time_text(unix_ns: int) -> str:
    """Nanoseconds since 1970 as RFC 3339, in UTC, with as many of nine decimals as it needs."""
    seconds, fraction_ns = divmod(unix_ns, NS_PER_S)
    moment = EPOCH + dt.timedelta(seconds=seconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}{_fraction(fraction_ns, 9)}Z"


def duration_text(duration_ns: int) -> str:
    """A duration in Go's format: `0s`, `250ns`, `1.5ms`, `5s`, `1m0.25s`, `2h0m0s`."""
    if duration_ns == 0:
        return "0s"
    sign = "-" if duration_ns < 0 else ""
    ns = abs(duration_ns)
    if ns < NS_PER_US:
        return f"{sign}{ns}ns"
    if ns < NS_PER_MS:
        return f"{sign}{ns // NS_PER_US}{_fraction(ns % NS_PER_US, 3)}µs"
    if ns < NS_PER_S:
        return f"{sign}{ns // NS_PER_MS}{_fraction(ns % NS_PER_MS, 6)}ms"
    whole_s, fraction_ns = divmod(ns, NS_PER_S)
    minutes, seconds = divmod(whole_s, S_PER_MINUTE)
    text = f"{seconds}{_fraction(fraction_ns, 9)}s"
    if minutes:
        hours, minutes = divmod(minutes, MINUTES_PER_HOUR)
        text = f"{minutes}m{text}"
        if hours:
            text = f"{hours}h{text}"
    return sign + text


def _fraction(value: int, digits: int) -> str:
    """A decimal fraction with its point, without trailing zeros; nothing for zero."""
    return f".{value:0{digits}d}".rstrip("0") if value else ""
