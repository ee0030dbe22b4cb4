"""Tables of transitions: what each event does in each state; whatever is not in one is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

State = TypeVar("State")


class TransitionError(AssertionError):
    """An event that cannot happen in a state: an error of the program."""


class Event(dict[State, State], Generic[State]):
    """An event: the state that each state becomes; `event[state]` is one look-up.

    The table has the next state by state and event's name.
    """

    def __init__(self, name: str, table: Mapping[State, Mapping[str, State]]) -> None:
        super().__init__({state: row[name] for state, row in table.items() if name in row})
        self.name = name

    def __missing__(self, state: State) -> NoReturn:
        raise TransitionError(f"{self.name} in state {state}")

    def __repr__(self) -> str:
        return f"<Event {self.name}>"
