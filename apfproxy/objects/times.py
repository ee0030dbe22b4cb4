"""Points in time as objects have them: RFC 3339 texts, in UTC on the way out.

Inside, a point in time is a number of seconds since 1970.  Days are counted by the proleptic
Gregorian calendar, as Go does; years 0001 to 9999, as RFC 3339 has them.
"""

from __future__ import annotations

import re
from datetime import date

DAY_S = 86_400
DAY_OF_1970 = date(1970, 1, 1).toordinal()
EARLIEST_S = -62_135_596_800
"""January 1 of year 1."""
LATEST_S = 253_402_300_799
"""The last second of year 9999."""
TEXT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])([.,][0-9]+)?"
    r"(?:Z|([+-])([01][0-9]|2[0-4]):([0-5][0-9]|60))"
)
"""Offsets have 24 hours and 60 minutes at most, as Go has it."""


def rfc3339(seconds: float) -> str:
    """The text of a point in time, in whole seconds: a fraction is cut off, as Go does."""
    day, second = divmod(int(seconds // 1), DAY_S)
    minute, second = divmod(second, 60)
    hour, minute = divmod(minute, 60)
    return f"{date.fromordinal(DAY_OF_1970 + day)}T{hour:02}:{minute:02}:{second:02}Z"


def day_number(year: int, month: int, day: int) -> int:
    """Days from 1970 to a date; a `ValueError` if there is no such date."""
    return date(year, month, day).toordinal() - DAY_OF_1970


def parse_time(text: str) -> float:
    """The point in time that an RFC 3339 text names; a `ValueError` if it is no such text."""
    match = TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no time like 2006-01-02T15:04:05Z")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, offset_hour, offset_minute = match.groups()[6:]
    try:
        days = day_number(year, month, day)
    except ValueError as error:
        raise ValueError(f"{text!r} is no time: {error}") from error
    seconds: float = days * DAY_S + hour * 3_600 + minute * 60 + second
    if sign:
        offset = int(offset_hour) * 3_600 + int(offset_minute) * 60
        seconds += offset if sign == "-" else -offset
    if not EARLIEST_S <= seconds <= LATEST_S:
        raise ValueError(f"{text!r} lies outside years 1 to 9999")
    if fraction:
        seconds += float(f"0.{fraction[1:]}")
    return seconds
