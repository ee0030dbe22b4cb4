"""The language of the cases: what to send, written short, and what else to do meanwhile."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Case = dict[str, Any]

EXPANSIONS: dict[str, Callable[[str, int], str]] = {
    "REP": lambda text, number: text * number,
    "REPLINE": lambda text, number: (text + "\r\n") * number,
    "REPCHUNK": lambda text, number: f"{int(text):x}\r\n{'x' * int(text)}\r\n" * number,
    "REPRAW": lambda text, number: unescaped(text) * number,
}
FOREACH = re.compile(r"\{\{FOREACH\|(\d+)\|(.*?)\}\}(?!\})", re.DOTALL)
REPETITION = re.compile(rf"\{{\{{({'|'.join(EXPANSIONS)})\|(.*?)\|(\d+)\}}\}}", re.DOTALL)
VERBS = ("PAUSE", "HALFCLOSE", "CLOSE", "RST", "SIGTERM", "NOREAD", "DRIP")
STEP = re.compile(rf"\{{\{{({'|'.join(VERBS)})(?:\|([^{{}}]*))?\}}\}}")
OTHER_MACRO = re.compile(r"\{\{[A-Z-]+[|}]")


def unescaped(text: str) -> str:
    return text.replace("\\r", "\r").replace("\\n", "\n")


def expanded(text: str) -> str:
    def each(match: re.Match[str]) -> str:
        text = unescaped(match[2])
        return "".join(text.replace("{i}", str(number)) for number in range(int(match[1])))

    text = FOREACH.sub(each, text)
    return REPETITION.sub(lambda match: EXPANSIONS[match[1]](match[2], int(match[3])), text)


def steps(text: str) -> Iterator[tuple[str, str]]:
    """The steps in order: a verb and its argument."""
    text = expanded(text)
    position = 0
    for match in STEP.finditer(text):
        if match.start() > position:
            yield "SEND", text[position : match.start()]
        yield match[1], match[2] or ""
        position = match.end()
    if position < len(text):
        yield "SEND", text[position:]


def unknown_macro(text: str) -> str | None:
    other = OTHER_MACRO.search(STEP.sub("", expanded(text)))
    return None if other is None else other[0]
