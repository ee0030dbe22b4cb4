"""Makes a server slow or faulty on purpose: latencies, a capacity, faults.

1. A request takes the latency that is drawn for its verb, beside what it takes anyway.
2. With more than `capacity` requests at once, each takes as much longer as the overload is: its
   latency times (requests / capacity) ** 1.5.  With 1 as the exponent a server would do the same
   work in all however many requests it has; caches that no longer fit, locks and collectors make
   real ones worse.
3. A share of the requests fails.  At most one fault is drawn for a request.
4. Draws depend on the seed and on the order of requests only, those of latencies and those of
   faults not on each other.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

EVERY_VERB = "*"
VERBS = (
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
)  # fmt: skip
"""Verbs that a latency may be given for."""

OVERLOAD_EXPONENT = 1.5
DEFAULT_SERVICE_S = 0.005
"""What an overload multiplies where no latency is given; unused without overload."""
LONGEST_S = 600.0
"""No draw of an unbounded distribution is longer."""


class Shape(enum.StrEnum):
    """How latencies are distributed."""

    FIXED = "constant"
    UNIFORM = "uniform"
    EXPONENTIAL = "exp"
    NORMAL = "normal"
    LOGNORMAL = "lognormal"


@dataclass(frozen=True, slots=True)
class Latency:
    """A distribution of durations.

    Attributes:
        first: Seconds: the value, the least, the mean or, if lognormal, the median.
        second: The greatest in seconds, the standard deviation in seconds or, if lognormal, that
            of the logarithm.
    """

    shape: Shape
    first: float
    second: float = 0.0

    def draw(self, chance: random.Random) -> float:
        """One duration, in seconds; never negative."""
        match self.shape:
            case Shape.FIXED:
                drawn = self.first
            case Shape.UNIFORM:
                drawn = chance.uniform(self.first, self.second)
            case Shape.EXPONENTIAL:
                drawn = chance.expovariate(1 / self.first) if self.first else 0.0
            case Shape.NORMAL:
                drawn = chance.normalvariate(self.first, self.second)
            case Shape.LOGNORMAL:
                exponent = min(chance.normalvariate(0.0, self.second), math.log(LONGEST_S) * 10)
                drawn = self.first * math.exp(exponent)
        return min(max(drawn, 0.0), LONGEST_S)


class Fault(enum.StrEnum):
    """What happens to a request instead of being carried out."""

    ERROR = "500"
    RESET = "reset"
    """Its connection is reset."""
    STALL = "stall"
    """No response ever comes."""


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """How slow and how faulty a server is.

    Attributes:
        latency: Verb, or `EVERY_VERB` for those that are not named, to its latency.
        capacity: Requests at once that it serves well; None for any number.
        faults: Share of the requests that get it, 0 to 1; at most 1 in all.
    """

    latency: Mapping[str, Latency] = field(default_factory=dict)
    capacity: int | None = None
    faults: Mapping[Fault, float] = field(default_factory=dict)


class Load:
    """Draws a latency and a fault for each request, from separate generators."""

    def __init__(
        self, settings: LoadSettings, latency_chance: random.Random, fault_chance: random.Random
    ) -> None:
        self._settings = settings
        self._latency_chance = latency_chance
        self._fault_chance = fault_chance
        self._default = settings.latency.get(EVERY_VERB)

    def delay_s(self, verb: str, concurrency: int) -> float:
        """How long a request waits, which is one of so many."""
        latency, capacity = self._settings.latency.get(verb, self._default), self._settings.capacity
        drawn_s = 0.0 if latency is None else latency.draw(self._latency_chance)
        if capacity is None or concurrency <= capacity:
            return drawn_s
        base_s = DEFAULT_SERVICE_S if latency is None else drawn_s
        return drawn_s + base_s * (math.pow(concurrency / capacity, OVERLOAD_EXPONENT) - 1.0)

    def fault(self) -> Fault | None:
        """The fate of a request; None to carry it out."""
        if not self._settings.faults:
            return None
        drawn = self._fault_chance.random()
        for fault, share in self._settings.faults.items():
            if drawn < share:
                return fault
            drawn -= share
        return None
