"""The debug pages have the layout that kube-apiserver's have, byte for byte."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from apfproxy.admin.tables import (
    PRIORITY_LEVELS,
    QUEUE_COLUMNS,
    request_columns,
    table_text,
    time_text,
)
from tests.conformance import vectors

if TYPE_CHECKING:
    from apfproxy.admin.tables import Cell

DUMPS = (
    ("dump_priority_levels", tuple(PRIORITY_LEVELS)),
    ("dump_queues", QUEUE_COLUMNS),
    ("dump_requests", request_columns(with_details=False)),
    ("dump_requests_with_details", request_columns(with_details=True)),
)


def cells_of(line: str, starts: list[int]) -> list[Cell]:
    ends = [*starts[1:], len(line)]
    texts = [
        line[start:end].rstrip().removesuffix(",") for start, end in zip(starts, ends, strict=True)
    ]
    return [value_of(text) for text in texts]


def value_of(text: str) -> Cell:
    if text in {"true", "false"}:
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def unix_ns(text: str) -> int:
    whole, _, part = text.removesuffix("Z").partition(".")
    seconds = round(datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp())
    return seconds * 1_000_000_000 + int(part.ljust(9, "0"))


@pytest.mark.parametrize(("name", "columns"), DUMPS)
def test_header(name: str, columns: tuple[str, ...]) -> None:
    header = vectors.text(f"dumps/{name}.txt").splitlines()[0]

    assert re.split(r", +", header) == list(columns)


@pytest.mark.parametrize(("name", "columns"), DUMPS)
def test_layout(name: str, columns: tuple[str, ...]) -> None:
    recorded = vectors.text(f"dumps/{name}.txt")
    header, *lines = recorded.splitlines()
    starts = [match.start() for match in re.finditer(r"(?<![^ ])[^ ]", header)]

    assert recorded == table_text(columns, [cells_of(line, starts) for line in lines])


@pytest.mark.parametrize("name", ["dump_requests", "dump_requests_with_details"])
def test_times(name: str) -> None:
    times = re.findall(r"\d{4}-\S+Z", vectors.text(f"dumps/{name}.txt"))

    assert times == [time_text(unix_ns(text)) for text in times]
