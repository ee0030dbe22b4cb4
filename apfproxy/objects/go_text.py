"""Texts as Go writes and reads them, for messages that must read like kube-apiserver's.

Sources: Go's documentation of `strconv` and `encoding/json`.
"""

from __future__ import annotations

import json
import re

import msgspec

ESCAPES = {
    each: f"\\{letter}" for each, letter in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)
}
LARGEST_BYTE = 0x7F
LARGEST_SHORT = 0xFFFF
HTML = re.compile("[<>&\u2028\u2029]")
INTEGER = re.compile(r"([+-]?)0*([0-9]{1,20})", re.ASCII)
DIGITS = re.compile(r"[+-]?[0-9]+", re.ASCII)
LONGEST_SHOWN = 40
"""Characters of a wrong number that a message shows."""


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
    if code <= LARGEST_BYTE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= LARGEST_SHORT else f"\\U{code:08x}"


def as_json(value: object) -> str:
    """The value as `json.Marshal` writes it, which is safe to put into HTML."""
    return html_safe(msgspec.json.encode(value).decode())


def html_safe(text: str) -> str:
    """JSON without characters that mean something in HTML."""
    return HTML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def parse_int64(text: str) -> int:
    """Parse a signed integer as `strconv.ParseInt` does, whose words a `ValueError` has."""
    return parse_integer("ParseInt", text, -(1 << 63), (1 << 63) - 1)


def parse_integer(function: str, text: str, lowest: int, highest: int) -> int:
    """The number, if it is one in the range."""
    match = INTEGER.fullmatch(text)
    if match is not None:
        value = int(match[1] + match[2])
        if lowest <= value <= highest:
            return value
    is_number = DIGITS.fullmatch(text) is not None
    raise refusal(function, text, "value out of range" if is_number else "invalid syntax")


def refusal(function: str, text: str, wrong: str) -> ValueError:
    """The error of a text that is no such number."""
    shown = json.dumps(text[:LONGEST_SHOWN], ensure_ascii=False)
    return ValueError(f"strconv.{function}: parsing {shown}: {wrong}")
