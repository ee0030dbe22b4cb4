"""Times with microseconds, and what Go says of texts that are no points in time.

Source: Go's `time/format.go`.
"""

from __future__ import annotations

import re
from datetime import date

from apfproxy.objects.go_text import EARLIEST_S, TEXT, parse_time, rfc3339

ELEMENTS = {
    "2006": re.compile("[0-9]{4}"),
    "01": re.compile("[0-9]{2}"),
    "02": re.compile("[0-9]{2}"),
    "15": re.compile("[0-9]{1,2}"),
    "04": re.compile("[0-9]{2}"),
    "05": re.compile("[0-9]{2}"),
    ".000000": re.compile(r"[.,][0-9]{6}"),
    "Z07:00": re.compile("Z|[+-][0-9]{2}:[0-9]{2}"),
}
"""Of the layout, and what each stands for; all others stand for themselves."""
RANGES = {
    "01": ("month", range(1, 13)),
    "15": ("hour", range(24)),
    "04": ("minute", range(60)),
    "05": ("second", range(60)),
}
LAYOUT = "2006-01-02T15:04:05Z07:00"
"""Of RFC 3339, as Go writes it."""
MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
"""The same with microseconds."""
LAYOUT_ELEMENTS = {
    layout: re.findall(rf"{'|'.join(map(re.escape, ELEMENTS))}|.", layout)
    for layout in (LAYOUT, MICRO_LAYOUT)
}
FRACTION = re.compile("[.,][0-9]+")
OFFSET_HOURS = range(25)
OFFSET_MINUTES = range(61)
LONGEST_SHOWN = 60
"""Characters of a text."""
PRINTABLE = range(0x20, 0x7F)


def micro_time(text: str) -> str | None:
    """The same point in time in UTC, of a text with exactly six digits of a second.

    None for the zero time; a `ValueError` if it is no such text.
    """
    match = TEXT.fullmatch(text)
    fraction = match[7] if match is not None else None
    if fraction is None or len(fraction) != len(".000000"):
        raise ValueError(f"{text!r} is no time like 2006-01-02T15:04:05.000000Z")
    whole = parse_time(text.replace(fraction, "", 1))
    if whole == EARLIEST_S and not int(fraction[1:]):
        return None
    return f"{rfc3339(whole).removesuffix('Z')}.{fraction[1:]}Z"


def time_error(text: str, layout: str = LAYOUT) -> str:
    """The message about a text that is no point in time, in one of the layouts."""
    said = f"parsing time {quoted(text)}"
    rest, found = text, dict.fromkeys(ELEMENTS, "")
    for element in LAYOUT_ELEMENTS[layout]:
        match = ELEMENTS.get(element, re.compile(re.escape(element))).match(rest)
        if match is None:
            return f'{said} as "{layout}": cannot parse {quoted(rest)} as "{element}"'
        found[element], rest = match[0], rest[match.end() :]
        is_any_fraction = element == "05" and layout == LAYOUT
        if is_any_fraction and (fraction := FRACTION.match(rest)):
            rest = rest[fraction.end() :]
        if wrong := out_of_range(element, match[0]):
            return f"{said}: {wrong} out of range"
    if rest:
        return f"{said}: extra text: {quoted(rest)}"
    try:
        # The calendar repeats every 400 years, and Python's has no year 0.
        date(int(found["2006"]) % 400 or 400, int(found["01"]), int(found["02"]))
    except ValueError:
        return f"{said}: day out of range"
    # It lies outside the years that can be written, which only its offset makes it do.
    return f'{said} as "{layout}": cannot parse {quoted(text)} as "2006"'


def out_of_range(element: str, text: str) -> str:
    """Which part of a point in time is beyond its range; "" for none."""
    if element == "Z07:00" and text != "Z":
        if int(text[1:3]) not in OFFSET_HOURS:
            return "time zone offset hour"
        return "" if int(text[4:]) in OFFSET_MINUTES else "time zone offset minute"
    name, allowed = RANGES.get(element, ("", range(0)))
    return name if name and int(text) not in allowed else ""


def quoted(text: str) -> str:
    """A text between quotes, cut to `LONGEST_SHOWN`; bytes that are not ASCII by number."""
    shown = text[:LONGEST_SHOWN].replace("\\", "\\\\").replace('"', '\\"').encode(errors="replace")
    characters = (chr(each) if each in PRINTABLE else f"\\x{each:02x}" for each in shown)
    return f'"{"".join(characters)}"'
