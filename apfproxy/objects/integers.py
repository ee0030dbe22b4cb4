"""Decimal integers of 64 bits, as Go's `strconv` parses them, with its messages."""

from __future__ import annotations

import json
import re

INTEGER = re.compile(r"([+-]?)0*([0-9]{1,20})", re.ASCII)
DIGITS = re.compile(r"[+-]?[0-9]+", re.ASCII)
LONGEST_SHOWN = 40
"""Characters of a wrong number that a message shows."""


def parse_int64(text: str) -> int:
    """Parse a signed integer as `strconv.ParseInt` does, whose words a `ValueError` has."""
    return _parsed("ParseInt", text, -(1 << 63), (1 << 63) - 1)


def parse_uint64(text: str) -> int:
    """Parse an integer without any sign as `strconv.ParseUint` does."""
    if text[:1] in {"+", "-"}:
        raise _refusal("ParseUint", text, "invalid syntax")
    return _parsed("ParseUint", text, 0, (1 << 64) - 1)


def _parsed(function: str, text: str, lowest: int, highest: int) -> int:
    """The number, if it is one in the range."""
    match = INTEGER.fullmatch(text)
    if match is not None:
        value = int(match[1] + match[2])
        if lowest <= value <= highest:
            return value
    is_number = DIGITS.fullmatch(text) is not None
    raise _refusal(function, text, "value out of range" if is_number else "invalid syntax")


def _refusal(function: str, text: str, wrong: str) -> ValueError:
    """The error of a text that is no such number."""
    shown = json.dumps(text[:LONGEST_SHOWN], ensure_ascii=False)
    return ValueError(f"strconv.{function}: parsing {shown}: {wrong}")
