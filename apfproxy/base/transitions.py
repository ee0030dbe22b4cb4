"""Tables of transitions: what each event does in each state; whatever is not in one is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

State = TypeVar("State")


class TransitionError(AssertionError):
    pass


class Event(dict[State, State], Generic[State]):
    """An event: `event[state]` is the next state, by a table of states and names of events."""

    def __init__(self, name: str, table: Mapping[State, Mapping[str, State]]) -> None:
        super().__init__({state: row[name] for state, row in table.items() if name in row})
        self.name = name

    def __missing__(self, state: State) -> NoReturn:
        raise TransitionError(f"{self.name} in state {state}")

    def __repr__(self) -> str:
        return f"<Event {self.name}>"
