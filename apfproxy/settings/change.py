"""A change of a running process in two steps: everything is made first, then it takes effect.

What cannot be made is an OperatorError, and nothing has changed; taking effect cannot fail.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from apfproxy.base.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apfproxy.settings import Settings


def nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one part of a process has made.

    Attributes:
        commit: Puts it in force, within one turn of the loop.
        discard: Gives it up instead.
    """

    commit: Callable[[], None] = nothing
    discard: Callable[[], None] = nothing


NO_CHANGE = Change()


class Changeable(Protocol):
    """A part whose settings may change."""

    async def prepare(self, settings: Settings) -> Change:
        """Make what other settings need; OperatorError if something cannot be used."""


async def prepare_all(
    parts: Iterable[Changeable], settings: Settings, changes: list[Change]
) -> None:
    """Make what other settings need of all parts; `changes` gets what is made, even if some fail.

    Raises:
        OperatorError: Something cannot be used; a line for each problem, of all parts.
    """
    problems: list[str] = []
    for part in parts:
        try:
            changes.append(await part.prepare(settings))
        except OperatorError as error:
            problems += str(error).splitlines()
    if problems:
        raise OperatorError("\n".join(problems))
