"""What clients of a gateway note: where each request went, and what became of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from loadtest.processes import LoadTestError

if TYPE_CHECKING:
    from collections.abc import Sequence

GOOD = "200"
BROKEN, LOST, HUNG, MISPAIRED, REFUSED = "broken", "lost", "hung", "mispaired", "refused"
"""Ends without an answer: in its middle, before it, never; that of another request; unsent."""


class Place(NamedTuple):
    """Where requests are sent.

    Attributes:
        host: In their Host field.
        prefix: Before their targets.
        host_behind: What the server has to get as Host; empty for anything.
    """

    host: str
    prefix: str = ""
    host_behind: str = ""


ANYWHERE = Place("a.test")


@dataclass(slots=True)
class Outcome:
    """A request, and what became of it.

    Attributes:
        number: Its own.
        kind: Of `KINDS`.
        due_s: When it had to be sent.
        done_s: When that was known.
        result: The status of a whole answer, or one of the ends without.
        origin: Who answered; empty if no origin did.
        host_behind: What the server got as Host, by its answer.
        place: Where it was sent.
        text: The first bytes of an answer that is not good.
    """

    number: int
    kind: str
    due_s: float
    done_s: float = 0.0
    result: str = ""
    origin: str = ""
    host_behind: str = ""
    place: Place = ANYWHERE
    text: bytes = b""

    @property
    def is_write(self) -> bool:
        """Whether it must not come twice."""
        return self.kind in ("POST", "PUT")


class WatchEnd(NamedTuple):
    """A watch that ended: when, whose it was, whether in order."""

    at_s: float
    origin: str
    is_clean: bool


@dataclass(slots=True)
class Notes:
    """What clients saw.

    Attributes:
        outcomes: Of the requests, in the order of their ends.
        watch_ends: Of the watches.
        watching: Open watches by origin.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    watch_ends: list[WatchEnd] = field(default_factory=list)
    watching: Counter[str] = field(default_factory=Counter)


def percentile_ms(outcomes: Sequence[Outcome], percent: float) -> float:
    """The time of whole answers from when they were due, in milliseconds.

    Raises:
        LoadTestError: There are none.
    """
    times = sorted(each.done_s - each.due_s for each in outcomes if each.result == GOOD)
    if not times:
        raise LoadTestError("no request had a good answer; look at the gateway's log")
    return times[min(len(times) - 1, int(len(times) * percent / 100))] * 1000
