"""Sentences about a proxy: how bad it is; rates, durations, names and texts cut to a bound."""

from __future__ import annotations

import enum
import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_NAME = 64
"""Characters of a name in a sentence."""

_PLAIN = re.compile(r"[\w.:@/+-]+")
LEAST_WHOLE = 9.95

MS_PER_S = 1000
S_PER_MINUTE = 60
S_PER_HOUR = 3600
S_PER_DAY = 86400
SOME = 3
"""Fewer of a unit are shown in the next smaller one says more."""


def number_text(number: float) -> str:
    """A number in few digits, such as 1,234, 12, 2.5 or 0.03."""
    if number >= LEAST_WHOLE or number == round(number):
        return f"{number:,.0f}"
    return f"{number:.1f}".removesuffix(".0") if number >= 1 else f"{number:.1g}"


def duration_text(seconds: float) -> str:
    """A duration in one unit, such as 45 ms, 2.5 s, 12 min or 3 h."""
    if seconds < 1:
        return f"{number_text(seconds * MS_PER_S)} ms"
    if seconds < SOME * S_PER_MINUTE:
        return f"{number_text(seconds)} s"
    if seconds < SOME * S_PER_HOUR:
        return f"{seconds / S_PER_MINUTE:.0f} min"
    if seconds < SOME * S_PER_DAY:
        return f"{seconds / S_PER_HOUR:.0f} h"
    return f"{seconds / S_PER_DAY:.0f} days"


def name_text(name: str) -> str:
    """A name that cannot be taken for the sentence around it: in quotes unless it is one word."""
    shown = cut(name, MAX_NAME)
    return shown if _PLAIN.fullmatch(name) else json.dumps(shown, ensure_ascii=False)


def counted(number: float, noun: str) -> str:
    return f"{number_text(number)} {noun}{'' if number == 1 else 's'}"


MOST_NAMED = 3
MAX_PROBLEM = 300


class Severity(enum.StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    OK = "ok"


ERROR, WARNING, NOTE, OK = Severity

Finding = tuple[Severity, str]


def listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - MOST_NAMED} more" if len(texts) > MOST_NAMED else ""
    return ", ".join(texts[:MOST_NAMED]) + more


def cut(text: str, most: int = MAX_PROBLEM) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
