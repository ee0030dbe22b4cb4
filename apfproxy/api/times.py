"""Points in time as objects have them: RFC 3339 texts, in UTC on the way out.

Inside, a point in time is a number of seconds since 1970.  Days are counted by the proleptic
Gregorian calendar, as Go does; years 0001 to 9999, as RFC 3339 has them.
"""

from __future__ import annotations

import functools
import re

MICROSECONDS = 1_000_000
DAY_S = 86_400
DAYS_TO_1970 = 719_468
"""From March 1 of year 0: counting years from March puts the leap day last."""
DAYS_OF_400_YEARS = 146_097
EARLIEST_S = -62_135_596_800
"""January 1 of year 1."""
LATEST_S = 253_402_300_799
"""The last second of year 9999."""

TEXT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})([.,][0-9]+)?"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
DAYS_OF_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@functools.lru_cache(maxsize=64)
def date_text(day: int) -> str:
    """The date of a day, counted from 1970-01-01."""
    shifted = day + DAYS_TO_1970
    era, day_of_era = divmod(shifted, DAYS_OF_400_YEARS)
    year_of_era = (
        day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day_of_month = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9  # noqa: PLR2004  January
    year = year_of_era + era * 400 + (month <= 2)  # noqa: PLR2004  February
    return f"{year:04}-{month:02}-{day_of_month:02}"


def day_of(year: int, month: int, day_of_month: int) -> int:
    """The day of a date, counted from 1970-01-01."""
    if month <= 2:  # noqa: PLR2004  February
        year -= 1
        month += 12
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month - 3) + 2) // 5 + day_of_month - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * DAYS_OF_400_YEARS + day_of_era - DAYS_TO_1970


@functools.lru_cache(maxsize=64)
def second_text(seconds: int) -> str:
    """Date and time of a whole second, without the zone."""
    day, second = divmod(seconds, DAY_S)
    minute, second = divmod(second, 60)
    hour, minute = divmod(minute, 60)
    return f"{date_text(day)}T{hour:02}:{minute:02}:{second:02}"


def rfc3339(seconds: float) -> str:
    """The text of a point in time, in whole seconds: a fraction is cut off, as Go does."""
    return f"{second_text(int(seconds // 1))}Z"


def rfc3339_micro(seconds: float) -> str:
    """The text of a point in time, with microseconds, which are always there."""
    whole, micro = divmod(round(seconds * MICROSECONDS), MICROSECONDS)
    return f"{second_text(whole)}.{micro:06}Z"


def parse_time(text: str) -> float:
    """The point in time that a text names.

    Raises:
        ValueError: If it is no RFC 3339 text.
    """
    match = TEXT.fullmatch(text)
    if match is None:
        message = f"{text!r} is no time like 2006-01-02T15:04:05Z"
        raise ValueError(message)
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, offset_hour, offset_minute = match.groups()[6:]
    if (
        not 1 <= month <= 12  # noqa: PLR2004  months
        or not 1 <= day <= days_of_month(year, month)
        or hour > 23  # noqa: PLR2004  hours
        or minute > 59  # noqa: PLR2004  minutes
        or second > 59  # noqa: PLR2004  seconds
        or int(offset_hour or 0) > 24  # noqa: PLR2004  hours, as Go has it
        or int(offset_minute or 0) > 60  # noqa: PLR2004  minutes, as Go has it
    ):
        message = f"{text!r} has a part that is out of range"
        raise ValueError(message)
    seconds: float = day_of(year, month, day) * DAY_S + hour * 3_600 + minute * 60 + second
    if sign:
        offset = int(offset_hour) * 3_600 + int(offset_minute) * 60
        seconds += offset if sign == "-" else -offset
    if not EARLIEST_S <= seconds <= LATEST_S:
        message = f"{text!r} lies outside years 1 to 9999"
        raise ValueError(message)
    if fraction:
        seconds += float(f"0.{fraction[1:]}")
    return seconds


def days_of_month(year: int, month: int) -> int:
    """How many days a month has."""
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if is_leap and month == 2 else DAYS_OF_MONTHS[month - 1]  # noqa: PLR2004  February
