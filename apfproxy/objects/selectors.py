"""Whether Kubernetes can parse a selector, and which name it demands; in a tenth of its time.

Sources: Kubernetes documentation, "Field Selectors" and "Labels and Selectors"; apimachinery
`pkg/fields/selector.go` and `pkg/labels/selector.go`.
"""

from __future__ import annotations

import re

NAME = "metadata.name"

VALUE = re.compile(r"[^\\,=]*+(?:\\[\\,=][^\\,=]*+)*+")

FIELD_SELECTOR = re.compile(
    # Of each term: what is before the first operator, escaped or not, that, and the value.
    r"(?:,++|(?:[^\\,=!]++|!(?!=)|\\(?:(?=!?=)|.))*+(?:!=|==?+)(?:[^\\,=]++|\\[\\,=])*+(?=,|\Z))*+",
    re.DOTALL,
)
"""All texts that Kubernetes can parse as field selectors."""

_LABEL_WORD = r"(?=[-.\w]{1,63}(?![-.\w]))[A-Za-z0-9]++(?:[-_.]++[A-Za-z0-9]++)*+"
_DOMAIN = r"[a-z0-9]++(?:-++[a-z0-9]++)*+"
_KEY = rf"(?:(?=[-.a-z0-9]{{1,253}}/){_DOMAIN}(?:\.{_DOMAIN})*+/)?+{_LABEL_WORD}"
_MOST = str((1 << 63) - 1)
_INT64 = "|".join(
    ["[0-9]{0,18}"]
    + [
        f"{_MOST[:place]}[0-{int(digit) - 1}][0-9]{{{len(_MOST) - place - 1}}}"
        for place, digit in enumerate(_MOST)
        if digit != "0"
    ]
    + [_MOST]
)


def _token(pattern: str, *, is_word: bool = False) -> str:
    ending = r"(?![^\x00 \t\r\n=!(),<>])" if is_word else ""
    return rf"[ \t\r\n]*+(?:{pattern}){ending}\x00?+"


def _next(pattern: str) -> str:
    """A pattern of the beginning of the next token, which it does not consume."""
    return rf"(?=[ \t\r\n]*+(?:{pattern}))"


_REQUIREMENT_END = _next(r"[,\x00]|\Z")
_VALUE = _token(_LABEL_WORD, is_word=True)
_MORE_VALUES = _next(r"[^\x00 \t\r\n=!(,<>]")
_PLAIN_WORD = "[A-Za-z0-9]{1,63}+"
_VALUES = (
    # As `_take_values` has it: commas in pairs, and no end after a whole pair.
    rf"(?:{_PLAIN_WORD},(?=[A-Za-z0-9])|{_VALUE}{_next('[,)]')}"
    rf"|{_token(',')}(?:{_token(',')}{_next('[^)]')}"
    rf"|{_MORE_VALUES}))++"
)
_INTEGER = _token(rf"(?=[0-9]{{1,63}}(?![0-9]))0*+(?:{_INT64})", is_word=True)
_CONDITION = (
    rf"{_REQUIREMENT_END}"
    rf"|{_token('==|!=|=')}(?:{_VALUE})?+{_REQUIREMENT_END}"
    rf"|{_token('[<>]')}{_INTEGER}{_REQUIREMENT_END}"
    rf"|{_token('in|notin', is_word=True)}{_token('[(]')}(?:{_VALUES})?+{_token('[)]')}"
    rf"{_REQUIREMENT_END}"
)
_REQUIREMENT = (
    rf"(?:{_token('!(?!=)')}{_token(_KEY, is_word=True)}{_REQUIREMENT_END}"
    rf"|{_token(_KEY, is_word=True)}(?:{_CONDITION}))"
)
_REQUIREMENTS = (
    # Plain ones by themselves: that takes a third of the time, and there may be thousands.
    rf"(?:(?:!{_PLAIN_WORD}|{_PLAIN_WORD}(?:[!=]?=[A-Za-z0-9]{{0,63}}+|[<>][0-9]{{1,18}}+"
    rf"| (?:not)?in \({_PLAIN_WORD}(?:,{_PLAIN_WORD})*+\))?+),)*+{_REQUIREMENT}"
)
LABEL_SELECTOR = re.compile(
    rf"(?:{_REQUIREMENTS}(?:{_token(',')}{_REQUIREMENTS})*+)?+[ \t\r\n]*+(?:\x00.*+)?+",
    re.ASCII | re.DOTALL,
)
"""All texts that Kubernetes can parse as label selectors."""


class SelectorError(ValueError):
    pass


def is_label_selector(text: str) -> bool:
    return LABEL_SELECTOR.fullmatch(text) is not None


def is_field_selector(text: str) -> bool:
    return FIELD_SELECTOR.fullmatch(text) is not None


def required_value(text: str, field: str) -> str | None:
    """The value that a valid selector's first condition demands of a field; None for none."""
    ends = f",{text},"
    if "\\" in text:  # commas that end no term are hidden, at the same places
        ends = ends.replace("\\\\", "__").replace("\\,", "__")
    start, demands = f",{field}=", []
    at = ends.find(start)
    while at >= 0:
        end = ends.find(",", at + 1)
        demands.append(text[at + len(start) - 1 : end - 1])
        at = ends.find(start, end)
    return unescaped(min(demands).removeprefix("=")) if demands else None


def unescaped(value: str) -> str:
    """The value that is meant; a `SelectorError` if a character is escaped wrongly, or is not."""
    if VALUE.fullmatch(value):
        # With `\:` for an escaped backslash, which no value has, each backslash is of one escape.
        shown = value.replace("\\\\", "\\:").replace("\\,", ",").replace("\\=", "=")
        return shown.replace("\\:", "\\")
    position = len(VALUE.match(value)[0])  # type: ignore[index]  # it matches nothing, at least
    wrong = value[position : position + 2]
    if wrong[0] == "\\":
        raise SelectorError(f"invalid field selector: invalid escape sequence: {wrong}")
    # Kubernetes shows the character's number.
    raise SelectorError(f"invalid field selector: unescaped character in value: {ord(wrong[0])}")
