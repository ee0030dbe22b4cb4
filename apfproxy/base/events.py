"""The last changes of the configuration and their errors, in words, for the live page."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_EVENTS = 50
"""Events that are kept; older ones are in the log."""

MAX_MESSAGE_CHARACTERS = 1000
"""The longest text of an event: names may be long, and there may be thousands of problems."""

MAX_NAMED = 10


@dataclass(frozen=True, slots=True)
class ConfigurationEvent:
    """Something that happened, in one of several clusters or all (""); an error asks for action.

    One that `is_own` is of this process alone, such as of its seats.
    """

    unix_s: float
    message: str
    is_error: bool
    cluster: str = ""
    is_own: bool = False


class ConfigurationEvents:
    def __init__(self, cluster: str = "") -> None:
        self._cluster = cluster
        self._events: deque[ConfigurationEvent] = deque(maxlen=MAX_EVENTS)

    def of_cluster(self, name: str) -> ConfigurationEvents:
        """These events, recorded from there on under the name of one of several clusters."""
        found = ConfigurationEvents(name)
        found._events = self._events
        return found

    def __iter__(self) -> Iterator[ConfigurationEvent]:
        return iter(self._events)

    def record(
        self, unix_s: float, message: str, *, is_error: bool = False, is_own: bool = False
    ) -> None:
        if len(message) > MAX_MESSAGE_CHARACTERS:
            message = f"{message[: MAX_MESSAGE_CHARACTERS - 1]}…"
        self._events.append(ConfigurationEvent(unix_s, message, is_error, self._cluster, is_own))

    def loaded(
        self,
        unix_s: float,
        generation: int,
        problems: Sequence[str],
        dangling: Sequence[str],
        *,
        is_whole: bool,
    ) -> None:
        lacking = shortfall(problems, dangling, is_whole=is_whole)
        text = f"Generation {generation} is in force"
        if problems and is_whole:
            text = f"{lacking[0].upper()}{lacking[1:]}"
        elif lacking:
            text += f", but for: {lacking}" if dangling else f", but {lacking}"
        if self._cluster:
            text = f"{self._cluster}: {text}"
        self.record(unix_s, text, is_error=bool(lacking))


def shortfall(problems: Sequence[str], dangling: Sequence[str], *, is_whole: bool) -> str:
    """The part that is not in force after a load of the objects, and why; "" if all is.

    A load of files `is_whole`: it is taken as a whole or not at all.
    """
    if problems and is_whole:
        return f"the last change is not in force: {_listed(problems)}"
    parts = [_listed(dangling)] if dangling else []
    if problems:
        parts.append(
            f"what is not valid stays as it last was valid, or is left out: {_listed(problems)}"
        )
    return "; ".join(parts)


def _listed(lines: Sequence[str]) -> str:
    more = len(lines) - MAX_NAMED
    return "; ".join(lines[:MAX_NAMED]) + (f"; and {more} more" if more > 0 else "")
