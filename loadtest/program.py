"""The frame of a load test that judges what it measures."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from loadtest.processes import exit_status, raise_descriptor_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BEYOND_A_LIMIT = 2
"""The exit status where something is wrong, or a figure beyond its limit."""


def measured(
    name: str,
    measure: Callable[[Path], tuple[object, Sequence[str]]],
    *,
    descriptors: int,
    json_file: Path | None,
) -> int:
    """Measure in a temporary directory; the exit status.

    Args:
        name: Of the load test.
        measure: Gives the results and what is wrong with them.
        descriptors: How many one process will hold at once.
        json_file: Where the results go as JSON.
    """
    problems: list[str] = []

    def run() -> None:
        raise_descriptor_limit(descriptors)
        with tempfile.TemporaryDirectory(prefix=f"apfproxy-{name}-") as directory:
            results, wrong = measure(Path(directory))
        problems.extend(wrong)
        if json_file is not None:
            json_file.write_text(json.dumps(results, indent=2) + "\n")

    return exit_status(name, run) or (BEYOND_A_LIMIT if problems else 0)
