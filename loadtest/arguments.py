"""Command lines of the load tests: wrong input gets one line that says what would be right."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Parser(argparse.ArgumentParser):
    """A parser whose help is the program's docstring as written, and whose errors are one line."""

    def __init__(self, description: str | None, *, has_results: bool = True) -> None:
        super().__init__(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if has_results:
            text = "write all results there as well"
            self.add_argument("--json", type=output_file, metavar="FILE", help=text)

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
