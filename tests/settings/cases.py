"""Tables of settings and what is said of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def cases(table: str) -> Iterator[tuple[str, list[str]]]:
    """Settings, in lines, and what stands behind `>` after them; an empty one is nothing."""
    for text, said in re.findall(r"((?:[^>\n].*\n)+)((?:>.*\n)+)", table):
        yield text, [line[2:] for line in said.splitlines() if line != ">"]


def shortened(found: list[str], expected: list[str]) -> list[str]:
    """Texts as they are expected, where `...` stands for anything, or as they are."""
    assert len(expected) == len(found), found
    shown = []
    for text, wanted in zip(found, expected, strict=True):
        begin, dots, end = wanted.partition("...")
        is_alike = dots and text.startswith(begin) and text.endswith(end)
        shown.append(wanted if is_alike else text)
    return shown
