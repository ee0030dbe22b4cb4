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
    """Texts, as far as they are expected, where `...` takes the place of the rest."""
    begins = [each.removesuffix("...") for each in expected]
    return [
        begin + "..." if wanted != begin and text.startswith(begin) else text
        for text, wanted, begin in zip(found, expected, begins, strict=True)
    ]
