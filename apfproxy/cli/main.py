"""The entry of the program: it holds signals back, and only then imports what takes time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.base.held_signals import INTERRUPTED, held

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    try:
        with held():
            from apfproxy.cli.commands import run  # noqa: PLC0415 - imports click

            return run(arguments)
    except KeyboardInterrupt:  # at the end, for commands that are over sooner
        return INTERRUPTED
