"""Tables of transitions: what each event does in each state; whatever is not in one is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

State = TypeVar("State")
Event = TypeVar("Event")


class TransitionError(AssertionError):
    """An event that cannot happen in a state: an error of the program."""


class Row(dict[Event, State], Generic[Event, State]):
    """What each event does in one state."""

    def __init__(self, state: State, row: Mapping[Event, State]) -> None:
        super().__init__(row)
        self._state = state

    def __missing__(self, event: Event) -> NoReturn:
        raise TransitionError(f"{event} in state {self._state}")
