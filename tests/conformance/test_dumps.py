"""The debug pages have the layout that kube-apiserver's have, byte for byte."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from apfproxy.admin.tables import (
    PRIORITY_LEVEL_COLUMNS,
    QUEUE_COLUMNS,
    request_columns,
    table_text,
    time_text,
)
from tests.conformance import vectors

if TYPE_CHECKING:
    from apfproxy.admin.tables import Cell

DUMPS = (
    ("dump_priority_levels", PRIORITY_LEVEL_COLUMNS),
    ("dump_queues", QUEUE_COLUMNS),
    ("dump_requests", request_columns(with_details=False)),
    ("dump_requests_with_details", request_columns(with_details=True)),
)


def cells_of(line: str, starts: list[int]) -> list[Cell]:
    """The values in a line whose columns begin at these offsets."""
    ends = [*starts[1:], len(line)]
    texts = [
        line[start:end].rstrip().removesuffix(",") for start, end in zip(starts, ends, strict=True)
    ]
    return [value_of(text) for text in texts]


def value_of(text: str) -> Cell:
    """The number or the truth value that a text stands for, or the text itself."""
    if text in {"true", "false"}:
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def unix_ns(text: str) -> int:
    """Nanoseconds since 1970 of a recorded time."""
    match = re.fullmatch(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)(?:\.(\d+))?Z", text)
    assert match is not None
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    # Days by the civil calendar, with the year beginning in March.
    if month < 3:
        year, month = year - 1, month + 12
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * month - 457) // 5 + day
    seconds = ((days - 719469) * 24 + hour) * 3600 + minute * 60 + second
    return seconds * 1_000_000_000 + int((match[7] or "").ljust(9, "0"))


@pytest.mark.parametrize(("name", "columns"), DUMPS)
def test_header(name: str, columns: tuple[str, ...]) -> None:
    """The columns are those of the recorded page, in its order and spelling."""
    header = vectors.text(f"dumps/{name}.txt").splitlines()[0]

    assert re.split(r", +", header) == list(columns)


@pytest.mark.parametrize(("name", "columns"), DUMPS)
def test_layout(name: str, columns: tuple[str, ...]) -> None:
    """The values of the recorded rows give the recorded page back."""
    recorded = vectors.text(f"dumps/{name}.txt")
    header, *lines = recorded.splitlines()
    starts = [match.start() for match in re.finditer(r"(?<![^ ])[^ ]", header)]

    assert recorded == table_text(columns, [cells_of(line, starts) for line in lines])


@pytest.mark.parametrize("name", ["dump_requests", "dump_requests_with_details"])
def test_times(name: str) -> None:
    """A recorded time is how we write that moment."""
    times = re.findall(r"\d{4}-\S+Z", vectors.text(f"dumps/{name}.txt"))

    assert times == [time_text(unix_ns(text)) for text in times]
