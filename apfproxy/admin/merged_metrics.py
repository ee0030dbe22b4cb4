"""Metrics pages of several workers as one page.

Pages are taken as lines: a line's series is what stands before its last space, so that nothing of
it has to be parsed, and a line of two workers takes 1 us.  Families keep the order of the first
page that has them, and so do the series of a family: those of a histogram stay together.

All pages are in the text format of Prometheus.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.admin.merged_gauges import Rule, rule_of
from apfproxy.admin.metrics import MOST_SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

HELP = b"# HELP "
COUNTING = frozenset({"counter", "histogram"})
"""Types of families whose values only go up."""
WORKER = "worker"
"""The label of a worker where each has series of its own."""


@dataclass(frozen=True, slots=True)
class FamilyText:
    """A family of a page.

    Attributes:
        kind: Its type.
        head: Its help text and its type, as lines.
        samples: Its samples, as lines.
    """

    name: str
    kind: str
    head: bytes
    samples: bytes


Page = dict[str, FamilyText]
"""The families of a page by name, in their order."""


def page_of(page: bytes) -> Page:
    """Read a page.

    Raises:
        ValueError: It is no page of metrics.
    """
    parts = (b"\n" + page).split(b"\n" + HELP)
    if parts[0].strip():
        raise ValueError(f"no page of metrics begins with {parts[0][:40]!r}")
    found = {}
    for part in parts[1:]:
        help_line, _, rest = part.partition(b"\n")
        type_line, _, samples = rest.partition(b"\n")
        marks = type_line.split(b" ")
        name = help_line.partition(b" ")[0].decode()
        if marks[:2] != [b"#", b"TYPE"]:
            raise ValueError(f"the metric {name} has no type")
        head = b"%b%b\n%b\n" % (HELP, help_line, type_line)
        found[name] = FamilyText(name, marks[-1].decode(), head, samples)
    return found


def merged_slices(pages: Sequence[Page]) -> Iterator[bytes]:
    """The pages as one, in slices; an empty slice is a chance for others to run.

    Raises:
        ValueError: A value is no number; in the middle of the slices.
    """
    return _slices(pages, _merged_lines)


def labelled_slices(pages: Mapping[str, Page]) -> Iterator[bytes]:
    """The pages as one in which each sample has a label with the name of its page.

    The samples of a page without a name stay as they are.
    """
    labels = [f'{WORKER}="{name}"'.encode() if name else b"" for name in pages]

    def lines_of(parts: Sequence[FamilyText | None]) -> Iterator[bytes]:
        for label, part in zip(labels, parts, strict=True):
            if part is not None:
                lines = part.samples.splitlines()
                yield from (labelled(line, label) for line in lines) if label else lines

    return _slices(list(pages.values()), lines_of)


def labelled(line: bytes, label: bytes) -> bytes:
    """A sample with one more label, which comes first."""
    name, brace, rest = line.partition(b"{")
    if brace:
        return b"%b{%b,%b" % (name, label, rest)
    name, _, value = line.partition(b" ")
    return b"%b{%b} %b" % (name, label, value)


def counts_of(page: Page) -> Page:
    """Those families of a page whose values only go up."""
    return {name: family for name, family in page.items() if family.kind in COUNTING}


def _slices(
    pages: Sequence[Page],
    lines_of: Callable[[Sequence[FamilyText | None]], Iterable[bytes]],
) -> Iterator[bytes]:
    names = dict.fromkeys(name for page in pages for name in page)
    for name in names:
        parts = [page.get(name) for page in pages]
        some = [next(part.head for part in parts if part is not None)]
        for line in lines_of(parts):
            if line:
                some.append(line + b"\n")
            if not line or len(some) > MOST_SAMPLES:
                yield b"".join(some)
                some = []
        yield b"".join(some)


def _merged_lines(parts: Sequence[FamilyText | None]) -> Iterator[bytes]:
    """The lines of a family; an empty one after as many as take 2 ms, and so all along."""
    there = [part for part in parts if part is not None]
    first = there[0]
    if len(there) == 1:
        yield from first.samples.splitlines()
        return
    rule = rule_of(first.name, first.kind)
    values: dict[bytes, bytes | float] = {}
    for part in there:
        for place, line in enumerate(part.samples.splitlines()):
            series, _, value = line.rpartition(b" ")
            before = values.get(series)
            values[series] = value if before is None else _joined(rule, before, value)
            if place % MOST_SAMPLES == MOST_SAMPLES - 1:
                yield b""
    for series, joined in values.items():
        yield b"%b %b" % (series, joined if isinstance(joined, bytes) else number_text(joined))


def _joined(rule: Rule, before: bytes | float, value: bytes) -> bytes | float:
    """Two values as one, as they are written where that is enough."""
    if rule is Rule.SUM:
        if value == b"0.0":
            return before
        return float(before) + float(value)
    if before == value:
        return before
    return (
        max(float(before), float(value)) if rule is Rule.MAX else min(float(before), float(value))
    )


def number_text(value: float) -> bytes:
    """A number as the format has it."""
    if value != value:  # noqa: PLR0124 - only NaN is no number of its own
        return b"NaN"
    if value in {float("inf"), float("-inf")}:
        return b"+Inf" if value > 0 else b"-Inf"
    return repr(value).encode()
