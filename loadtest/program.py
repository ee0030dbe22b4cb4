"""The frame of each load test: its command line, its run, and its tables.

Wrong input gets one line that says what would be right.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, NoReturn

import uvloop

from loadtest.processes import LoadTestError

BEYOND_A_LIMIT = 2
"""The exit status where something is wrong, or a figure beyond its limit."""

COLUMN = re.compile(r"\s*(.*?)\s*([<>])(\+?)(\d+)(\S*)\s*")

Results = tuple[Any, Sequence[str]]
"""For the JSON file, and texts that say what is wrong."""


class Parser(argparse.ArgumentParser):
    """A parser whose help is the program's docstring as written, and whose errors are one line."""

    def __init__(self, description: str | None, *, has_results: bool = True) -> None:
        super().__init__(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if has_results:
            text = "write all results there as well"
            self.add_argument("--json", type=output_file, metavar="FILE", help=text)
        self.set_defaults(program=Path(sys.argv[0]).stem)

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message} (--help has an example)", file=sys.stderr)
        sys.exit(2)


def names_from(known: Sequence[str], what: str) -> Callable[[str], list[str]]:
    """Make an argument type: a comma-separated list of known names, without repetition."""

    def parse(text: str) -> list[str]:
        names = list(dict.fromkeys(text.split(",")))
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(
                    f"unknown {what} {name!r}; choose from {', '.join(known)}"
                )
        return names

    return parse


def count_up_to(limit: int, least: int = 1) -> Callable[[str], int]:
    """Make an argument type: an integer within bounds."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= limit:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} to {limit}")
        return number

    return parse


def counts_up_to(limit: int) -> Callable[[str], list[int]]:
    """Make an argument type: a comma-separated list of integers from 1, without repetition."""
    count = count_up_to(limit)

    def parse(text: str) -> list[int]:
        return list(dict.fromkeys(count(each) for each in text.split(",")))

    return parse


def output_file(text: str) -> Path:
    path = Path(text)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written")
    return path


class Table:
    """Rows of figures under a heading.

    Columns are divided by `|`; each is a heading and the format of its figures, such as
    `p99 ms >9.2f`.  A text in place of a figure is aligned alike, and None leaves the cell empty.
    """

    def __init__(self, columns: str) -> None:
        self._headings: list[str] = []
        self._formats: list[tuple[str, str]] = []
        for column in columns.split("|"):
            found = COLUMN.fullmatch(column)
            assert found is not None, column
            heading, align, sign, width, rest = found.groups()
            self._headings.append(heading)
            self._formats.append((align + width, align + sign + width + rest))

    def head(self, more: str = "") -> None:
        self.row(*self._headings, more=more)

    def row(self, *cells: object, more: str = "") -> None:
        texts = []
        for cell, (of_text, of_figure) in zip(cells, self._formats, strict=True):
            is_figure = isinstance(cell, int | float)
            shown = "" if cell is None else cell
            texts.append(format(shown, of_figure if is_figure else of_text))
        print("".join(texts) + more, flush=True)


def measured(
    options: argparse.Namespace,
    measure: Callable[[argparse.Namespace, Path], Results | Coroutine[Any, Any, Results]],
    *,
    descriptors: int,
    directory: Path | None = None,
) -> int:
    """Measure in a temporary directory, until an interrupt or SIGTERM ends it: the exit status.

    Args:
        options: Those of a `Parser`.
        measure: Gives results.
        descriptors: As many as one process may need.
        directory: Where the temporary one is made; by default where the system has them.
    """
    name = options.program
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        raise_descriptor_limit(descriptors)
        with tempfile.TemporaryDirectory(prefix=f"apfproxy-{name}-", dir=directory) as place:
            measuring = measure(options, Path(place))
            if not isinstance(measuring, tuple):
                measuring = uvloop.run(measuring)
            results, wrong = measuring
        for text in wrong:
            print(f"WRONG: {text}")
        if options.json is not None:
            options.json.write_text(json.dumps(results, indent=2) + "\n")
    except (LoadTestError, OSError, ImportError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: interrupted; what it started is stopped", file=sys.stderr)
        return 130
    return BEYOND_A_LIMIT if wrong else 0


def raise_descriptor_limit(needed: int) -> None:
    """Let this process and those it starts hold as many descriptors as the system permits."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard not in (-1, resource.RLIM_INFINITY) and hard < needed:
        raise LoadTestError(
            f"one process needs {needed} open files and {hard} are permitted; "
            f"raise `ulimit -Hn` or ask for fewer connections"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
