"""How long ago something was, in the few characters that a table has for it.

Source: Kubernetes, `HumanDuration` of apimachinery: the older, the coarser.
"""

from __future__ import annotations

from apfproxy.objects.go_text import parse_time

MINUTE_S = 60
HOUR_S = 60 * MINUTE_S
DAY_S = 24 * HOUR_S
YEAR_S = 365 * DAY_S

UNKNOWN = "<unknown>"
INVALID = "<invalid>"

FORMS = (
    (10 * MINUTE_S, MINUTE_S, "m", 1, "s"),
    (3 * HOUR_S, MINUTE_S, "m", 0, ""),
    (8 * HOUR_S, HOUR_S, "h", MINUTE_S, "m"),
    (48 * HOUR_S, HOUR_S, "h", 0, ""),
    (8 * DAY_S, DAY_S, "d", HOUR_S, "h"),
    (2 * YEAR_S, DAY_S, "d", 0, ""),
    (8 * YEAR_S, YEAR_S, "y", DAY_S, "d"),
)
"""Seconds that are too many for the form; its larger unit with its letter; the smaller one of what
remains, 0 for none."""


def age(creation_timestamp: str | None, now_s: float) -> str:
    """How long ago an object was created, by its RFC 3339 time, if that is known."""
    if not creation_timestamp:
        return UNKNOWN
    return duration(now_s - parse_time(creation_timestamp))


def duration(seconds: float) -> str:
    """A duration in one or two units; up to two seconds below zero count as none."""
    whole = int(seconds)
    if whole < -1:
        return INVALID
    if whole < 2 * MINUTE_S:
        return f"{max(whole, 0)}s"
    for limit, unit, letter, rest_unit, rest_letter in FORMS:
        if whole < limit:
            count, rest = divmod(whole, unit)
            rest_count = rest // rest_unit if rest_unit else 0
            return f"{count}{letter}" + (f"{rest_count}{rest_letter}" if rest_count else "")
    return f"{whole // YEAR_S}y"
