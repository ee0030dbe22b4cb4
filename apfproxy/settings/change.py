"""A change of a running process in two steps: everything is made first, then it takes effect.

What cannot be made is an OperatorError, and nothing has changed; taking effect cannot fail.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.base.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

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


async def prepare_all(
    parts: Iterable[Callable[[Settings], Awaitable[Change]]],
    settings: Settings,
    then: Callable[[], None] = nothing,
) -> Change:
    """Make what all parts need for other settings, as one change; `then` ends its commit.

    Raises:
        OperatorError: Something cannot be used; a line for each problem, of all parts.
    """
    changes: list[Change] = []
    problems: list[str] = []

    def commit() -> None:
        for change in changes:
            change.commit()
        then()

    def discard() -> None:
        for change in changes:
            change.discard()

    try:
        for prepare in parts:
            try:
                changes.append(await prepare(settings))
            except OperatorError as error:
                problems += str(error).splitlines()
    except BaseException:
        discard()
        raise
    if problems:
        discard()
        raise OperatorError("\n".join(problems))
    return Change(commit, discard)
