"""A change of a running process in two steps: everything is made first, then it takes effect.

What cannot be made is an OperatorError, and nothing has changed; taking effect cannot fail.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


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
