"""Ways in which bytes may arrive, chosen by a number so that an input says which."""

from __future__ import annotations

import random

ALL_SINGLE_BYTES = 160
"""Longer inputs are not taken byte by byte: that costs a read for each."""


def splits(data: bytes, choice: int) -> list[list[bytes]]:
    """The same bytes in several partitions: whole first, then others that `choice` picks."""
    result = [[data]]
    if len(data) <= ALL_SINGLE_BYTES and choice & 1:
        result.append([data[i : i + 1] for i in range(len(data))])
    elif len(data) > 1:
        picks = random.Random(choice)  # noqa: S311  the same for the same input
        cuts = sorted(picks.sample(range(1, len(data)), min(len(data) - 1, 1 + choice % 6)))
        result.append([data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)])
    return result
