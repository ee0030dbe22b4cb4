"""A small part of many inputs that runs all the lines that all of them run, in all their orders."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import apfproxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType, TracebackType

    from _typeshed import TraceFunction

PACKAGE = str(Path(apfproxy.__file__).parent)

Arc = tuple[str, int, int]
"""A file, and two lines of it of which one ran after the other."""


class Arcs:
    def __init__(self) -> None:
        self.found: set[Arc] = set()

    def __enter__(self) -> set[Arc]:
        sys.settrace(self._on_call)
        return self.found

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        sys.settrace(None)

    def _on_call(self, frame: FrameType, event: str, argument: object) -> TraceFunction | None:
        del event, argument
        name = frame.f_code.co_filename
        if not name.startswith(PACKAGE):
            return None
        last = -frame.f_code.co_firstlineno

        def on_line(frame: FrameType, event: str, argument: object) -> TraceFunction:
            nonlocal last
            del event, argument
            line = frame.f_lineno
            self.found.add((name, last, line))
            last = line
            return on_line

        return on_line


def minimised(run_one: Callable[[bytes], None], inputs: Iterable[bytes]) -> list[bytes]:
    """The inputs, smallest first, of which each adds an arc to those before it."""
    known: set[Arc] = set()
    kept = []
    for data in sorted(set(inputs), key=lambda data: (len(data), data)):
        run_one(data)  # first without being watched: what is met for the first time is of chance
        with Arcs() as found:
            run_one(data)
        if not found <= known:
            known |= found
            kept.append(data)
    return kept
