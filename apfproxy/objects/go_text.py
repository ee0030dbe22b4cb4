"""Texts as Go writes and reads them, for messages that must read like kube-apiserver's.

Times are seconds since 1970 inside, RFC 3339 outside, of years 0001 to 9999 (proleptic Gregorian).

Sources: Go's documentation of `strconv` and `encoding/json`.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta

import msgspec

ESCAPES = {
    each: f"\\{letter}" for each, letter in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)
}
LARGEST_SHORT = 0xFFFF
HTML = re.compile("[<>&\u2028\u2029]")
INTEGER = re.compile(r"([+-]?)0*([0-9]{1,20})", re.ASCII)
DIGITS = re.compile(r"[+-]?[0-9]+", re.ASCII)
LONGEST_SHOWN = 40
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  all are UTC
EARLIEST_S = -62_135_596_800
LATEST_S = 253_402_300_799
TEXT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])([.,][0-9]+)?"
    r"(?:Z|([+-])([01][0-9]|2[0-4]):([0-5][0-9]|60))"
)
"""Offsets have 24 hours and 60 minutes at most, as Go has it."""


def quoted(text: str) -> str:
    """The text as `%q` has it."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in ESCAPES:
        return ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if character.isascii():
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= LARGEST_SHORT else f"\\U{code:08x}"


def as_json(value: object) -> str:
    """The value as `json.Marshal` writes it, which is safe to put into HTML."""
    return html_safe(msgspec.json.encode(value).decode())


def html_safe(text: str) -> str:
    return HTML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def parse_int64(text: str) -> int:
    """Parse a signed integer as `strconv.ParseInt` does, whose words a `ValueError` has."""
    return parse_integer("ParseInt", text, -(1 << 63), (1 << 63) - 1)


def parse_integer(function: str, text: str, lowest: int, highest: int) -> int:
    match = INTEGER.fullmatch(text)
    if match is not None and lowest <= (value := int(match[1] + match[2])) <= highest:
        return value
    is_number = DIGITS.fullmatch(text) is not None
    raise refusal(function, text, "value out of range" if is_number else "invalid syntax")


def refusal(function: str, text: str, wrong: str) -> ValueError:
    shown = json.dumps(text[:LONGEST_SHOWN], ensure_ascii=False)
    return ValueError(f"strconv.{function}: parsing {shown}: {wrong}")


def rfc3339(seconds: float) -> str:
    """The text of a point in time, in whole seconds: a fraction is cut off, as Go does."""
    return f"{(EPOCH + timedelta(seconds=int(seconds // 1))).isoformat()}Z"


def parse_time(text: str) -> float:
    """The point in time that an RFC 3339 text names; a `ValueError` if it is no such text."""
    match = TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no time like 2006-01-02T15:04:05Z")
    fraction, sign, offset_hour, offset_minute = match.groups()[6:]
    try:
        time = datetime(*(int(part) for part in match.groups()[:6]))  # type: ignore[arg-type]  # noqa: DTZ001
    except ValueError as error:
        raise ValueError(f"{text!r} is no time: {error}") from error
    seconds: float = (time - EPOCH) // timedelta(seconds=1)
    if sign:
        offset = int(offset_hour) * 3_600 + int(offset_minute) * 60
        seconds += offset if sign == "-" else -offset
    if not EARLIEST_S <= seconds <= LATEST_S:
        raise ValueError(f"{text!r} lies outside years 1 to 9999")
    if fraction:
        seconds += float(f"0.{fraction[1:]}")
    return seconds
