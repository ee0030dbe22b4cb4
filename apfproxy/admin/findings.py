"""What sentences about a proxy are made of: how bad it is, and texts cut to a bound."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_NAMED = 3
MAX_PROBLEM = 300
"""Characters of a problem; all of it is on the health page."""


class Severity(enum.StrEnum):
    """How bad it is, worst first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    OK = "ok"


ERROR, WARNING, NOTE, OK = Severity

Finding = tuple[Severity, str]


def listed(texts: Sequence[str]) -> str:
    """The first of some texts, and how many more there are."""
    more = f" and {len(texts) - MOST_NAMED} more" if len(texts) > MOST_NAMED else ""
    return ", ".join(texts[:MOST_NAMED]) + more


def cut(text: str) -> str:
    """A problem's first words."""
    return text if len(text) <= MAX_PROBLEM else f"{text[: MAX_PROBLEM - 1]}…"
