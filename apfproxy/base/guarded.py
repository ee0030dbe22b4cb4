"""Contains errors of the program in the events of one connection.

A loop contains them, too, but each in its own way: after some the connection lives on half, with
its seats, and nobody closes it.  `buffer_updated`, which each request passes through, does the same
in place, since a `try` costs nothing there.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable


class Failing(Protocol):
    """What can be ended by an error of the program."""

    def fail(self, error: Exception) -> None:
        """Give back everything, close, and report the error; never raises."""


F = TypeVar("F", bound=Failing)
P = ParamSpec("P")
R = TypeVar("R")


def guarded(event: Callable[Concatenate[F, P], R]) -> Callable[Concatenate[F, P], R | None]:
    """Let an error in a method that the loop calls, or the sweep, end what the method is of."""

    def run(self: F, /, *args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return event(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001  whatever it is, others must not suffer
            self.fail(error)
            return None

    functools.update_wrapper(run, event)
    return run
