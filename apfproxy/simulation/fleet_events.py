"""What a simulated fleet is, and what happens to it when."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from apfproxy.fleet.pace import MOST_STORE_TIME_S, STORE_TIME
from apfproxy.request.attributes import DeadlineError, parse_duration_ns

MOST_REPLICAS: Final = 100
MOST_WEIGHT: Final = 1000
USUAL_LATENCY_NS: Final = 1_000_000
LONGEST_NS: Final = 7 * 24 * 3600 * 1_000_000_000
LEAST_LEASE: Final = 3
"""In refresh intervals, as settings of a proxy have to have it."""


class What(enum.StrEnum):
    """What happens; the first ones to a replica, the last ones to the store."""

    JOIN = "join"
    """It starts, or another one does in place of it."""
    LEAVE = "leave"
    """It gets no new requests, ends those that it has, and gives its seats back."""
    DIE = "die"
    """It is gone, with all requests that it had."""
    CUT_OFF = "cut-off"
    """It does not reach the store, and goes on."""
    RECONNECT = "reconnect"
    """It reaches the store again."""
    WEIGH = "weigh"
    """It has another weight, and clients choose their replicas anew."""
    STORE_AWAY = "store-away"
    """Nobody reaches the store."""
    STORE_BACK = "store-back"
    """All do again, and it has all that it had."""
    STORE_EMPTY = "store-empty"
    """All do again, and it has nothing."""

    @property
    def is_of_store(self) -> bool:
        """Whether it happens to the store."""
        return self in {What.STORE_AWAY, What.STORE_BACK, What.STORE_EMPTY}

    @property
    def numbers(self) -> int:
        """How many numbers follow: none, the replica, or its weight as well."""
        return 0 if self.is_of_store else 1 + (self is What.WEIGH)


class FleetEvent(NamedTuple):
    """Something that happens; `replica` is 0 for what happens to the store.

    `weight` is how much a replica gets from then on, in proportion to the weights of the others.
    """

    at_ns: int
    what: What
    replica: int
    weight: int = 1

    def __str__(self) -> str:
        numbers = (self.replica, self.weight)[: self.what.numbers]
        return " ".join([f"{self.at_ns / 1e9:g}s", self.what, *map(str, numbers)])


NUMBER: Final = re.compile(r"[0-9]{1,9}")
EXPECTED: Final = (
    "expected a time and what happens then, such as '20s die 1', '20s weigh 1 5' or"
    f" '30s store-away'; it is one of {', '.join(What)}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """A fleet, and what happens to it.

    Attributes:
        replicas: How many there are at the beginning; they are 0, 1 and so on.
        lease_s, refresh_s: As in the settings of a proxy.
        latency_ns: From a replica to the store and back.
        events: What happens.
    """

    replicas: int
    lease_s: float = 5.0
    refresh_s: float = 1.0
    latency_ns: int = USUAL_LATENCY_NS
    events: tuple[FleetEvent, ...] = ()

    def most_latency_s(self) -> float:
        """From there on no member gets to write: a look reads and writes, within its time."""
        return min(self.lease_s * STORE_TIME, MOST_STORE_TIME_S) / 2

    def misplaced(self) -> FleetEvent | None:
        """The first event of a replica that has not joined by then; None if there is none."""
        joined = set(range(self.replicas))
        for event in sorted(self.events, key=lambda each: each.at_ns):
            if event.what is What.JOIN:
                joined.add(event.replica)
            elif not event.what.is_of_store and event.replica not in joined:
                return event
        return None


def parse_event(text: str) -> FleetEvent:
    """Read an event, or raise ValueError."""
    try:
        time, what, *rest = text.split()
        at_ns, found = parse_duration_ns(time), What(what)
    except (DeadlineError, ValueError):
        raise ValueError(f"{EXPECTED}, not {text!r}") from None
    are_numbers = all(NUMBER.fullmatch(each) for each in rest)
    if len(rest) != found.numbers or not are_numbers or not 0 <= at_ns <= LONGEST_NS:
        raise ValueError(f"{EXPECTED}, not {text!r}")
    replica, weight, *_ = [*map(int, rest), *(0, 1)[len(rest) :]]
    if replica >= MOST_REPLICAS:
        raise ValueError(f"replicas are 0 to {MOST_REPLICAS - 1}, not {replica}")
    if weight > MOST_WEIGHT:
        raise ValueError(f"weights are 0 to {MOST_WEIGHT}, not {weight}")
    return FleetEvent(at_ns, found, replica, weight)
