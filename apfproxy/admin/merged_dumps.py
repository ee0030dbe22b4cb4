"""The dumps of several workers as one, in the order in which one worker's dump is.

A priority level is one row.  Queues are those of each worker, so that a queue's number comes once
for each; within a level they are in the order of the workers, and so are requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.admin.dumps import PRIORITY_LEVEL_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from apfproxy.admin.dumps import Row

LEVEL = "PriorityLevelName"
OF_ALL = frozenset({"IsIdle", "IsQuiescing"})
"""Columns that hold where they hold in all workers."""


def merged_levels(dumps: Iterable[Sequence[dict[str, Any]]]) -> list[Row]:
    """The rows of `dump_priority_levels`: sums over the workers."""
    levels: dict[str, dict[str, Any]] = {}
    for dump in dumps:
        for row in dump:
            level = levels.setdefault(row[LEVEL], dict.fromkeys(PRIORITY_LEVEL_COLUMNS))
            for column in PRIORITY_LEVEL_COLUMNS[1:]:
                value, before = row[column], level[column]
                if before is None:
                    level[column] = value
                else:
                    level[column] = (before and value) if column in OF_ALL else before + value
    return [
        (name, *(row[column] for column in PRIORITY_LEVEL_COLUMNS[1:]))
        for name, row in sorted(levels.items())
    ]


def merged_rows(dumps: Iterable[Sequence[dict[str, Any]]], columns: Sequence[str]) -> list[Row]:
    """The rows of `dump_queues` and `dump_requests`: all of them, by level."""
    rows = [tuple(row[column] for column in columns) for dump in dumps for row in dump]
    rows.sort(key=lambda row: str(row[0]))  # which keeps the order of equal ones
    return rows
