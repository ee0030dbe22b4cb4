"""Shard selectors: which part of a collection, by a hash of a field.

    shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000') || ...

Bounds have 16 hexadecimal digits, the lower one counts, the upper one does not; only it may be
2^64.  All ranges are over the same field.

Source: Kubernetes API reference, `shardSelector`; apiserver `pkg/sharding`.
"""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass

from apfproxy.api.selectors.errors import SelectorError

FIELDS = ("object.metadata.uid", "object.metadata.namespace")
RANGE = re.compile(
    r"\s*shardRange\s*\(\s*([A-Za-z_][\w.]*)\s*,\s*(?:'([^'\\\n]*)'|\"([^\"\\\n]*)\")\s*,"
    r"\s*(?:'([^'\\\n]*)'|\"([^\"\\\n]*)\")\s*\)\s*",
    re.ASCII,
)
HEXADECIMAL = re.compile(r"[0-9a-f]*")
DIGITS = 16
MOST_DIGITS = 17
HASHES = 1 << 64
"""How many hashes there are; the upper bound of the last range."""
LONGEST_SHOWN = 40
"""Characters of wrong text that a message shows."""

FNV_OFFSET = 0xCBF29CE484222325
FNV_PRIME = 0x100000001B3


@dataclass(frozen=True, slots=True)
class ShardSelector:
    """Ranges of hashes of one field.

    Attributes:
        field: One of `FIELDS`.
        ranges: Each with its lower bound, which counts, and its upper one, which does not.
        text: As the client wrote it.
    """

    field: str
    ranges: tuple[tuple[int, int], ...]
    text: str = dataclasses.field(default="", compare=False)

    def matches(self, uid: str, namespace: str) -> bool:
        """Whether an object is in one of the ranges."""
        value = fnv1a(uid if self.field == FIELDS[0] else namespace)
        return any(start <= value < end for start, end in self.ranges)

    def __str__(self) -> str:
        return " || ".join(
            f"shardRange({self.field}, '0x{start:016x}', '0x{end:016x}')"
            for start, end in self.ranges
        )


def fnv1a(text: str) -> int:
    """The hash FNV-1a of 64 bits over the UTF-8 bytes of a text.

    Source: draft-eastlake-fnv.
    """
    value = FNV_OFFSET
    for byte in text.encode():
        value = ((value ^ byte) * FNV_PRIME) & (HASHES - 1)
    return value


def parse_shard_selector(text: str) -> ShardSelector:
    """Parse the text of a selector.

    Raises:
        SelectorError: It is no such expression.
    """
    if not text.strip():
        raise SelectorError(
            "empty shard selector is not allowed; omit the parameter for unfiltered lists"
        )
    fields: list[str] = []
    ranges: list[tuple[int, int]] = []
    position = 0
    while True:
        match = RANGE.match(text, position)
        if match is None:
            raise SelectorError(
                f"expected shardRange(field, 'start', 'end'), got {_quoted(text[position:])}"
            )
        if match[1] not in FIELDS:
            raise SelectorError(
                f"unsupported field path {_quoted(match[1])}; supported: {', '.join(FIELDS)}"
            )
        start = _bound(match[2] or match[3] or "", "hexStart")
        end = _bound(match[4] or match[5] or "", "hexEnd")
        if start >= end:
            raise SelectorError(
                f"shard range start 0x{start:016x} must be less than end 0x{end:016x}"
            )
        fields.append(match[1])
        ranges.append((start, end))
        position = match.end()
        if position == len(text):
            break
        if not text.startswith("||", position):
            raise SelectorError(f"expected '||' or the end, got {_quoted(text[position:])}")
        position += 2
    for field in fields:
        if field != fields[0]:
            raise SelectorError(
                f'all shard ranges must use the same field, got "{fields[0]}" and "{field}"'
            )
    return ShardSelector(fields[0], tuple(ranges), text)


def _bound(text: str, name: str) -> int:
    """The number that a bound stands for.

    Raises:
        SelectorError: It has another form.
    """
    if not text.startswith("0x"):
        raise SelectorError(f"{name} must have '0x' prefix, got {_quoted(text)}")
    digits = text[2:]
    if not digits:
        raise SelectorError(f"{name}: hex value is required after '0x'")
    if len(digits) > MOST_DIGITS:
        raise SelectorError(
            f"{name}: hex value too long ({len(digits)} chars, max {MOST_DIGITS}):"
            f" {_quoted(digits)}"
        )
    if not HEXADECIMAL.fullmatch(digits):
        raise SelectorError(f"{name}: invalid hex character in {_quoted(text)}")
    value = int(digits, 16)
    if len(digits) == MOST_DIGITS and value != HASHES:
        raise SelectorError(
            f"{name}: 17-digit hex value must be '0x10000000000000000' (2^64), got {_quoted(text)}"
        )
    if len(digits) < DIGITS:
        raise SelectorError(
            f"{name} must be a 0x-prefixed 16-digit hex value, got {_quoted(text)}"
            f' (did you mean "0x{value:016x}"?)'
        )
    return value


def _quoted(text: str) -> str:
    """The beginning of a text between quotation marks."""
    return json.dumps(text[:LONGEST_SHOWN], ensure_ascii=False)
